/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For cmocka tests of RC QPs: one end with a device, a listener and a QP, what it has completed,
 * and loops that run two ends in one thread until something holds. After <cmocka.h>.
 */
#ifndef TEST_RC_END_H
#define TEST_RC_END_H

#include "common/include/diwarp_rc.h"
#include "common/open.h"
#include "test/net/node.h"

struct rc_end {
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct diwarp_listener *listener;
    struct diwarp_address address;
    struct diwarp_rc_qp_attr attr; /* of the QPs it makes */
    struct diwarp_rc_qp *qp;
    struct diwarp_connect_request *request;
    /* What has completed. */
    unsigned requests, connects, disconnects, recvs, sends, writes, reads, flushed, errors;
    struct diwarp_wc last, last_recv, connected, disconnected;
    uint8_t data[512]; /* private data: request, answer or rejection */
    uint32_t data_bytes;
};

static inline void rc_end_open(struct rc_end *end, uint32_t rank, const struct dw_env *env)
{
    struct diwarp_diagnosis why = {.text = ""};
    struct diwarp_device_attr attr = loopback_attr(rank);

    memset(end, 0, sizeof *end);
    if (dw_device_open(&attr, env, &end->device, &why))
        fail_msg("device: %s", why.text);
    end->pd = diwarp_alloc_pd(end->device);
    end->cq = diwarp_create_cq(end->device, 64);
    assert_non_null(end->pd);
    assert_non_null(end->cq);
    if (diwarp_listen(end->pd, end->cq, &end->listener, &why))
        fail_msg("listen: %s", why.text);
    diwarp_query_listener(end->listener, &end->address);
    diwarp_rc_qp_attr_init(&end->attr);
    end->attr.cq = end->cq;
}

static inline void rc_end_destroy_qp(struct rc_end *end)
{
    if (end->qp)
        diwarp_destroy_rc_qp(end->qp);
    end->qp = NULL;
}

static inline void rc_end_close(struct rc_end *end)
{
    rc_end_destroy_qp(end);
    if (end->listener)
        diwarp_destroy_listener(end->listener);
    diwarp_destroy_cq(end->cq);
    diwarp_dealloc_pd(end->pd);
    diwarp_close_device(end->device);
}

static inline void rc_end_keep_data(struct rc_end *end, const struct diwarp_wc *wc)
{
    assert_true(wc->wc.byte_len <= sizeof end->data);
    end->data_bytes = wc->wc.byte_len;
    if (wc->wc.byte_len)
        memcpy(end->data, wc->data, wc->wc.byte_len);
}

static inline void rc_end_take(struct rc_end *end, const struct diwarp_wc *wc)
{
    end->last = *wc;
    if ((int)wc->wc.opcode == DIWARP_WC_DISCONNECTED) {
        end->disconnects++;
        end->disconnected = *wc;
        if (wc->wc.status == IBV_WC_REM_INV_REQ_ERR)
            rc_end_keep_data(end, wc);
        return;
    }
    if (wc->wc.status == IBV_WC_WR_FLUSH_ERR) {
        end->flushed++;
        return;
    }
    if (wc->wc.status != IBV_WC_SUCCESS) {
        end->errors++;
        return;
    }
    switch ((int)wc->wc.opcode) {
    case DIWARP_WC_CONNECT_REQUEST:
        end->requests++;
        end->request = wc->request;
        rc_end_keep_data(end, wc);
        break;
    case DIWARP_WC_CONNECTED:
        end->connects++;
        end->connected = *wc;
        if (wc->data)
            rc_end_keep_data(end, wc);
        break;
    case IBV_WC_RECV:
        end->recvs++;
        end->last_recv = *wc;
        break;
    case IBV_WC_SEND:
        end->sends++;
        break;
    case IBV_WC_RDMA_WRITE:
        end->writes++;
        break;
    case IBV_WC_RDMA_READ:
        end->reads++;
        break;
    default:
        fail_msg("opcode %d", (int)wc->wc.opcode);
    }
}

static inline void rc_end_poll(struct rc_end *end)
{
    struct diwarp_wc wcs[16];
    int n = diwarp_poll_cq(end->cq, 16, wcs);

    for (int i = 0; i < n; i++)
        rc_end_take(end, &wcs[i]);
}

#define RC_UNTIL(condition, a, b)                             \
    do {                                                      \
        uint64_t rc_until_ns = clock_ns() + WAIT_NS;          \
        while (!(condition)) {                                \
            rc_end_poll(a);                                   \
            rc_end_poll(b);                                   \
            if (clock_ns() > rc_until_ns)                     \
                fail_msg("%s has not come true", #condition); \
        }                                                     \
    } while (0)

struct rc_pair {
    struct rc_end a, b; /* a calls b */
};

static inline void rc_pair_init(struct rc_pair *pair)
{
    rc_end_open(&pair->a, 1, NULL);
    rc_end_open(&pair->b, 2, NULL);
}

static inline void rc_pair_call(struct rc_pair *pair, const void *data, size_t bytes)
{
    struct diwarp_diagnosis why = {.text = ""};

    if (diwarp_connect(pair->a.pd, &pair->a.attr, &pair->b.address, data, bytes, &pair->a.qp, &why))
        fail_msg("connect: %s", why.text);
    unsigned requests = pair->b.requests;
    RC_UNTIL(pair->b.requests > requests, &pair->a, &pair->b);
}

static inline void rc_pair_connect(struct rc_pair *pair)
{
    unsigned a = pair->a.connects, b = pair->b.connects;

    rc_pair_call(pair, NULL, 0);
    assert_int_equal(
        diwarp_accept(pair->b.request, pair->b.pd, &pair->b.attr, NULL, 0, &pair->b.qp), 0);
    RC_UNTIL(pair->a.connects > a && pair->b.connects > b, &pair->a, &pair->b);
    assert_ptr_equal(pair->a.connected.rc_qp, pair->a.qp);
    assert_ptr_equal(pair->b.connected.rc_qp, pair->b.qp);
}

static inline void rc_pair_close(struct rc_pair *pair)
{
    rc_end_close(&pair->a);
    rc_end_close(&pair->b);
}

static inline int rc_post(struct rc_end *end, enum ibv_wr_opcode opcode, void *buf, uint32_t bytes,
                          unsigned flags, uint64_t wr_id, const struct diwarp_mr *remote,
                          uint64_t offset)
{
    struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)buf, .length = bytes};
    struct ibv_send_wr wr = {
        .wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags};

    if (remote) {
        wr.wr.rdma.rkey = remote->stag;
        wr.wr.rdma.remote_addr = remote->iova + offset;
    }
    return diwarp_rc_post_send(end->qp, &wr);
}

static inline int rc_post_recv(struct rc_end *end, void *buf, uint32_t bytes, uint64_t wr_id)
{
    struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)buf, .length = bytes};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

    return end->attr.srq ? diwarp_post_srq_recv(end->attr.srq, &wr)
                         : diwarp_rc_post_recv(end->qp, &wr);
}

#endif
