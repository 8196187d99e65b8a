/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: memory windows, and regions that are registered anew. */
#include <errno.h>

#include "test/verbs/rc_pair.h"

#define WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* 64 bytes of queue pair 0 to `at` of memory[1]. */
static void write_to(struct pair *pair, uint32_t rkey, uint32_t at, enum ibv_wc_status status)
{
    struct ibv_sge sge = {(uintptr_t)pair->memory[0], 64, pair->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 9,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {(uintptr_t)pair->memory[1] + at, rkey}},
                       *bad;
    assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
    assert_done(pair->send_cq[0], 9, status);
}

static void connect_anew(struct pair *pair)
{
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(ibv_modify_qp(pair->qp[i], &reset, IBV_QP_STATE), 0);
    pair_connect(pair, ALL_ACCESS);
}

static struct ibv_mr *bindable(struct pair *pair)
{
    struct ibv_mr *mr = ibv_reg_mr(pair->pd, pair->memory[1], sizeof pair->memory[1],
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    assert_non_null(mr);
    return mr;
}

static struct ibv_mw_bind_info info_of(struct pair *pair, struct ibv_mr *mr, uint64_t length)
{
    return (struct ibv_mw_bind_info){.mr = mr,
                                     .addr = mr ? (uintptr_t)pair->memory[1] + 4096 : 0,
                                     .length = length,
                                     .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
}

/* By queue pair 1. */
static void bind_first(struct pair *pair, struct ibv_mw *mw, struct ibv_mr *mr, uint64_t length,
                       enum ibv_wc_status status)
{
    struct ibv_mw_bind bind = {
        .wr_id = 3, .send_flags = IBV_SEND_SIGNALED, .bind_info = info_of(pair, mr, length)};
    const uint32_t before = mw->rkey;
    assert_int_equal(ibv_bind_mw(pair->qp[1], mw, &bind), 0);
    assert_int_not_equal(mw->rkey, before);
    const struct ibv_wc wc = take(pair->send_cq[1]);
    assert_int_equal(wc.wr_id, 3);
    assert_int_equal(wc.status, status);
    if (!status)
        assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
}

static void mw1__gives_a_part(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_mr *mr = bindable(pair);
    struct ibv_mw *mw = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_1);
    assert_non_null(mw);
    pair_connect(pair, ALL_ACCESS);
    write_to(pair, mw->rkey, 4096, IBV_WC_REM_ACCESS_ERR); /* not bound yet */
    connect_anew(pair);
    bind_first(pair, mw, mr, 4096, IBV_WC_SUCCESS);
    const uint32_t first = mw->rkey;
    write_to(pair, first, 4096, IBV_WC_SUCCESS);
    write_to(pair, first, 4096 + 4096 - 64, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dereg_mr(mr), EBUSY);
    write_to(pair, first, 4096 + 4096 - 63, IBV_WC_REM_ACCESS_ERR);
    connect_anew(pair);
    write_to(pair, first, 4095, IBV_WC_REM_ACCESS_ERR);
    connect_anew(pair);
    bind_first(pair, mw, mr, 4096, IBV_WC_SUCCESS);
    write_to(pair, first, 4096, IBV_WC_REM_ACCESS_ERR); /* the key before */
    connect_anew(pair);
    write_to(pair, mw->rkey, 4096, IBV_WC_SUCCESS);
    bind_first(pair, mw, NULL, 0, IBV_WC_SUCCESS); /* unbinds */
    write_to(pair, mw->rkey, 4096, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    pair_close(pair);
}

static void mw1__bad_binds(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_mr *mr = bindable(pair);
    struct ibv_mw *mw = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_1);
    struct ibv_mr *read_only = ibv_reg_mr(pair->pd, pair->memory[1], 1 << 16, IBV_ACCESS_MW_BIND);
    struct ibv_pd *other = ibv_alloc_pd(pair->context);
    struct ibv_mw *foreign = ibv_alloc_mw(other, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = {.bind_info = info_of(pair, mr, 64)};
    assert_null(ibv_alloc_mw(pair->pd, (enum ibv_mw_type)3));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_dealloc_pd(other), EBUSY);
    pair_connect(pair, ALL_ACCESS);
    assert_int_not_equal(ibv_bind_mw(pair->qp[1], foreign, &bind), 0);
    bind.bind_info.mw_access_flags = IBV_ACCESS_ON_DEMAND;
    assert_int_equal(ibv_bind_mw(pair->qp[1], mw, &bind), EINVAL);
    bind_first(pair, mw, pair->mr, 64, IBV_WC_MW_BIND_ERR); /* it does not allow that */
    assert_int_equal(state_of(pair->qp[1]), IBV_QPS_ERR);
    connect_anew(pair);
    bind_first(pair, mw, read_only, 64, IBV_WC_MW_BIND_ERR);
    connect_anew(pair);
    bind_first(pair, mw, mr, 1 << 16, IBV_WC_MW_BIND_ERR); /* beyond its end */
    connect_anew(pair);
    bind_first(pair, mw, mr, UINT64_MAX, IBV_WC_MW_BIND_ERR);
    assert_int_equal(ibv_dealloc_mw(foreign), 0);
    assert_int_equal(ibv_dealloc_pd(other), 0);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_dereg_mr(read_only), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(pair);
}

static void mw1__stays_bound_where_a_bind_fails(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_mr *mr = bindable(pair);
    struct ibv_mr *read_only = ibv_reg_mr(pair->pd, pair->memory[1], 1 << 16, IBV_ACCESS_MW_BIND);
    struct ibv_mw *mw = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_1);
    const struct {
        struct ibv_mr *mr;
        uint64_t length;
    } bad[] = {{pair->mr, 64}, {read_only, 64}, {mr, 1 << 16}};
    pair_connect(pair, ALL_ACCESS);
    bind_first(pair, mw, mr, 4096, IBV_WC_SUCCESS);
    const uint32_t rkey = mw->rkey;
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        bind_first(pair, mw, bad[i].mr, bad[i].length, IBV_WC_MW_BIND_ERR);
        connect_anew(pair);
        write_to(pair, rkey, 4096, IBV_WC_SUCCESS);
    }
    assert_int_equal(ibv_dereg_mr(mr), EBUSY);
    bind_first(pair, mw, mr, 64, IBV_WC_SUCCESS);
    write_to(pair, mw->rkey, 4096, IBV_WC_SUCCESS);
    write_to(pair, rkey, 4096, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_dereg_mr(read_only), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(pair);
}

/* By queue pair i, under that key. */
static enum ibv_wc_status bind_second(struct pair *pair, unsigned i, struct ibv_mw *mw,
                                      struct ibv_mr *mr, uint32_t rkey)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW,
                             .send_flags = IBV_SEND_SIGNALED,
                             .bind_mw = {mw, rkey, info_of(pair, mr, 4096)}},
                       *bad;
    assert_int_equal(ibv_post_send(pair->qp[i], &wr, &bad), 0);
    return take(pair->send_cq[i]).status;
}

static enum ibv_wc_status invalidate(struct pair *pair, unsigned i, uint32_t rkey)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV,
                             .send_flags = IBV_SEND_SIGNALED,
                             .invalidate_rkey = rkey},
                       *bad;
    assert_int_equal(ibv_post_send(pair->qp[i], &wr, &bad), 0);
    const struct ibv_wc wc = take(pair->send_cq[i]);
    if (!wc.status)
        assert_int_equal(wc.opcode, IBV_WC_LOCAL_INV);
    return wc.status;
}

static void mw2__is_of_its_queue_pair(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_mr *mr = bindable(pair);
    struct ibv_mw *mw = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_2);
    struct ibv_mw_bind bind = {.bind_info = info_of(pair, mr, 64)};
    const uint32_t rkey = ibv_inc_rkey(mw->rkey);
    pair_connect(pair, ALL_ACCESS);
    assert_int_equal(ibv_bind_mw(pair->qp[1], mw, &bind), EINVAL);
    assert_int_equal(bind_second(pair, 0, mw, mr, rkey), IBV_WC_SUCCESS);
    write_to(pair, rkey, 4096, IBV_WC_REM_ACCESS_ERR); /* by queue pair 1: another's */
    connect_anew(pair);
    assert_int_equal(bind_second(pair, 1, mw, mr, rkey), IBV_WC_SUCCESS);
    write_to(pair, rkey, 4096, IBV_WC_SUCCESS);
    assert_int_equal(invalidate(pair, 0, rkey), IBV_WC_MW_BIND_ERR); /* not his */
    connect_anew(pair);
    assert_int_equal(bind_second(pair, 1, mw, mr, rkey), IBV_WC_SUCCESS); /* reset unbound it */
    assert_int_equal(bind_second(pair, 1, mw, mr, rkey + 1), IBV_WC_MW_BIND_ERR); /* it is bound */
    connect_anew(pair);
    assert_int_equal(bind_second(pair, 1, mw, mr, rkey ^ 0x100), IBV_WC_MW_BIND_ERR);
    connect_anew(pair);
    assert_int_equal(bind_second(pair, 1, mw, mr, rkey), IBV_WC_SUCCESS);
    assert_int_equal(invalidate(pair, 1, rkey), IBV_WC_SUCCESS);
    assert_int_equal(invalidate(pair, 1, rkey), IBV_WC_MW_BIND_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    pair_close(pair);
}

static void mw2__is_invalidated_by_the_peer(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_mr *mr = bindable(pair);
    struct ibv_mw *mw = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_2);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED}, *bad;
    uint32_t rkey = ibv_inc_rkey(mw->rkey);
    pair_connect(pair, ALL_ACCESS);
    assert_int_equal(bind_second(pair, 1, mw, mr, rkey), IBV_WC_SUCCESS);
    pair_receive(pair, 1, 4);
    wr.invalidate_rkey = rkey;
    assert_int_equal(ibv_post_send(pair->qp[0], &wr, &bad), 0);
    assert_done(pair->send_cq[0], 0, IBV_WC_SUCCESS);
    const struct ibv_wc wc = take(pair->recv_cq[1]);
    assert_true(wc.wc_flags & IBV_WC_WITH_INV);
    assert_int_equal(wc.invalidated_rkey, rkey);
    rkey = ibv_inc_rkey(rkey);
    assert_int_equal(bind_second(pair, 1, mw, mr, rkey), IBV_WC_SUCCESS); /* it may be bound anew */
    write_to(pair, rkey, 4096, IBV_WC_SUCCESS);
    write_to(pair, wr.invalidate_rkey, 4096, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), EBUSY);
    assert_int_equal(ibv_destroy_qp(pair->qp[1]), 0); /* it goes with that */
    pair->qp[1] = NULL;
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    pair_close(pair);
}

/* A window's key is none for local use. */
static void mw1__is_for_others(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_mr *mr = bindable(pair);
    struct ibv_mw *mw = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_1);
    pair_connect(pair, ALL_ACCESS);
    bind_first(pair, mw, mr, 4096, IBV_WC_SUCCESS);
    struct ibv_sge sge = {(uintptr_t)pair->memory[1] + 4096, 8, mw->rkey};
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
                       *bad;
    assert_int_equal(ibv_post_send(pair->qp[1], &wr, &bad), 0);
    assert_done(pair->send_cq[1], 1, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(pair);
}

/* ---- ibv_rereg_mr() ---- */

static void rereg__changes(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_mr *mr = ibv_reg_mr(pair->pd, pair->memory[1], 8192, WRITES);
    struct ibv_pd *other = ibv_alloc_pd(pair->context);
    const uint32_t rkey = mr->rkey;
    pair_connect(pair, ALL_ACCESS);
    write_to(pair, rkey, 0, IBV_WC_SUCCESS);
    assert_int_equal(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, pair->memory[1] + 16384, 4096, 0),
        0);
    assert_int_equal(mr->rkey, rkey);
    assert_ptr_equal(mr->addr, pair->memory[1] + 16384);
    write_to(pair, rkey, 16384, IBV_WC_SUCCESS);
    write_to(pair, rkey, 0, IBV_WC_REM_ACCESS_ERR);
    connect_anew(pair);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
    assert_ptr_equal(mr->pd, other);
    assert_int_equal(ibv_dealloc_pd(other), EBUSY);
    write_to(pair, rkey, 16384, IBV_WC_REM_ACCESS_ERR);
    connect_anew(pair);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pair->pd, NULL, 0, 0), 0);
    write_to(pair, rkey, 16384, IBV_WC_SUCCESS);
    assert_int_equal(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), 0);
    write_to(pair, rkey, 16384, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dealloc_pd(other), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(pair);
}

static void rereg__refuses(void **state)
{
    (void)state;
    struct pair *pair = pair_open(false);
    struct ibv_mr *mr = ibv_reg_mr(pair->pd, pair->memory[1], 8192, WRITES);
    const struct {
        int flags, access;
        void *addr;
        size_t length;
        int error;
    } bad[] = {
        {0, 0, NULL, 0, EINVAL},
        {1 << 9, 0, NULL, 0, EINVAL},
        {IBV_REREG_MR_CHANGE_PD, 0, NULL, 0, EINVAL},
        {IBV_REREG_MR_CHANGE_TRANSLATION, 0, NULL, 4096, EINVAL},
        {IBV_REREG_MR_CHANGE_TRANSLATION, 0, pair->memory, 0, EINVAL},
        {IBV_REREG_MR_CHANGE_TRANSLATION, 0, (void *)4096, 4096, EFAULT},
        {IBV_REREG_MR_CHANGE_ACCESS, IBV_ACCESS_REMOTE_WRITE, NULL, 0, EINVAL},
        {IBV_REREG_MR_CHANGE_ACCESS, 1 << 18, NULL, 0, EINVAL},
    };
    pair_connect(pair, ALL_ACCESS);
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        errno = 0;
        assert_int_equal(
            ibv_rereg_mr(mr, bad[i].flags, NULL, bad[i].addr, bad[i].length, bad[i].access),
            IBV_REREG_MR_ERR_INPUT);
        assert_int_equal(errno, bad[i].error);
    }
    write_to(pair, mr->rkey, 0, IBV_WC_SUCCESS); /* as before */
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(pair);
}

/* A receive whose memory is not registered any more when a message comes for it. */
static void recv__is_not_registered(void **state)
{
    (void)state;
    for (unsigned shared = 0; shared < 2; shared++) {
        struct pair *pair = pair_open(shared);
        struct ibv_mr *mr = ibv_reg_mr(pair->pd, pair->memory[1], 4096, IBV_ACCESS_LOCAL_WRITE);
        struct ibv_sge sge = {(uintptr_t)pair->memory[1], 4096, mr->lkey};
        struct ibv_recv_wr wr = {.wr_id = 6, .sg_list = &sge, .num_sge = 1}, *bad;
        pair_connect(pair, ALL_ACCESS);
        assert_int_equal(shared ? ibv_post_srq_recv(pair->srq, &wr, &bad)
                                : ibv_post_recv(pair->qp[1], &wr, &bad),
                         0);
        assert_int_equal(ibv_dereg_mr(mr), 0);
        pair_post(pair, 0, IBV_WR_SEND, 1, 8);
        assert_done(pair->recv_cq[1], 6, IBV_WC_LOC_PROT_ERR);
        assert_done(pair->send_cq[0], 1, IBV_WC_REM_OP_ERR);
        assert_int_equal(state_of(pair->qp[1]), IBV_QPS_ERR);
        pair_close(pair);
    }
}

/* Nor is what has no key; a message of no bytes does not ask for one. */
static void recv__without_a_key(void **state)
{
    (void)state;
    for (unsigned shared = 0; shared < 2; shared++) {
        struct pair *pair = pair_open(shared);
        struct ibv_sge sge = {(uintptr_t)pair->memory[1], 4096, 0};
        struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
        pair_connect(pair, ALL_ACCESS);
        for (wr.wr_id = 0; wr.wr_id < 2; wr.wr_id++)
            assert_int_equal(shared ? ibv_post_srq_recv(pair->srq, &wr, &bad)
                                    : ibv_post_recv(pair->qp[1], &wr, &bad),
                             0);
        pair_post(pair, 0, IBV_WR_SEND, 1, 0);
        assert_done(pair->recv_cq[1], 0, IBV_WC_SUCCESS);
        assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
        pair_post(pair, 0, IBV_WR_SEND, 2, 8);
        assert_done(pair->recv_cq[1], 1, IBV_WC_LOC_PROT_ERR);
        assert_done(pair->send_cq[0], 2, IBV_WC_REM_OP_ERR);
        assert_int_equal(state_of(pair->qp[1]), IBV_QPS_ERR);
        pair_close(pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mw1__gives_a_part),
        cmocka_unit_test(mw1__bad_binds),
        cmocka_unit_test(mw1__stays_bound_where_a_bind_fails),
        cmocka_unit_test(mw1__is_for_others),
        cmocka_unit_test(mw2__is_of_its_queue_pair),
        cmocka_unit_test(mw2__is_invalidated_by_the_peer),
        cmocka_unit_test(rereg__changes),
        cmocka_unit_test(rereg__refuses),
        cmocka_unit_test(recv__is_not_registered),
        cmocka_unit_test(recv__without_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
