/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front as programs see it, good ones and bad: linked with libibverbs alone, run with the
 * front before it (test/verbs/run). */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#define QKEY  0x11111111u
#define BYTES 256

struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_comp_channel *channel;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct ibv_ah *ah; /* to ourselves */
    uint8_t memory[4096];
};

static struct ibv_context *open_diwarp(void)
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

static struct ibv_qp_init_attr attr_of(const struct end *end)
{
    return (struct ibv_qp_init_attr){.send_cq = end->send_cq,
                                     .recv_cq = end->recv_cq,
                                     .cap = {.max_send_wr = 16,
                                             .max_recv_wr = 8,
                                             .max_send_sge = 2,
                                             .max_recv_sge = 3,
                                             .max_inline_data = 64},
                                     .qp_type = IBV_QPT_UD};
}

static int modify(struct end *end, enum ibv_qp_state state, int mask)
{
    struct ibv_qp_attr attr = {.qp_state = state, .qkey = QKEY, .port_num = 1};
    return ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | mask);
}

static void make_ready(struct end *end)
{
    assert_int_equal(modify(end, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    assert_int_equal(modify(end, IBV_QPS_RTR, 0), 0);
    assert_int_equal(modify(end, IBV_QPS_RTS, IBV_QP_SQ_PSN), 0);
    assert_int_equal(end->qp->state, IBV_QPS_RTS);
}

static struct end *open_end(int cqe)
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

static void close_end(struct end *end)
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

static int post_recv(struct end *end, uint64_t id, uint32_t at, uint32_t bytes)
{
    struct ibv_sge sge = {(uintptr_t)end->memory + at, bytes, end->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
    return ibv_post_recv(end->qp, &wr, &bad);
}

static int post_send(struct end *end, struct ibv_ah *ah, uint32_t qkey, uint32_t lkey)
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

/* Within two seconds. */
static struct ibv_wc take(struct ibv_cq *cq)
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

static void assert_empty(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
        poll(NULL, 0, 1);
    }
}

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
    attr.qp_type = IBV_QPT_RC;
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
    assert_null(ibv_reg_mr(end->pd, end->memory, 10, IBV_ACCESS_REMOTE_WRITE));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_create_srq(end->pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = 1}}));
    assert_int_equal(errno, EOPNOTSUPP);
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

/* ---- messages ---- */

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

/* Neither an address, nor an opcode that UD has, nor too many elements; what is before it is sent.
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
    for (unsigned i = 0; i < 5; i++) {
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
        else
            list[1].num_sge = -1;
        assert_int_equal(ibv_post_send(end->qp, &list[0], &bad), EINVAL);
        assert_ptr_equal(bad, &list[1]);
        assert_int_equal(take(end->send_cq).status, IBV_WC_SUCCESS);
    }
    close_end(end);
    close_end(other);
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
    close_end(end);
}

/* ---- completion queues and events ---- */

static void cq__overrun(void **state)
{
    (void)state;
    struct end *end = open_end(4);
    struct ibv_async_event event;
    struct ibv_wc wc;
    make_ready(end);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    for (unsigned i = 0; i < 4; i++)
        (void)take(end->send_cq);
    assert_int_equal(ibv_poll_cq(end->send_cq, 1, &wc), -EIO);
    struct pollfd readable = {.fd = end->context->async_fd, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, 2000), 1);
    assert_int_equal(ibv_get_async_event(end->context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
    assert_ptr_equal(event.element.cq, end->send_cq);
    ibv_ack_async_event(&event);
    close_end(end);
}

static void cq__resized(void **state)
{
    (void)state;
    struct end *end = open_end(4);
    make_ready(end);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    poll(NULL, 0, 10);
    assert_int_equal(take(end->send_cq).wr_id, 7);
    assert_int_equal(ibv_resize_cq(end->send_cq, 1), EINVAL);
    assert_int_equal(ibv_resize_cq(end->send_cq, 100), 0);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    for (unsigned i = 0; i < 52; i++)
        assert_int_equal(take(end->send_cq).wr_id, 7);
    close_end(end);
}

static void event__comes_once_for_each_request(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct pollfd readable = {.fd = end->channel->fd, .events = POLLIN};
    struct ibv_cq *cq;
    void *context;
    make_ready(end);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(post_recv(end, 1, 1024, 40 + BYTES), 0);
        assert_int_equal(ibv_req_notify_cq(end->recv_cq, 0), 0);
        assert_int_equal(poll(&readable, 1, 0), 0);
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
        assert_int_equal(ibv_get_cq_event(end->channel, &cq, &context), 0);
        assert_ptr_equal(cq, end->recv_cq);
        assert_ptr_equal(context, end);
        ibv_ack_cq_events(cq, 1);
        assert_int_equal(take(end->recv_cq).status, IBV_WC_SUCCESS);
        (void)take(end->send_cq);
    }
    /* None that was not asked for; one that nobody takes does not hold up the end. */
    assert_int_equal(post_recv(end, 1, 1024, 40 + BYTES), 0);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    (void)take(end->recv_cq);
    assert_int_equal(poll(&readable, 1, 20), 0);
    assert_int_equal(ibv_req_notify_cq(end->recv_cq, 0), 0);
    assert_int_equal(post_recv(end, 1, 1024, 40 + BYTES), 0);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    assert_int_equal(poll(&readable, 1, 2000), 1);
    close_end(end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query__is_right),
        cmocka_unit_test(open__again),
        cmocka_unit_test(create__refuses),
        cmocka_unit_test(modify__by_the_table),
        cmocka_unit_test(error__flushes_in_order),
        cmocka_unit_test(send__comes_with_its_grh),
        cmocka_unit_test(qkey__another_is_dropped),
        cmocka_unit_test(recv__too_short),
        cmocka_unit_test(send__with_a_wrong_key),
        cmocka_unit_test(send__malformed_in_a_list),
        cmocka_unit_test(wr__is_the_same),
        cmocka_unit_test(cq__overrun),
        cmocka_unit_test(cq__resized),
        cmocka_unit_test(event__comes_once_for_each_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
