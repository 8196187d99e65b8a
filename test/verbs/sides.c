/* SPDX-License-Identifier: BSD-3-Clause */
#include "test/verbs/sides.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdlib.h>

struct side *sides[2];
unsigned sge_max = 2;
static uint64_t shift;

uint64_t address_in(const struct side *side, uint32_t at)
{
    return (uintptr_t)side->memory + shift + at;
}

int shift_all(void **state)
{
    (void)state;
    shift = UINT64_C(1) << 40;
    return 0;
}

int shift_none(void **state)
{
    (void)state;
    shift = 0;
    return 0;
}

void *find(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    assert_non_null(function);
    return function;
}

struct ibv_qp_init_attr_ex attr_for(const struct side *side)
{
    return (struct ibv_qp_init_attr_ex){
        .send_cq = side->send_cq,
        .recv_cq = side->recv_cq,
        .cap = {.max_send_wr = ROOM,
                .max_recv_wr = ROOM,
                .max_send_sge = sge_max,
                .max_recv_sge = sge_max,
                .max_inline_data = 64},
        .qp_type = IBV_QPT_UD,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = side->pd,
        .send_ops_flags =
            IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ};
}

static struct side *side_open(bool rd)
{
    FOUND(create_rd_qp);
    struct side *side = calloc(1, sizeof *side);
    struct ibv_ah_attr ah = {.port_num = 1, .is_global = 1};
    assert_non_null(side);
    side->context = open_diwarp();
    side->pd = ibv_alloc_pd(side->context);
    side->send_cq = ibv_create_cq(side->context, 64, NULL, NULL, 0);
    assert_non_null(side->channel = ibv_create_comp_channel(side->context));
    side->recv_cq = ibv_create_cq(side->context, 64, NULL, side->channel, 0);
    struct ibv_qp_init_attr_ex attr = attr_for(side);
    if (rd)
        attr.send_ops_flags |= IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                               IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                               IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
    side->qp = rd ? create_rd_qp(side->context, &attr) : ibv_create_qp_ex(side->context, &attr);
    assert_non_null(side->qp);
    assert_int_equal(side->qp->qp_type, rd ? IBV_QPT_DRIVER : IBV_QPT_UD);
    side->mr = ibv_reg_mr_iova(side->pd, side->memory, sizeof side->memory, address_in(side, 0),
                               ALL_ACCESS);
    assert_int_equal(ibv_query_gid(side->context, 1, 0, &ah.grh.dgid), 0);
    side->ah = ibv_create_ah(side->pd, &ah);
    assert_true(side->mr && side->ah);
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .qkey = QKEY, .port_num = 1};
    const int mask = IBV_QP_STATE;
    assert_int_equal(
        ibv_modify_qp(side->qp, &to, mask | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    to.qp_state = IBV_QPS_RTR;
    assert_int_equal(ibv_modify_qp(side->qp, &to, mask), 0);
    to.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(side->qp, &to, mask | IBV_QP_SQ_PSN), 0);
    return side;
}

static void side_close(struct side *side)
{
    if (side->qp)
        assert_int_equal(ibv_destroy_qp(side->qp), 0);
    assert_int_equal(ibv_destroy_ah(side->ah), 0);
    assert_int_equal(ibv_dereg_mr(side->mr), 0);
    assert_int_equal(ibv_dealloc_pd(side->pd), 0);
    assert_int_equal(ibv_destroy_cq(side->send_cq), 0);
    assert_int_equal(ibv_destroy_cq(side->recv_cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(side->channel), 0);
    assert_int_equal(ibv_close_device(side->context), 0);
    free(side);
}

void open_both(bool rd)
{
    for (unsigned i = 0; i < 2; i++)
        sides[i] = side_open(rd);
    for (unsigned i = 0; i < LARGE; i++) {
        sides[0]->memory[i] = (uint8_t)(i * 7 + i / 251);
        sides[1]->memory[i] = (uint8_t)(i * 3 + i / 241);
    }
}

void close_both(void)
{
    for (unsigned i = 0; i < 2; i++)
        side_close(sides[i]);
}

int post_keyed(enum ibv_wr_opcode opcode, uint64_t id, uint32_t bytes, uint32_t at, uint32_t rkey,
               unsigned flags)
{
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(sides[0]->qp);
    const uint64_t remote = address_in(sides[1], at);
    ibv_wr_start(ex);
    ex->wr_id = id;
    ex->wr_flags = flags;
    if (opcode == IBV_WR_RDMA_WRITE)
        ibv_wr_rdma_write(ex, rkey, remote);
    else if (opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
        ibv_wr_rdma_write_imm(ex, rkey, remote, htonl((uint32_t)id));
    else if (opcode == IBV_WR_SEND_WITH_INV)
        ibv_wr_send_inv(ex, rkey);
    else if (opcode == IBV_WR_RDMA_READ)
        ibv_wr_rdma_read(ex, rkey, remote);
    else if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        ibv_wr_atomic_fetch_add(ex, rkey, remote, 5);
    else
        ibv_wr_send(ex);
    ibv_wr_set_ud_addr(ex, sides[0]->ah, sides[1]->qp->qp_num, QKEY);
    ibv_wr_set_sge(ex, sides[0]->mr->lkey, address_in(sides[0], 0), bytes);
    return ibv_wr_complete(ex);
}

int post(enum ibv_wr_opcode opcode, uint64_t id, uint32_t bytes, uint32_t at)
{
    return post_keyed(opcode, id, bytes, at, sides[1]->mr->rkey, IBV_SEND_SIGNALED);
}

struct ibv_wc done(uint64_t id, enum ibv_wc_status status)
{
    struct ibv_wc wc;
    for (unsigned i = 0; i < 100000; i++) {
        assert_int_equal(ibv_poll_cq(sides[1]->send_cq, 1, &wc), 0);
        const int n = ibv_poll_cq(sides[0]->send_cq, 1, &wc);
        assert_true(n >= 0);
        if (!n)
            continue;
        assert_int_equal(wc.wr_id, id);
        assert_int_equal(wc.status, status);
        return wc;
    }
    wc = take(sides[0]->send_cq);
    assert_int_equal(wc.wr_id, id);
    assert_int_equal(wc.status, status);
    return wc;
}

int receive(uint64_t id, uint32_t at, uint32_t bytes)
{
    struct ibv_sge sge = {address_in(sides[1], at), bytes, sides[1]->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
    return ibv_post_recv(sides[1]->qp, &wr, &bad);
}
