/* SPDX-License-Identifier: BSD-3-Clause */
/* UC queue pairs of the verbs front: carried as RC's are, without what needs answers. */
#include "test/verbs/rc_pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <time.h>

static struct pair *open_of(enum ibv_qp_type first, enum ibv_qp_type second)
{
    struct pair *pair = pair_open(false);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(ibv_destroy_qp(pair->qp[i]), 0);
    pair->type[0] = first;
    pair->type[1] = second;
    pair_open_qps(pair);
    return pair;
}

/* Of one that waits for the other side to be ready: some seconds. */
static void assert_given_up(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
    const time_t begin = time(NULL);
    struct ibv_wc wc;
    int n;
    while (!(n = ibv_poll_cq(cq, 1, &wc)))
        assert_true(time(NULL) - begin < 30);
    assert_true(n == 1 && wc.wr_id == id && wc.status == status);
}

static void uc__sends_and_writes(void **state)
{
    (void)state;
    struct pair *pair = open_of(IBV_QPT_UC, IBV_QPT_UC);
    pair_connect(pair, ALL_ACCESS);
    memset(pair->memory[0], 3, 4096);
    pair_post(pair, 0, IBV_WR_SEND_WITH_IMM, 1, 100); /* waits for a receive */
    assert_empty(pair->send_cq[0]);
    pair_receive(pair, 1, 10);
    const struct ibv_wc wc = take(pair->recv_cq[1]);
    assert_true(wc.wr_id == 10 && wc.byte_len == 100 && ntohl(wc.imm_data) == 0x01020304);
    assert_memory_equal(pair->memory[1] + 8192, pair->memory[0], 100);
    assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
    pair_receive(pair, 1, 11);
    pair_post(pair, 0, IBV_WR_RDMA_WRITE, 2, 3000);
    pair_post(pair, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 3, 4);
    assert_done(pair->recv_cq[1], 11, IBV_WC_SUCCESS);
    assert_memory_equal(pair->memory[1] + 4096, pair->memory[0], 3000);
    assert_done(pair->send_cq[0], 2, IBV_WC_SUCCESS);
    assert_done(pair->send_cq[0], 3, IBV_WC_SUCCESS);
    pair_close(pair);
}

static void uc__takes_nothing_that_needs_answers(void **state)
{
    (void)state;
    struct pair *pair = open_of(IBV_QPT_UC, IBV_QPT_UC);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .timeout = 10, .min_rnr_timer = 1};
    struct ibv_qp_init_attr made;
    struct ibv_qp_init_attr_ex reads = {.qp_type = IBV_QPT_UC,
                                        .send_cq = pair->send_cq[0],
                                        .recv_cq = pair->recv_cq[0],
                                        .pd = pair->pd,
                                        .comp_mask =
                                            IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                        .send_ops_flags = IBV_QP_EX_WITH_RDMA_READ};
    pair_connect(pair, ALL_ACCESS);
    for (unsigned i = IBV_WR_RDMA_READ; i <= IBV_WR_ATOMIC_FETCH_AND_ADD; i++) {
        struct ibv_send_wr wr = {.opcode = i}, *bad;
        assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), EINVAL);
    }
    assert_int_equal(ibv_modify_qp(pair->qp[0], &attr, IBV_QP_MIN_RNR_TIMER), EINVAL);
    assert_int_equal(ibv_query_qp(pair->qp[0], &attr, IBV_QP_STATE, &made), 0);
    assert_true(attr.qp_state == IBV_QPS_RTS && made.qp_type == IBV_QPT_UC);
    assert_null(ibv_create_qp_ex(pair->context, &reads));
    assert_int_equal(errno, EOPNOTSUPP);
    pair_close(pair);
}

/* What it has not taken is lost, and its sender is not told. */
static void uc__other_side_is_destroyed(void **state)
{
    (void)state;
    struct pair *pair = open_of(IBV_QPT_UC, IBV_QPT_UC);
    pair_connect(pair, ALL_ACCESS);
    pair_post(pair, 0, IBV_WR_SEND, 1, 8);
    assert_empty(pair->send_cq[0]);
    assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0);
    pair->qp[1] = NULL;
    assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
    pair_post(pair, 0, IBV_WR_RDMA_WRITE, 2, 8);
    assert_done(pair->send_cq[0], 2, IBV_WC_SUCCESS);
    pair_close(pair);
}

/* Either side may be ready first. What it sends then waits for some seconds, and is lost; what it
 * sends later comes. */
static void uc__other_side_is_late(void **state)
{
    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        struct pair *pair = open_of(IBV_QPT_UC, IBV_QPT_UC);
        pair_init(pair->qp[!late], ALL_ACCESS);
        pair_connect_to(pair, pair->qp[!late], pair->qp[late]->qp_num);
        pair_post(pair, !late, IBV_WR_SEND, 1, 8);
        assert_empty(pair->send_cq[!late]);
        assert_given_up(pair->send_cq[!late], 1, IBV_WC_SUCCESS);
        pair_init(pair->qp[late], ALL_ACCESS);
        pair_receive(pair, late, 3);
        pair_connect_to(pair, pair->qp[late], pair->qp[!late]->qp_num);
        pair_post(pair, !late, IBV_WR_SEND, 2, 9);
        const struct ibv_wc wc = take(pair->recv_cq[late]);
        assert_true(wc.wr_id == 3 && wc.byte_len == 9);
        assert_done(pair->send_cq[!late], 2, IBV_WC_SUCCESS);
        pair_close(pair);
    }
}

/* A fault of its own it is told, though nobody answers. */
static void uc__other_side_is_destroyed__wrong_local_key(void **state)
{
    (void)state;
    struct pair *pair = open_of(IBV_QPT_UC, IBV_QPT_UC);
    struct ibv_sge sge = {(uintptr_t)pair->memory[0], 8, 0};
    struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    struct ibv_send_wr *bad;
    pair_connect(pair, ALL_ACCESS);
    pair_post(pair, 0, IBV_WR_SEND, 1, 8);
    assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
    assert_empty(pair->send_cq[0]);
    assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0);
    pair->qp[1] = NULL;
    assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
    assert_done(pair->send_cq[0], 2, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(state_of(pair->qp[0]), IBV_QPS_ERR);
    pair_close(pair);
}

static void uc__sqd__other_side_is_destroyed(void **state)
{
    (void)state;
    struct pair *pair = open_of(IBV_QPT_UC, IBV_QPT_UC);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
    struct ibv_async_event event;
    pair_connect(pair, ALL_ACCESS);
    pair_post(pair, 0, IBV_WR_SEND, 1, 8);
    assert_empty(pair->send_cq[0]);
    assert_int_equal(ibv_modify_qp(pair->qp[0], &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
                     0);
    assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0);
    pair->qp[1] = NULL;
    assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
    assert_int_equal(ibv_get_async_event(pair->context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_SQ_DRAINED);
    ibv_ack_async_event(&event);
    pair_close(pair);
}

static void uc__does_not_meet_rc(void **state)
{
    (void)state;
    for (unsigned uc = 0; uc < 2; uc++) {
        struct pair *pair = open_of(uc ? IBV_QPT_RC : IBV_QPT_UC, uc ? IBV_QPT_UC : IBV_QPT_RC);
        pair->timeout = 1;
        pair_connect(pair, ALL_ACCESS);
        pair_receive(pair, uc, 1);
        pair_post(pair, !uc, IBV_WR_SEND, 2, 8);
        assert_given_up(pair->send_cq[!uc], 2, IBV_WC_RETRY_EXC_ERR);
        assert_empty(pair->recv_cq[uc]);
        pair_close(pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uc__sends_and_writes),
        cmocka_unit_test(uc__takes_nothing_that_needs_answers),
        cmocka_unit_test(uc__other_side_is_destroyed),
        cmocka_unit_test(uc__other_side_is_destroyed__wrong_local_key),
        cmocka_unit_test(uc__sqd__other_side_is_destroyed),
        cmocka_unit_test(uc__other_side_is_late),
        cmocka_unit_test(uc__does_not_meet_rc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
