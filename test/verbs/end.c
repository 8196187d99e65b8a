/* SPDX-License-Identifier: BSD-3-Clause */
#include "test/verbs/end.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct ibv_context *open_diwarp(void)
{
    int count;
    struct ibv_context *context = NULL;
    struct ibv_device **list = ibv_get_device_list(&count);
    assert_non_null(list);
    assert_null(list[count]);
    for (int i = 0; i < count; i++)
        if (!strcmp(ibv_get_device_name(list[i]), "diwarp0"))
            context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    assert_non_null(context);
    return context;
}

struct ibv_qp_init_attr attr_of(const struct end *end)
{
    return (struct ibv_qp_init_attr){.send_cq = end->send_cq,
                                     .recv_cq = end->recv_cq,
                                     .cap = {.max_send_wr = MAX_SENDS,
                                             .max_recv_wr = 8,
                                             .max_send_sge = 2,
                                             .max_recv_sge = 3,
                                             .max_inline_data = 64},
                                     .qp_type = IBV_QPT_UD};
}

int modify(struct end *end, enum ibv_qp_state state, int mask)
{
    struct ibv_qp_attr attr = {.qp_state = state, .qkey = QKEY, .port_num = 1};
    return ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | mask);
}

enum ibv_qp_state state_of(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(qp->state, attr.qp_state);
    return attr.qp_state;
}

void make_ready(struct end *end)
{
    assert_int_equal(modify(end, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    assert_int_equal(modify(end, IBV_QPS_RTR, 0), 0);
    assert_int_equal(modify(end, IBV_QPS_RTS, IBV_QP_SQ_PSN), 0);
    assert_int_equal(end->qp->state, IBV_QPS_RTS);
}

struct end *open_end(int cqe)
{
    struct end *end = calloc(1, sizeof *end);
    struct ibv_ah_attr ah = {.port_num = 1, .is_global = 1};
    assert_non_null(end);
    end->context = open_diwarp();
    end->pd = ibv_alloc_pd(end->context);
    end->channel = ibv_create_comp_channel(end->context);
    end->send_cq = ibv_create_cq(end->context, cqe, NULL, NULL, 0);
    end->recv_cq = ibv_create_cq(end->context, cqe, end, end->channel, 0);
    struct ibv_qp_init_attr attr = attr_of(end);
    end->qp = ibv_create_qp(end->pd, &attr);
    end->mr = ibv_reg_mr(end->pd, end->memory, sizeof end->memory, IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(ibv_query_gid(end->context, 1, 0, &ah.grh.dgid), 0);
    end->ah = ibv_create_ah(end->pd, &ah);
    assert_true(end->pd && end->channel && end->send_cq && end->recv_cq && end->qp && end->mr &&
                end->ah);
    return end;
}

void close_end(struct end *end)
{
    assert_int_equal(ibv_destroy_cq(end->recv_cq), EBUSY);
    assert_int_equal(ibv_destroy_qp(end->qp), 0);
    assert_int_equal(ibv_destroy_ah(end->ah), 0);
    assert_int_equal(ibv_dealloc_pd(end->pd), EBUSY);
    assert_int_equal(ibv_dereg_mr(end->mr), 0);
    assert_int_equal(ibv_close_device(end->context), EBUSY);
    assert_int_equal(ibv_dealloc_pd(end->pd), 0);
    assert_int_equal(ibv_destroy_comp_channel(end->channel), EBUSY);
    assert_int_equal(ibv_destroy_cq(end->send_cq), 0);
    assert_int_equal(ibv_destroy_cq(end->recv_cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(end->channel), 0);
    assert_int_equal(ibv_close_device(end->context), 0);
    free(end);
}

union ibv_gid gid_of(const uint8_t ip[4])
{
    union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};
    memcpy(gid.raw + 12, ip, 4);
    return gid;
}

int post_recv(struct end *end, uint64_t id, uint32_t at, uint32_t bytes)
{
    struct ibv_sge sge = {(uintptr_t)end->memory + at, bytes, end->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
    return ibv_post_recv(end->qp, &wr, &bad);
}

int post_send(struct end *end, struct ibv_ah *ah, uint32_t qkey, uint32_t lkey)
{
    struct ibv_sge sge = {(uintptr_t)end->memory, BYTES, lkey};
    struct ibv_send_wr wr = {.wr_id = 7,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND_WITH_IMM,
                             .send_flags = IBV_SEND_SIGNALED,
                             .imm_data = 0x01020304,
                             .wr.ud = {ah, end->qp->qp_num, qkey}},
                       *bad = NULL;
    const int rc = ibv_post_send(end->qp, &wr, &bad);
    assert_ptr_equal(bad, rc ? &wr : NULL);
    return rc;
}

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct ibv_wc take(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    for (unsigned i = 0; i < 2000; i++) {
        const int n = ibv_poll_cq(cq, 1, &wc);
        assert_true(n >= 0);
        if (n)
            return wc;
        poll(NULL, 0, 1);
    }
    fail_msg("no completion");
    return wc;
}

void assert_empty(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
        poll(NULL, 0, 1);
    }
}
