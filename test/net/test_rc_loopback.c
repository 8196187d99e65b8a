/* SPDX-License-Identifier: BSD-3-Clause */
/* RC queue pairs over real TCP on 127.0.0.1, through the public API. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/net/rc_end.h"

static uint8_t buf_a[1 << 21], buf_b[1 << 21];

static struct diwarp_mr *reg(struct rc_end *end, uint8_t *buf, int access)
{
    struct diwarp_mr *mr = diwarp_reg_mr(end->pd, buf, sizeof buf_a, access);

    assert_non_null(mr);
    return mr;
}

static const uint32_t sizes[] = {0,     1,     3,      100,    1460,   4096,   65000,
                                 65464, 65536, 100001, 262144, 300000, 1 << 20};
#define SIZES (sizeof sizes / sizeof *sizes)

/* ---- messages ------------------------------------------------------------------------------- */

static void check_send(struct rc_pair *pair, uint32_t bytes, unsigned flags)
{
    unsigned sends = pair->a.sends, recvs = pair->b.recvs;

    fill(buf_a, bytes, bytes);
    memset(buf_b, 0xee, bytes + 1);
    assert_int_equal(rc_post_recv(&pair->b, buf_b, bytes + 7, 1000 + bytes), 0);
    assert_int_equal(
        rc_post(&pair->a, IBV_WR_SEND, buf_a, bytes, IBV_SEND_SIGNALED | flags, bytes, NULL, 0), 0);
    RC_UNTIL(pair->b.recvs == recvs + 1 && pair->a.sends == sends + 1, &pair->a, &pair->b);
    assert_int_equal(pair->b.last_recv.wc.wr_id, 1000 + bytes);
    assert_int_equal(pair->b.last_recv.wc.byte_len, bytes);
    assert_filled(buf_b, bytes, bytes);
    assert_int_equal(buf_b[bytes], 0xee);
}

static void check_write(struct rc_pair *pair, uint32_t bytes, const struct diwarp_mr *mr)
{
    unsigned writes = pair->a.writes, recvs = pair->b.recvs;
    uint8_t fin = 1;

    fill(buf_a, bytes, bytes + 1);
    memset(buf_b, 0xee, bytes + 10);
    assert_int_equal(rc_post_recv(&pair->b, &fin, 1, 1), 0);
    assert_int_equal(
        rc_post(&pair->a, IBV_WR_RDMA_WRITE, buf_a, bytes, IBV_SEND_SIGNALED, 5, mr, 3), 0);
    assert_int_equal(rc_post(&pair->a, IBV_WR_SEND, &fin, 1, 0, 6, NULL, 0), 0);
    RC_UNTIL(pair->b.recvs == recvs + 1 && pair->a.writes == writes + 1, &pair->a, &pair->b);
    assert_filled(buf_b + 3, bytes, bytes + 1);
    assert_int_equal(buf_b[2], 0xee);
    assert_int_equal(buf_b[3 + bytes], 0xee);
}

static void check_read(struct rc_pair *pair, uint32_t bytes, const struct diwarp_mr *mr)
{
    unsigned reads = pair->a.reads;

    fill(buf_b + 5, bytes, bytes + 2);
    memset(buf_a, 0xee, bytes + 10);
    assert_int_equal(rc_post(&pair->a, IBV_WR_RDMA_READ, buf_a, bytes, IBV_SEND_SIGNALED, 7, mr, 5),
                     0);
    RC_UNTIL(pair->a.reads == reads + 1, &pair->a, &pair->b);
    assert_int_equal(pair->a.last.wc.byte_len, bytes);
    assert_filled(buf_a, bytes, bytes + 2);
    assert_int_equal(buf_a[bytes], 0xee);
}

static void check_orderly_close(struct rc_pair *pair)
{
    diwarp_disconnect(pair->a.qp);
    RC_UNTIL(pair->a.disconnects && pair->b.disconnects, &pair->a, &pair->b);
    assert_int_equal(pair->a.disconnected.wc.status, IBV_WC_SUCCESS);
    assert_int_equal(pair->b.disconnected.wc.status, IBV_WC_SUCCESS);
}

static void check_all(struct rc_pair *pair)
{
    struct diwarp_mr *mr = reg(
        &pair->b, buf_b, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);

    rc_pair_connect(pair);
    for (unsigned i = 0; i < SIZES; i++) {
        check_send(pair, sizes[i], 0);
        check_write(pair, sizes[i], mr);
        check_read(pair, sizes[i], mr);
    }
    check_orderly_close(pair);
    diwarp_dereg_mr(mr);
}

static void rc__messages_of_all_sizes_in_each_mode(void **state)
{
    (void)state;
    for (unsigned mode = 0; mode < 32; mode++) {
        struct rc_pair pair;

        rc_pair_init(&pair);
        pair.a.attr.markers = mode & 1;
        pair.b.attr.markers = mode & 2;
        pair.a.attr.crc = mode & 4;
        pair.b.attr.crc = mode & 8;
        pair.a.attr.mpa_revision = mode & 16 ? 1 : 2;
        check_all(&pair);
        assert_int_equal(pair.a.errors + pair.b.errors, 0);
        assert_int_equal(diwarp_query_rc_counters(pair.a.cq)->rc_connections, 0);
        rc_pair_close(&pair);
    }
}

/* ---- setting up ----------------------------------------------------------------------------- */

static void rc__private_data_goes_both_ways(void **state)
{
    (void)state;
    uint8_t call[DIWARP_PRIVATE_DATA_MAX_BYTES], answer[DIWARP_PRIVATE_DATA_MAX_BYTES];
    struct rc_pair pair;

    fill(call, sizeof call, 1);
    fill(answer, sizeof answer, 2);
    rc_pair_init(&pair);
    rc_pair_call(&pair, call, sizeof call);
    assert_int_equal(pair.b.data_bytes, sizeof call);
    assert_memory_equal(pair.b.data, call, sizeof call);
    assert_int_equal(pair.b.last.src.rank, 1);
    assert_int_equal(
        diwarp_accept(pair.b.request, pair.b.pd, &pair.b.attr, answer, sizeof answer, &pair.b.qp),
        0);
    RC_UNTIL(pair.a.connects && pair.b.connects, &pair.a, &pair.b);
    assert_int_equal(pair.a.data_bytes, sizeof answer);
    assert_memory_equal(pair.a.data, answer, sizeof answer);
    assert_int_equal(pair.a.connected.src.rank, 2);
    rc_pair_close(&pair);
}

static void rc__reject_says_why(void **state)
{
    (void)state;
    struct rc_pair pair;

    rc_pair_init(&pair);
    rc_pair_call(&pair, "x", 1);
    diwarp_reject(pair.b.request, "no", 2);
    RC_UNTIL(pair.a.disconnects, &pair.a, &pair.b);
    assert_int_equal(pair.a.disconnected.wc.status, IBV_WC_REM_INV_REQ_ERR);
    assert_int_equal(pair.a.data_bytes, 2);
    assert_memory_equal(pair.a.data, "no", 2);
    rc_pair_close(&pair);
}

/* ---- errors --------------------------------------------------------------------------------- */

static void rc__write_without_the_right_terminates_both(void **state)
{
    (void)state;
    struct rc_pair pair;

    rc_pair_init(&pair);
    struct diwarp_mr *mr = reg(&pair.b, buf_b, IBV_ACCESS_REMOTE_READ);

    rc_pair_connect(&pair);
    memset(buf_b, 0xee, 100);
    assert_int_equal(rc_post_recv(&pair.b, buf_b, 10, 1), 0);
    assert_int_equal(rc_post(&pair.a, IBV_WR_RDMA_WRITE, buf_a, 100, IBV_SEND_SIGNALED, 5, mr, 0),
                     0);
    RC_UNTIL(pair.a.disconnects && pair.b.disconnects, &pair.a, &pair.b);
    assert_int_equal(pair.a.disconnected.wc.status, IBV_WC_REM_OP_ERR);
    assert_int_equal(pair.b.disconnected.wc.status, IBV_WC_REM_OP_ERR);
    assert_int_equal(pair.a.disconnected.wc.vendor_err, 0x0102);
    assert_int_equal(pair.b.disconnected.wc.vendor_err, 0x0102);
    assert_int_equal(pair.b.flushed, 1);
    assert_int_equal(buf_b[0], 0xee);
    assert_int_equal(diwarp_query_rc_counters(pair.b.cq)->rc_tx_terminates, 1);
    assert_int_equal(diwarp_query_rc_counters(pair.a.cq)->rc_rx_terminates, 1);
    assert_int_equal(diwarp_query_rc_counters(pair.b.cq)->rc_bad_stag, 1);
    assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, buf_a, 1, 0, 5, NULL, 0), -ENOTCONN);
    diwarp_dereg_mr(mr);
    rc_pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc__messages_of_all_sizes_in_each_mode),
        cmocka_unit_test(rc__private_data_goes_both_ways),
        cmocka_unit_test(rc__reject_says_why),
        cmocka_unit_test(rc__write_without_the_right_terminates_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
