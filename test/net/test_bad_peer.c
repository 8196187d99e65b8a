/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that vanish, stay silent or compute for long, and sockets that hold next to nothing: who is
 * gone is told so in bounded time, who is only busy is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "test/net/forge.h"
#include "test/net/node.h"

#define FORGER_RANK 9
#define BIG         (4u << 20)

static uint8_t big_a[BIG], big_b[BIG];
static struct node a, b;
static struct diwarp_ah *ab;
static struct diwarp_mr *mr; /* big_b, of b */

static uint32_t max_msg_bytes; /* 0: as by default */

static void open_pair(struct diwarp_device_attr attr)
{
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);

    if (max_msg_bytes)
        qp_attr.max_msg_bytes = max_msg_bytes;

    attr.name.rank = 1;
    node_open(&a, &attr, &qp_attr);
    attr.name.rank = 2;
    node_open(&b, &attr, &qp_attr);
    ab = node_ah(&a, &b);
    mr = diwarp_reg_mr(b.pd, big_b, BIG,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    assert_non_null(mr);
}

static void close_pair(void)
{
    node_destroy_qp(&a);
    node_destroy_qp(&b);
    diwarp_destroy_ah(ab);
    diwarp_dereg_mr(mr);
    node_close(&a);
    node_close(&b);
}

static void exchange(void)
{
    unsigned sends = a.sends;

    assert_int_equal(post(&a, ab, IBV_WR_SEND, "x", 1, IBV_SEND_SIGNALED, 0, NULL, 0), 0);
    RUN_UNTIL(a.sends == sends + 1, &a, &b);
}

/* Posts one of each kind, all of which are to end in error when the peer is gone. */
static unsigned post_each(struct diwarp_ah *ah)
{
    struct ibv_sge sge = {.addr = (uintptr_t)big_a, .length = 8};
    struct diwarp_send_wr wr = {
        .wr = {.sg_list = &sge,
               .num_sge = 1,
               .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
               .wr.atomic = {.remote_addr = (uintptr_t)big_b, .rkey = 1}},
        .ah = ah,
    };
    struct diwarp_mr remote = {.addr = big_b, .stag = 1};

    assert_int_equal(post(&a, ah, IBV_WR_SEND, big_a, 10, IBV_SEND_SIGNALED, 0, NULL, 0), 0);
    assert_int_equal(post(&a, ah, IBV_WR_RDMA_WRITE, big_a, 10, 0, 0, &remote, 0), 0);
    assert_int_equal(post(&a, ah, IBV_WR_RDMA_WRITE, big_a, 100000, 0, 0, &remote, 0), 0);
    assert_int_equal(post(&a, ah, IBV_WR_RDMA_READ, big_a, 100000, 0, 0, &remote, 0), 0);
    assert_int_equal(diwarp_post_send(a.qp, &wr), 0);
    return 5;
}

static void check_gone(struct diwarp_ah *ah, unsigned posted)
{
    char name[64];

    RUN_UNTIL(a.gone == 1, &a);
    assert_int_equal(a.errors, posted);
    assert_int_equal(a.last_error.wc.status, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(a.counters->peers_gone, 1);
    assert_int_equal(post(&a, ah, IBV_WR_SEND, big_a, 10, 0, 0, NULL, 0), -EHOSTUNREACH);
    assert_null(diwarp_send_reserve(a.qp, ah, 10));
    diwarp_format_ah(ah, name, sizeof name);
    assert_non_null(strstr(name, "127.0.0.1:"));
    RUN_FOR(20 * MS, &a);
    assert_int_equal(a.gone, 1);
}

/* The process ended, its port is closed: ICMP says so. Long before the silence would. */
static void peer__vanished(void **state)
{
    (void)state;
    open_pair(loopback_attr(0));
    exchange();
    node_destroy_qp(&b);
    uint64_t start_ns = clock_ns();
    unsigned posted = post_each(ab);
    check_gone(ab, posted);
    assert_true(clock_ns() - start_ns < 10000 * MS);
    assert_int_equal(a.last.src.rank, 2);
    close_pair();
}

/* A port that is open and never answers. */
static void peer__silent(void **state)
{
    (void)state;
    static struct forger forger;
    struct diwarp_device_attr attr = loopback_attr(0);
    struct diwarp_ah *ah = NULL;
    attr.peer_timeout_ns = 300 * MS;
    open_pair(attr);
    exchange();
    forger_open(&forger, &a.address, DW_LLP_DATA, FORGER_RANK);
    struct diwarp_address address = forger_address(&forger, &a.address);
    assert_int_equal(diwarp_create_ah(a.qp, &address, &ah), 0);

    uint64_t start_ns = clock_ns();
    unsigned posted = post_each(ah);
    check_gone(ah, posted);
    assert_true(clock_ns() - start_ns >= 300 * MS);
    assert_int_equal(a.last.src.rank, FORGER_RANK);
    assert_true(a.counters->tx_probes >= 3);
    exchange(); /* the others are still there */
    diwarp_destroy_ah(ah);
    forger_close(&forger);
    close_pair();
}

/* An acknowledgement of what was never sent ends nothing that was. */
static void peer__acknowledges_what_was_not_sent(void **state)
{
    (void)state;
    static struct forger forger;
    struct diwarp_ah *ah = NULL;
    open_pair(loopback_attr(0));
    exchange();
    forger_open(&forger, &a.address, DW_LLP_ACK, FORGER_RANK);
    struct diwarp_address address = forger_address(&forger, &a.address);
    assert_int_equal(diwarp_create_ah(a.qp, &address, &ah), 0);
    const unsigned sends = a.sends;
    assert_int_equal(post(&a, ah, IBV_WR_SEND, big_a, 10, IBV_SEND_SIGNALED, 0, NULL, 0), 0);
    const uint32_t wrong[] = {2, 3, 257, 0x7fffffff};
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const uint64_t dropped = a.counters->drop_header;
        forger.header.flags = DW_LLP_INTRO;
        forger.header.ack = wrong[i];
        forge_begin(&forger);
        forge_send(&forger);
        RUN_UNTIL(a.counters->drop_header > dropped, &a);
        assert_int_equal(a.sends, sends);
    }
    forger.header.ack = 1;
    forge_begin(&forger);
    forge_send(&forger);
    RUN_UNTIL(a.sends == sends + 1, &a);
    diwarp_destroy_ah(ah);
    forger_close(&forger);
    close_pair();
}

/* Who asks without end and acknowledges no answer: these may neither pile up for ever nor take the
 * room of posts to others. */

static void open_asker(struct forger *forger)
{
    open_pair(loopback_attr(0));
    exchange();
    forger_open(forger, &a.address, DW_LLP_DATA, FORGER_RANK);
    forger->header.flags = DW_LLP_INTRO;
}

static void close_asker(struct forger *forger)
{
    assert_int_equal(a.gone, 1);
    assert_int_equal(a.last.src.rank, FORGER_RANK);
    exchange();
    forger_close(forger);
    close_pair();
}

static void forge_room_full(struct forger *forger, bool opens, uint32_t *id, struct diwarp_mr *to)
{
    struct dw_record_control open = {
        .kind = DW_RECORD_OPEN, .stag = to->stag, .to = (uintptr_t)to->addr, .length = 1};
    forge_begin(forger);
    while (forger->bytes + 100 < sizeof forger->buf) {
        open.id = ++*id | DW_RECORD_ID_FROM_SOURCE;
        if (opens)
            forge_control(forger, &open);
        else
            forge_write_record(forger, open.id, open.stag, open.to, 0, 1, "x", 1);
    }
    forge_send(forger);
}

/* Writes to nowhere. */
static void peer__takes_no_refusals(void **state)
{
    (void)state;
    static struct forger forger;
    struct diwarp_mr nowhere = {.stag = 1};
    open_asker(&forger);
    for (uint32_t id = 0; forger.header.psn < 100 && !a.gone; forger.header.psn++) {
        const uint64_t refused = a.counters->drop_stag;
        forge_room_full(&forger, false, &id, &nowhere);
        RUN_UNTIL(a.counters->drop_stag > refused, &a);
        if (!a.gone)
            exchange();
    }
    assert_true(a.counters->drop_stag >= UINT16_MAX);
    close_asker(&forger);
}

/* Records that come to their end. */
static void peer__takes_no_completes(void **state)
{
    (void)state;
    static struct forger forger;
    open_asker(&forger);
    struct diwarp_mr *open_to_all =
        diwarp_reg_mr(a.pd, big_a, BIG, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(open_to_all);
    for (uint32_t id = 0; forger.header.psn < 1000 && !a.gone; forger.header.psn++) {
        const uint64_t ended = a.counters->rx_records_complete;
        uint32_t same_ids = id;
        forge_room_full(&forger, true, &same_ids, open_to_all);
        forger.header.type = DW_LLP_RECORD;
        forge_room_full(&forger, false, &id, open_to_all);
        forger.header.type = DW_LLP_DATA;
        RUN_UNTIL(a.counters->rx_records_complete > ended, &a);
        if (!a.gone)
            exchange();
    }
    assert_true(a.counters->rx_records_complete > 4 * UINT16_MAX);
    diwarp_dereg_mr(open_to_all);
    close_asker(&forger);
}

/* Opens record 1 of all of `opened`, which it may write. */
static struct dw_record_control forge_open(struct forger *forger, uint8_t *opened, size_t bytes,
                                           struct diwarp_mr **to)
{
    *to = diwarp_reg_mr(a.pd, opened, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(*to);
    const struct dw_record_control open = {.kind = DW_RECORD_OPEN,
                                           .id = 1 | DW_RECORD_ID_FROM_SOURCE,
                                           .stag = (*to)->stag,
                                           .to = (uintptr_t)opened,
                                           .length = (uint32_t)bytes};
    forge_begin(forger);
    forge_control(forger, &open);
    forge_send(forger);
    return open;
}

/* Opens a record of more than may be granted, sends none of it, or its last byte, which is as if
 * all had been granted; and goes on answering. */
static void peer__keeps_no_grants(void **state)
{
    (void)state;
    static uint8_t opened[2 * BIG];
    for (unsigned last_byte = 0; last_byte < 2; last_byte++) {
        static struct forger forger;
        struct dw_llp_header heard;
        unsigned answers = 0;
        open_asker(&forger);
        struct diwarp_mr *to;
        struct dw_record_control open = forge_open(&forger, opened, sizeof opened, &to);
        forger.header.type = DW_LLP_RECORD;
        forge_begin(&forger);
        if (last_byte)
            forge_write_record(&forger, open.id, open.stag, open.to, open.length - 1, open.length,
                               "x", 1);
        forge_send(&forger);
        RUN_UNTIL(a.counters->tx_record_status > 0, &a);
        assert_int_equal(post(&a, ab, IBV_WR_RDMA_READ, big_a, BIG, IBV_SEND_SIGNALED, 0, mr, 0),
                         0);
        forger.header.type = DW_LLP_ACK;
        forger.header.flags = 0;
        forge_begin(&forger);
        forge_trailer(&forger);
        for (uint64_t until_ns = clock_ns() + WAIT_NS; !a.reads && clock_ns() < until_ns;) {
            node_poll(&a);
            node_poll(&b);
            if (forger_hear(&forger, &heard, 0)) {
                forge_send_bytes(&forger);
                answers++;
            }
        }
        assert_int_equal(a.reads, 1);
        assert_true(answers < 30);
        assert_int_equal(a.gone, 0);
        diwarp_dereg_mr(to);
        forger_close(&forger);
        close_pair();
    }
}

/* Replies to probes that were never sent do not make us ask. */
static void peer__replies_to_no_probe(void **state)
{
    (void)state;
    static struct forger forger;
    static uint8_t opened[1000];
    open_asker(&forger);
    struct diwarp_mr *to;
    (void)forge_open(&forger, opened, sizeof opened, &to);
    RUN_UNTIL(a.counters->tx_record_status > 0, &a);
    forger.header.type = DW_LLP_PROBE_REPLY;
    for (uint64_t until_ns = clock_ns() + 300 * MS; clock_ns() < until_ns;) {
        forger.header.psn = (uint32_t)(clock_ns() >> 10);
        forge_begin(&forger);
        forge_send(&forger);
        RUN_FOR(MS, &a);
    }
    assert_true(a.counters->tx_record_status < 10);
    diwarp_dereg_mr(to);
    forger_close(&forger);
    close_pair();
}

/* Begins message after message and ends none: each in turn; or one long one behind many, in turn;
 * or behind a gap that it fills in the end. */
enum never_ends { EACH_BEGINS, THE_LAST_GOES_ON, BEHIND_A_GAP, NEVER_ENDS_COUNT };

static void forge_part(struct forger *forger, uint32_t psn, uint32_t msn, uint32_t mo,
                       uint32_t bytes)
{
    static const uint8_t part[60000];
    const struct dw_ddp_header ddp = {.opcode = DW_RDMAP_SEND, .msn = msn, .mo = mo};
    forger->header.psn = psn;
    forge_begin(forger);
    forge_segment(forger, &ddp, NULL, 0, part, bytes);
    forge_send(forger);
    node_poll(&a);
}

static void forge_messages(struct forger *forger, enum never_ends how)
{
    enum { MANY = 127, SMALL = 100 };
    if (how == EACH_BEGINS) {
        for (uint32_t i = 0; i < 400; i++)
            forge_part(forger, i, i + 1, 0, 6000);
        return;
    }
    const uint32_t first = how == BEHIND_A_GAP;
    for (uint32_t i = first; i < MANY; i++)
        forge_part(forger, i, i + 1, 0, SMALL);
    if (first)
        forge_part(forger, 0, 1, 0, SMALL);
    for (uint32_t i = 0; i < 40; i++)
        forge_part(forger, MANY + i, MANY, SMALL + i * 60000, 60000);
}

static void peer__ends_no_message(void **state)
{
    (void)state;
    static struct forger forger;
    for (unsigned how = 0; how < NEVER_ENDS_COUNT; how++) {
        struct diwarp_device_attr attr = loopback_attr(0);
        attr.datagram_max_bytes = 1472; /* so that messages are put together */
        max_msg_bytes = 8u << 20;
        open_pair(attr);
        max_msg_bytes = 0;
        struct diwarp_ah *ba = node_ah(&b, &a);
        forger_open(&forger, &a.address, DW_LLP_DATA, FORGER_RANK);
        forger.header.flags = DW_LLP_INTRO;
        forge_messages(&forger, (enum never_ends)how);
        assert_int_equal(post(&b, ba, IBV_WR_SEND, big_b, 60000, IBV_SEND_SIGNALED, 0, NULL, 0), 0);
        RUN_UNTIL(a.recvs == 1, &a, &b);
        assert_int_equal(a.last.wc.byte_len, 60000);
        assert_true(a.counters->drop_no_buffer > 0);
        node_destroy_qp(&b);
        diwarp_destroy_ah(ba);
        forger_close(&forger);
        close_pair();
    }
}

/* Nobody said anything for longer than the limit, because nobody had anything to say. Then the peer
 * is slow to answer: it is not gone. */
static void peer__idle_is_not_silent(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = loopback_attr(0);
    attr.peer_timeout_ns = 300 * MS;
    open_pair(attr);
    exchange();
    RUN_FOR(400 * MS, &a, &b);
    assert_int_equal(post(&a, ab, IBV_WR_SEND, "x", 1, IBV_SEND_SIGNALED, 0, NULL, 0), 0);
    RUN_FOR(150 * MS, &a);
    assert_int_equal(a.gone, 0);
    RUN_UNTIL(a.sends == 2, &a, &b);
    assert_int_equal(a.gone + a.errors, 0);
    close_pair();
}

/* We computed for longer than the limit; the answers wait in the socket, behind much else. */
static void peer__is_not_gone_because_we_did_not_listen(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = loopback_attr(0);
    struct timespec compute = {.tv_nsec = 250000000};
    attr.peer_timeout_ns = 200 * MS;
    open_pair(attr);
    exchange();
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(post(&a, ab, IBV_WR_RDMA_READ, big_a, BIG, IBV_SEND_SIGNALED, 0, mr, 0),
                         0);
        for (unsigned n = 0; n < 20; n++)
            node_poll(&b);
        nanosleep(&compute, NULL);
        RUN_UNTIL(a.reads == i + 1 || a.gone, &a, &b);
        assert_int_equal(a.gone, 0);
    }
    close_pair();
}

/* A probe is under way when we begin to compute; its answer waits behind a message of another. */
static void peer__is_not_gone_because_another_was_heard_first(void **state)
{
    (void)state;
    static struct node c;
    struct diwarp_device_attr attr = loopback_attr(3);
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);
    struct timespec compute = {.tv_nsec = 300000000};
    attr.peer_timeout_ns = 200 * MS;
    open_pair(attr);
    node_open(&c, &attr, &qp_attr);
    struct diwarp_ah *ca = node_ah(&c, &a);
    exchange();
    assert_int_equal(post(&a, ab, IBV_WR_SEND, "x", 1, IBV_SEND_SIGNALED, 0, NULL, 0), 0);
    RUN_UNTIL(a.counters->tx_probes > 0, &a);
    assert_int_equal(post(&c, ca, IBV_WR_SEND, "y", 1, IBV_SEND_SIGNALED, 0, NULL, 0), 0);
    RUN_FOR(5 * MS, &c);
    RUN_FOR(5 * MS, &b);
    nanosleep(&compute, NULL);
    RUN_UNTIL(a.sends == 2 || a.gone, &a, &b);
    assert_int_equal(a.gone, 0);
    assert_int_equal(a.recvs, 1);
    node_destroy_qp(&c);
    diwarp_destroy_ah(ca);
    close_pair();
    node_close(&c);
}

/* A socket buffer that holds less than one full datagram, either way. */
static void socket__tiny_receive_buffer(void **state)
{
    (void)state;
    static const uint32_t datagrams[] = {0, 1472};

    for (unsigned i = 0; i < 2; i++) {
        struct diwarp_device_attr attr = loopback_attr(0);
        struct diwarp_qp_info info;
        attr.rcvbuf_bytes = 4096;
        attr.sndbuf_bytes = 8192;
        attr.datagram_max_bytes = datagrams[i];
        open_pair(attr);
        diwarp_query_qp(a.qp, &info);
        assert_true(info.rcvbuf_bytes <= 16384);
        fill(big_b, BIG, i);
        memset(big_a, 0, BIG);
        assert_int_equal(post(&a, ab, IBV_WR_RDMA_READ, big_a, BIG, IBV_SEND_SIGNALED, 0, mr, 0),
                         0);
        RUN_UNTIL(a.reads == 1, &a, &b);
        assert_filled(big_a, BIG, i);
        memset(big_b, 0, BIG);
        assert_int_equal(post(&a, ab, IBV_WR_RDMA_WRITE, big_a, BIG, IBV_SEND_SIGNALED, 0, mr, 0),
                         0);
        RUN_UNTIL(a.writes == 1, &a, &b);
        assert_filled(big_b, BIG, i);
        for (unsigned n = 0; n < 64; n++)
            assert_int_equal(post(&a, ab, IBV_WR_SEND, big_a, 60000, IBV_SEND_SIGNALED, 0, NULL, 0),
                             0);
        RUN_UNTIL(a.sends == 64 && b.recvs == 64, &a, &b);
        assert_int_equal(a.errors + a.gone, 0);
        close_pair();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peer__vanished),
        cmocka_unit_test(peer__silent),
        cmocka_unit_test(peer__acknowledges_what_was_not_sent),
        cmocka_unit_test(peer__takes_no_refusals),
        cmocka_unit_test(peer__takes_no_completes),
        cmocka_unit_test(peer__keeps_no_grants),
        cmocka_unit_test(peer__replies_to_no_probe),
        cmocka_unit_test(peer__ends_no_message),
        cmocka_unit_test(peer__idle_is_not_silent),
        cmocka_unit_test(peer__is_not_gone_because_we_did_not_listen),
        cmocka_unit_test(peer__is_not_gone_because_another_was_heard_first),
        cmocka_unit_test(socket__tiny_receive_buffer),
    };

    return cmocka_run_group_tests_name("bad_peer", tests, NULL, NULL);
}
