/* SPDX-License-Identifier: BSD-3-Clause */
/* RC queue pairs over real TCP: atomics and immediate data (RFC 7306), long lists, what reads
 * confirm, rights of the queue pair, and what is left behind by one that is destroyed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/net/rc_traffic.h"

#define ALL_RIGHTS                                                               \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)

/* The next completion of a; b runs meanwhile. */
static struct diwarp_wc next(struct rc_pair *pair)
{
    const uint64_t until_ns = clock_ns() + WAIT_NS;
    struct diwarp_wc wc;
    while (diwarp_poll_cq(pair->a.cq, 1, &wc) != 1) {
        rc_end_poll(&pair->b);
        if (clock_ns() > until_ns)
            fail_msg("nothing has completed");
    }
    return wc;
}

static int post_atomic(struct rc_pair *pair, enum ibv_wr_opcode opcode, uint64_t *result,
                       const struct diwarp_mr *mr, uint64_t offset)
{
    struct ibv_sge sge = {.addr = (uintptr_t)result, .length = sizeof *result};
    struct ibv_send_wr wr = {.wr_id = 9,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.atomic = {.remote_addr = (uintptr_t)mr->addr + offset,
                                           .compare_add = 7,
                                           .swap = 100,
                                           .rkey = mr->stag}};
    return diwarp_rc_post_send(pair->a.qp, &wr);
}

static void rc__atomics(void **state)
{
    (void)state;
    _Alignas(8) static uint64_t words[2];
    struct rc_pair pair;
    uint64_t result = 0;
    rc_pair_init(&pair);
    struct diwarp_mr *mr = diwarp_reg_mr(pair.b.pd, words, sizeof words, ALL_RIGHTS);
    rc_pair_connect(&pair);
    words[1] = 3;
    assert_int_equal(post_atomic(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, &result, mr, 8), 0);
    struct diwarp_wc wc = next(&pair);
    assert_true(wc.wc.opcode == IBV_WC_FETCH_ADD && wc.wc.wr_id == 9 && wc.wc.byte_len == 8);
    assert_true(result == 3 && words[1] == 10);
    assert_int_equal(post_atomic(&pair, IBV_WR_ATOMIC_CMP_AND_SWP, &result, mr, 8), 0);
    wc = next(&pair);
    assert_int_equal(wc.wc.opcode, IBV_WC_COMP_SWAP);
    assert_true(result == 10 && words[1] == 10);
    words[1] = 7;
    assert_int_equal(post_atomic(&pair, IBV_WR_ATOMIC_CMP_AND_SWP, &result, mr, 8), 0);
    (void)next(&pair);
    assert_true(result == 7 && words[1] == 100 && words[0] == 0);
    assert_int_equal(post_atomic(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, &result, mr, 4), -EINVAL);

    /* More than are under way at once, among reads; in order. */
    for (unsigned i = 0; i < 60; i++)
        assert_int_equal(
            i % 3 ? post_atomic(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, &result, mr, 0)
                  : rc_post(&pair.a, IBV_WR_RDMA_READ, buf_a, 16, IBV_SEND_SIGNALED, 8, mr, 0),
            0);
    for (unsigned i = 0; i < 60; i++)
        assert_int_equal(next(&pair).wc.opcode, i % 3 ? IBV_WC_FETCH_ADD : IBV_WC_RDMA_READ);
    assert_int_equal(words[0], 40 * 7);
    assert_int_equal(result, 39 * 7);
    diwarp_dereg_mr(mr);
    rc_pair_close(&pair);
}

static void rc__immediate_data(void **state)
{
    (void)state;
    struct rc_pair pair;
    struct diwarp_wc wc;
    rc_pair_init(&pair);
    struct diwarp_mr *mr = reg(&pair.b, buf_b, ALL_RIGHTS);
    rc_pair_connect(&pair);
    static const uint32_t lengths[] = {0, 1, 100000};
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned write = 0; write < 2; write++) {
            struct ibv_sge sge = {.addr = (uintptr_t)buf_a, .length = lengths[i]};
            struct ibv_send_wr wr = {.wr_id = i,
                                     .sg_list = &sge,
                                     .num_sge = 1,
                                     .opcode =
                                         write ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND_WITH_IMM,
                                     .send_flags = IBV_SEND_SIGNALED,
                                     .imm_data = 0xabcd0000 + i};
            wr.wr.rdma.rkey = mr->stag;
            wr.wr.rdma.remote_addr = (uintptr_t)buf_b;
            fill(buf_a, lengths[i], i);
            assert_int_equal(rc_post_recv(&pair.b, buf_b, lengths[i], 50 + i), 0);
            assert_int_equal(diwarp_rc_post_send(pair.a.qp, &wr), 0);
            while (diwarp_poll_cq(pair.b.cq, 1, &wc) != 1)
                rc_end_poll(&pair.a);
            assert_int_equal(wc.wc.opcode, write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
            assert_true(wc.wc.wr_id == 50 + i && wc.wc.byte_len == lengths[i]);
            assert_true(wc.wc.imm_data == 0xabcd0000 + i && wc.wc.wc_flags == IBV_WC_WITH_IMM);
            assert_filled(buf_b, lengths[i], i);
        }
    }
    RC_UNTIL(pair.a.sends == 3 && pair.a.writes == 3, &pair.a, &pair.b);
    diwarp_dereg_mr(mr);
    rc_pair_close(&pair);
}

/* It waits for a receive, like a Send, and what is behind it waits, too. */
static void rc__immediate_data_without_a_receive(void **state)
{
    (void)state;
    struct rc_pair pair;
    rc_pair_init(&pair);
    struct diwarp_mr *mr = reg(&pair.b, buf_b, ALL_RIGHTS);
    rc_pair_connect(&pair);
    assert_int_equal(rc_post(&pair.a, IBV_WR_RDMA_WRITE_WITH_IMM, buf_a, 10, 0, 1, mr, 0), 0);
    assert_int_equal(rc_post(&pair.a, IBV_WR_RDMA_READ, buf_a, 0, IBV_SEND_SIGNALED, 2, mr, 0), 0);
    for (unsigned i = 0; i < 200; i++) {
        rc_end_poll(&pair.a);
        rc_end_poll(&pair.b);
    }
    assert_int_equal(pair.a.reads, 0);
    assert_int_equal(rc_post_recv(&pair.b, buf_b, 0, 3), 0);
    struct diwarp_wc wc;
    while (diwarp_poll_cq(pair.b.cq, 1, &wc) != 1)
        rc_end_poll(&pair.a);
    assert_int_equal(wc.wc.byte_len, 10);
    RC_UNTIL(pair.a.reads == 1, &pair.a, &pair.b);
    diwarp_dereg_mr(mr);
    rc_pair_close(&pair);
}

static void rc__lists_of_32(void **state)
{
    (void)state;
    enum { SGES = 32 };
    struct rc_pair pair;
    struct ibv_sge out[SGES], in[SGES];
    rc_pair_init(&pair);
    pair.a.attr.max_sge = pair.b.attr.max_sge = SGES + 1;
    assert_int_equal(
        diwarp_connect(pair.a.pd, &pair.a.attr, &pair.b.address, NULL, 0, &pair.a.qp, NULL),
        -EINVAL);
    pair.a.attr.max_sge = pair.b.attr.max_sge = SGES;
    rc_pair_connect(&pair);
    uint32_t total = 0;
    for (unsigned i = 0; i < SGES; i++) {
        out[i] = (struct ibv_sge){.addr = (uintptr_t)buf_a + total, .length = 1 + 1200 * i};
        total += out[i].length;
        in[i] = (struct ibv_sge){.addr = (uintptr_t)buf_b + 20000 * i, .length = 20000};
    }
    fill(buf_a, total, 1);
    struct ibv_recv_wr recv = {.sg_list = in, .num_sge = SGES};
    struct ibv_send_wr send = {.sg_list = out, .num_sge = SGES, .opcode = IBV_WR_SEND};
    assert_int_equal(diwarp_rc_post_recv(pair.b.qp, &recv), 0);
    assert_int_equal(diwarp_rc_post_send(pair.a.qp, &send), 0);
    RC_UNTIL(pair.b.recvs == 1, &pair.a, &pair.b);
    assert_int_equal(pair.b.last_recv.wc.byte_len, total);
    assert_filled(buf_b, total, 1);
    rc_pair_close(&pair);
}

/* Who may do what is asked of the region and of the queue pair; and which side has ended it. */
static void rc__rights_of_the_queue_pair(void **state)
{
    (void)state;
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                                 IBV_WR_ATOMIC_FETCH_AND_ADD};
    static const int rights[] = {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ,
                                 IBV_ACCESS_REMOTE_ATOMIC};
    for (unsigned i = 0; i < 3; i++) {
        struct rc_pair pair;
        uint64_t result;
        rc_pair_init(&pair);
        struct diwarp_mr *mr = reg(&pair.b, buf_b, ALL_RIGHTS);
        pair.b.attr.access = ALL_RIGHTS & ~rights[i];
        rc_pair_connect(&pair);
        memset(buf_b, 0xee, 8);
        assert_int_equal(i == 2 ? post_atomic(&pair, opcodes[i], &result, mr, 0)
                                : rc_post(&pair.a, opcodes[i], buf_a, 8, 0, 1, mr, 0),
                         0);
        RC_UNTIL(pair.a.disconnects && pair.b.disconnects, &pair.a, &pair.b);
        assert_int_equal(pair.a.disconnected.wc.vendor_err, 0x0102);
        assert_int_equal(pair.a.disconnected.wc.wc_flags, 0);
        assert_int_equal(pair.b.disconnected.wc.wc_flags, DIWARP_WC_TERMINATED_HERE);
        assert_int_equal(buf_b[0], 0xee);
        diwarp_dereg_mr(mr);
        rc_pair_close(&pair);
    }
}

/* What TCP took arrives, though more comes that is not read here, for which TCP alone would reset
 * the connection; what was read is confirmed. */
static void rc__destroyed_ones_linger(void **state)
{
    (void)state;
    enum { SENDS = 50 };
    struct rc_pair pair;
    rc_pair_init(&pair);
    rc_pair_connect(&pair);
    fill(buf_a, 1000, 1);
    assert_int_equal(rc_post_recv(&pair.a, buf_a + 5000, 100, 1), 0);
    for (unsigned i = 0; i < SENDS; i++) {
        assert_int_equal(rc_post_recv(&pair.b, buf_b, 1000, i), 0);
        assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, buf_a, 1000, 0, i, NULL, 0), 0);
    }
    RC_UNTIL(pair.b.recvs, &pair.b, &pair.b); /* it may send now */
    assert_int_equal(rc_post(&pair.b, IBV_WR_SEND, buf_a, 100, 0, 1, NULL, 0), 0);
    assert_int_equal(rc_post(&pair.b, IBV_WR_RDMA_READ, NULL, 0, IBV_SEND_SIGNALED, 2, NULL, 0), 0);
    RC_UNTIL(pair.a.recvs, &pair.a, &pair.a);
    rc_end_destroy_qp(&pair.a);
    assert_int_equal(diwarp_query_rc_counters(pair.a.cq)->rc_lingering, 1);
    assert_int_equal(rc_post(&pair.b, IBV_WR_SEND, buf_a, 100, 0, 3, NULL, 0), 0); /* dropped */
    RC_UNTIL(pair.b.disconnects, &pair.a, &pair.b);
    assert_int_equal(pair.b.recvs, SENDS);
    assert_int_equal(pair.b.reads, 1);
    assert_int_equal(pair.b.disconnected.wc.status, IBV_WC_SUCCESS);
    rc_end_destroy_qp(&pair.b);
    RC_UNTIL(!diwarp_query_rc_counters(pair.a.cq)->rc_lingering, &pair.a, &pair.b);
    rc_pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc__atomics),
        cmocka_unit_test(rc__immediate_data),
        cmocka_unit_test(rc__immediate_data_without_a_receive),
        cmocka_unit_test(rc__lists_of_32),
        cmocka_unit_test(rc__rights_of_the_queue_pair),
        cmocka_unit_test(rc__destroyed_ones_linger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
