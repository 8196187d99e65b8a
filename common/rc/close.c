/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of an RC QP: what it holds is given back, its requests are flushed. */
#include <stdlib.h>

#include "common/rc/qp.h"
#include "common/rnic/device.h"

int dw_rc_wc_opcode(const struct dw_rc_work *work)
{
    return work->opcode == DW_RDMAP_WRITE          ? IBV_WC_RDMA_WRITE
           : work->opcode == DW_RDMAP_READ_REQUEST ? IBV_WC_RDMA_READ
                                                   : IBV_WC_SEND;
}

void dw_rc_flush_works(struct diwarp_rc_qp *qp, struct dw_ring *works)
{
    for (; works->count; dw_ring_pop(works, 1)) {
        const struct dw_rc_work *work = dw_ring_at(works, sizeof *work, 0);
        dw_rc_complete(qp, work->wr_id, dw_rc_wc_opcode(work), IBV_WC_WR_FLUSH_ERR, 0);
    }
}

static void flush_recv(struct diwarp_rc_qp *qp, const struct dw_rc_recv *recv)
{
    dw_rc_complete(qp, recv->wr_id, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR, 0);
}

static void flush_recvs(struct diwarp_rc_qp *qp)
{
    if (qp->receiving)
        flush_recv(qp, &qp->current);
    qp->receiving = false;
    for (; qp->own.count; dw_ring_pop(&qp->own, 1))
        flush_recv(qp, dw_ring_at(&qp->own, sizeof(struct dw_rc_recv), 0));
}

/* All that belongs to the connection, the requests included. */
static void release(struct diwarp_rc_qp *qp)
{
    struct dw_rc *rc = qp->rc;
    (void)dw_heap_set(&rc->timers, &qp->timer, DW_NEVER);
    dw_rc_set_blocked(qp, false);
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
    qp->stub_bytes = 0;
    free(qp->tail.buf);
    qp->tail = (struct dw_rc_tail){0};
    qp->cursor.rtr = false;
}

void dw_rc_close(struct diwarp_rc_qp *qp, enum ibv_wc_status status, uint32_t vendor_err)
{
    dw_rc_set_state(qp, DW_RC_CLOSED);
    release(qp);
    bool rejected = status == IBV_WC_REM_INV_REQ_ERR;
    struct diwarp_wc wc = {
        .wc = {.status = status,
               .opcode = (enum ibv_wc_opcode)DIWARP_WC_DISCONNECTED,
               .vendor_err = vendor_err,
               .byte_len = rejected ? qp->answer_bytes : 0},
        .rc_qp = qp,
        .data = rejected ? qp->answer : NULL,
    };
    dw_cq_push(qp->rc->cq, &wc);
}

void dw_rc_qp_free(struct diwarp_rc_qp *qp)
{
    release(qp);
    dw_cq_forget(qp->rc->cq, 0, qp, NULL);
    dw_list_remove(&qp->link);
    free(qp->startup);
    free(qp);
}

/* ---- orderly close ---- */

void dw_rc_begin_close(struct diwarp_rc_qp *qp)
{
    dw_rc_set_state(qp, DW_RC_CLOSING);
    dw_rc_limit(qp, dw_device_now_ns(qp->rc->device));
}

void dw_rc_end_if_idle(struct diwarp_rc_qp *qp)
{
    if (qp->state != DW_RC_CLOSING || (!dw_rc_idle(qp) && !qp->shut))
        return; /* a read request that came after our end goes without response */
    if (qp->ended) {
        dw_rc_close(qp, IBV_WC_SUCCESS, 0);
        return;
    }
    if (!qp->shut)
        qp->stream->ops->shutdown(qp->stream);
    qp->shut = true;
}

void diwarp_disconnect(struct diwarp_rc_qp *qp)
{
    struct diwarp_device *device = qp->rc->device;
    dw_lock(device);
    if (qp->state == DW_RC_CONNECTING || qp->state == DW_RC_REQUESTED) {
        dw_rc_close(qp, IBV_WC_SUCCESS, 0);
    } else if (qp->state == DW_RC_RTS || qp->state == DW_RC_RESPONDED) {
        dw_rc_begin_close(qp);
        dw_rc_end_if_idle(qp);
    }
    dw_unlock(device);
}

void diwarp_destroy_rc_qp(struct diwarp_rc_qp *qp)
{
    struct diwarp_device *device = qp->rc->device;
    dw_lock(device);
    dw_rc_qp_free(qp);
    dw_unlock(device);
}
