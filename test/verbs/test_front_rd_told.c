/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front, RD: writes with immediate data, Sends with Invalidate, solicited events. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "test/verbs/sides.h"

static void rd_told__write_with_immediate_data(void **state)
{
    (void)state;
    const uint32_t lengths[] = {0, 1, 64, 20000, LARGE};
    open_both(true);
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memset(sides[1]->memory, (int)i, LARGE);
        assert_int_equal(receive(i, 0, 0), 0); /* nothing is written to it */
        assert_int_equal(post(IBV_WR_RDMA_WRITE_WITH_IMM, 70 + i, lengths[i], 0), 0);
        assert_int_equal(done(70 + i, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
        const struct ibv_wc wc = take(sides[1]->recv_cq);
        assert_true(wc.wr_id == i && wc.status == IBV_WC_SUCCESS);
        assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
        assert_int_equal(wc.byte_len, lengths[i]);
        assert_int_equal(ntohl(wc.imm_data), 70 + i);
        assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
        assert_int_equal(wc.qp_num, sides[1]->qp->qp_num);
        assert_int_equal(wc.src_qp, sides[0]->qp->qp_num);
        assert_memory_equal(sides[1]->memory, sides[0]->memory, lengths[i]);
        if (lengths[i] < LARGE)
            assert_int_equal(sides[1]->memory[lengths[i]], i);
    }
    close_both();
}

static void rd_told__several_elements_and_inline(void **state)
{
    (void)state;
    open_both(true);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(sides[0]->qp);
    struct ibv_sge sges[] = {{address_in(sides[0], 500), 300, sides[0]->mr->lkey},
                             {address_in(sides[0], 0), 200, sides[0]->mr->lkey}};
    for (unsigned inlined = 0; inlined < 2; inlined++) {
        assert_int_equal(receive(1, 0, 0), 0);
        ibv_wr_start(ex);
        ex->wr_id = 5;
        ex->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_rdma_write_imm(ex, sides[1]->mr->rkey, address_in(sides[1], 0), htonl(6));
        ibv_wr_set_ud_addr(ex, sides[0]->ah, sides[1]->qp->qp_num, QKEY);
        if (inlined)
            ibv_wr_set_inline_data(ex, sides[0]->memory + 9, 64);
        else
            ibv_wr_set_sge_list(ex, 2, sges);
        assert_int_equal(ibv_wr_complete(ex), 0);
        (void)done(5, IBV_WC_SUCCESS);
        assert_int_equal(take(sides[1]->recv_cq).byte_len, inlined ? 64 : 500);
        assert_memory_equal(sides[1]->memory, sides[0]->memory + (inlined ? 9 : 500), 64);
    }
    close_both();
}

/* A write that is refused tells nobody; one that finds no receive is there, and its message waits.
 */
static void rd_told__refused_or_without_a_receive(void **state)
{
    (void)state;
    open_both(true);
    const uint32_t wrong = sides[1]->mr->rkey + 1;
    assert_int_equal(receive(1, 0, 0), 0);
    assert_int_equal(post_keyed(IBV_WR_RDMA_WRITE_WITH_IMM, 2, 100, 0, wrong, IBV_SEND_SIGNALED),
                     0);
    (void)done(2, IBV_WC_REM_ACCESS_ERR);
    assert_empty(sides[1]->recv_cq);
    for (unsigned i = 0; i < ROOM; i++)
        assert_int_equal(post(IBV_WR_RDMA_WRITE_WITH_IMM, i, 1000 + i, 0), 0);
    assert_int_equal(post(IBV_WR_RDMA_WRITE_WITH_IMM, 99, 1000, 0), ENOMEM);
    bool seen[ROOM] = {false};
    for (unsigned i = 0; i < ROOM; i++) {
        if (i)
            assert_int_equal(receive(1, 0, 0), 0);
        const struct ibv_wc wc = take(sides[1]->recv_cq);
        const uint32_t id = ntohl(wc.imm_data);
        assert_true(wc.status == IBV_WC_SUCCESS && id < ROOM && !seen[id]);
        assert_int_equal(wc.byte_len, 1000 + id);
        seen[id] = true;
    }
    for (unsigned i = 0; i < ROOM; i++)
        assert_int_equal(take(sides[0]->send_cq).status, IBV_WC_SUCCESS);
    assert_empty(sides[1]->recv_cq);
    close_both();
}

static void rd_told__send_with_invalidate(void **state)
{
    (void)state;
    open_both(true);
    struct ibv_mr *mr =
        ibv_reg_mr(sides[1]->pd, sides[1]->memory, 1000, IBV_ACCESS_LOCAL_WRITE | ALL_ACCESS);
    assert_non_null(mr);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(receive(i, 2000, 60), 0);
        assert_int_equal(post_keyed(IBV_WR_SEND_WITH_INV, 3, 20, 0, mr->rkey, IBV_SEND_SIGNALED),
                         0);
        assert_int_equal(done(3, IBV_WC_SUCCESS).opcode, IBV_WC_SEND);
        const struct ibv_wc wc = take(sides[1]->recv_cq);
        assert_true(wc.wr_id == i && wc.status == IBV_WC_SUCCESS && wc.byte_len == 60);
        assert_int_equal(wc.wc_flags, IBV_WC_GRH | (i ? 0 : (unsigned)IBV_WC_WITH_INV));
        if (!i)
            assert_int_equal(wc.invalidated_rkey, mr->rkey);
        assert_memory_equal(sides[1]->memory + 2040, sides[0]->memory, 20);
    }
    assert_int_equal(post_keyed(IBV_WR_RDMA_READ, 4, 20, 0, mr->rkey, IBV_SEND_SIGNALED), 0);
    (void)done(4, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    close_both();
}

/* By ibv_post_send(). */
static int post_verbs(enum ibv_wr_opcode opcode, unsigned flags)
{
    struct ibv_sge sge = {address_in(sides[0], 0), 8, sides[0]->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 8,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED | flags,
                             .wr.ud = {sides[0]->ah, sides[1]->qp->qp_num, QKEY}},
                       *bad;
    return ibv_post_send(sides[0]->qp, &wr, &bad);
}

static void take_event(void)
{
    struct pollfd told = {.fd = sides[1]->channel->fd, .events = POLLIN};
    struct ibv_cq *cq;
    void *cq_context;
    assert_int_equal(poll(&told, 1, 10000), 1);
    assert_int_equal(ibv_get_cq_event(sides[1]->channel, &cq, &cq_context), 0);
    assert_ptr_equal(cq, sides[1]->recv_cq);
    ibv_ack_cq_events(cq, 1);
}

static void rd_told__who_waits_for_solicited_ones(void **state)
{
    (void)state;
    const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV};
    open_both(true);
    struct pollfd told = {.fd = sides[1]->channel->fd, .events = POLLIN};
    for (unsigned i = 0; i < sizeof opcodes / sizeof *opcodes; i++) {
        assert_int_equal(ibv_req_notify_cq(sides[1]->recv_cq, 1), 0);
        assert_int_equal(receive(1, 0, 48), 0);
        assert_int_equal(receive(2, 0, 48), 0);
        assert_int_equal(post_verbs(opcodes[i], 0), 0);
        (void)done(8, IBV_WC_SUCCESS);
        assert_int_equal(poll(&told, 1, 50), 0);
        assert_int_equal(post_verbs(opcodes[i], IBV_SEND_SOLICITED), 0);
        take_event();
        (void)done(8, IBV_WC_SUCCESS);
        for (unsigned k = 0; k < 2; k++)
            assert_int_equal(take(sides[1]->recv_cq).status, IBV_WC_SUCCESS);
    }
    for (unsigned solicited = 0; solicited < 2; solicited++) {
        assert_int_equal(ibv_req_notify_cq(sides[1]->recv_cq, 1), 0);
        assert_int_equal(receive(1, 0, 0), 0);
        assert_int_equal(post_keyed(IBV_WR_RDMA_WRITE_WITH_IMM, 9, 100, 0, sides[1]->mr->rkey,
                                    IBV_SEND_SIGNALED | (solicited ? IBV_SEND_SOLICITED : 0)),
                         0);
        (void)done(9, IBV_WC_SUCCESS);
        if (solicited)
            take_event();
        else
            assert_int_equal(poll(&told, 1, 50), 0);
        assert_int_equal(take(sides[1]->recv_cq).status, IBV_WC_SUCCESS);
    }
    close_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rd_told__write_with_immediate_data),
        cmocka_unit_test_setup_teardown(rd_told__write_with_immediate_data, shift_all, shift_none),
        cmocka_unit_test(rd_told__several_elements_and_inline),
        cmocka_unit_test(rd_told__refused_or_without_a_receive),
        cmocka_unit_test(rd_told__send_with_invalidate),
        cmocka_unit_test(rd_told__who_waits_for_solicited_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
