/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs front without memory or descriptors: what it asks the system for is refused once, one
 * at a time, and then everything from there on, while a program makes each kind of object, sends to
 * itself over UD and RC, and destroys all of it. Each call gives an error or does its work, what
 * was posted over RC completes, and all that was made can be destroyed.
 */
#include <stdbool.h>
#include <string.h>

#include "test/net/refusing_libc.h"
#include "test/verbs/end.h"

/* Of RC, once something was refused: both sides of a connection give each other up. */
#define PATIENCE_NS 10000000000u
#define RC_TIMEOUT  14 /* 67 ms */

/* ---- the program -------------------------------------------------------------------------- */

static struct {
    struct ibv_context *context;
    struct ibv_pd *pd, *domain;
    struct ibv_td *td;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_cq_ex *cq_ex;
    struct ibv_srq *srq;
    struct ibv_mr *mr;
    struct ibv_mw *mw;
    struct ibv_dm *dm;
    struct ibv_ah *ah;
    struct ibv_qp *ud, *rc[2];
    union ibv_gid gid;
    _Alignas(8) uint8_t memory[8192];
} made;

/* Whether it was made; only what was refused excuses that it was not. */
static bool is_made(const void *object)
{
    assert_true(object || refusing.refused);
    return object;
}

static bool is_done(int rc)
{
    assert_true(!rc || refusing.refused);
    return !rc;
}

static void open_device(void)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    for (int i = 0; is_made(list) && i < count && !made.context; i++)
        if (!strcmp(ibv_get_device_name(list[i]), "diwarp0"))
            made.context = ibv_open_device(list[i]);
    if (list)
        ibv_free_device_list(list);
    (void)is_made(made.context);
}

static struct ibv_qp *make_qp(enum ibv_qp_type type)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = made.cq,
        .recv_cq = made.cq,
        .srq = made.srq,
        .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2},
        .qp_type = type};
    struct ibv_qp *qp = ibv_create_qp(made.pd, &attr);
    (void)is_made(qp);
    return qp;
}

static void make_objects(void)
{
    struct ibv_cq_init_attr_ex cq_ex = {.cqe = 8};
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 16, .max_sge = 2}};
    struct ibv_ah_attr ah = {.port_num = 1, .is_global = 1};
    struct ibv_alloc_dm_attr dm = {.length = 4096};
    struct ibv_td_init_attr td = {.comp_mask = 0};
    (void)is_made(made.pd = ibv_alloc_pd(made.context));
    (void)is_made(made.channel = ibv_create_comp_channel(made.context));
    (void)is_made(made.cq = ibv_create_cq(made.context, 64, NULL, made.channel, 0));
    (void)is_made(made.cq_ex = ibv_create_cq_ex(made.context, &cq_ex));
    (void)is_made(made.dm = ibv_alloc_dm(made.context, &dm));
    (void)is_made(made.td = ibv_alloc_td(made.context, &td));
    if (!made.pd)
        return;
    struct ibv_parent_domain_init_attr domain = {.pd = made.pd, .td = made.td};
    (void)is_made(made.domain = ibv_alloc_parent_domain(made.context, &domain));
    (void)is_made(made.srq = ibv_create_srq(made.pd, &srq));
    (void)is_made(made.mr = ibv_reg_mr(made.pd, made.memory, sizeof made.memory, ALL_ACCESS));
    (void)is_made(made.mw = ibv_alloc_mw(made.pd, IBV_MW_TYPE_1));
    if (is_done(ibv_query_gid(made.context, 1, 0, &made.gid))) {
        ah.grh.dgid = made.gid;
        (void)is_made(made.ah = ibv_create_ah(made.pd, &ah));
    }
    if (!made.cq)
        return;
    made.ud = make_qp(IBV_QPT_UD);
    made.rc[0] = make_qp(IBV_QPT_RC);
    made.rc[1] = make_qp(IBV_QPT_RC);
}

static bool make_ud_ready(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .qkey = QKEY, .port_num = 1};
    if (!made.ud ||
        !is_done(ibv_modify_qp(made.ud, &attr,
                               IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)))
        return false;
    attr.qp_state = IBV_QPS_RTR;
    if (!is_done(ibv_modify_qp(made.ud, &attr, IBV_QP_STATE)))
        return false;
    attr.qp_state = IBV_QPS_RTS;
    return is_done(ibv_modify_qp(made.ud, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static bool make_rc_ready(unsigned i)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = ALL_ACCESS,
                               .path_mtu = IBV_MTU_1024,
                               .max_dest_rd_atomic = 1,
                               .max_rd_atomic = 1,
                               .timeout = RC_TIMEOUT,
                               .retry_cnt = 1,
                               .ah_attr = {.is_global = 1, .port_num = 1}};
    if (!made.rc[0] || !made.rc[1])
        return false;
    attr.ah_attr.grh.dgid = made.gid;
    attr.dest_qp_num = made.rc[1 - i]->qp_num;
    if (!is_done(
            ibv_modify_qp(made.rc[i], &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)))
        return false;
    attr.qp_state = IBV_QPS_RTR;
    if (!is_done(ibv_modify_qp(made.rc[i], &attr,
                               IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                   IBV_QP_MIN_RNR_TIMER)))
        return false;
    attr.qp_state = IBV_QPS_RTS;
    return is_done(ibv_modify_qp(made.rc[i], &attr,
                                 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static bool post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t bytes)
{
    struct ibv_sge sge = {(uintptr_t)made.memory, bytes, made.mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    if (qp == made.ud) {
        wr.wr.ud.ah = made.ah;
        wr.wr.ud.remote_qpn = qp->qp_num;
        wr.wr.ud.remote_qkey = QKEY;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)made.memory + 4096;
        wr.wr.rdma.rkey = made.mr->rkey;
    }
    return is_done(ibv_post_send(qp, &wr, &bad));
}

static void post_receives(void)
{
    struct ibv_sge sge = {(uintptr_t)made.memory + 2048, 1024, made.mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    for (unsigned i = 0; made.srq && i < 8; i++)
        (void)is_done(ibv_post_srq_recv(made.srq, &wr, &bad));
}

/* Until so many Sends and so on of the RC queue pairs have ended, well or not. UD's may be lost. */
static void wait_for(unsigned count)
{
    const uint64_t until = now_ns() + PATIENCE_NS;
    struct ibv_wc wc;
    while (count && now_ns() < until) {
        const int n = ibv_poll_cq(made.cq, 1, &wc);
        if (n < 0) { /* it overflowed for want of memory: the queue pairs are to be given up */
            assert_true(refusing.refused);
            return;
        }
        count -= n && wc.qp_num != made.ud->qp_num && !(wc.opcode & IBV_WC_RECV);
    }
    assert_int_equal(count, 0);
}

/* Kept until the state is RTS again. */
static void post_in_sqd(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};
    if (!is_done(ibv_modify_qp(made.ud, &attr, IBV_QP_STATE)))
        return;
    for (unsigned i = 0; i < 2; i++)
        (void)post(made.ud, IBV_WR_SEND, 900);
    attr.qp_state = IBV_QPS_RTS;
    (void)is_done(ibv_modify_qp(made.ud, &attr, IBV_QP_STATE));
}

static void communicate(void)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
    unsigned posted = 0;
    if (!made.mr || !made.ah || !made.ud)
        return;
    (void)is_done(ibv_req_notify_cq(made.cq, 0));
    post_receives();
    if (make_ud_ready()) {
        for (unsigned i = 0; i < 3; i++)
            (void)post(made.ud, IBV_WR_SEND, 900);
        post_in_sqd();
    }
    if (make_rc_ready(0) && make_rc_ready(1))
        for (unsigned i = 0; i < 3; i++)
            posted += post(made.rc[0], opcodes[i], 900);
    wait_for(posted);
}

/* All that there is, though nothing more is to be had. */
static void destroy_objects(void)
{
    for (unsigned i = 0; i < 2; i++)
        assert_true(!made.rc[i] || !ibv_destroy_qp(made.rc[i]));
    assert_true(!made.ud || !ibv_destroy_qp(made.ud));
    assert_true(!made.ah || !ibv_destroy_ah(made.ah));
    assert_true(!made.mw || !ibv_dealloc_mw(made.mw));
    assert_true(!made.mr || !ibv_dereg_mr(made.mr));
    assert_true(!made.srq || !ibv_destroy_srq(made.srq));
    assert_true(!made.domain || !ibv_dealloc_pd(made.domain));
    assert_true(!made.td || !ibv_dealloc_td(made.td));
    assert_true(!made.dm || !ibv_free_dm(made.dm));
    assert_true(!made.cq_ex || !ibv_destroy_cq(ibv_cq_ex_to_cq(made.cq_ex)));
    assert_true(!made.cq || !ibv_destroy_cq(made.cq));
    assert_true(!made.channel || !ibv_destroy_comp_channel(made.channel));
    assert_true(!made.pd || !ibv_dealloc_pd(made.pd));
    assert_true(!made.context || !ibv_close_device(made.context));
}

/* How often the front asked. */
static unsigned run(unsigned at, bool forever)
{
    memset(&made, 0, sizeof made);
    refusing.at = at;
    refusing.forever = forever;
    refusing.refused = false;
    refusing.asked = 0;
    open_device();
    if (made.context) {
        make_objects();
        communicate();
        destroy_objects();
    }
    return refusing.asked;
}

static void each_is_refused(bool forever)
{
    const unsigned asks = run(0, false);
    assert_true(asks > 30);
    for (unsigned at = 1; at <= asks; at++)
        (void)run(at, forever);
    assert_in_range(run(0, false), asks / 2, 2 * asks);
}

static void allocations__one_is_refused(void **state)
{
    (void)state;
    each_is_refused(false);
}

static void allocations__all_are_refused_from_there_on(void **state)
{
    (void)state;
    each_is_refused(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations__one_is_refused),
        cmocka_unit_test(allocations__all_are_refused_from_there_on),
    };
    refusing_find("libdiwarp-verbs");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
