/* SPDX-License-Identifier: BSD-3-Clause */
/* Several queue pairs of each kind on one port: who gets what, and what one costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <malloc.h>

#include "common/rnic/qp.h"
#include "test/net/queue_pairs.h"

static void check_all(void)
{
    for (unsigned s = 0; s < 2; s++)
        for (unsigned i = 0; i < QPS; i++)
            for (unsigned j = 0; j < QPS; j++) {
                const struct between *mine = &sides[s].with[i][j];
                assert_int_equal(mine->errors, 0);
                assert_int_equal(mine->recvs, 1);
                assert_int_equal(mine->writes, 2);
                assert_filled(mine->into_small, SMALL, seed_of(!s, j, i) + 1);
                assert_filled(mine->into_large, LARGE, seed_of(!s, j, i) + 2);
                assert_filled(mine->sink, LARGE, seed_of(!s, j, i) + 3);
                assert_int_equal(mine->counter, 3);
            }
}

static void rd__all_operations_between_all(void **state)
{
    (void)state;
    static const uint32_t datagrams[] = {0, 1472};
    for (unsigned d = 0; d < 2; d++) {
        open_sides(DIWARP_QPT_RD, datagrams[d]);
        fill_all();
        for (unsigned op = 0; op < OPS; op++)
            for (unsigned s = 0; s < 2; s++)
                for (unsigned i = 0; i < QPS; i++)
                    for (unsigned j = 0; j < QPS; j++)
                        post_op(s, i, j, op);
        run_until_done(OPS, 1);
        check_all();
        assert_int_equal(diwarp_query_counters(sides[0].qps[0])->drop_qpn, 0);
        close_sides();
    }
}

static void ud__sends_between_all(void **state)
{
    (void)state;
    open_sides(DIWARP_QPT_UD, 0);
    fill_all();
    for (unsigned s = 0; s < 2; s++)
        for (unsigned i = 0; i < QPS; i++)
            for (unsigned k = 0; k < QPS; k++) {
                struct ibv_sge sge = {.addr = (uintptr_t)sides[s].inbox[i][k], .length = SMALL};
                struct ibv_recv_wr wr = {.wr_id = k, .sg_list = &sge, .num_sge = 1};
                assert_int_equal(diwarp_post_recv(sides[s].qps[i], &wr), 0);
            }
    for (unsigned s = 0; s < 2; s++)
        for (unsigned i = 0; i < QPS; i++)
            for (unsigned j = 0; j < QPS; j++)
                post_op(s, i, j, OP_SEND);
    run_until_done(1, 1);
    /* To one that is gone: dropped, for the sender may not know. */
    diwarp_destroy_qp(sides[1].qps[2]);
    sides[1].qps[2] = NULL;
    post_op(0, 0, 2, OP_SEND);
    const struct diwarp_counters *counters = diwarp_query_counters(sides[1].qps[0]);
    for (uint64_t end_ns = clock_ns() + WAIT_NS; !counters->drop_qpn && clock_ns() < end_ns;)
        poll_side(1);
    assert_int_equal(counters->drop_qpn, 1);
    close_sides();
}

/* ---- numbers, and what one costs ---- */

static void qpn__of_one_that_is_gone_comes_last(void **state)
{
    (void)state;
    struct side *side = &sides[0];
    open_device(side, 1, 0);
    for (unsigned i = 0; i < QPS; i++)
        open_qp(side, i % 2 ? DIWARP_QPT_UD : DIWARP_QPT_RD, i);
    for (unsigned i = 0; i < QPS; i++)
        assert_int_equal(side->addresses[i].qpn, i + 1);
    diwarp_destroy_qp(side->qps[1]);
    open_qp(side, DIWARP_QPT_RD, 1);
    assert_int_equal(side->addresses[1].qpn, 4);
    diwarp_destroy_qp(side->qps[1]);
    side->qps[0]->port->last_qpn = DW_QPN_GROUP - 2;
    open_qp(side, DIWARP_QPT_RD, 1);
    assert_int_equal(side->addresses[1].qpn, DW_QPN_GROUP - 1);
    diwarp_destroy_qp(side->qps[1]);
    open_qp(side, DIWARP_QPT_RD, 1); /* 1 and 3 live */
    assert_int_equal(side->addresses[1].qpn, 2);
    diwarp_destroy_qp(side->qps[1]);
    open_qp(side, DIWARP_QPT_RD, 1);
    assert_int_equal(side->addresses[1].qpn, 4);
    close_device(side);
}

/* As the device tells it, and as malloc does. */
static void qps__further_ones_cost_little(void **state)
{
    (void)state;
    enum { MANY = 200, MOST_BYTES = 4096 };
    static const enum diwarp_qp_type types[] = {DIWARP_QPT_RD, DIWARP_QPT_UD};
    static struct diwarp_qp *qps[2][MANY];
    struct diwarp_memory before, after;
    struct side *side = &sides[0];
    size_t held = 0;
    open_device(side, 1, 0);
    for (unsigned t = 0; t < 2; t++) {
        struct diwarp_qp_attr attr = qp_attr_of(types[t]);
        attr.cq = side->cqs[0];
        for (unsigned i = 0; i < MANY; i++) {
            if (i == 1) {
                diwarp_query_memory(side->cqs[0], side->pd, &before);
                held = mallinfo2().uordblks;
            }
            assert_int_equal(diwarp_create_qp(side->pd, &attr, &qps[t][i], NULL), 0);
        }
        diwarp_query_memory(side->cqs[0], side->pd, &after);
        const uint64_t told = (after.total_bytes - before.total_bytes) / (MANY - 1);
        const size_t malloced = (mallinfo2().uordblks - held) / (MANY - 1);
        print_message("a further %s QP: %lu bytes, of malloc's %zu\n", t ? "UD" : "RD",
                      (unsigned long)told, malloced);
        assert_in_range(told, sizeof(struct diwarp_qp), MOST_BYTES);
        assert_true(malloced <= MOST_BYTES);
        assert_int_equal(after.sockets, 1);
    }
    for (unsigned t = 0; t < 2; t++)
        for (unsigned i = 0; i < MANY; i++)
            diwarp_destroy_qp(qps[t][i]);
    close_device(side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rd__all_operations_between_all),
        cmocka_unit_test(ud__sends_between_all),
        cmocka_unit_test(qpn__of_one_that_is_gone_comes_last),
        cmocka_unit_test(qps__further_ones_cost_little),
    };

    return cmocka_run_group_tests_name("queue pairs", tests, NULL, NULL);
}
