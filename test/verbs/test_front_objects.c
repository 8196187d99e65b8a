/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: what there is, what can be made, and states. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/verbs/end.h"

/* ---- what there is ---- */

static void query__is_right(void **state)
{
    (void)state;
    struct ibv_context *context = open_diwarp();
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    struct ibv_gid_entry entry;
    union ibv_gid gid;
    __be16 pkey;
    assert_int_equal(ibv_query_device(context, &device), 0);
    assert_int_equal(device.phys_port_cnt, 1);
    assert_int_equal(ibv_query_port(context, 1, &port), 0);
    assert_int_equal(port.state, IBV_PORT_ACTIVE);
    assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    assert_int_equal(ibv_query_port(context, 2, &port), EINVAL);
    assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
    assert_int_equal(ibv_query_gid(context, 1, port.gid_tbl_len, &gid), -1);
    assert_int_equal(ibv_query_gid(context, 1, -1, &gid), -1);
    assert_int_equal(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
    assert_memory_equal(&entry.gid, &gid, sizeof gid);
    assert_int_equal(ibv_query_pkey(context, 1, 0, &pkey), 0);
    assert_int_equal(ibv_query_pkey(context, 1, 1, &pkey), -1);
    assert_int_equal(ibv_close_device(context), 0);
}

/* Programs ask for them before they ask libibverbs for devices. */
static void files__are_there(void **state)
{
    (void)state;
    struct stat status;
    assert_int_equal(stat("/dev/infiniband/diwarp0", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    assert_int_equal(access("/dev/infiniband/diwarp0", R_OK | W_OK), 0);
    assert_int_equal(stat("/sys/class/infiniband", &status), 0);
    assert_true(S_ISDIR(status.st_mode));
    assert_int_equal(access("/sys/class/infiniband", R_OK | X_OK), 0);
    assert_int_equal(stat("/sys/class/infiniband_not", &status), -1);
    assert_int_equal(errno, ENOENT);
}

/* What is made with it, or EINVAL. */
static void create(struct end *end, const struct ibv_qp_init_attr *wanted, bool possible)
{
    struct ibv_qp_init_attr attr = *wanted;
    struct ibv_qp *qp = ibv_create_qp(end->pd, &attr);
    assert_int_equal(qp != NULL, possible);
    if (!possible)
        assert_int_equal(errno, EINVAL);
    if (qp)
        assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void query__promises_what_can_be_made(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct ibv_device_attr device;
    static const enum ibv_qp_type types[] = {IBV_QPT_UD, IBV_QPT_RC};
    assert_int_equal(ibv_query_device(end->context, &device), 0);
    for (unsigned i = 0; i < 4; i++) {
        struct ibv_qp_init_attr attr = attr_of(end);
        attr.qp_type = types[i / 2];
        uint32_t *sges = i % 2 ? &attr.cap.max_send_sge : &attr.cap.max_recv_sge;
        *sges = (uint32_t)device.max_sge;
        create(end, &attr, true);
        ++*sges;
        create(end, &attr, false);
    }
    struct ibv_srq_init_attr srq_attr = {
        .attr = {.max_wr = 1, .max_sge = (uint32_t)device.max_srq_sge}};
    struct ibv_srq *srq = ibv_create_srq(end->pd, &srq_attr);
    assert_non_null(srq);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    close_end(end);
}

/* Of RC: a datagram queue pair of diwarp's takes more memory. */
static void query__tells_how_many_queue_pairs(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct ibv_device_attr device;
    struct ibv_qp_init_attr attr = attr_of(end);
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = attr.cap.max_recv_wr = 1;
    assert_int_equal(ibv_query_device(end->context, &device), 0);
    struct ibv_qp **qps = calloc((size_t)device.max_qp, sizeof *qps);
    assert_non_null(qps);
    for (int i = 1; i < device.max_qp; i++) { /* and end's own */
        qps[i] = ibv_create_qp(end->pd, &attr);
        assert_non_null(qps[i]);
    }
    assert_null(ibv_create_qp(end->pd, &attr));
    assert_int_equal(errno, ENOMEM);
    for (int i = 1; i < device.max_qp; i++)
        assert_int_equal(ibv_destroy_qp(qps[i]), 0);
    free(qps);
    close_end(end);
}

/* Two of a process have ports and numbers of their own. */
static void open__again(void **state)
{
    (void)state;
    struct end *a = open_end(8), *b = open_end(8);
    assert_int_not_equal(a->qp->qp_num, b->qp->qp_num);
    make_ready(a);
    make_ready(b);
    assert_int_equal(post_recv(b, 1, 1024, 40 + BYTES), 0);
    struct ibv_sge sge = {(uintptr_t)a->memory, BYTES, a->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .wr.ud = {a->ah, b->qp->qp_num, QKEY}},
                       *bad;
    assert_int_equal(ibv_post_send(a->qp, &wr, &bad), 0);
    const struct ibv_wc wc = take(b->recv_cq);
    assert_int_equal(wc.src_qp, a->qp->qp_num);
    close_end(a);
    close_end(b);
}

static void create__refuses(void **state)
{
    (void)state;
    struct end *end = open_end(8), *other = open_end(8);
    struct ibv_qp_init_attr attr = attr_of(end);
    struct ibv_ah_attr ah = {.port_num = 1};
    attr.qp_type = IBV_QPT_RAW_PACKET;
    assert_null(ibv_create_qp(end->pd, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    attr = attr_of(end);
    attr.cap.max_recv_sge = 1000;
    assert_null(ibv_create_qp(end->pd, &attr));
    assert_int_equal(errno, EINVAL);
    attr = attr_of(end);
    attr.cap.max_send_wr = UINT32_MAX;
    assert_null(ibv_create_qp(end->pd, &attr));
    attr = attr_of(other);
    assert_null(ibv_create_qp(end->pd, &attr)); /* queues of another context */
    assert_null(ibv_create_cq(end->context, 0, NULL, NULL, 0));
    assert_null(ibv_create_cq(end->context, 8, NULL, NULL, 1));
    assert_null(ibv_create_ah(end->pd, &ah)); /* no GID */
    ah.is_global = 1;
    assert_null(ibv_create_ah(end->pd, &ah)); /* not of IPv4 */
    static const uint8_t no_hosts[][4] = {{0}, {255, 255, 255, 255}};
    for (unsigned i = 0; i < sizeof no_hosts / sizeof *no_hosts; i++) {
        ah.grh.dgid = gid_of(no_hosts[i]);
        errno = 0;
        assert_null(ibv_create_ah(end->pd, &ah));
        assert_int_equal(errno, EINVAL);
    }
    assert_null(ibv_reg_mr(end->pd, end->memory, 10, IBV_ACCESS_REMOTE_WRITE));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_create_srq(end->pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = 0}}));
    assert_int_equal(errno, EINVAL);
    close_end(end);
    close_end(other);
}

/* ---- states ---- */

static void modify__by_the_table(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    const int init = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 2};
    assert_int_equal(modify(end, IBV_QPS_RTS, IBV_QP_SQ_PSN), EINVAL);
    assert_int_equal(modify(end, IBV_QPS_INIT, IBV_QP_PORT), EINVAL);
    assert_int_equal(modify(end, IBV_QPS_INIT, init | IBV_QP_DEST_QPN), EINVAL);
    assert_int_equal(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | init), EINVAL);
    assert_int_equal(post_recv(end, 1, 0, 100), EINVAL);
    assert_int_equal(modify(end, IBV_QPS_INIT, init), 0);
    assert_int_equal(post_recv(end, 1, 0, 100), 0);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), EINVAL);
    assert_int_equal(modify(end, IBV_QPS_RESET, 0), 0);
    make_ready(end);
    struct ibv_qp_attr now;
    struct ibv_qp_init_attr init_attr;
    assert_int_equal(ibv_query_qp(end->qp, &now, IBV_QP_STATE, &init_attr), 0);
    assert_int_equal(now.qp_state, IBV_QPS_RTS);
    assert_int_equal(now.qkey, QKEY);
    assert_int_equal(init_attr.cap.max_recv_wr, 8);
    close_end(end);
}

/* Of RC, in changes that its states allow. */
static const struct {
    struct ibv_qp_attr attr;
    int wanted;
} values[] = {
    {{.path_mtu = 0}, EINVAL},
    {{.path_mtu = IBV_MTU_4096 + 1}, EINVAL},
    {{.path_mtu = IBV_MTU_1024, .dest_qp_num = 1 << 24}, EINVAL},
    {{.path_mtu = IBV_MTU_1024, .retry_cnt = 8}, EINVAL},
    {{.path_mtu = IBV_MTU_1024, .rnr_retry = 8}, EINVAL},
    {{.path_mtu = IBV_MTU_1024, .timeout = 32}, EINVAL},
    {{.path_mtu = IBV_MTU_1024, .qp_access_flags = 1 << 10}, EINVAL},
    {{.path_mtu = IBV_MTU_1024, .pkey_index = 1}, EINVAL},
    {{.path_mtu = IBV_MTU_1024, .port_num = 2}, EINVAL},
    {{.path_mtu = IBV_MTU_1024, .max_rd_atomic = 17}, EINVAL},
    {{.path_mtu = IBV_MTU_1024, .max_dest_rd_atomic = 17}, EINVAL},
    {{.path_mtu = IBV_MTU_1024, .min_rnr_timer = 32}, EINVAL},
    {{.path_mtu = IBV_MTU_1024,
      .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                         IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND |
                         IBV_ACCESS_RELAXED_ORDERING},
     0},
    {{.path_mtu = IBV_MTU_256, .dest_qp_num = 0xffffff, .retry_cnt = 7, .timeout = 31}, 0},
};

/* To RTS, unless a change is refused before. */
static int modify_with(struct end *end, struct ibv_qp *qp, const struct ibv_qp_attr *with)
{
    static const int masks[] = {IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                                IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                                IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC};
    struct ibv_qp_attr attr = *with;
    int rc = 0;
    if (!attr.port_num)
        attr.port_num = 1;
    attr.ah_attr = (struct ibv_ah_attr){.port_num = 1, .is_global = 1};
    assert_int_equal(ibv_query_gid(end->context, 1, 0, &attr.ah_attr.grh.dgid), 0);
    for (unsigned i = 0; i < 3 && !rc; i++) {
        attr.qp_state = IBV_QPS_INIT + i;
        rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE | masks[i]);
    }
    return rc;
}

static void modify__refuses_values(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
        struct ibv_qp_init_attr init = attr_of(end);
        init.qp_type = IBV_QPT_RC;
        struct ibv_qp *qp = ibv_create_qp(end->pd, &init);
        assert_non_null(qp);
        assert_int_equal(modify_with(end, qp, &values[i].attr), values[i].wanted);
        assert_int_equal(ibv_destroy_qp(qp), 0);
    }
    close_end(end);
}

/* Receives that have completed leave no gap, and what is posted in their place comes last. */
static void error__flushes_what_is_left(void **state)
{
    (void)state;
    struct end *end = open_end(16);
    make_ready(end);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(post_recv(end, i, 1024, 40 + BYTES), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
        assert_int_equal(take(end->recv_cq).wr_id, i);
        assert_int_equal(post_recv(end, 8 + i, 1024, 40 + BYTES), 0);
    }
    assert_int_equal(modify(end, IBV_QPS_ERR, 0), 0);
    for (unsigned i = 3; i < 11; i++) {
        const struct ibv_wc wc = take(end->recv_cq);
        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wc.wr_id, i);
    }
    assert_empty(end->recv_cq);
    close_end(end);
}

static void error__flushes_in_order(void **state)
{
    (void)state;
    struct end *end = open_end(16);
    make_ready(end);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(post_recv(end, 100 + i, 512, 100), 0);
    assert_int_equal(post_recv(end, 0, 512, 100), ENOMEM);
    assert_int_equal(modify(end, IBV_QPS_ERR, 0), 0);
    assert_int_equal(post_recv(end, 108, 512, 100), ENOMEM);
    assert_int_equal(take(end->recv_cq).wr_id, 100);
    assert_int_equal(post_recv(end, 108, 512, 100), 0);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    for (unsigned i = 1; i < 9; i++) {
        const struct ibv_wc wc = take(end->recv_cq);
        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wc.wr_id, 100 + i);
    }
    assert_int_equal(take(end->send_cq).status, IBV_WC_WR_FLUSH_ERR);
    assert_empty(end->recv_cq);
    assert_int_equal(modify(end, IBV_QPS_RESET, 0), 0);
    make_ready(end);
    assert_int_equal(post_recv(end, 1, 1024, 40 + BYTES), 0);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    assert_int_equal(take(end->recv_cq).wr_id, 1);
    close_end(end);
}

/* Used again after its end, each object is told from those that live. */
static void objects__are_gone(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_qp_init_attr attr = attr_of(end);
    struct ibv_qp_attr qp_attr = {.qp_state = IBV_QPS_RESET};
    struct ibv_ah_attr ah_attr = {.port_num = 1, .is_global = 1};
    struct ibv_srq_attr limit = {.srq_limit = 1};
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
    struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
    struct ibv_sge sge = {(uintptr_t)end->memory, 64, 0};
    struct ibv_wc wc;
    assert_int_equal(ibv_query_gid(end->context, 1, 0, &ah_attr.grh.dgid), 0);
    struct ibv_pd *pd = ibv_alloc_pd(end->context);
    struct ibv_cq *cq = ibv_create_cq(end->context, 8, NULL, NULL, 0);
    struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
    struct ibv_mr *mr = ibv_reg_mr(pd, end->memory, 64, 0);
    struct ibv_ah *ah = ibv_create_ah(end->pd, &ah_attr);
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
    struct ibv_qp *qp = ibv_create_qp(end->pd, &attr);
    struct ibv_qp_init_attr_ex ex_attr = {.qp_type = IBV_QPT_UD,
                                          .send_cq = end->send_cq,
                                          .recv_cq = end->recv_cq,
                                          .cap = attr.cap,
                                          .pd = end->pd,
                                          .comp_mask =
                                              IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                          .send_ops_flags = IBV_QP_EX_WITH_SEND};
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(ibv_create_qp_ex(end->context, &ex_attr));
    struct ibv_cq_init_attr_ex cq_attr = {.cqe = 4};
    struct ibv_cq_ex *cq_ex = ibv_create_cq_ex(end->context, &cq_attr);
    struct ibv_poll_cq_attr poll_attr = {0};
    const union ibv_gid group = gid_of((const uint8_t[]){239, 1, 2, 3});
    struct ibv_comp_channel *channel = ibv_create_comp_channel(end->context);
    struct ibv_context *context = open_diwarp();
    assert_true(pd && cq && srq && mr && ah && mw && qp && ex && cq_ex && channel);
    assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
    for (int i = 0; i < 2; i++) {
        const int wanted = i ? EINVAL : 0;
        assert_int_equal(ibv_destroy_qp(qp), wanted);
        assert_int_equal(ibv_destroy_qp(&ex->qp_base), wanted);
        assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)), wanted);
        assert_int_equal(ibv_destroy_srq(srq), wanted);
        assert_int_equal(ibv_destroy_ah(ah), wanted);
        assert_int_equal(ibv_dealloc_mw(mw), wanted);
        assert_int_equal(ibv_dereg_mr(mr), wanted);
        assert_int_equal(ibv_destroy_cq(cq), wanted);
        assert_int_equal(ibv_dealloc_pd(pd), wanted);
        assert_int_equal(ibv_destroy_comp_channel(channel), wanted);
        assert_int_equal(ibv_close_device(context), wanted);
    }
    assert_int_equal(ibv_modify_qp(qp, &qp_attr, IBV_QP_STATE), EINVAL);
    assert_int_equal(ibv_query_qp(qp, &qp_attr, 0, &attr), EINVAL);
    assert_int_equal(ibv_post_send(qp, &send, &bad_send), EINVAL);
    assert_ptr_equal(bad_send, &send);
    assert_int_equal(ibv_post_recv(qp, &recv, &bad_recv), EINVAL);
    assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EINVAL);
    assert_int_equal(ibv_attach_mcast(qp, &group, 0), EINVAL);
    assert_int_equal(ibv_detach_mcast(qp, &group, 0), EINVAL);
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    assert_int_equal(ibv_wr_complete(ex), EINVAL);
    assert_int_equal(ibv_start_poll(cq_ex, &poll_attr), EINVAL);
    assert_int_equal(ibv_post_srq_recv(srq, &recv, &bad_recv), EINVAL);
    assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), EINVAL);
    assert_int_equal(ibv_query_srq(srq, &limit), EINVAL);
    assert_int_equal(ibv_poll_cq(cq, 1, &wc), -EINVAL);
    assert_int_equal(ibv_req_notify_cq(cq, 0), EINVAL);
    assert_int_equal(ibv_resize_cq(cq, 9), EINVAL);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
                     IBV_REREG_MR_ERR_INPUT);
    assert_null(ibv_reg_mr(pd, end->memory, 64, 0));
    assert_null(ibv_create_qp(pd, &attr));
    assert_null(ibv_create_srq(pd, &srq_attr));
    assert_null(ibv_create_ah(pd, &ah_attr));
    assert_null(ibv_alloc_mw(pd, IBV_MW_TYPE_1));
    attr = attr_of(end);
    attr.send_cq = cq;
    assert_null(ibv_create_qp(end->pd, &attr));
    make_ready(end);
    assert_int_equal(post_send(end, ah, QKEY, end->mr->lkey), EINVAL);
    close_end(end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query__is_right),
        cmocka_unit_test(files__are_there),
        cmocka_unit_test(query__promises_what_can_be_made),
        cmocka_unit_test(query__tells_how_many_queue_pairs),
        cmocka_unit_test(open__again),
        cmocka_unit_test(create__refuses),
        cmocka_unit_test(objects__are_gone),
        cmocka_unit_test(modify__by_the_table),
        cmocka_unit_test(modify__refuses_values),
        cmocka_unit_test(error__flushes_in_order),
        cmocka_unit_test(error__flushes_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
