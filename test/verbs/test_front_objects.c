/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: what there is, what can be made, and states. */
#include <errno.h>

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
    attr.qp_type = IBV_QPT_UC;
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
    assert_int_equal(post_recv(end, 108, 512, 100), 0);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    for (unsigned i = 0; i < 9; i++) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query__is_right),         cmocka_unit_test(open__again),
        cmocka_unit_test(create__refuses),         cmocka_unit_test(modify__by_the_table),
        cmocka_unit_test(error__flushes_in_order), cmocka_unit_test(error__flushes_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
