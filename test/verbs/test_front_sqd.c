/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: the state SQD, of UD, RD and RC. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "test/verbs/rc_pair.h"
#include "test/verbs/sides.h"

static void set_state(struct ibv_qp *qp, enum ibv_qp_state state, bool tell)
{
    struct ibv_qp_attr to = {.qp_state = state, .en_sqd_async_notify = 1};
    assert_int_equal(ibv_modify_qp(qp, &to, IBV_QP_STATE | (tell ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0)),
                     0);
    assert_int_equal(qp->state, state);
}

static int is_draining(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_SQD);
    return attr.sq_draining;
}

static bool has_event(const struct ibv_context *context, int wait_ms)
{
    struct pollfd readable = {.fd = context->async_fd, .events = POLLIN};
    return poll(&readable, 1, wait_ms) == 1;
}

static void take_drained(struct ibv_context *context, const struct ibv_qp *qp)
{
    struct ibv_async_event event;
    assert_true(has_event(context, 10000));
    assert_int_equal(ibv_get_async_event(context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_SQ_DRAINED);
    assert_ptr_equal(event.element.qp, qp);
    ibv_ack_async_event(&event);
    assert_false(has_event(context, 0)); /* once */
}

/* One byte, the id, which is changed afterwards; inlined, for the even ones. */
static int send_byte(uint8_t id)
{
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(sides[0]->qp);
    sides[0]->memory[id] = id;
    ibv_wr_start(ex);
    ex->wr_id = id;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex);
    ibv_wr_set_ud_addr(ex, sides[0]->ah, sides[1]->qp->qp_num, QKEY);
    if (id % 2)
        ibv_wr_set_sge(ex, sides[0]->mr->lkey, address_in(sides[0], id), 1);
    else
        ibv_wr_set_inline_data(ex, &id, 1);
    return ibv_wr_complete(ex);
}

static void posts_wait_for_rts(bool rd)
{
    open_both(rd);
    for (uint32_t i = 0; i < ROOM; i++)
        assert_int_equal(receive(i, 1000 + 64 * i, 41), 0);
    set_state(sides[0]->qp, IBV_QPS_SQD, true);
    take_drained(sides[0]->context, sides[0]->qp);
    assert_false(is_draining(sides[0]->qp));
    for (uint8_t i = 0; i < ROOM; i++)
        assert_int_equal(send_byte(i), 0);
    assert_int_equal(send_byte(ROOM), ENOMEM);
    assert_empty(sides[0]->send_cq);
    assert_empty(sides[1]->recv_cq);
    set_state(sides[0]->qp, IBV_QPS_SQD, false);
    assert_empty(sides[0]->send_cq);
    set_state(sides[0]->qp, IBV_QPS_RTS, false);
    for (uint8_t i = 0; i < ROOM; i++) {
        const struct ibv_wc wc = take(sides[0]->send_cq);
        assert_true(wc.status == IBV_WC_SUCCESS && (rd || wc.wr_id == i));
    }
    uint32_t seen = 0;
    for (uint8_t i = 0; i < ROOM; i++) {
        const struct ibv_wc wc = take(sides[1]->recv_cq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        const uint8_t id = sides[1]->memory[1000 + 64 * wc.wr_id + 40];
        assert_true(id < ROOM);
        seen |= 1u << id;
    }
    assert_int_equal(seen, (1u << ROOM) - 1);
    assert_false(has_event(sides[0]->context, 0));
    close_both();
}

static void sqd__ud__posts_wait_for_rts(void **state)
{
    (void)state;
    posts_wait_for_rts(false);
}

static void sqd__rd__posts_wait_for_rts(void **state)
{
    (void)state;
    posts_wait_for_rts(true);
}

/* A Send of RD that finds no receive has begun: it is waited for. */
static void sqd__rd__what_has_begun_ends(void **state)
{
    (void)state;
    open_both(true);
    assert_int_equal(send_byte(1), 0);
    set_state(sides[0]->qp, IBV_QPS_SQD, true);
    assert_true(is_draining(sides[0]->qp));
    assert_false(has_event(sides[0]->context, 50));
    assert_int_equal(send_byte(2), 0);
    assert_int_equal(receive(0, 1000, 41), 0);
    assert_int_equal(receive(1, 1000, 41), 0);
    assert_int_equal(take(sides[0]->send_cq).wr_id, 1);
    take_drained(sides[0]->context, sides[0]->qp);
    assert_false(is_draining(sides[0]->qp));
    assert_empty(sides[0]->send_cq);
    assert_int_equal(take(sides[1]->recv_cq).status, IBV_WC_SUCCESS);
    assert_empty(sides[1]->recv_cq);
    close_both();
}

static void sqd__rc__posts_wait_for_rts(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    pair_connect(pair, ALL_ACCESS);
    pair_receive(pair, 1, 9);
    pair_post(pair, 0, IBV_WR_RDMA_WRITE, 1, 100);
    assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
    set_state(pair->qp[0], IBV_QPS_SQD, true);
    take_drained(pair->context, pair->qp[0]);
    memset(pair->memory[0], 7, 100);
    pair_post(pair, 0, IBV_WR_RDMA_WRITE, 2, 100);
    pair_post(pair, 0, IBV_WR_SEND, 3, 100);
    pair_post(pair, 1, IBV_WR_RDMA_READ, 4, 50); /* the other way goes on */
    assert_done(pair->send_cq[1], 4, IBV_WC_SUCCESS);
    assert_empty(pair->send_cq[0]);
    assert_empty(pair->recv_cq[1]);
    assert_int_not_equal(pair->memory[1][4096], 7);
    assert_false(is_draining(pair->qp[0]));
    set_state(pair->qp[0], IBV_QPS_RTS, false);
    assert_done(pair->send_cq[0], 2, IBV_WC_SUCCESS);
    assert_done(pair->send_cq[0], 3, IBV_WC_SUCCESS);
    assert_done(pair->recv_cq[1], 9, IBV_WC_SUCCESS);
    assert_int_equal(pair->memory[1][4096], 7);
    pair_close(pair);
}

static void sqd__rc__what_has_begun_ends(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    pair_connect(pair, ALL_ACCESS);
    pair_post(pair, 0, IBV_WR_SEND, 1, 100); /* waits for a receive */
    assert_empty(pair->send_cq[0]);
    set_state(pair->qp[0], IBV_QPS_SQD, true);
    assert_true(is_draining(pair->qp[0]));
    assert_false(has_event(pair->context, 50));
    pair_post(pair, 0, IBV_WR_SEND, 2, 100);
    pair_receive(pair, 1, 8);
    pair_receive(pair, 1, 9);
    assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
    take_drained(pair->context, pair->qp[0]);
    assert_done(pair->recv_cq[1], 8, IBV_WC_SUCCESS);
    assert_empty(pair->recv_cq[1]);
    set_state(pair->qp[0], IBV_QPS_ERR, false);
    assert_done(pair->send_cq[0], 2, IBV_WC_WR_FLUSH_ERR);
    pair_close(pair);
}

static void kept_go_with_the_state(bool rd)
{
    open_both(rd);
    set_state(sides[0]->qp, IBV_QPS_SQD, false);
    for (uint8_t i = 0; i < 3; i++)
        assert_int_equal(send_byte(i), 0);
    set_state(sides[0]->qp, IBV_QPS_ERR, false);
    for (uint8_t i = 0; i < 3; i++) {
        const struct ibv_wc wc = take(sides[0]->send_cq);
        assert_true(wc.wr_id == i && wc.status == IBV_WC_WR_FLUSH_ERR);
    }
    close_both();
    open_both(rd);
    set_state(sides[0]->qp, IBV_QPS_SQD, false);
    assert_int_equal(send_byte(1), 0);
    set_state(sides[0]->qp, IBV_QPS_RESET, false);
    assert_empty(sides[0]->send_cq);
    close_both();
    open_both(rd);
    set_state(sides[0]->qp, IBV_QPS_SQD, false);
    assert_int_equal(send_byte(1), 0);
    close_both();
}

/* Nobody is told of their end, but all wait for it. */
static void sqd__rc__unsignaled_ones_end(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    pair_connect(pair, ALL_ACCESS);
    for (unsigned cycle = 0; cycle < 3; cycle++) {
        struct ibv_sge sge = {(uintptr_t)pair->memory[0], 100, pair->mr->lkey};
        struct ibv_send_wr wr = {.sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_RDMA_WRITE,
                                 .wr.rdma = {(uintptr_t)pair->memory[1] + 4096, pair->mr->rkey}},
                           *bad;
        pair->memory[0][0] = (uint8_t)(50 + cycle);
        assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
        set_state(pair->qp[0], IBV_QPS_SQD, true);
        take_drained(pair->context, pair->qp[0]);
        assert_int_equal(pair->memory[1][4096], 50 + cycle);
        assert_empty(pair->send_cq[0]);
        set_state(pair->qp[0], IBV_QPS_RTS, false);
    }
    pair_close(pair);
}

/* What has not begun does not fail the queue pair, though its other side has gone. */
static void sqd__rc__other_side_goes(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    pair->timeout = 1;
    pair_connect(pair, ALL_ACCESS);
    set_state(pair->qp[0], IBV_QPS_SQD, false);
    pair_post(pair, 0, IBV_WR_SEND, 1, 100);
    assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0);
    pair->qp[1] = NULL;
    poll(NULL, 0, 100);
    pair_post(pair, 0, IBV_WR_SEND, 2, 100);
    assert_empty(pair->send_cq[0]);
    assert_false(is_draining(pair->qp[0]));
    set_state(pair->qp[0], IBV_QPS_RTS, false);
    assert_done(pair->send_cq[0], 1, IBV_WC_RETRY_EXC_ERR);
    assert_done(pair->send_cq[0], 2, IBV_WC_WR_FLUSH_ERR);
    pair_close(pair);
}

static void sqd__rc__attributes(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    pair_connect(pair, ALL_ACCESS);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .timeout = 9, .max_rd_atomic = 2};
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_modify_qp(pair->qp[0], &attr, IBV_QP_STATE | IBV_QP_TIMEOUT), EINVAL);
    set_state(pair->qp[0], IBV_QPS_SQD, false);
    const int mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_MAX_QP_RD_ATOMIC;
    assert_int_equal(ibv_modify_qp(pair->qp[0], &attr, mask), 0);
    assert_int_equal(ibv_query_qp(pair->qp[0], &attr, IBV_QP_STATE | IBV_QP_AV, &init), 0);
    assert_true(attr.timeout == 9 && attr.max_rd_atomic == 2);
    assert_int_equal(ibv_modify_qp(pair->qp[0], &attr, IBV_QP_STATE | IBV_QP_AV), 0);
    attr.ah_attr.grh.dgid.raw[15] ^= 1;
    assert_int_equal(ibv_modify_qp(pair->qp[0], &attr, IBV_QP_STATE | IBV_QP_AV), EINVAL);
    assert_int_equal(ibv_modify_qp(pair->qp[0], &attr, IBV_QP_STATE | IBV_QP_DEST_QPN), EINVAL);
    attr.qp_state = IBV_QPS_INIT;
    assert_int_equal(ibv_modify_qp(pair->qp[0], &attr, IBV_QP_STATE), EINVAL);
    attr.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(pair->qp[0], &attr, IBV_QP_STATE | IBV_QP_TIMEOUT), EINVAL);
    attr.cur_qp_state = IBV_QPS_SQD;
    assert_int_equal(ibv_modify_qp(pair->qp[0], &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
    pair_close(pair);
}

/* Nobody polls; a read whose answer does not come ends by its time. */
static void sqd__ud__read_ends(void **state)
{
    (void)state;
    open_both(false);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(sides[0]->qp);
    ibv_wr_start(ex);
    ex->wr_id = 5;
    ex->wr_flags = 0;
    ibv_wr_rdma_read(ex, sides[1]->mr->rkey, address_in(sides[1], 0));
    ibv_wr_set_ud_addr(ex, sides[0]->ah, sides[1]->qp->qp_num + 1, QKEY);
    ibv_wr_set_sge(ex, sides[0]->mr->lkey, address_in(sides[0], 0), 8);
    assert_int_equal(ibv_wr_complete(ex), 0);
    set_state(sides[0]->qp, IBV_QPS_SQD, true);
    assert_true(is_draining(sides[0]->qp));
    take_drained(sides[0]->context, sides[0]->qp);
    const struct ibv_wc wc = take(sides[0]->send_cq);
    assert_true(wc.wr_id == 5 && wc.status == IBV_WC_RESP_TIMEOUT_ERR);
    close_both();
}

/* All of a list or none; address handles that they need stay. */
static void sqd__kept__lists_and_handles(void **state)
{
    (void)state;
    open_both(false);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(sides[0]->qp);
    set_state(sides[0]->qp, IBV_QPS_SQD, false);
    assert_int_equal(send_byte(0), 0);
    ibv_wr_start(ex);
    for (unsigned i = 0; i < ROOM; i++) {
        ex->wr_id = i;
        ibv_wr_send(ex);
        ibv_wr_set_ud_addr(ex, sides[0]->ah, sides[1]->qp->qp_num, QKEY);
        ibv_wr_set_sge(ex, sides[0]->mr->lkey, address_in(sides[0], 0), 1);
    }
    assert_int_equal(ibv_wr_complete(ex), ENOMEM);
    assert_int_equal(ibv_destroy_ah(sides[0]->ah), EBUSY);
    assert_int_equal(receive(7, 1000, 41), 0);
    set_state(sides[0]->qp, IBV_QPS_RTS, false);
    assert_int_equal(take(sides[0]->send_cq).wr_id, 0);
    assert_empty(sides[0]->send_cq);
    assert_int_equal(take(sides[1]->recv_cq).wr_id, 7);
    /* A key that is no longer right ends the first in error, and the queue pair with it. */
    set_state(sides[0]->qp, IBV_QPS_SQD, false);
    assert_int_equal(send_byte(1), 0);
    assert_int_equal(send_byte(3), 0);
    assert_int_equal(ibv_dereg_mr(sides[0]->mr), 0);
    set_state(sides[0]->qp, IBV_QPS_RTS, false);
    assert_int_equal(take(sides[0]->send_cq).status, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(take(sides[0]->send_cq).status, IBV_WC_WR_FLUSH_ERR);
    sides[0]->mr = ibv_reg_mr(sides[0]->pd, sides[0]->memory, LARGE, ALL_ACCESS);
    close_both();
}

static void sqd__kept__go_with_the_state(void **state)
{
    (void)state;
    kept_go_with_the_state(false);
    kept_go_with_the_state(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sqd__ud__posts_wait_for_rts),
        cmocka_unit_test(sqd__rd__posts_wait_for_rts),
        cmocka_unit_test(sqd__rd__what_has_begun_ends),
        cmocka_unit_test(sqd__rc__posts_wait_for_rts),
        cmocka_unit_test(sqd__rc__what_has_begun_ends),
        cmocka_unit_test(sqd__rc__unsignaled_ones_end),
        cmocka_unit_test(sqd__rc__other_side_goes),
        cmocka_unit_test(sqd__rc__attributes),
        cmocka_unit_test(sqd__ud__read_ends),
        cmocka_unit_test(sqd__kept__lists_and_handles),
        cmocka_unit_test(sqd__kept__go_with_the_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
