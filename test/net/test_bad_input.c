/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What may come that should not: garbage, strangers, forged and stale messages, peers that vanish,
 * wrong configuration. Each is a clear error or a counted drop, and the QP works afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/rel/recvwin.h"
#include "test/net/forged_pair.h"
#include "test/unit/random.h"

static int setup(void **state)
{
    (void)state;
    forged_pair_open();
    return 0;
}

static void assert_still_works(void)
{
    unsigned sends = pair.a.sends, recvs = pair.b->recvs, reads = pair.a.reads;

    assert_int_equal(post(&pair.a, pair.ab, IBV_WR_SEND, "works", 5, IBV_SEND_SIGNALED, 0, NULL, 0),
                     0);
    RUN_UNTIL(pair.a.sends == sends + 1 && pair.b->recvs == recvs + 1, &pair.a, pair.b);
    assert_memory_equal(pair.b->data, "works", 5);
    fill(source, 100000, recvs);
    assert_int_equal(post(&pair.a, pair.ab, IBV_WR_RDMA_READ, sink, 100000, IBV_SEND_SIGNALED, 0,
                          pair.mr_source, 0),
                     0);
    RUN_UNTIL(pair.a.reads == reads + 1, &pair.a, pair.b);
    assert_filled(sink, 100000, recvs);
    assert_int_equal(pair.a.errors + pair.b->errors + pair.a.gone, 0);
}

/* Sends what was forged and waits until a counter of b has moved by one, and no other drop. */
static uint64_t drops(const struct diwarp_counters *c)
{
    return c->drop_short + c->drop_version + c->drop_token + c->drop_crc + c->drop_source +
           c->drop_qpn + c->drop_window + c->drop_header + c->drop_stag + c->drop_no_buffer +
           c->drop_stale_record + c->drop_truncated;
}

#define EXPECT_DROP(counter)                                                        \
    do {                                                                            \
        uint64_t before = pair.b->counters->counter, all = drops(pair.b->counters); \
        forge_send_bytes(&forger);                                                  \
        RUN_UNTIL(pair.b->counters->counter == before + 1, pair.b);                 \
        assert_int_equal(drops(pair.b->counters), all + 1);                         \
    } while (0)

/* ---- strangers and garbage ------------------------------------------------------------------ */

static void garbage__of_any_length(void **state)
{
    (void)state;
    uint64_t rng = 20240607;
    const unsigned n = 5000;

    for (unsigned i = 0; i < n; i++) {
        forger.bytes = random_below(&rng, random_percent(&rng, 10) ? 65507 : 200);
        for (size_t at = 0; at < forger.bytes; at++)
            forger.buf[at] = (uint8_t)random_next(&rng);
        if (random_percent(&rng, 50))
            forger.buf[0] = (uint8_t)(DW_WIRE_VERSION << 4 | random_below(&rng, DW_LLP_TYPES));
        forger.buf[1] &= DW_LLP_FLAGS;
        forge_send_bytes(&forger);
        if (i % 16 == 15)
            RUN_UNTIL(pair.b->counters->rx_datagrams == i + 1, pair.b);
    }
    RUN_UNTIL(pair.b->counters->rx_datagrams == n, pair.b);
    assert_int_equal(drops(pair.b->counters), n);
    assert_int_equal(pair.b->counters->peers_active, 0);
    assert_still_works();
}

static void datagram__too_short(void **state)
{
    (void)state;
    forge_hello();
    forger.bytes = 0;
    EXPECT_DROP(drop_short);
    forger.bytes = DW_LLP_HEADER_BYTES + DW_CRC_BYTES - 1;
    EXPECT_DROP(drop_short);
    /* Says INTRO, has no room for it. */
    forge_begin(&forger);
    forger.bytes -= 1;
    forge_trailer(&forger);
    EXPECT_DROP(drop_short);
    assert_still_works();
}

static void datagram__of_a_stranger(void **state)
{
    (void)state;
    forger.header.token ^= 1;
    forge_hello();
    forge_trailer(&forger);
    EXPECT_DROP(drop_token);
    forger.header.token ^= 1;
    forge_hello();
    forge_trailer(&forger);
    forger.buf[0] = (uint8_t)((DW_WIRE_VERSION + 1) << 4 | DW_LLP_DATA);
    EXPECT_DROP(drop_version);
    forge_hello();
    forge_trailer(&forger);
    forger.buf[forger.bytes - 6] ^= 1;
    EXPECT_DROP(drop_crc);
    forger.header.flags |= DW_LLP_NO_CRC;
    forge_hello();
    memset(forger.buf + forger.bytes, 0, 4);
    forger.bytes += 4;
    EXPECT_DROP(drop_crc);
    forger.header.flags = 0; /* knows the token, but not who it is */
    forge_hello();
    forge_trailer(&forger);
    EXPECT_DROP(drop_source);
    forger.header.type = DW_LLP_UD;
    forger.header.credit_kib = 0;
    forge_hello();
    forge_trailer(&forger);
    EXPECT_DROP(drop_qpn);
    assert_int_equal(pair.b->recvs, 0);
    assert_int_equal(pair.b->counters->peers_active, 0);
    assert_still_works();
}

/* Who has the token and says who it is belongs to us. */
static void introduction__makes_a_peer(void **state)
{
    (void)state;
    struct dw_llp_header header;

    forge_introduction();
    assert_int_equal(pair.b->counters->peers_active, 1);
    assert_int_equal(pair.b->last.src.rank, FORGER_RANK);
    RUN_UNTIL(pair.b->counters->tx_acks == 1, pair.b);
    assert_true(forger_hear(&forger, &header, 5000));
    assert_int_equal(header.token, forger.intro.token);
    assert_int_equal(header.ack, 1);
    forger.intro.port = 0;
    forge_hello();
    forge_trailer(&forger);
    EXPECT_DROP(drop_header);
    assert_still_works();
}

static void datagram__of_another_incarnation(void **state)
{
    (void)state;
    forge_introduction();
    forger.header.incarnation++;
    forge_hello();
    forge_trailer(&forger);
    EXPECT_DROP(drop_source);
    assert_int_equal(pair.b->recvs, 1);
    assert_still_works();
}

static void datagram__outside_the_window(void **state)
{
    (void)state;
    forge_introduction();
    forger.header.psn = 1 + DW_WINDOW_DATAGRAMS;
    forge_hello();
    forge_trailer(&forger);
    EXPECT_DROP(drop_window);
    forger.header.psn = 0;
    forge_hello();
    forge_send(&forger);
    RUN_UNTIL(pair.b->counters->rx_dup_datagrams == 1, pair.b);
    /* Acknowledges what was never sent. */
    forger.header.psn = 1;
    forger.header.ack = 1000;
    forge_hello();
    forge_trailer(&forger);
    EXPECT_DROP(drop_header);
    assert_still_works();
}

/* ---- malformed segments --------------------------------------------------------------------- */

static void segments__malformed(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[32];
        uint8_t length;
        bool is_short;
    } cases[] = {
        {{0x00}, 1, true},                                             /* half a length */
        {{0x00, 0x00}, 2, false},                                      /* empty */
        {{0xff, 0xff, 0x41, 0x43}, 4, true},                           /* beyond the end */
        {{0x00, 0x05, 0x41, 0x43, 0, 0, 0}, 7, false},                 /* less than a DDP header */
        {{0x00, 0x12, 0x42, 0x43, 0, 0, 0, 0}, 20, false},             /* DDP version 2 */
        {{0x00, 0x12, 0x41, 0x83, 0, 0, 0, 0}, 20, false},             /* RDMAP version 2 */
        {{0x00, 0x12, 0x45, 0x43, 0, 0, 0, 0}, 20, false},             /* reserved bit */
        {{0x00, 0x12, 0x41, 0x48, 0, 0, 0, 0}, 20, false},             /* empty Immediate Data */
        {{0x00, 0x19, 0x41, 0x48, 0, 0, 0, 0}, 27, false},             /* Immediate Data, 7 bytes */
        {{0x00, 0x1b, 0x41, 0x48, 0, 0, 0, 0}, 29, false},             /* Immediate Data, 9 bytes */
        {{0x00, 0x1a, 0x01, 0x48, 0, 0, 0, 0}, 28, false},             /* ... of several segments */
        {{0x00, 0x1a, 0x41, 0x48, [24] = 0xff}, 28, false},            /* ... of a longer write */
        {{0x00, 0x12, 0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2}, 20, false}, /* Terminate: not of RD */
        {{0x00, 0x12, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 1}, 20, false}, /* Send on queue 1 */
        {{0x00, 0x12, 0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1}, 20, false}, /* empty Read Request */
        {{0x00, 0x12, 0x41, 0x4a, 0, 0, 0, 0, 0, 0, 0, 1}, 20, false}, /* empty Atomic Request */
        {{0x00, 0x12, 0x41, 0x4b, 0, 0, 0, 0, 0, 0, 0, 3}, 20, false}, /* empty Atomic Response */
        {{0x00, 0x12, 0x41, 0x4e, 0, 0, 0, 0, 0, 0, 0, 4}, 20, false}, /* empty control */
        {{0x00, 0x12, 0x01, 0x43, 0, 0, 0, 0}, 20, false},             /* first of several, empty */
        {{0x00, 0x0e, 0xc1, 0x4c, 0, 0, 0, 0}, 16, false}, /* Write-Record without its header */
        {{0x00, 0x0e, 0xc1, 0x40, 0, 0, 0, 0}, 16, false}, /* RDMA Write: not over datagrams */
    };

    forge_introduction();
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        forge_begin(&forger);
        forge_raw(&forger, cases[i].bytes, cases[i].length);
        forge_trailer(&forger);
        if (cases[i].is_short)
            EXPECT_DROP(drop_short);
        else
            EXPECT_DROP(drop_header);
        forger.header.psn++;
    }
    /* An acknowledgement has none. */
    forger.header.type = DW_LLP_ACK;
    forge_hello();
    forge_trailer(&forger);
    EXPECT_DROP(drop_short);
    assert_int_equal(pair.b->recvs, 1);
    assert_still_works();
}

static void segments__longer_than_a_message(void **state)
{
    (void)state;
    struct dw_ddp_header ddp = {.opcode = DW_RDMAP_SEND, .msn = 7, .mo = UINT32_MAX - 3};

    forge_introduction();
    forge_begin(&forger);
    forge_segment(&forger, &ddp, NULL, 0, "12345678", 8);
    forge_trailer(&forger);
    EXPECT_DROP(drop_header);
    forger.header.psn++;
    ddp.mo = 64 << 10;
    ddp.last = true;
    forge_begin(&forger);
    forge_segment(&forger, &ddp, NULL, 0, "1", 1);
    forge_trailer(&forger);
    EXPECT_DROP(drop_header);
    assert_still_works();
}

/* ---- forged records ------------------------------------------------------------------------- */

static void control__of_unknown_records(void **state)
{
    (void)state;
    static const struct dw_record_control controls[] = {
        {.kind = DW_RECORD_STATUS, .id = 5, .granted = 100},
        {.kind = DW_RECORD_STATUS, .id = 0x80000005, .range_count = 1, .ranges = {{1, 2}}},
        {.kind = DW_RECORD_COMPLETE, .id = 5},
        {.kind = DW_RECORD_ABORT, .id = 5, .status = DW_STATUS_CANCELLED},
        {.kind = DW_RECORD_ABORT, .id = 0x80000005, .status = DW_STATUS_BAD_STAG},
    };

    forge_introduction();
    for (unsigned i = 0; i < sizeof controls / sizeof controls[0]; i++) {
        forger.header.type = controls[i].kind == DW_RECORD_STATUS ? DW_LLP_RECORD : DW_LLP_DATA;
        forge_begin(&forger);
        forge_control(&forger, &controls[i]);
        forge_trailer(&forger);
        EXPECT_DROP(drop_stale_record);
        forger.header.psn += forger.header.type == DW_LLP_DATA;
    }
    forger.header.type = DW_LLP_RECORD;
    forge_begin(&forger);
    forge_write_record(&forger, 5, pair.mr_sink->stag, (uintptr_t)sink, 0, 10, "0123456789", 10);
    forge_trailer(&forger);
    EXPECT_DROP(drop_stale_record);
    assert_still_works();
}

/* What opens or ends a record comes once and in a buffer that stays, so in DATA only. */
static void control__unsequenced__only_a_status(void **state)
{
    (void)state;
    static const uint8_t kinds[] = {DW_RECORD_OPEN, DW_RECORD_COMPLETE, DW_RECORD_ABORT};
    struct diwarp_address forged = forger_address(&forger, &pair.b->address);
    struct diwarp_mr remote = {.addr = source, .stag = 1};
    struct diwarp_ah *ah;

    forge_introduction();
    assert_int_equal(diwarp_create_ah(pair.b->qp, &forged, &ah), 0);
    assert_int_equal(post(pair.b, ah, IBV_WR_RDMA_WRITE, sink, 100000, 0, 0, &remote, 0), 0);
    forger.header.type = DW_LLP_RECORD;
    for (unsigned i = 0; i < sizeof kinds; i++) {
        struct dw_record_control control = {.kind = kinds[i], .id = 0x80000001, .length = 1};
        forge_begin(&forger);
        forge_control(&forger, &control);
        forge_trailer(&forger);
        EXPECT_DROP(drop_header);
    }
    diwarp_destroy_ah(ah);
    assert_still_works();
}

/* A record of the forger's own, and segments that do not belong to it. */
static void write_record__outside_its_record(void **state)
{
    (void)state;
    const struct dw_record_control open = {.kind = DW_RECORD_OPEN,
                                           .id = 0x80000001,
                                           .stag = pair.mr_sink->stag,
                                           .to = (uintptr_t)sink + 100,
                                           .length = 1000};
    uint64_t to = open.to;
    const struct {
        uint32_t stag;
        uint64_t to;
        uint32_t offset, total;
    } wrong[] = {
        {pair.mr_sink->stag + 1, to, 0, 1000},    {pair.mr_sink->stag, to, 0, 999},
        {pair.mr_sink->stag, to, 0, 2000},        {pair.mr_sink->stag, to - 1, 0, 1000},
        {pair.mr_sink->stag, to + 1000, 0, 1000},
    };

    forge_introduction();
    memset(sink, 0, 4000);
    forge_begin(&forger);
    forge_control(&forger, &open);
    forge_send(&forger);
    RUN_UNTIL(pair.b->counters->tx_record_status == 1, pair.b);
    forger.header.type = DW_LLP_RECORD;
    /* Without an intro a segment is placed as it is checked. */
    for (unsigned fused = 0; fused < 2; fused++) {
        forger.header.flags = fused ? 0 : DW_LLP_INTRO;
        for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            forge_begin(&forger);
            forge_write_record(&forger, open.id, wrong[i].stag, wrong[i].to, wrong[i].offset,
                               wrong[i].total, "bad", 3);
            forge_trailer(&forger);
            EXPECT_DROP(drop_stag);
        }
        for (uint32_t offset = 999; offset <= 1001; offset += 2) {
            forge_begin(&forger);
            forge_write_record(&forger, open.id, pair.mr_sink->stag, to, offset, 1000, "bad", 3);
            forge_trailer(&forger);
            EXPECT_DROP(drop_header);
        }
    }
    for (unsigned i = 0; i < 4000; i++)
        assert_int_equal(sink[i], 0);
    assert_still_works();
}

/* Puts and gets that the STag does not allow: nothing is touched, and they are answered. */
static void requests__without_the_right(void **state)
{
    (void)state;
    const struct dw_record_control opens[] = {
        {.kind = DW_RECORD_OPEN,
         .id = 0x80000001,
         .stag = pair.mr_sink->stag + 1,
         .to = (uintptr_t)sink,
         .length = 10},
        {.kind = DW_RECORD_OPEN,
         .id = 0x80000002,
         .stag = pair.mr_sink->stag,
         .to = (uintptr_t)sink + BIG - 9,
         .length = 10},
        {.kind = DW_RECORD_OPEN,
         .id = 0x80000003,
         .stag = pair.mr_sink->stag,
         .to = (uintptr_t)sink - 1,
         .length = 10},
    };
    const uint64_t tos[] = {(uintptr_t)sink - 1, (uintptr_t)sink + BIG - 2, UINT64_MAX - 1};

    forge_introduction();
    for (unsigned i = 0; i < 3; i++, forger.header.psn++) {
        forge_begin(&forger);
        forge_control(&forger, &opens[i]);
        forge_trailer(&forger);
        EXPECT_DROP(drop_stag);
    }
    for (unsigned i = 0; i < 3; i++, forger.header.psn++) {
        forge_begin(&forger);
        forge_write_record(&forger, 0x80000009, pair.mr_sink->stag, tos[i], 0, 3, "bad", 3);
        forge_trailer(&forger);
        EXPECT_DROP(drop_stag);
    }
    assert_still_works();
}

static void expect_remote_error(enum ibv_wr_opcode opcode, uint32_t length, unsigned flags,
                                struct diwarp_mr *remote, uint64_t offset)
{
    pair.a.errors = 0;
    assert_int_equal(post(&pair.a, pair.ab, opcode, source, length, flags, 33, remote, offset), 0);
    RUN_UNTIL(pair.a.errors == 1, &pair.a, pair.b);
    assert_int_equal(pair.a.last_error.wc.status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(pair.a.last_error.wc.wr_id, 33);
    RUN_FOR(20 * MS, &pair.a, pair.b);
    assert_int_equal(pair.a.errors, 1);
    pair.a.errors = 0;
}

static void requests__refused_end_in_an_error(void **state)
{
    (void)state;
    struct diwarp_mr unknown = *pair.mr_sink;
    struct diwarp_mr *local = diwarp_reg_mr(pair.b->pd, sink, 100000, 0);
    static const uint32_t lengths[] = {10, 16384, 16385, 100000};

    unknown.stag++;
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned flags = 0; flags <= IBV_SEND_SIGNALED; flags += IBV_SEND_SIGNALED) {
            expect_remote_error(IBV_WR_RDMA_READ, lengths[i], flags, &unknown, 0);
            expect_remote_error(IBV_WR_RDMA_READ, lengths[i], flags, local, 0);
            expect_remote_error(IBV_WR_RDMA_READ, lengths[i], flags, pair.mr_sink, BIG - 1);
            expect_remote_error(IBV_WR_RDMA_WRITE, lengths[i], flags, &unknown, 0);
            expect_remote_error(IBV_WR_RDMA_WRITE, lengths[i], flags, local, 0);
            expect_remote_error(IBV_WR_RDMA_WRITE, lengths[i], flags, pair.mr_sink, BIG - 1);
        }
    }
    assert_int_equal(pair.a.counters->rdma_errors, 48);
    diwarp_dereg_mr(local);
    assert_still_works();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, forged_pair_teardown)
    const struct CMUnitTest tests[] = {
        TEST(garbage__of_any_length),
        TEST(datagram__too_short),
        TEST(datagram__of_a_stranger),
        TEST(introduction__makes_a_peer),
        TEST(datagram__of_another_incarnation),
        TEST(datagram__outside_the_window),
        TEST(segments__malformed),
        TEST(segments__longer_than_a_message),
        TEST(control__of_unknown_records),
        TEST(control__unsequenced__only_a_status),
        TEST(write_record__outside_its_record),
        TEST(requests__without_the_right),
        TEST(requests__refused_end_in_an_error),
    };

    return cmocka_run_group_tests_name("bad_input", tests, NULL, NULL);
}
