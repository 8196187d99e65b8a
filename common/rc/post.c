/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests of RC QPs: checked, queued, and sent at once when nothing is before them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rc/qp.h"
#include "common/rnic/device.h"

static int fill_opcode(struct dw_rc_work *work, const struct ibv_send_wr *wr)
{
    bool solicited = wr->send_flags & IBV_SEND_SOLICITED;
    switch (wr->opcode) {
    case IBV_WR_SEND:
        work->opcode = solicited ? DW_RDMAP_SEND_SE : DW_RDMAP_SEND;
        return 0;
    case IBV_WR_SEND_WITH_INV:
        work->opcode = solicited ? DW_RDMAP_SEND_SE_INVALIDATE : DW_RDMAP_SEND_INVALIDATE;
        work->stag = wr->invalidate_rkey;
        return 0;
    case IBV_WR_RDMA_WRITE:
        work->opcode = DW_RDMAP_WRITE;
        break;
    case IBV_WR_RDMA_READ:
        work->opcode = DW_RDMAP_READ_REQUEST;
        break;
    default:
        return -EINVAL;
    }
    work->stag = wr->wr.rdma.rkey;
    work->to = wr->wr.rdma.remote_addr;
    return 0;
}

static int fill(struct diwarp_rc_qp *qp, struct dw_rc_work *work, const struct ibv_send_wr *wr)
{
    memset(work, 0, offsetof(struct dw_rc_work, sge));
    int rc = fill_opcode(work, wr);
    bool read = work->opcode == DW_RDMAP_READ_REQUEST;
    if (rc || (read && (!qp->ord || wr->send_flags & (IBV_SEND_INLINE | DIWARP_SEND_BUFFERED))))
        return -EINVAL;
    int64_t total = dw_rc_check_sges(qp->pd, wr->sg_list, wr->num_sge,
                                     read ? IBV_ACCESS_LOCAL_WRITE : 0, work->sge);
    if (total < 0)
        return (int)total;
    work->wr_id = wr->wr_id;
    work->total = (uint32_t)total;
    work->sge_count = (uint8_t)wr->num_sge;
    work->signaled = wr->send_flags & IBV_SEND_SIGNALED;
    work->fence = wr->send_flags & IBV_SEND_FENCE;
    work->inlined = wr->send_flags & IBV_SEND_INLINE;
    if (read)
        work->sink_stag = (uint32_t)dw_device_random(qp->rc->device);
    return 0;
}

static void count(struct diwarp_rc_qp *qp, uint8_t opcode)
{
    struct diwarp_rc_counters *counters = &qp->rc->counters;
    counters->rc_tx_write_msgs += opcode == DW_RDMAP_WRITE;
    counters->rc_tx_read_msgs += opcode == DW_RDMAP_READ_REQUEST;
    counters->rc_tx_send_msgs += opcode != DW_RDMAP_WRITE && opcode != DW_RDMAP_READ_REQUEST;
}

/* An inline request has to fit a train, however the FPDUs fall. */
static bool fits_train(const struct diwarp_rc_qp *qp, const struct dw_rc_work *work)
{
    return work->total <= DW_RC_STAGE_BYTES / 2 &&
           work->total / (qp->max_ulpdu_bytes - DW_DDP_UNTAGGED_BYTES) < DW_RC_TRAIN_FPDUS - 2;
}

/* Sends the request that was just queued, the only one. As diwarp_rc_post_send(). */
static int send_now(struct diwarp_rc_qp *qp, const struct ibv_send_wr *wr)
{
    struct dw_rc_work *work = dw_ring_at(&qp->works, sizeof *work, 0);
    uint8_t opcode = work->opcode;
    uint64_t done = qp->works_done;
    bool signaled = work->signaled;
    if (wr->send_flags & DIWARP_SEND_BUFFERED)
        work->signaled = false; /* the return value says it */
    if (!work->inlined || fits_train(qp, work))
        dw_rc_flush(qp);
    if (qp->state == DW_RC_CLOSED)
        return 0; /* flushed */
    if (qp->works_done == done && work->inlined) {
        dw_ring_unpush(&qp->works);
        return -EAGAIN;
    }
    count(qp, opcode);
    if (qp->works_done != done)
        return wr->send_flags & DIWARP_SEND_BUFFERED ? 1 : 0;
    work->signaled = signaled;
    return 0;
}

/* What was posted lazily goes before what is not to wait. */
static void flush_lazy(struct diwarp_rc_qp *qp)
{
    if (!dw_list_linked(&qp->lazy_link))
        return;
    dw_list_remove(&qp->lazy_link);
    dw_rc_flush(qp);
}

static int post_locked(struct diwarp_rc_qp *qp, const struct ibv_send_wr *wr)
{
    bool lazy = wr->send_flags & DIWARP_SEND_LAZY;
    if (!lazy)
        flush_lazy(qp);
    if (qp->state >= DW_RC_CLOSING)
        return -ENOTCONN;
    /* First in line: nothing is queued, and TCP takes bytes. */
    bool first = qp->may_send && !qp->blocked && !qp->works.count && !qp->tail;
    if (wr->send_flags & IBV_SEND_INLINE && (!first || lazy || qp->responses.count))
        return -EAGAIN;
    struct dw_rc_work *work = dw_ring_push(&qp->works, sizeof *work, qp->attr.max_send_wr);
    if (!work)
        return -ENOMEM;
    int rc = fill(qp, work, wr);
    if (rc) {
        dw_ring_unpush(&qp->works);
        return rc;
    }
    if (first && !lazy)
        return send_now(qp, wr);
    count(qp, work->opcode);
    if (first)
        dw_list_append(&qp->rc->lazy, &qp->lazy_link);
    if (qp->works.count >= DW_RC_TRAIN_FPDUS)
        flush_lazy(qp); /* so many share a call already */
    return 0;
}

int diwarp_rc_post_send(struct diwarp_rc_qp *qp, const struct ibv_send_wr *wr)
{
    struct diwarp_device *device = qp->rc->device;
    dw_lock(device);
    dw_cq_on_use(qp->rc->cq, dw_device_now_ns(device));
    int rc = post_locked(qp, wr);
    dw_unlock(device);
    return rc;
}
