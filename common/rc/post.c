/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests of RC QPs: checked, queued, and sent at once when nothing is before them; receives,
 * a QP's own or shared by many. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rc/qp.h"
#include "common/rnic/device.h"

static int fill_opcode(struct dw_rc_work *work, const struct ibv_send_wr *wr)
{
    static const struct {
        bool known;
        uint8_t opcode, solicited;
    } opcodes[] = {
        [IBV_WR_SEND] = {true, DW_RDMAP_SEND, DW_RDMAP_SEND_SE},
        [IBV_WR_SEND_WITH_INV] = {true, DW_RDMAP_SEND_INVALIDATE, DW_RDMAP_SEND_SE_INVALIDATE},
        [IBV_WR_RDMA_WRITE] = {true, DW_RDMAP_WRITE, DW_RDMAP_WRITE},
        [IBV_WR_RDMA_READ] = {true, DW_RDMAP_READ_REQUEST, DW_RDMAP_READ_REQUEST},
    };
    if ((unsigned)wr->opcode >= sizeof opcodes / sizeof *opcodes || !opcodes[wr->opcode].known)
        return -EINVAL;
    work->opcode = wr->send_flags & IBV_SEND_SOLICITED ? opcodes[wr->opcode].solicited
                                                       : opcodes[wr->opcode].opcode;
    if (wr->opcode == IBV_WR_SEND_WITH_INV)
        work->stag = wr->invalidate_rkey;
    if (work->opcode < DW_RDMAP_SEND) {
        work->stag = wr->wr.rdma.rkey;
        work->to = wr->wr.rdma.remote_addr;
    }
    return 0;
}

static int fill(struct diwarp_rc_qp *qp, struct dw_rc_work *work, const struct ibv_send_wr *wr)
{
    memset(work, 0, offsetof(struct dw_rc_work, sge));
    int rc = fill_opcode(work, wr);
    bool read = work->opcode == DW_RDMAP_READ_REQUEST;
    if (rc || (read && (!qp->ord || wr->send_flags & (IBV_SEND_INLINE | DIWARP_SEND_BUFFERED))))
        return -EINVAL;
    int64_t total = dw_pd_gather(qp->pd, wr->sg_list, wr->num_sge,
                                 read ? IBV_ACCESS_LOCAL_WRITE : 0, UINT32_MAX, work->sge);
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
    bool first = qp->may_send && !qp->blocked && !qp->works.count && !qp->tail.buf;
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

/* ---- receives ---- */

static int push_recv(struct dw_ring *recvs, uint32_t max, struct diwarp_pd *pd,
                     const struct ibv_recv_wr *wr)
{
    struct dw_rc_recv *recv = dw_ring_push(recvs, sizeof *recv, max);
    if (!recv)
        return -ENOMEM;
    int64_t total =
        dw_pd_gather(pd, wr->sg_list, wr->num_sge, IBV_ACCESS_LOCAL_WRITE, UINT32_MAX, recv->sge);
    if (total < 0) {
        dw_ring_unpush(recvs);
        return (int)total;
    }
    recv->wr_id = wr->wr_id;
    recv->bytes = (uint32_t)total;
    pd->device->recvs_posted++;
    return 0;
}

int diwarp_rc_post_recv(struct diwarp_rc_qp *qp, const struct ibv_recv_wr *wr)
{
    struct diwarp_device *device = qp->rc->device;
    dw_lock(device);
    int rc = qp->state == DW_RC_CLOSED ? -ENOTCONN
             : qp->attr.srq            ? -EINVAL
                                       : push_recv(&qp->own, qp->attr.max_recv_wr, qp->pd, wr);
    dw_unlock(device);
    return rc;
}

struct diwarp_srq *diwarp_create_srq(struct diwarp_pd *pd, unsigned max_wr)
{
    struct diwarp_srq *srq = calloc(1, sizeof *srq);
    if (!srq)
        return NULL;
    srq->pd = pd;
    srq->max_wr = max_wr;
    return srq;
}

void diwarp_destroy_srq(struct diwarp_srq *srq)
{
    dw_ring_fini(&srq->recvs);
    free(srq);
}

int diwarp_post_srq_recv(struct diwarp_srq *srq, const struct ibv_recv_wr *wr)
{
    dw_lock(srq->pd->device);
    int rc = push_recv(&srq->recvs, srq->max_wr, srq->pd, wr);
    dw_unlock(srq->pd->device);
    return rc;
}
