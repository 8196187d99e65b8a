/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that take and do not give: that ask without end, begin what they do not end, or acknowledge
 * and answer what never was. They get a bounded share, and nobody else has less.
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

/* An acknowledgement of what was never sent ends nothing that was. */
static void peer__acknowledges_what_was_not_sent(void **state)
{
    (void)state;
    static struct forger forger;
    struct diwarp_ah *ah = NULL;
    open_pair(loopback_attr(0));
    pair_exchange(&pair);
    forger_open(&forger, &pair.a.address, DW_LLP_ACK, FORGER_RANK);
    struct diwarp_address address = forger_address(&forger, &pair.a.address);
    assert_int_equal(diwarp_create_ah(pair.a.qp, &address, &ah), 0);
    const unsigned sends = pair.a.sends;
    assert_int_equal(post(&pair.a, ah, IBV_WR_SEND, source, 10, IBV_SEND_SIGNALED, 0, NULL, 0), 0);
    const uint32_t wrong[] = {2, 3, 257, 0x7fffffff};
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const uint64_t dropped = pair.a.counters->drop_header;
        forger.header.flags = DW_LLP_INTRO;
        forger.header.ack = wrong[i];
        forge_begin(&forger);
        forge_send(&forger);
        RUN_UNTIL(pair.a.counters->drop_header > dropped, &pair.a);
        assert_int_equal(pair.a.sends, sends);
    }
    forger.header.ack = 1;
    forge_begin(&forger);
    forge_send(&forger);
    RUN_UNTIL(pair.a.sends == sends + 1, &pair.a);
    diwarp_destroy_ah(ah);
    forger_close(&forger);
    pair_close(&pair);
}

/* Who asks without end and acknowledges no answer: these may neither pile up for ever nor take the
 * room of posts to others. */

static void open_asker(struct forger *forger)
{
    open_pair(loopback_attr(0));
    pair_exchange(&pair);
    forger_open(forger, &pair.a.address, DW_LLP_DATA, FORGER_RANK);
    forger->header.flags = DW_LLP_INTRO;
}

static void close_asker(struct forger *forger)
{
    assert_int_equal(pair.a.gone, 1);
    assert_int_equal(pair.a.last.src.rank, FORGER_RANK);
    pair_exchange(&pair);
    forger_close(forger);
    pair_close(&pair);
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

/* An honest peer asks no more at a time; what a greedy one makes us keep. */
enum { HONEST_MAX = 8192, HELD_MAX_BYTES = 8 << 20 };

static void exchange_with_little_held(void)
{
    struct diwarp_memory memory;
    pair_exchange(&pair);
    diwarp_query_memory(pair.a.cq, pair.a.pd, &memory);
    assert_true(memory.work_bytes + memory.record_bytes < HELD_MAX_BYTES);
}

/* Writes to nowhere. */
static void peer__takes_no_refusals(void **state)
{
    (void)state;
    static struct forger forger;
    struct diwarp_mr nowhere = {.stag = 1};
    open_asker(&forger);
    for (uint32_t id = 0; forger.header.psn < 100 && !pair.a.gone; forger.header.psn++) {
        const uint64_t refused = pair.a.counters->drop_stag;
        forge_room_full(&forger, false, &id, &nowhere);
        RUN_UNTIL(pair.a.counters->drop_stag > refused, &pair.a);
        if (!pair.a.gone)
            exchange_with_little_held();
    }
    assert_true(pair.a.counters->drop_stag > HONEST_MAX);
    close_asker(&forger);
}

/* Records that come to their end. */
static void peer__takes_no_completes(void **state)
{
    (void)state;
    static struct forger forger;
    open_asker(&forger);
    struct diwarp_mr *open_to_all =
        diwarp_reg_mr(pair.a.pd, sink, BIG, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(open_to_all);
    for (uint32_t id = 0; forger.header.psn < 1000 && !pair.a.gone; forger.header.psn++) {
        const uint32_t first = id;
        const uint64_t told = pair.a.counters->tx_record_status;
        forge_room_full(&forger, true, &id, open_to_all);
        RUN_UNTIL(pair.a.counters->tx_record_status > told || pair.a.gone, &pair.a);
        forger.header.type = DW_LLP_RECORD;
        /* Some are granted once others have ended. */
        while (!pair.a.gone && pair.a.counters->rx_records_complete < id) {
            const uint64_t ended = pair.a.counters->rx_records_complete;
            uint32_t same_ids = first;
            forge_room_full(&forger, false, &same_ids, open_to_all);
            RUN_UNTIL(pair.a.counters->rx_records_complete > ended || pair.a.gone, &pair.a);
        }
        forger.header.type = DW_LLP_DATA;
        if (!pair.a.gone)
            exchange_with_little_held();
    }
    assert_true(pair.a.counters->rx_records_complete > HONEST_MAX);
    diwarp_dereg_mr(open_to_all);
    close_asker(&forger);
}

/* Opens record 1 of all of `opened`, which it may write. */
static struct dw_record_control forge_open(struct forger *forger, uint8_t *opened, size_t bytes,
                                           struct diwarp_mr **to)
{
    *to = diwarp_reg_mr(pair.a.pd, opened, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
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

/* Opens a record of more than may be granted, sends none of it, or its last byte, which was not
 * granted; and goes on answering. */
static void peer__keeps_no_grants(void **state)
{
    (void)state;
    static uint8_t opened[BIG];
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
        RUN_UNTIL(pair.a.counters->tx_record_status > 0, &pair.a);
        assert_int_equal(post(&pair.a, pair.ab, IBV_WR_RDMA_READ, sink, BIG, IBV_SEND_SIGNALED, 0,
                              pair.mr_source, 0),
                         0);
        forger.header.type = DW_LLP_ACK;
        forger.header.flags = 0;
        forge_begin(&forger);
        forge_trailer(&forger);
        for (uint64_t until_ns = clock_ns() + WAIT_NS; !pair.a.reads && clock_ns() < until_ns;) {
            node_poll(&pair.a);
            node_poll(pair.b);
            if (forger_hear(&forger, &heard, 0)) {
                forge_send_bytes(&forger);
                answers++;
            }
        }
        assert_int_equal(pair.a.reads, 1);
        assert_true(answers < 30);
        assert_int_equal(pair.a.counters->drop_stag, last_byte);
        assert_int_equal(pair.a.counters->rx_record_bytes, BIG);
        assert_int_equal(pair.a.gone, 0);
        diwarp_dereg_mr(to);
        forger_close(&forger);
        pair_close(&pair);
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
    RUN_UNTIL(pair.a.counters->tx_record_status > 0, &pair.a);
    forger.header.type = DW_LLP_PROBE_REPLY;
    for (uint64_t until_ns = clock_ns() + 300 * MS; clock_ns() < until_ns;) {
        forger.header.psn = (uint32_t)(clock_ns() >> 10);
        forge_begin(&forger);
        forge_send(&forger);
        RUN_FOR(MS, &pair.a);
    }
    assert_true(pair.a.counters->tx_record_status < 10);
    diwarp_dereg_mr(to);
    forger_close(&forger);
    pair_close(&pair);
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
    node_poll(&pair.a);
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
        pair.max_msg_bytes = 8u << 20;
        open_pair(attr);
        pair.max_msg_bytes = 0;
        forger_open(&forger, &pair.a.address, DW_LLP_DATA, FORGER_RANK);
        forger.header.flags = DW_LLP_INTRO;
        forge_messages(&forger, (enum never_ends)how);
        assert_int_equal(
            post(pair.b, pair.ba, IBV_WR_SEND, source, 60000, IBV_SEND_SIGNALED, 0, NULL, 0), 0);
        RUN_UNTIL(pair.a.recvs == 1, &pair.a, pair.b);
        assert_int_equal(pair.a.last.wc.byte_len, 60000);
        assert_true(pair.a.counters->drop_no_buffer > 0);
        forger_close(&forger);
        pair_close(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peer__acknowledges_what_was_not_sent),
        cmocka_unit_test(peer__takes_no_refusals),
        cmocka_unit_test(peer__takes_no_completes),
        cmocka_unit_test(peer__keeps_no_grants),
        cmocka_unit_test(peer__replies_to_no_probe),
        cmocka_unit_test(peer__ends_no_message),
    };

    return cmocka_run_group_tests_name("greedy_peer", tests, NULL, NULL);
}
