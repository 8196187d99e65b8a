/* SPDX-License-Identifier: BSD-3-Clause */
#include "test/verbs/rc_pair.h"

#include <arpa/inet.h>
#include <stdlib.h>

void pair_open_qps(struct pair *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        struct ibv_qp_init_attr attr = {.send_cq = pair->send_cq[i],
                                        .recv_cq = pair->recv_cq[i],
                                        .srq = i ? pair->srq : NULL,
                                        .cap = {.max_send_wr = ROOM,
                                                .max_recv_wr = ROOM,
                                                .max_send_sge = SGES,
                                                .max_recv_sge = SGES,
                                                .max_inline_data = 64},
                                        .qp_type = pair->type[i]};
        pair->qp[i] = ibv_create_qp(pair->pd, &attr);
        assert_non_null(pair->qp[i]);
    }
}

struct pair *pair_open(bool with_srq)
{
    struct pair *pair = calloc(1, sizeof *pair);
    assert_non_null(pair);
    pair->type[0] = pair->type[1] = IBV_QPT_RC;
    pair->rnr_retry = 7;
    pair->min_rnr_timer = 1;
    pair->context = open_diwarp();
    pair->pd = ibv_alloc_pd(pair->context);
    for (unsigned i = 0; i < 2; i++) {
        pair->send_cq[i] = ibv_create_cq(pair->context, 64, NULL, NULL, 0);
        pair->recv_cq[i] = ibv_create_cq(pair->context, 64, NULL, NULL, 0);
    }
    pair->mr = ibv_reg_mr(pair->pd, pair->memory, sizeof pair->memory, ALL_ACCESS);
    assert_int_equal(ibv_query_gid(pair->context, 1, 0, &pair->gid), 0);
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = ROOM, .max_sge = 1}};
    if (with_srq)
        pair->srq = ibv_create_srq(pair->pd, &attr);
    assert_true(pair->mr && (pair->srq || !with_srq));
    pair_open_qps(pair);
    return pair;
}

void pair_close(struct pair *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        if (pair->qp[i])
            assert_int_equal(ibv_destroy_qp(pair->qp[i]), 0);
        assert_int_equal(ibv_destroy_cq(pair->send_cq[i]), 0);
        assert_int_equal(ibv_destroy_cq(pair->recv_cq[i]), 0);
    }
    if (pair->srq)
        assert_int_equal(ibv_destroy_srq(pair->srq), 0);
    assert_int_equal(ibv_dereg_mr(pair->mr), 0);
    assert_int_equal(ibv_dealloc_pd(pair->pd), 0);
    assert_int_equal(ibv_close_device(pair->context), 0);
    free(pair);
}

void pair_init(struct ibv_qp *qp, unsigned access)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
    assert_int_equal(
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
}

static int to_rtr(const struct pair *pair, struct ibv_qp *qp, uint32_t other)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = other,
        .max_dest_rd_atomic = 1,
        .ah_attr = {.port_num = 1, .is_global = !pair->lid, .dlid = pair->lid}};
    attr.ah_attr.grh.dgid = pair->gid;
    attr.ah_attr.grh.sgid_index = pair->gid_index;
    attr.min_rnr_timer = pair->min_rnr_timer;
    const int rc = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | (qp->qp_type == IBV_QPT_RC ? rc : 0));
}

void pair_connect_to(const struct pair *pair, struct ibv_qp *qp, uint32_t other)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .max_rd_atomic = 1,
                               .rnr_retry = pair->rnr_retry,
                               .timeout = pair->timeout};
    const int rc = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    const int mask = IBV_QP_STATE | IBV_QP_SQ_PSN | (qp->qp_type == IBV_QPT_RC ? rc : 0);
    assert_int_equal(to_rtr(pair, qp, other), 0);
    assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
}

void pair_connect(const struct pair *pair, unsigned access)
{
    for (unsigned i = 0; i < 2; i++)
        pair_init(pair->qp[i], access);
    for (unsigned i = 0; i < 2; i++)
        pair_connect_to(pair, pair->qp[i], pair->qp[!i]->qp_num);
}

/* The first bytes of memory[i]. */
void pair_post(struct pair *pair, unsigned i, enum ibv_wr_opcode opcode, uint64_t id,
               uint32_t bytes)
{
    struct ibv_sge sge = {(uintptr_t)pair->memory[i], bytes, pair->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = id,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED,
                             .imm_data = htonl(0x01020304)},
                       *bad;
    if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = (uintptr_t)pair->memory[!i] + 4096;
        wr.wr.atomic.rkey = pair->mr->rkey;
        wr.wr.atomic.compare_add = 5;
        wr.wr.atomic.swap = 77;
    } else if (opcode != IBV_WR_SEND && opcode != IBV_WR_SEND_WITH_IMM) {
        wr.wr.rdma.remote_addr = (uintptr_t)pair->memory[!i] + 4096;
        wr.wr.rdma.rkey = pair->mr->rkey;
    }
    assert_int_equal(ibv_post_send(pair->qp[i], &wr, &bad), 0);
}

void pair_receive(struct pair *pair, unsigned i, uint64_t id)
{
    struct ibv_sge sge = {(uintptr_t)pair->memory[i] + 8192, 4096, pair->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
    if (i && pair->srq)
        assert_int_equal(ibv_post_srq_recv(pair->srq, &wr, &bad), 0);
    else
        assert_int_equal(ibv_post_recv(pair->qp[i], &wr, &bad), 0);
}

void assert_done(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
    const struct ibv_wc wc = take(cq);
    assert_int_equal(wc.wr_id, id);
    assert_int_equal(wc.status, status);
}
