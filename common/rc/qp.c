/* SPDX-License-Identifier: BSD-3-Clause */
/* RC queue pairs: their states and time limits, what their stream is watched for, and their end:
 * what they hold is given back, their requests are flushed. */
#include "common/rc/qp.h"

#include <assert.h>
#include <stdlib.h>

#include "common/llp/socket.h"

static const bool may_follow[DW_RC_STATE_COUNT][DW_RC_STATE_COUNT] = {
    [DW_RC_CONNECTING] = {[DW_RC_RESPONDED] = true, [DW_RC_RTS] = true, [DW_RC_CLOSED] = true},
    [DW_RC_RESPONDED] = {[DW_RC_RTS] = true, [DW_RC_CLOSING] = true, [DW_RC_CLOSED] = true},
    [DW_RC_RTS] = {[DW_RC_CLOSING] = true, [DW_RC_CLOSED] = true},
    [DW_RC_CLOSING] = {[DW_RC_CLOSED] = true},
};

void dw_rc_set_state(struct diwarp_rc_qp *qp, enum dw_rc_state state)
{
    assert(may_follow[qp->state][state]);
    qp->state = state;
    dw_rc_limit(qp, dw_device_now_ns(qp->rc->device));
}

void dw_rc_rewatch(struct diwarp_rc_qp *qp)
{
    if (!qp->stream)
        return;
    qp->stream->ops->watch(qp->stream, (dw_rc_may_receive(qp) ? DW_STREAM_IN : 0u) |
                                           (qp->blocked ? DW_STREAM_OUT : 0u));
}

/* Without memory for a timer there is no time limit: TCP's own remain. */
void dw_rc_limit(struct diwarp_rc_qp *qp, uint64_t now_ns)
{
    bool none = qp->state == DW_RC_RTS || qp->state == DW_RC_CLOSED;
    uint64_t wait_ns = none ? DW_NEVER : qp->attr.connect_timeout_ns;
    if (dw_rc_is_standing(qp) && dw_rc_rnr_wait_ns(qp) < wait_ns)
        wait_ns = dw_rc_rnr_wait_ns(qp);
    const uint64_t deadline_ns = dw_deadline_ns(now_ns, wait_ns);
    const bool earlier = qp->timer.slot && qp->timer.deadline_ns < deadline_ns;
    /* That it closes does not give a QP that stands still more time, nor the other way round. */
    if (!earlier || !dw_rc_is_standing(qp) || qp->state != DW_RC_CLOSING)
        (void)dw_heap_set(&qp->rc->timers, &qp->timer, deadline_ns);
}

void dw_rc_detach(struct diwarp_rc_qp *qp)
{
    qp->stream = NULL;
    qp->rc->counters.rc_connections--;
}

void dw_rc_complete(struct diwarp_rc_qp *qp, uint64_t wr_id, int opcode, enum ibv_wc_status status,
                    uint32_t bytes)
{
    struct diwarp_wc wc = {
        .wc = {.wr_id = wr_id,
               .status = status,
               .opcode = (enum ibv_wc_opcode)opcode,
               .byte_len = bytes},
        .rc_qp = qp,
    };
    dw_cq_push(qp->rc->cq, &wc);
}

unsigned diwarp_rc_take_completions(struct diwarp_rc_qp *qp, unsigned n, struct diwarp_wc *wc)
{
    dw_lock(qp->rc->device);
    const unsigned taken = dw_cq_take(qp->rc->cq, qp, n, wc);
    dw_unlock(qp->rc->device);
    return taken;
}

void *diwarp_rc_qp_context(const struct diwarp_rc_qp *qp)
{
    return qp->attr.context;
}

void diwarp_format_rc_qp(const struct diwarp_rc_qp *qp, char *buf, size_t len)
{
    dw_llp_format(&qp->peer, buf, len);
}

bool dw_rc_idle(const struct diwarp_rc_qp *qp)
{
    return !qp->works.count && !qp->responses.count && !qp->tail.buf;
}

int dw_rc_wc_opcode(const struct dw_rc_work *work)
{
    switch (work->opcode) {
    case DW_RDMAP_WRITE:
    case DW_RDMAP_IMMEDIATE:
    case DW_RDMAP_IMMEDIATE_SE:
        return IBV_WC_RDMA_WRITE;
    case DW_RDMAP_READ_REQUEST:
        return IBV_WC_RDMA_READ;
    case DW_RDMAP_ATOMIC_REQUEST:
        return work->compare_swap ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD;
    default:
        return IBV_WC_SEND;
    }
}

void dw_rc_flush_works(struct diwarp_rc_qp *qp, struct dw_ring *works)
{
    for (; works->count; dw_ring_pop(works, 1)) {
        const struct dw_rc_work *work = dw_ring_at(works, dw_rc_work_bytes(qp->attr.max_sge), 0);
        dw_rc_complete(qp, work->wr_id, dw_rc_wc_opcode(work), IBV_WC_WR_FLUSH_ERR, 0);
    }
}

static void flush_recvs(struct diwarp_rc_qp *qp)
{
    if (qp->receiving)
        dw_rc_complete(qp, qp->current->wr_id, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR, 0);
    qp->receiving = false;
    for (; qp->own.count; dw_ring_pop(&qp->own, 1)) {
        const struct dw_recv *recv = dw_ring_at(&qp->own, qp->recv_bytes, 0);
        dw_rc_complete(qp, recv->wr_id, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR, 0);
    }
}

/* All that belongs to the connection, the requests included. */
static void release(struct diwarp_rc_qp *qp)
{
    struct dw_rc *rc = qp->rc;
    (void)dw_heap_set(&rc->timers, &qp->timer, DW_NEVER);
    qp->blocked = false;
    if (rc->hot == qp)
        rc->hot = NULL;
    dw_list_remove(&qp->standing_link);
    dw_list_remove(&qp->lazy_link);
    if (qp->stream) {
        qp->stream->ops->close(qp->stream);
        dw_rc_detach(qp);
    }
    dw_rc_flush_works(qp, &qp->reads);
    dw_rc_flush_works(qp, &qp->works);
    flush_recvs(qp);
    dw_ring_fini(&qp->works);
    dw_ring_fini(&qp->reads);
    dw_ring_fini(&qp->responses);
    dw_ring_fini(&qp->own);
    free(qp->held.buf);
    qp->held = (struct dw_rc_held){0};
    free(qp->tail.buf);
    qp->tail = (struct dw_rc_tail){0};
}

void dw_rc_close(struct diwarp_rc_qp *qp, enum ibv_wc_status status, uint32_t vendor_err)
{
    dw_rc_set_state(qp, DW_RC_CLOSED);
    release(qp);
    struct diwarp_wc wc = {
        .wc = {.wr_id = qp->taken,
               .status = status,
               .opcode = (enum ibv_wc_opcode)DIWARP_WC_DISCONNECTED,
               .wc_flags = qp->terminated ? DIWARP_WC_TERMINATED_HERE : 0,
               .vendor_err = vendor_err},
        .rc_qp = qp,
    };
    if (status == IBV_WC_REM_INV_REQ_ERR) { /* rejected */
        wc.wc.byte_len = (uint32_t)qp->startup->frame.private_bytes;
        wc.data = qp->startup->frame.private_data;
    }
    dw_cq_push(qp->rc->cq, &wc);
}

void dw_rc_qp_free(struct diwarp_rc_qp *qp)
{
    if (qp->receiving && qp->attr.srq) {
        dw_srq_return(qp->attr.srq, qp->current);
        qp->receiving = false;
    }
    release(qp);
    dw_cq_forget(qp->rc->cq, 0, qp);
    dw_list_remove(&qp->link);
    free(qp->startup);
    free(qp);
}

void dw_rc_end_if_idle(struct diwarp_rc_qp *qp)
{
    if (qp->state != DW_RC_CLOSING || (!dw_rc_idle(qp) && !qp->shut))
        return; /* a read request that came after our end goes without response */
    if (qp->ended) {
        dw_rc_close(qp, IBV_WC_SUCCESS, 0);
    } else if (!qp->shut) {
        qp->stream->ops->shutdown(qp->stream);
        qp->shut = true;
    }
}

void diwarp_disconnect(struct diwarp_rc_qp *qp)
{
    struct diwarp_device *device = qp->rc->device;
    dw_lock(device);
    if (qp->state == DW_RC_CONNECTING) {
        dw_rc_close(qp, IBV_WC_SUCCESS, 0);
    } else if (qp->state < DW_RC_CLOSING) {
        dw_rc_set_state(qp, DW_RC_CLOSING);
        dw_rc_end_if_idle(qp);
    }
    dw_unlock(device);
}
