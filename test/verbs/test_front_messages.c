/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: Sends and receives, good ones and bad. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "test/verbs/end.h"

static void send__comes_with_its_grh(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    make_ready(end);
    for (unsigned i = 0; i < BYTES; i++)
        end->memory[i] = (uint8_t)(i * 3 + 1);
    struct ibv_sge sges[] = {{(uintptr_t)end->memory + 1024, 30, end->mr->lkey},
                             {(uintptr_t)end->memory + 2048, 20, end->mr->lkey},
                             {(uintptr_t)end->memory + 3072, 300, end->mr->lkey}};
    struct ibv_recv_wr wr = {.wr_id = 5, .sg_list = sges, .num_sge = 3}, *bad;
    assert_int_equal(ibv_post_recv(end->qp, &wr, &bad), 0);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    assert_int_equal(take(end->send_cq).wr_id, 7);
    struct ibv_wc wc = take(end->recv_cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.wr_id, 5);
    assert_int_equal(wc.byte_len, 40 + BYTES);
    assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
    assert_int_equal(wc.imm_data, 0x01020304);
    assert_int_equal(wc.src_qp, end->qp->qp_num);
    assert_memory_equal(end->memory + 2048 + 10, end->memory, 10);
    assert_memory_equal(end->memory + 3072, end->memory + 10, BYTES - 10);
    struct ibv_grh grh;
    union ibv_gid gid;
    memcpy(&grh, end->memory + 1024, 30);
    memcpy((uint8_t *)&grh + 30, end->memory + 2048, 10);
    assert_int_equal(ibv_query_gid(end->context, 1, 0, &gid), 0);
    assert_memory_equal(&grh.sgid, &gid, sizeof gid);
    assert_memory_equal(&grh.dgid, &gid, sizeof gid);
    struct ibv_ah *back = ibv_create_ah_from_wc(end->pd, &wc, &grh, 1);
    assert_non_null(back);
    assert_int_equal(post_recv(end, 6, 1024, 40 + BYTES), 0);
    assert_int_equal(post_send(end, back, QKEY, end->mr->lkey), 0);
    assert_int_equal(take(end->recv_cq).wr_id, 6);
    assert_int_equal(ibv_destroy_ah(back), 0);
    close_end(end);
}

static void qkey__another_is_dropped(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    make_ready(end);
    assert_int_equal(post_recv(end, 1, 1024, 40 + BYTES), 0);
    assert_int_equal(post_send(end, end->ah, QKEY + 1, end->mr->lkey), 0);
    assert_empty(end->recv_cq);
    assert_int_equal(post_send(end, end->ah, 1u << 31, end->mr->lkey), 0); /* our own */
    assert_int_equal(take(end->recv_cq).status, IBV_WC_SUCCESS);
    close_end(end);
}

static void recv__too_short(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    make_ready(end);
    memset(end->memory + 1024, 0xaa, 400);
    assert_int_equal(post_recv(end, 1, 1024, 40 + BYTES - 1), 0);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    assert_int_equal(take(end->recv_cq).status, IBV_WC_LOC_LEN_ERR);
    assert_int_equal(end->memory[1024 + 40 + BYTES - 1], 0xaa);
    close_end(end);
}

static void send__with_a_wrong_key(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    make_ready(end);
    assert_int_equal(post_recv(end, 1, 1024, 40 + BYTES), 0);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey + 1), 0);
    assert_int_equal(take(end->send_cq).status, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    assert_int_equal(take(end->send_cq).status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(modify(end, IBV_QPS_RTS, 0), 0);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    assert_int_equal(take(end->send_cq).status, IBV_WC_SUCCESS);
    assert_int_equal(take(end->recv_cq).wr_id, 1);
    struct ibv_sge sge = {(uintptr_t)end->memory, BYTES, 1};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(ibv_post_recv(end->qp, &wr, &bad), EINVAL);
    sge.lkey = 0;
    assert_int_equal(ibv_post_recv(end->qp, &wr, &bad), EINVAL);
    assert_int_equal(post_send(end, end->ah, QKEY, 0), 0);
    assert_int_equal(take(end->send_cq).status, IBV_WC_LOC_PROT_ERR);
    close_end(end);
}

static void send__too_long(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    make_ready(end);
    struct ibv_sge sges[] = {{(uintptr_t)end->memory, sizeof end->memory, end->mr->lkey},
                             {(uintptr_t)end->memory, 1, end->mr->lkey}};
    struct ibv_send_wr wr = {.sg_list = sges,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.ud = {end->ah, end->qp->qp_num, QKEY}},
                       *bad;
    assert_int_equal(ibv_post_send(end->qp, &wr, &bad), 0);
    assert_int_equal(take(end->send_cq).status, IBV_WC_SUCCESS);
    wr.num_sge = 2;
    assert_int_equal(ibv_post_send(end->qp, &wr, &bad), 0);
    assert_int_equal(take(end->send_cq).status, IBV_WC_LOC_LEN_ERR);
    assert_int_equal(state_of(end->qp), IBV_QPS_SQE);
    close_end(end);
}

/* test/verbs/run prohibits this address: the socket's EACCES is no fault of the request. */
static void send__to_where_none_may_go(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1};
    make_ready(end);
    attr.grh.dgid = gid_of((const uint8_t[]){127, 99, 0, 1});
    struct ibv_ah *ah = ibv_create_ah(end->pd, &attr);
    assert_non_null(ah);
    assert_int_equal(post_send(end, ah, QKEY, end->mr->lkey), 0);
    assert_int_equal(take(end->send_cq).status, IBV_WC_SUCCESS);
    assert_int_equal(state_of(end->qp), IBV_QPS_RTS);
    assert_int_equal(post_send(end, ah, QKEY, end->mr->lkey + 1), 0);
    assert_int_equal(take(end->send_cq).status, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    close_end(end);
}

/* A queue pair of InfiniBand's that we lack, and a group's to one process: lost on its way. */
static void send__to_a_number_that_nobody_has(void **state)
{
    static const uint32_t numbers[] = {0, 1, 0xffffff};
    (void)state;
    struct end *end = open_end(8);
    make_ready(end);
    assert_int_equal(post_recv(end, 1, 1024, 40 + BYTES), 0);
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct ibv_sge sge = {(uintptr_t)end->memory, BYTES, end->mr->lkey};
        struct ibv_send_wr wr = {.sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_SEND,
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .wr.ud = {end->ah, numbers[i], QKEY}},
                           *bad;
        assert_int_equal(ibv_post_send(end->qp, &wr, &bad), 0);
        assert_int_equal(take(end->send_cq).status, IBV_WC_SUCCESS);
        assert_empty(end->recv_cq);
        wr.wr.ud.remote_qpn = 0x1000000;
        assert_int_equal(ibv_post_send(end->qp, &wr, &bad), EINVAL);
    }
    close_end(end);
}

/* Neither an address of the PD, nor an opcode that UD has, nor too many elements; what is before it
 * is sent.
 */
static void send__malformed_in_a_list(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    make_ready(end);
    struct end *other = open_end(8);
    struct ibv_sge sges[3] = {{(uintptr_t)end->memory, 10, end->mr->lkey}};
    const struct ibv_send_wr good = {.wr_id = 1,
                                     .sg_list = sges,
                                     .num_sge = 1,
                                     .opcode = IBV_WR_SEND,
                                     .send_flags = IBV_SEND_SIGNALED,
                                     .wr.ud = {end->ah, end->qp->qp_num, QKEY}};
    struct ibv_pd *pd = ibv_alloc_pd(end->context);
    struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1};
    assert_int_equal(ibv_query_gid(end->context, 1, 0, &attr.grh.dgid), 0);
    struct ibv_ah *ah = ibv_create_ah(pd, &attr);
    assert_non_null(ah);
    for (unsigned i = 0; i < 6; i++) {
        struct ibv_send_wr list[2] = {good, good}, *bad = NULL;
        list[0].next = &list[1];
        if (i == 0)
            list[1].wr.ud.ah = NULL;
        else if (i == 1)
            list[1].opcode = IBV_WR_RDMA_READ;
        else if (i == 2)
            list[1].num_sge = 3;
        else if (i == 3)
            list[1].wr.ud.ah = other->ah;
        else if (i == 4)
            list[1].wr.ud.ah = ah;
        else
            list[1].num_sge = -1;
        assert_int_equal(ibv_post_send(end->qp, &list[0], &bad), EINVAL);
        assert_ptr_equal(bad, &list[1]);
        assert_int_equal(take(end->send_cq).status, IBV_WC_SUCCESS);
    }
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    close_end(end);
    close_end(other);
}

/* A Send whose completion has not been polled takes a place in the queue; one without does not. */
static void send__into_a_full_queue(void **state)
{
    (void)state;
    struct end *end = open_end(2 * MAX_SENDS);
    make_ready(end);
    struct ibv_sge sge = {(uintptr_t)end->memory, BYTES, end->mr->lkey};
    struct ibv_send_wr list[MAX_SENDS + 1], *bad;
    for (unsigned i = 0; i <= MAX_SENDS; i++)
        list[i] = (struct ibv_send_wr){.wr_id = i,
                                       .next = i < MAX_SENDS ? &list[i + 1] : NULL,
                                       .sg_list = &sge,
                                       .num_sge = 1,
                                       .opcode = IBV_WR_SEND,
                                       .wr.ud = {end->ah, end->qp->qp_num, QKEY}};
    assert_int_equal(ibv_post_send(end->qp, list, &bad), 0);
    for (unsigned i = 0; i <= MAX_SENDS; i++)
        list[i].send_flags = IBV_SEND_SIGNALED;
    assert_int_equal(ibv_post_send(end->qp, list, &bad), ENOMEM);
    assert_ptr_equal(bad, &list[MAX_SENDS]);
    assert_int_equal(take(end->send_cq).wr_id, 0);
    assert_int_equal(ibv_post_send(end->qp, bad, &bad), 0);
    assert_int_equal(ibv_post_send(end->qp, bad, &bad), ENOMEM);
    assert_int_equal(modify(end, IBV_QPS_ERR, 0), 0);
    assert_int_equal(ibv_post_send(end->qp, bad, &bad), ENOMEM);
    for (unsigned i = 1; i <= MAX_SENDS; i++)
        assert_int_equal(take(end->send_cq).wr_id, i);
    assert_int_equal(ibv_post_send(end->qp, list, &bad), ENOMEM);
    assert_int_equal(modify(end, IBV_QPS_RESET, 0), 0); /* empties it */
    make_ready(end);
    assert_int_equal(ibv_post_send(end->qp, list, &bad), ENOMEM);
    assert_ptr_equal(bad, &list[MAX_SENDS]);
    close_end(end);
}

/* By nobody's poll. */
static void assert_comes(const volatile uint8_t *last)
{
    for (unsigned ms = 0; ms < 2000 && *last != 'x'; ms++)
        usleep(1000);
    assert_int_equal(*last, 'x');
}

/* It waits for more, but not for long. */
static void send__many_and_no_poll__all_leave(void **state)
{
    (void)state;
    enum { SENDS = 8, RECV_BYTES = 40 + BYTES };
    struct end *end = open_end(64);
    make_ready(end);
    memset(end->memory, 'x', BYTES);
    for (unsigned i = 0; i < SENDS; i++)
        assert_int_equal(post_recv(end, i, 1024 + i * RECV_BYTES, RECV_BYTES), 0);
    for (unsigned i = 0; i < SENDS; i++)
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    assert_comes(end->memory + 1024 + SENDS * RECV_BYTES - 1);
    close_end(end);
}

/* refused: the second one by the post; else by a completion, for its key. */
static void leave_before_a_wrong_one(bool refused)
{
    struct end *end = open_end(8);
    make_ready(end);
    struct ibv_sge sges[2] = {{(uintptr_t)end->memory, BYTES, end->mr->lkey},
                              {(uintptr_t)end->memory, BYTES, end->mr->lkey ^ 0x5a5a}};
    struct ibv_send_wr wrs[2], *bad;
    for (unsigned i = 0; i < 2; i++)
        wrs[i] = (struct ibv_send_wr){.sg_list = &sges[i],
                                      .num_sge = 1,
                                      .opcode = IBV_WR_SEND,
                                      .wr.ud = {end->ah, end->qp->qp_num, QKEY}};
    wrs[0].next = &wrs[1];
    if (refused)
        wrs[1].wr.ud.ah = NULL;
    memset(end->memory, 'x', BYTES);
    assert_int_equal(post_recv(end, 1, 1024, 40 + BYTES), 0);
    assert_int_equal(ibv_post_send(end->qp, wrs, &bad), refused ? EINVAL : 0);
    assert_comes(end->memory + 1024 + 40 + BYTES - 1);
    close_end(end);
}

static void send__before_a_wrong_one_in_a_list__leaves(void **state)
{
    (void)state;
    leave_before_a_wrong_one(true);
    leave_before_a_wrong_one(false);
}

static void wr__is_the_same(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = end->send_cq,
        .recv_cq = end->recv_cq,
        .cap = {.max_send_wr = 2,
                .max_recv_wr = 2,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 64},
        .qp_type = IBV_QPT_UD,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = end->pd,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM};
    assert_null(ibv_qp_to_qp_ex(end->qp));
    assert_int_equal(ibv_destroy_qp(end->qp), 0);
    end->qp = ibv_create_qp_ex(end->context, &attr);
    assert_non_null(end->qp);
    make_ready(end);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(end->qp);
    assert_int_equal(post_recv(end, 1, 1024, 140), 0);
    assert_int_equal(post_recv(end, 2, 2048, 140), 0);
    memcpy(end->memory, "first second", 13);
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    ibv_wr_abort(ex);
    ibv_wr_start(ex);
    ex->wr_id = 1;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex);
    ibv_wr_set_ud_addr(ex, end->ah, end->qp->qp_num, QKEY);
    ibv_wr_set_sge(ex, end->mr->lkey, (uintptr_t)end->memory, 5);
    ibv_wr_send_imm(ex, 9);
    ibv_wr_set_ud_addr(ex, end->ah, end->qp->qp_num, QKEY);
    ibv_wr_set_inline_data(ex, end->memory + 6, 6);
    assert_int_equal(ibv_wr_complete(ex), 0);
    assert_int_equal(take(end->recv_cq).byte_len, 45);
    assert_int_equal(take(end->recv_cq).imm_data, 9);
    assert_memory_equal(end->memory + 1024 + 40, "first", 5);
    assert_memory_equal(end->memory + 2048 + 40, "second", 6);
    ibv_wr_start(ex);
    for (unsigned i = 0; i < 3; i++)
        ibv_wr_send(ex);
    assert_int_equal(ibv_wr_complete(ex), ENOMEM);
    /* All or none: the second one is malformed; then there is one place for two. */
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(take(end->send_cq).wr_id, 1);
    for (unsigned i = 0; i < 2; i++) {
        if (i == 1)
            assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
        ibv_wr_start(ex);
        for (unsigned j = 0; j < 2; j++) {
            ibv_wr_send(ex);
            ibv_wr_set_ud_addr(ex, i || !j ? end->ah : NULL, end->qp->qp_num, QKEY);
            ibv_wr_set_sge(ex, end->mr->lkey, (uintptr_t)end->memory, 5);
        }
        assert_int_equal(ibv_wr_complete(ex), i ? ENOMEM : EINVAL);
    }
    assert_int_equal(take(end->send_cq).wr_id, 7);
    assert_empty(end->send_cq);
    close_end(end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send__comes_with_its_grh),
        cmocka_unit_test(qkey__another_is_dropped),
        cmocka_unit_test(recv__too_short),
        cmocka_unit_test(send__with_a_wrong_key),
        cmocka_unit_test(send__too_long),
        cmocka_unit_test(send__to_where_none_may_go),
        cmocka_unit_test(send__to_a_number_that_nobody_has),
        cmocka_unit_test(send__malformed_in_a_list),
        cmocka_unit_test(send__into_a_full_queue),
        cmocka_unit_test(send__many_and_no_poll__all_leave),
        cmocka_unit_test(send__before_a_wrong_one_in_a_list__leaves),
        cmocka_unit_test(wr__is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
