/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UD service over real sockets on 127.0.0.1, through the public API. Datagrams that "get lost"
 * are those a forger does not send.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/net/forge.h"
#include "test/net/node.h"
#include "common/include/diwarp_ud.h"

#define FORGER_RANK 9
#define RECORD_ID   (DW_RECORD_ID_FROM_SOURCE | 77)
#define PIECE       1000

static uint8_t buf_a[1 << 20], buf_b[1 << 20];

struct pair {
    struct node a, b;
    struct diwarp_ah *ab;
    struct diwarp_mr *mr; /* buf_b, for remote writes */
};

static void pair_open(struct pair *pair, uint32_t datagram_max_bytes, uint64_t record_time_ns)
{
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_UD);
    struct diwarp_device_attr attr = loopback_attr(1);

    attr.datagram_max_bytes = datagram_max_bytes;
    qp_attr.record_time_ns = record_time_ns;
    node_open(&pair->a, &attr, &qp_attr);
    attr.name.rank = 2;
    node_open(&pair->b, &attr, &qp_attr);
    pair->ab = node_ah(&pair->a, &pair->b);
    pair->mr = diwarp_reg_mr(pair->b.pd, buf_b, sizeof buf_b,
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(pair->mr);
}

static void pair_close(struct pair *pair)
{
    node_destroy_qp(&pair->a);
    node_destroy_qp(&pair->b);
    diwarp_destroy_ah(pair->ab);
    diwarp_dereg_mr(pair->mr);
    node_close(&pair->a);
    node_close(&pair->b);
}

/* ---- Send and receive ----------------------------------------------------------------------- */

static void check_send(struct pair *pair, uint32_t length, uint32_t seed)
{
    unsigned sends = pair->a.sends, recvs = pair->b.recvs;

    fill(buf_a, length, seed);
    memset(buf_b, 0xee, sizeof buf_b);
    assert_int_equal(post_recv(&pair->b, buf_b, length, 1000 + seed), 0);
    assert_int_equal(
        post(&pair->a, pair->ab, IBV_WR_SEND, buf_a, length, IBV_SEND_SIGNALED, seed, NULL, 0), 0);
    RUN_UNTIL(pair->b.recvs == recvs + 1, &pair->a, &pair->b);
    assert_int_equal(pair->a.sends, sends + 1);
    assert_int_equal(pair->b.last.wc.wr_id, 1000 + seed);
    assert_int_equal(pair->b.last.wc.byte_len, length);
    assert_int_equal(pair->b.last.src.rank, 1);
    assert_filled(buf_b, length, seed);
    assert_int_equal(buf_b[length], 0xee);
}

static void ud_send__of_one_and_many_datagrams(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, 100, 1407, 1408, 1409, 5000, 64900, 65000, 65536};
    static const uint32_t datagrams[] = {0, 1472, 512};

    for (unsigned d = 0; d < 3; d++) {
        struct pair pair;
        pair_open(&pair, datagrams[d], 100 * MS);
        for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check_send(&pair, sizes[i], i);
        pair_close(&pair);
    }
}

/* See rd__a_message_of_two_datagrams__brings_gro_into_use. */
static void ud_send__of_two_datagrams__brings_gro_into_use(void **state)
{
    (void)state;
    struct pair pair;
    struct diwarp_device_attr attr = loopback_attr(3);
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_UD);
    struct node always;
    attr.gro = DIWARP_ON;
    node_open(&always, &attr, &qp_attr);
    pair_open(&pair, 1472, 100 * MS);
    check_send(&pair, 1000, 1);
    assert_false(node_uses_gro(&pair.b));
    check_send(&pair, 2000, 2);
    check_send(&pair, 8, 3);
    assert_int_equal(node_uses_gro(&pair.b), node_uses_gro(&always));
    pair_close(&pair);
    node_destroy_qp(&always);
    node_close(&always);
}

static void ud_send__into_a_receive_that_is_too_short(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {101, 5000};
    struct pair pair;
    pair_open(&pair, 1472, 100 * MS);

    for (unsigned i = 0; i < 2; i++) {
        fill(buf_a, sizes[i], i);
        memset(buf_b, 0xee, 200);
        assert_int_equal(post_recv(&pair.b, buf_b, 100, 5), 0);
        assert_int_equal(post(&pair.a, pair.ab, IBV_WR_SEND, buf_a, sizes[i], 0, 0, NULL, 0), 0);
        RUN_UNTIL(pair.b.errors == i + 1, &pair.a, &pair.b);
        assert_int_equal(pair.b.last_error.wc.status, IBV_WC_LOC_LEN_ERR);
        assert_int_equal(pair.b.last_error.wc.wr_id, 5);
        assert_filled(buf_b, 100, i);
        assert_int_equal(buf_b[100], 0xee);
    }
    check_send(&pair, 100, 7);
    pair_close(&pair);
}

static void ud_send__without_a_receive_is_dropped(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, 1472, 100 * MS);

    assert_int_equal(post(&pair.a, pair.ab, IBV_WR_SEND, buf_a, 10, 0, 0, NULL, 0), 0);
    RUN_UNTIL(pair.b.counters->drop_no_buffer == 1, &pair.a, &pair.b);
    assert_int_equal(post(&pair.a, pair.ab, IBV_WR_SEND, buf_a, 2000, 0, 0, NULL, 0), 0);
    RUN_UNTIL(pair.b.counters->drop_no_buffer == 3, &pair.a, &pair.b);
    assert_int_equal(pair.b.recvs, 0);
    check_send(&pair, 2000, 7);
    pair_close(&pair);
}

static void ud_recv__posts_are_bounded_and_checked(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, 1472, 100 * MS);
    struct ibv_sge sge = {.addr = (uintptr_t)buf_b, .length = 10, .lkey = pair.mr->stag + 1};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};

    assert_int_equal(diwarp_post_recv(pair.b.qp, &wr), -EACCES);
    wr.num_sge = 33;
    assert_int_equal(diwarp_post_recv(pair.b.qp, &wr), -EINVAL);
    for (unsigned i = 0; i < 1024; i++)
        assert_int_equal(post_recv(&pair.b, buf_b, 10, i), 0);
    assert_int_equal(post_recv(&pair.b, buf_b, 10, 0), -ENOMEM);
    assert_int_equal(post(&pair.a, pair.ab, IBV_WR_SEND, buf_a, 1, 0, 0, NULL, 0), 0);
    RUN_UNTIL(pair.b.recvs == 1, &pair.a, &pair.b);
    assert_int_equal(post_recv(&pair.b, buf_b, 10, 0), 0);
    assert_int_equal(
        post(&pair.a, pair.ab, IBV_WR_ATOMIC_FETCH_AND_ADD, buf_a, 8, 0, 0, pair.mr, 0), -EINVAL);
    pair_close(&pair);
}

/* Before a message and amid one of two segments; regions that stay are no matter. */
static void ud_recv__into_memory_deregistered_meanwhile(void **state)
{
    (void)state;
    static struct forger forger;
    struct dw_ddp_header ddp = {.opcode = DW_RDMAP_SEND, .msn = 3};
    struct pair pair;
    pair_open(&pair, 0, 20000 * MS);
    struct diwarp_mr *gone = diwarp_reg_mr(pair.b.pd, buf_b, PIECE, IBV_ACCESS_LOCAL_WRITE);
    struct diwarp_mr *amid = diwarp_reg_mr(pair.b.pd, buf_b, 2 * PIECE, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sges[] = {{(uintptr_t)buf_b, PIECE, gone->stag},
                             {(uintptr_t)buf_b, PIECE, pair.mr->stag},
                             {(uintptr_t)buf_b, 2 * PIECE, amid->stag}};

    for (unsigned i = 0; i < 3; i++) {
        const struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sges[i], .num_sge = 1};
        assert_int_equal(diwarp_post_recv(pair.b.qp, &wr), 0);
    }
    diwarp_dereg_mr(gone);
    memset(buf_b, 0xee, 2 * PIECE);
    forger_open(&forger, &pair.b.address, DW_LLP_UD, FORGER_RANK);
    forge_begin(&forger);
    forge_message(&forger, 1, "first", 5);
    forge_send(&forger);
    RUN_UNTIL(pair.b.errors == 1, &pair.b);
    assert_int_equal(pair.b.last_error.wc.status, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(pair.b.last_error.wc.wr_id, 0);
    assert_int_equal(buf_b[0], 0xee);
    forge_begin(&forger);
    forge_message(&forger, 2, "second", 6);
    forge_send(&forger);
    RUN_UNTIL(pair.b.recvs == 1, &pair.b);
    assert_memory_equal(buf_b, "second", 6);
    forge_begin(&forger);
    forge_segment(&forger, &ddp, NULL, 0, buf_a, PIECE);
    forge_send(&forger);
    RUN_UNTIL(buf_b[0] == buf_a[0], &pair.b);
    diwarp_dereg_mr(amid);
    ddp.mo = PIECE;
    ddp.last = true;
    forge_begin(&forger);
    forge_segment(&forger, &ddp, NULL, 0, buf_a, PIECE);
    forge_send(&forger);
    RUN_UNTIL(pair.b.errors == 2, &pair.b);
    assert_int_equal(pair.b.last_error.wc.status, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(pair.b.last_error.wc.wr_id, 2);
    assert_int_equal(buf_b[PIECE], 0xee);
    forger_close(&forger);
    pair_close(&pair);
}

/* One of three segments is missing: the message is given up, its receive serves the next. */
static void ud_send__a_lost_segment_loses_its_message_only(void **state)
{
    (void)state;
    static struct forger forger;
    struct dw_ddp_header ddp = {.opcode = DW_RDMAP_SEND, .msn = 1};
    struct pair pair;
    pair_open(&pair, 0, 30 * MS);

    forger_open(&forger, &pair.b.address, DW_LLP_UD, FORGER_RANK);
    assert_int_equal(post_recv(&pair.b, buf_b, 3 * PIECE, 1), 0);
    for (uint32_t i = 0; i < 2; i++) {
        ddp.mo = i * PIECE;
        forge_begin(&forger);
        forge_segment(&forger, &ddp, NULL, 0, buf_a, PIECE);
        forge_send(&forger);
    }
    RUN_UNTIL(pair.b.counters->rx_partial_msgs == 1, &pair.b);
    assert_int_equal(pair.b.recvs, 0);
    /* The last one is late: it does not begin its message anew. */
    ddp.mo = 2 * PIECE;
    ddp.last = true;
    forge_begin(&forger);
    forge_segment(&forger, &ddp, NULL, 0, buf_a, PIECE);
    forge_send(&forger);
    RUN_UNTIL(pair.b.counters->rx_dup_datagrams == 1, &pair.b);
    forge_begin(&forger);
    forge_message(&forger, 2, "next", 4);
    forge_message(&forger, 2, "next", 4);
    forge_send(&forger);
    RUN_UNTIL(pair.b.recvs == 1 && pair.b.counters->rx_dup_datagrams == 2, &pair.b);
    assert_int_equal(pair.b.last.wc.wr_id, 1);
    assert_memory_equal(buf_b, "next", 4);
    forger_close(&forger);
    pair_close(&pair);
}

/* ---- Write-Record --------------------------------------------------------------------------- */

static void ud_write__full_map(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 1396, 1404, 20000, 500000};
    struct diwarp_record_info info;
    struct diwarp_range range;
    struct pair pair;
    pair_open(&pair, 1472, 20000 * MS);

    for (unsigned i = 0; i < 5; i++) {
        fill(buf_a, sizes[i], i);
        memset(buf_b, 0, sizes[i] + 10);
        assert_int_equal(post(&pair.a, pair.ab, IBV_WR_RDMA_WRITE, buf_a, sizes[i],
                              IBV_SEND_SIGNALED, i, pair.mr, 3),
                         0);
        RUN_UNTIL(pair.a.writes == i + 1 && pair.b.records == i + 1, &pair.a, &pair.b);
        struct diwarp_record *record = pair.b.last.record;
        diwarp_query_record(record, &info);
        assert_true(info.full);
        assert_int_equal(info.length, sizes[i]);
        assert_int_equal(info.valid_bytes, sizes[i]);
        assert_ptr_equal(info.addr, buf_b + 3);
        assert_int_equal(info.src.rank, 1);
        assert_int_equal(diwarp_record_ranges(record, &range, 1), 1);
        assert_true(range.start == 0 && range.end == sizes[i]);
        assert_filled(buf_b + 3, sizes[i], i);
        assert_int_equal(buf_b[sizes[i] + 3], 0);
        diwarp_release_record(record);
    }
    assert_int_equal(pair.b.counters->rx_records_complete, 5);
    pair_close(&pair);
}

static void send_piece(struct forger *forger, const struct pair *pair, uint32_t i, uint32_t total)
{
    uint32_t offset = i * PIECE, bytes = total - offset < PIECE ? total - offset : PIECE;

    forge_begin(forger);
    forge_write_record(forger, RECORD_ID, pair->mr->stag, (uintptr_t)buf_b, offset, total,
                       buf_a + offset, bytes);
    forge_send(forger);
}

/* Segments 3 and the last never come: the map shows exactly these holes. */
static void ud_write__partial_map_at_the_time_limit(void **state)
{
    (void)state;
    static struct forger forger;
    const uint32_t total = 9 * PIECE + 1;
    struct diwarp_name src = {.job = 7, .rank = FORGER_RANK};
    struct diwarp_record_info info;
    struct diwarp_range ranges[4];
    struct pair pair;
    pair_open(&pair, 0, 200 * MS);

    fill(buf_a, total, 1);
    memset(buf_b, 0, total);
    forger_open(&forger, &pair.b.address, DW_LLP_UD, FORGER_RANK);
    assert_null(diwarp_find_record(pair.b.qp, NULL, 0));
    uint64_t start_ns = clock_ns();
    for (uint32_t i = 8; i < 9; i--)
        if (i != 3)
            send_piece(&forger, &pair, i, total);
    RUN_UNTIL(pair.b.counters->rx_record_segments == 8, &pair.b);
    /* Usable before its time: found, and asked what is there. */
    struct diwarp_record *record = diwarp_find_record(pair.b.qp, &src, RECORD_ID);
    assert_non_null(record);
    assert_ptr_equal(diwarp_find_record(pair.b.qp, NULL, 0), record);
    diwarp_query_record(record, &info);
    assert_int_equal(info.valid_bytes, 8 * PIECE);
    assert_int_equal(pair.b.records, 0);
    RUN_UNTIL(pair.b.records == 1, &pair.b);
    assert_true(clock_ns() - start_ns >= 200 * MS);
    assert_ptr_equal(pair.b.last.record, record);
    assert_int_equal(pair.b.last.wc.byte_len, 8 * PIECE);
    diwarp_query_record(record, &info);
    assert_false(info.full);
    assert_int_equal(info.id, RECORD_ID);
    assert_int_equal(info.length, total);
    assert_int_equal(diwarp_record_ranges(record, ranges, 1), 2);
    assert_int_equal(diwarp_record_ranges(record, ranges, 4), 2);
    assert_true(ranges[0].start == 0 && ranges[0].end == 3 * PIECE);
    assert_true(ranges[1].start == 4 * PIECE && ranges[1].end == 9 * PIECE);
    assert_memory_equal(buf_b, buf_a, 3 * PIECE);
    assert_memory_equal(buf_b + 4 * PIECE, buf_a + 4 * PIECE, 5 * PIECE);
    /* What comes after it was handed over is not placed. */
    send_piece(&forger, &pair, 3, total);
    RUN_UNTIL(pair.b.counters->drop_stale_record == 1, &pair.b);
    assert_int_equal(buf_b[3 * PIECE] | buf_b[4 * PIECE - 1], 0);
    diwarp_release_record(record);
    send_piece(&forger, &pair, 9, total);
    RUN_UNTIL(pair.b.counters->drop_stale_record == 2, &pair.b);
    assert_int_equal(pair.b.counters->rx_records_partial, 1);
    forger_close(&forger);
    pair_close(&pair);
}

/* Segments come twice and overlap; bytes that are there stay. */
static void ud_write__repeated_segments_count_once(void **state)
{
    (void)state;
    static struct forger forger;
    struct pair pair;
    pair_open(&pair, 0, 20000 * MS);

    fill(buf_a, 2 * PIECE, 1);
    forger_open(&forger, &pair.b.address, DW_LLP_UD, FORGER_RANK);
    send_piece(&forger, &pair, 1, 2 * PIECE);
    send_piece(&forger, &pair, 1, 2 * PIECE);
    send_piece(&forger, &pair, 0, 2 * PIECE);
    RUN_UNTIL(pair.b.records == 1, &pair.b);
    assert_filled(buf_b, 2 * PIECE, 1);
    assert_int_equal(pair.b.counters->rx_record_bytes, 2 * PIECE);
    assert_int_equal(pair.b.counters->rx_dup_record_bytes, PIECE);
    diwarp_release_record(pair.b.last.record);
    forger_close(&forger);
    pair_close(&pair);
}

/* A process of the same name that is not the one met first, and counts from 1 again. */
static void ud__another_incarnation_has_numbers_of_its_own(void **state)
{
    (void)state;
    static struct forger forger;
    struct pair pair;
    pair_open(&pair, 0, 100 * MS);

    forger_open(&forger, &pair.b.address, DW_LLP_UD, FORGER_RANK);
    assert_int_equal(post_recv(&pair.b, buf_b, 10, 1), 0);
    assert_int_equal(post_recv(&pair.b, buf_b, 10, 2), 0);
    forge_begin(&forger);
    forge_message(&forger, 1, "one", 3);
    forge_send(&forger);
    RUN_UNTIL(pair.b.recvs == 1, &pair.b);
    forger.header.incarnation++;
    forge_begin(&forger);
    forge_message(&forger, 1, "two", 3);
    forge_send(&forger);
    RUN_UNTIL(pair.b.recvs == 2, &pair.b);
    forge_send_bytes(&forger);
    RUN_UNTIL(pair.b.counters->rx_dup_datagrams == 1, &pair.b);
    forger.header.incarnation--;
    forge_begin(&forger);
    forge_message(&forger, 1, "one", 3);
    forge_send(&forger);
    RUN_UNTIL(pair.b.counters->rx_dup_datagrams == 2, &pair.b);
    assert_int_equal(pair.b.recvs, 2);
    forger_close(&forger);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ud_send__of_one_and_many_datagrams),
        cmocka_unit_test(ud_send__of_two_datagrams__brings_gro_into_use),
        cmocka_unit_test(ud_send__into_a_receive_that_is_too_short),
        cmocka_unit_test(ud_send__without_a_receive_is_dropped),
        cmocka_unit_test(ud_recv__posts_are_bounded_and_checked),
        cmocka_unit_test(ud_recv__into_memory_deregistered_meanwhile),
        cmocka_unit_test(ud_send__a_lost_segment_loses_its_message_only),
        cmocka_unit_test(ud_write__full_map),
        cmocka_unit_test(ud_write__partial_map_at_the_time_limit),
        cmocka_unit_test(ud_write__repeated_segments_count_once),
        cmocka_unit_test(ud__another_incarnation_has_numbers_of_its_own),
    };

    return cmocka_run_group_tests_name("loopback_ud", tests, NULL, NULL);
}
