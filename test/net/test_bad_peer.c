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
#include "test/net/rd_pair.h"

#define FORGER_RANK 9

static struct pair pair;

static void open_pair(struct diwarp_device_attr attr)
{
    pair.attr = attr;
    pair_open(&pair);
}

/* Posts one of each kind, all of which are to end in error when the peer is gone. */
static unsigned post_each(struct diwarp_ah *ah)
{
    struct ibv_sge sge = {.addr = (uintptr_t)source, .length = 8};
    struct diwarp_send_wr wr = {
        .wr = {.sg_list = &sge,
               .num_sge = 1,
               .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
               .wr.atomic = {.remote_addr = (uintptr_t)sink, .rkey = 1}},
        .ah = ah,
    };
    struct diwarp_mr remote = {.addr = sink, .stag = 1};

    assert_int_equal(post(&pair.a, ah, IBV_WR_SEND, source, 10, IBV_SEND_SIGNALED, 0, NULL, 0), 0);
    assert_int_equal(post(&pair.a, ah, IBV_WR_RDMA_WRITE, source, 10, 0, 0, &remote, 0), 0);
    assert_int_equal(post(&pair.a, ah, IBV_WR_RDMA_WRITE, source, 100000, 0, 0, &remote, 0), 0);
    assert_int_equal(post(&pair.a, ah, IBV_WR_RDMA_READ, sink, 100000, 0, 0, &remote, 0), 0);
    assert_int_equal(diwarp_post_send(pair.a.qp, &wr), 0);
    return 5;
}

static void check_gone(struct diwarp_ah *ah, unsigned posted)
{
    char name[64];

    RUN_UNTIL(pair.a.gone == 1, &pair.a);
    assert_int_equal(pair.a.errors, posted);
    assert_int_equal(pair.a.last_error.wc.status, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(pair.a.counters->peers_gone, 1);
    assert_int_equal(post(&pair.a, ah, IBV_WR_SEND, source, 10, 0, 0, NULL, 0), -EHOSTUNREACH);
    assert_null(diwarp_send_reserve(pair.a.qp, ah, 10));
    diwarp_format_ah(ah, name, sizeof name);
    assert_non_null(strstr(name, "127.0.0.1:"));
    RUN_FOR(20 * MS, &pair.a);
    assert_int_equal(pair.a.gone, 1);
}

/* The process ended, its port is closed: ICMP says so. Long before the silence would. */
static void peer__vanished(void **state)
{
    (void)state;
    open_pair(loopback_attr(0));
    pair_exchange(&pair);
    node_destroy_qp(pair.b);
    uint64_t start_ns = clock_ns();
    unsigned posted = post_each(pair.ab);
    check_gone(pair.ab, posted);
    assert_true(clock_ns() - start_ns < 10000 * MS);
    assert_int_equal(pair.a.last_gone.src.rank, 2);
    assert_int_equal(pair.a.last_gone.wc.vendor_err, DIWARP_GONE_UNREACHABLE);
    pair_close(&pair);
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
    pair_exchange(&pair);
    forger_open(&forger, &pair.a.address, DW_LLP_DATA, FORGER_RANK);
    struct diwarp_address address = forger_address(&forger, &pair.a.address);
    assert_int_equal(diwarp_create_ah(pair.a.qp, &address, &ah), 0);

    uint64_t start_ns = clock_ns();
    unsigned posted = post_each(ah);
    check_gone(ah, posted);
    assert_true(clock_ns() - start_ns >= 300 * MS);
    assert_int_equal(pair.a.last_gone.src.rank, FORGER_RANK);
    assert_int_equal(pair.a.last_gone.wc.vendor_err, DIWARP_GONE_SILENT);
    assert_true(pair.a.counters->tx_probes >= 3);
    pair_exchange(&pair); /* the others are still there */
    diwarp_destroy_ah(ah);
    forger_close(&forger);
    pair_close(&pair);
}

/* Nobody said anything for longer than the limit, because nobody had anything to say. Then the peer
 * is slow to answer: it is not gone. */
static void peer__idle_is_not_silent(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = loopback_attr(0);
    attr.peer_timeout_ns = 300 * MS;
    open_pair(attr);
    pair_exchange(&pair);
    RUN_FOR(400 * MS, &pair.a, pair.b);
    assert_int_equal(post(&pair.a, pair.ab, IBV_WR_SEND, "x", 1, IBV_SEND_SIGNALED, 0, NULL, 0), 0);
    RUN_FOR(150 * MS, &pair.a);
    assert_int_equal(pair.a.gone, 0);
    RUN_UNTIL(pair.a.sends == 2, &pair.a, pair.b);
    assert_int_equal(pair.a.gone + pair.a.errors, 0);
    pair_close(&pair);
}

/* We computed for longer than the limit; the answers wait in the socket, behind much else. */
static void peer__is_not_gone_because_we_did_not_listen(void **state)
{
    (void)state;
    struct diwarp_device_attr attr = loopback_attr(0);
    struct timespec compute = {.tv_nsec = 250000000};
    attr.peer_timeout_ns = 200 * MS;
    open_pair(attr);
    pair_exchange(&pair);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(post(&pair.a, pair.ab, IBV_WR_RDMA_READ, sink, BIG, IBV_SEND_SIGNALED, 0,
                              pair.mr_source, 0),
                         0);
        for (unsigned n = 0; n < 20; n++)
            node_poll(pair.b);
        nanosleep(&compute, NULL);
        RUN_UNTIL(pair.a.reads == i + 1 || pair.a.gone, &pair.a, pair.b);
        assert_int_equal(pair.a.gone, 0);
    }
    pair_close(&pair);
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
    struct diwarp_ah *ca = node_ah(&c, &pair.a);
    pair_exchange(&pair);
    assert_int_equal(post(&pair.a, pair.ab, IBV_WR_SEND, "x", 1, IBV_SEND_SIGNALED, 0, NULL, 0), 0);
    RUN_UNTIL(pair.a.counters->tx_probes > 0, &pair.a);
    assert_int_equal(post(&c, ca, IBV_WR_SEND, "y", 1, IBV_SEND_SIGNALED, 0, NULL, 0), 0);
    RUN_FOR(5 * MS, &c);
    RUN_FOR(5 * MS, pair.b);
    nanosleep(&compute, NULL);
    RUN_UNTIL(pair.a.sends == 2 || pair.a.gone, &pair.a, pair.b);
    assert_int_equal(pair.a.gone, 0);
    assert_int_equal(pair.a.recvs, 1);
    node_destroy_qp(&c);
    diwarp_destroy_ah(ca);
    pair_close(&pair);
    node_close(&c);
}

/* All buffers hold what silent peers have not acknowledged; a message that waits for one sleeps. */
static void peers__silent__no_buffer_left__sleeps(void **state)
{
    (void)state;
    enum { PEERS = 16 };
    static struct forger forger;
    struct diwarp_device_attr attr = loopback_attr(0);
    struct diwarp_ah *ahs[PEERS] = {NULL};
    struct diwarp_wc wc;
    attr.send_pool_bytes = 256 << 10;
    open_pair(attr);
    forger_open(&forger, &pair.a.address, DW_LLP_DATA, FORGER_RANK);
    struct diwarp_address address = forger_address(&forger, &pair.a.address);
    for (unsigned i = 0; i < PEERS; i++) {
        address.name.rank = FORGER_RANK + i;
        assert_int_equal(diwarp_create_ah(pair.a.qp, &address, &ahs[i]), 0);
        assert_int_equal(post(&pair.a, ahs[i], IBV_WR_SEND, source, 60000, 0, 0, NULL, 0), 0);
    }
    assert_in_range(pair.a.counters->tx_datagrams, 1, PEERS - 1);

    uint64_t runs_before = pair.a.counters->rx_empty_syscalls;
    assert_int_equal(diwarp_wait_cq(pair.a.cq, 1, &wc, 300 * MS), 0);
    assert_in_range(pair.a.counters->rx_empty_syscalls - runs_before, 1, 1000);
    node_destroy_qp(&pair.a);
    for (unsigned i = 0; i < PEERS; i++)
        diwarp_destroy_ah(ahs[i]);
    forger_close(&forger);
    pair_close(&pair);
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
        diwarp_query_qp(pair.a.qp, &info);
        assert_true(info.rcvbuf_bytes <= 16384);
        fill(source, BIG, i);
        memset(sink, 0, BIG);
        assert_int_equal(post(&pair.a, pair.ab, IBV_WR_RDMA_READ, sink, BIG, IBV_SEND_SIGNALED, 0,
                              pair.mr_source, 0),
                         0);
        RUN_UNTIL(pair.a.reads == 1, &pair.a, pair.b);
        assert_filled(sink, BIG, i);
        memset(sink, 0, BIG);
        assert_int_equal(post(&pair.a, pair.ab, IBV_WR_RDMA_WRITE, source, BIG, IBV_SEND_SIGNALED,
                              0, pair.mr_sink, 0),
                         0);
        RUN_UNTIL(pair.a.writes == 1, &pair.a, pair.b);
        assert_filled(sink, BIG, i);
        for (unsigned n = 0; n < 64; n++)
            assert_int_equal(
                post(&pair.a, pair.ab, IBV_WR_SEND, source, 60000, IBV_SEND_SIGNALED, 0, NULL, 0),
                0);
        RUN_UNTIL(pair.a.sends == 64 && pair.b->recvs == 64, &pair.a, pair.b);
        assert_int_equal(pair.a.errors + pair.a.gone, 0);
        pair_close(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peer__vanished),
        cmocka_unit_test(peer__silent),
        cmocka_unit_test(peer__idle_is_not_silent),
        cmocka_unit_test(peer__is_not_gone_because_we_did_not_listen),
        cmocka_unit_test(peer__is_not_gone_because_another_was_heard_first),
        cmocka_unit_test(peers__silent__no_buffer_left__sleeps),
        cmocka_unit_test(socket__tiny_receive_buffer),
    };

    return cmocka_run_group_tests_name("bad_peer", tests, NULL, NULL);
}
