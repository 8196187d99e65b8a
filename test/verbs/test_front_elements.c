/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: of an element counts what a message touches: no key where it has no bytes, and
 * of a receive no more than what came. */
#include <errno.h>
#include <string.h>

#include "test/verbs/rc_pair.h"
#include "test/verbs/sides.h"

#define LAST 100u /* bytes of the region before its end */

/* Of no bytes: without an address, out of the region, with a key that there is not. */
static struct ibv_sge empty(const struct ibv_mr *mr, unsigned kind)
{
    static const uint64_t addresses[] = {0, 1, UINT64_MAX};
    const struct ibv_sge sge = {.addr = addresses[kind % 3], .lkey = mr->lkey + kind / 3 * 77};
    return sge;
}

static void rc__elements_of_no_bytes(void **state)
{
    (void)state;
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
    struct pair *pair = pair_open(false);
    pair_connect(pair, ALL_ACCESS);
    for (unsigned i = 0; i < 3 * 6 * 2; i++) {
        const unsigned kind = i / 3 % 6;
        const bool alone = i >= 18;
        struct ibv_sge into[] = {empty(pair->mr, kind),
                                 {(uintptr_t)pair->memory[1], 4096, pair->mr->lkey},
                                 empty(pair->mr, kind)};
        struct ibv_recv_wr recv = {.wr_id = i, .sg_list = into, .num_sge = 3}, *bad_recv;
        struct ibv_sge from[] = {empty(pair->mr, kind),
                                 {(uintptr_t)pair->memory[0], 64, pair->mr->lkey}};
        struct ibv_send_wr wr = {.wr_id = i,
                                 .sg_list = from,
                                 .num_sge = alone ? 1 : 2,
                                 .opcode = opcodes[i % 3],
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .wr.rdma = {(uintptr_t)pair->memory[1] + 4096, pair->mr->rkey}},
                           *bad;
        if (wr.opcode == IBV_WR_SEND)
            assert_int_equal(ibv_post_recv(pair->qp[1], &recv, &bad_recv), 0);
        assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
        assert_done(pair->send_cq[0], i, IBV_WC_SUCCESS);
        if (wr.opcode == IBV_WR_SEND)
            assert_done(pair->recv_cq[1], i, IBV_WC_SUCCESS);
    }
    pair_close(pair);
}

static void ud_and_rd__elements_of_no_bytes(bool rd)
{
    open_both(rd);
    for (unsigned kind = 0; kind < 6; kind++) {
        struct ibv_sge into[] = {empty(sides[1]->mr, kind),
                                 {address_in(sides[1], 0), 100, sides[1]->mr->lkey}};
        struct ibv_recv_wr recv = {.wr_id = kind, .sg_list = into, .num_sge = 2}, *bad_recv;
        struct ibv_sge from[] = {{address_in(sides[0], 0), 60, sides[0]->mr->lkey},
                                 empty(sides[0]->mr, kind)};
        struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(sides[0]->qp);
        assert_int_equal(ibv_post_recv(sides[1]->qp, &recv, &bad_recv), 0);
        ibv_wr_start(ex);
        ex->wr_id = kind;
        ex->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send(ex);
        ibv_wr_set_ud_addr(ex, sides[0]->ah, sides[1]->qp->qp_num, QKEY);
        ibv_wr_set_sge_list(ex, 2, from);
        assert_int_equal(ibv_wr_complete(ex), 0);
        const struct ibv_wc wc = take(sides[1]->recv_cq);
        assert_true(wc.status == IBV_WC_SUCCESS && wc.wr_id == kind && wc.byte_len == 100);
        (void)done(kind, IBV_WC_SUCCESS);
        assert_memory_equal(sides[1]->memory + 40, sides[0]->memory, 60);
    }
    close_both();
}

static void ud__elements_of_no_bytes(void **state)
{
    (void)state;
    ud_and_rd__elements_of_no_bytes(false);
}

static void rd__elements_of_no_bytes(void **state)
{
    (void)state;
    ud_and_rd__elements_of_no_bytes(true);
}

/* Programs round the length of a receive up. */
static void rc__receive_beyond_its_region(bool shared)
{
    for (uint32_t bytes = LAST - 1; bytes <= LAST + 1; bytes++) {
        struct pair *pair = pair_open(shared);
        pair_connect(pair, ALL_ACCESS);
        uint8_t *at = pair->memory[1] + sizeof pair->memory[1] - LAST;
        struct ibv_sge sge = {(uintptr_t)at, 4096, pair->mr->lkey};
        struct ibv_recv_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1}, *bad;
        memset(pair->memory[0], 0x77, bytes);
        assert_int_equal(shared ? ibv_post_srq_recv(pair->srq, &wr, &bad)
                                : ibv_post_recv(pair->qp[1], &wr, &bad),
                         0);
        pair_post(pair, 0, IBV_WR_SEND, 1, bytes);
        const struct ibv_wc wc = take(pair->recv_cq[1]);
        assert_int_equal(wc.status, bytes > LAST ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
        assert_true(bytes > LAST || !memcmp(at, pair->memory[0], bytes));
        pair_close(pair);
    }
}

static void rc__receive_beyond_its_region__own(void **state)
{
    (void)state;
    rc__receive_beyond_its_region(false);
}

static void rc__receive_beyond_its_region__of_an_srq(void **state)
{
    (void)state;
    rc__receive_beyond_its_region(true);
}

static void ud_and_rd__receive_beyond_its_region(bool rd)
{
    FOUND(create_rd_qp);
    for (uint32_t bytes = LAST - 1; bytes <= LAST + 1; bytes++) {
        open_both(rd);
        struct ibv_srq_init_attr shared = {.attr = {.max_wr = ROOM, .max_sge = 2}};
        struct ibv_srq *srq = ibv_create_srq(sides[1]->pd, &shared);
        struct ibv_qp_init_attr_ex attr = attr_for(sides[1]);
        attr.srq = srq;
        assert_int_equal(ibv_destroy_qp(sides[1]->qp), 0);
        sides[1]->qp = rd ? create_rd_qp(sides[1]->context, &attr)
                          : ibv_create_qp_ex(sides[1]->context, &attr);
        struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .qkey = QKEY, .port_num = 1};
        assert_int_equal(
            ibv_modify_qp(sides[1]->qp, &to,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
            0);
        to.qp_state = IBV_QPS_RTR;
        assert_int_equal(ibv_modify_qp(sides[1]->qp, &to, IBV_QP_STATE), 0);
        struct ibv_sge sge = {address_in(sides[1], LARGE - LAST), 8192, sides[1]->mr->lkey};
        struct ibv_recv_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1}, *bad;
        assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
        assert_int_equal(post(IBV_WR_SEND, 1, bytes - 40, 0), 0);
        assert_int_equal(take(sides[1]->recv_cq).status,
                         bytes > LAST ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
        assert_int_equal(ibv_destroy_qp(sides[1]->qp), 0);
        sides[1]->qp = NULL;
        assert_int_equal(ibv_destroy_srq(srq), 0);
        close_both();
    }
}

static void ud__receive_beyond_its_region(void **state)
{
    (void)state;
    ud_and_rd__receive_beyond_its_region(false);
}

static void rd__receive_beyond_its_region(void **state)
{
    (void)state;
    ud_and_rd__receive_beyond_its_region(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc__elements_of_no_bytes),
        cmocka_unit_test(ud__elements_of_no_bytes),
        cmocka_unit_test(rd__elements_of_no_bytes),
        cmocka_unit_test(rc__receive_beyond_its_region__own),
        cmocka_unit_test(rc__receive_beyond_its_region__of_an_srq),
        cmocka_unit_test(ud__receive_beyond_its_region),
        cmocka_unit_test(rd__receive_beyond_its_region),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
