/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: RD queue pairs that share an SRQ, with each other and with one of UD. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "test/verbs/sides.h"

#define WR_BYTES 1040
#define SENDERS  3u

static struct ibv_srq *srq;
static struct ibv_qp *targets[SENDERS];

static void start(struct ibv_qp *qp)
{
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .qkey = QKEY, .port_num = 1};
    assert_int_equal(
        ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    to.qp_state = IBV_QPS_RTR;
    assert_int_equal(ibv_modify_qp(qp, &to, IBV_QP_STATE), 0);
}

/* Of side 1, all on one SRQ of ROOM receives. */
static void open_targets(bool last_is_ud)
{
    FOUND(create_rd_qp);
    open_both(true);
    struct ibv_srq_init_attr shared = {.attr = {.max_wr = ROOM, .max_sge = 2}};
    assert_non_null(srq = ibv_create_srq(sides[1]->pd, &shared));
    for (unsigned i = 0; i < SENDERS; i++) {
        struct ibv_qp_init_attr_ex attr = attr_for(sides[1]);
        attr.srq = srq;
        targets[i] = last_is_ud && i == SENDERS - 1 ? ibv_create_qp_ex(sides[1]->context, &attr)
                                                    : create_rd_qp(sides[1]->context, &attr);
        assert_non_null(targets[i]);
        assert_ptr_equal(targets[i]->srq, srq);
        start(targets[i]);
    }
}

static void close_targets(void)
{
    assert_int_equal(ibv_destroy_srq(srq), EBUSY);
    for (unsigned i = 0; i < SENDERS; i++)
        assert_int_equal(ibv_destroy_qp(targets[i]), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    close_both();
}

static int post_shared(uint64_t id)
{
    struct ibv_sge sge = {address_in(sides[1], (uint32_t)id * WR_BYTES), WR_BYTES,
                          sides[1]->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
    return ibv_post_srq_recv(srq, &wr, &bad);
}

/* One byte, the number. */
static int send_to(struct ibv_qp *target, uint8_t number)
{
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(sides[0]->qp);
    ibv_wr_start(ex);
    ex->wr_id = number;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex);
    ibv_wr_set_ud_addr(ex, sides[0]->ah, target->qp_num, QKEY);
    ibv_wr_set_inline_data(ex, &number, 1);
    return ibv_wr_complete(ex);
}

/* A write with immediate data, the number. */
static int tell(struct ibv_qp *target, uint8_t number)
{
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(sides[0]->qp);
    ibv_wr_start(ex);
    ex->wr_id = number;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write_imm(ex, sides[1]->mr->rkey, address_in(sides[1], 0), number);
    ibv_wr_set_ud_addr(ex, sides[0]->ah, target->qp_num, QKEY);
    ibv_wr_set_inline_data(ex, &number, 1);
    return ibv_wr_complete(ex);
}

/* A completion of side 1, and which number came to whom. */
static uint8_t taken(bool *of_target)
{
    const struct ibv_wc wc = take(sides[1]->recv_cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, 41);
    assert_true(wc.wr_id < ROOM);
    const uint8_t number = sides[1]->memory[wc.wr_id * WR_BYTES + 40];
    *of_target = wc.qp_num == targets[number % SENDERS]->qp_num;
    return number;
}

static void rd_srq__each_receive_serves_any(void **state)
{
    (void)state;
    open_targets(false);
    for (unsigned round = 0; round < 50; round++) {
        bool seen[ROOM] = {false}, right;
        for (unsigned i = 0; i < ROOM; i++)
            assert_int_equal(post_shared(i), 0);
        assert_int_equal(post_shared(0), ENOMEM);
        for (unsigned i = 0; i < ROOM; i++)
            assert_int_equal(send_to(targets[i % SENDERS], (uint8_t)i), 0);
        for (unsigned i = 0; i < ROOM; i++) {
            const uint8_t number = taken(&right);
            assert_true(right && number < ROOM && !seen[number]);
            seen[number] = true;
        }
        for (unsigned i = 0; i < ROOM; i++)
            assert_int_equal(take(sides[0]->send_cq).status, IBV_WC_SUCCESS);
        assert_empty(sides[1]->recv_cq);
    }
    close_targets();
}

static void rd_srq__told_writes__take_one_each(void **state)
{
    (void)state;
    uint32_t seen = 0;
    open_targets(false);
    for (unsigned i = 0; i < ROOM; i++)
        assert_int_equal(tell(targets[i % SENDERS], (uint8_t)i), 0);
    assert_empty(sides[1]->recv_cq);
    for (unsigned i = 0; i < ROOM; i++) {
        assert_int_equal(post_shared(i), 0);
        const struct ibv_wc wc = take(sides[1]->recv_cq);
        assert_true(wc.wr_id == i && wc.status == IBV_WC_SUCCESS);
        assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
        assert_int_equal(wc.qp_num, targets[wc.imm_data % SENDERS]->qp_num);
        seen |= 1u << wc.imm_data;
        assert_empty(sides[1]->recv_cq);
    }
    assert_int_equal(seen, (1u << ROOM) - 1);
    for (unsigned i = 0; i < ROOM; i++)
        assert_int_equal(take(sides[0]->send_cq).status, IBV_WC_SUCCESS);
    close_targets();
}

/* What finds no receive waits, whoever it is for; nothing is lost, nothing comes twice. */
static void rd_srq__without_receives__sends_wait(void **state)
{
    (void)state;
    bool seen[ROOM] = {false}, right;
    open_targets(false);
    for (unsigned i = 0; i < ROOM; i++)
        assert_int_equal(send_to(targets[i % SENDERS], (uint8_t)i), 0);
    assert_empty(sides[1]->recv_cq);
    for (unsigned i = 0; i < ROOM; i++) {
        assert_int_equal(post_shared(i), 0);
        const uint8_t number = taken(&right);
        assert_true(right && number < ROOM && !seen[number]);
        seen[number] = true;
        assert_empty(sides[1]->recv_cq);
    }
    for (unsigned i = 0; i < ROOM; i++)
        assert_int_equal(take(sides[0]->send_cq).status, IBV_WC_SUCCESS);
    close_targets();
}

/* Of several Sends in a datagram all but the first wait here: for another receive, or until their
 * queue pair is in error, is reset or destroyed. */
static void rd_srq__held__go_with_their_queue_pair(void **state)
{
    (void)state;
    const enum ibv_qp_state ends[SENDERS] = {IBV_QPS_ERR, IBV_QPS_RESET, IBV_QPS_RESET};
    bool right;
    open_targets(false);
    for (unsigned i = 0; i < ROOM; i++)
        assert_int_equal(send_to(targets[i % SENDERS], (uint8_t)i), 0);
    for (unsigned i = 0; i < SENDERS; i++) {
        struct ibv_qp_attr to = {.qp_state = ends[i]};
        assert_int_equal(post_shared(i), 0);
        (void)taken(&right);
        assert_true(right);
        if (i < 2)
            assert_int_equal(ibv_modify_qp(targets[i], &to, IBV_QP_STATE), 0);
    }
    close_targets();
}

static void rd_srq__shared_with_ud(void **state)
{
    (void)state;
    bool right;
    open_targets(true);
    struct ibv_qp_init_attr_ex attr = attr_for(sides[0]);
    struct ibv_qp *ud = ibv_create_qp_ex(sides[0]->context, &attr), *rd = sides[0]->qp;
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_RTS};
    start(ud);
    assert_int_equal(ibv_modify_qp(ud, &to, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < ROOM; i++)
            assert_int_equal(post_shared(i), 0);
        for (unsigned i = 0; i < ROOM; i++) {
            sides[0]->qp = i % SENDERS == SENDERS - 1 ? ud : rd;
            assert_int_equal(send_to(targets[i % SENDERS], (uint8_t)i), 0);
            assert_int_equal(taken(&right), i);
            assert_true(right);
            assert_int_equal(take(sides[0]->send_cq).status, IBV_WC_SUCCESS);
        }
        assert_empty(sides[1]->recv_cq);
    }
    sides[0]->qp = rd;
    assert_int_equal(ibv_destroy_qp(ud), 0);
    close_targets();
}

/* One in error leaves the receives to the others, and says so. */
static void rd_srq__one_in_error__others_go_on(void **state)
{
    (void)state;
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_ERR};
    struct ibv_async_event event;
    bool right;
    open_targets(false);
    for (unsigned i = 0; i < ROOM; i++)
        assert_int_equal(post_shared(i), 0);
    assert_int_equal(ibv_modify_qp(targets[0], &to, IBV_QP_STATE), 0);
    struct pollfd told = {.fd = sides[1]->context->async_fd, .events = POLLIN};
    assert_int_equal(poll(&told, 1, 10000), 1);
    assert_int_equal(ibv_get_async_event(sides[1]->context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
    assert_ptr_equal(event.element.qp, targets[0]);
    ibv_ack_async_event(&event);
    assert_int_equal(ibv_modify_qp(targets[0], &to, IBV_QP_STATE), 0);
    assert_int_equal(poll(&told, 1, 0), 0); /* once is enough */
    assert_empty(sides[1]->recv_cq);
    for (unsigned i = 1; i <= ROOM; i++) {
        const uint8_t number = (uint8_t)(i % 2 ? 1 : 2);
        assert_int_equal(send_to(targets[number], number), 0);
        assert_int_equal(taken(&right), number);
        assert_true(right);
        assert_int_equal(take(sides[0]->send_cq).status, IBV_WC_SUCCESS);
    }
    close_targets();
}

/* A receive of memory that is not registered any more fails, and the queue pair goes on. */
static void rd_srq__bad_receive__fails_alone(void **state)
{
    (void)state;
    struct ibv_sge sge;
    struct ibv_recv_wr wr = {.wr_id = 77, .sg_list = &sge, .num_sge = 1}, *bad;
    bool right;
    open_targets(false);
    sge = (struct ibv_sge){address_in(sides[1], 0), 41, sides[1]->mr->lkey + 1};
    assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
    assert_int_equal(post_shared(3), 0);
    assert_int_equal(send_to(targets[1], 1), 0);
    struct ibv_wc wc = take(sides[1]->recv_cq);
    assert_true(wc.wr_id == 77 && wc.status == IBV_WC_LOC_PROT_ERR);
    assert_int_equal(take(sides[0]->send_cq).status, IBV_WC_SUCCESS);
    assert_int_equal(send_to(targets[2], 2), 0);
    assert_int_equal(taken(&right), 2);
    close_targets();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rd_srq__each_receive_serves_any),
        cmocka_unit_test(rd_srq__told_writes__take_one_each),
        cmocka_unit_test(rd_srq__without_receives__sends_wait),
        cmocka_unit_test(rd_srq__held__go_with_their_queue_pair),
        cmocka_unit_test(rd_srq__shared_with_ud),
        cmocka_unit_test(rd_srq__one_in_error__others_go_on),
        cmocka_unit_test(rd_srq__bad_receive__fails_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
