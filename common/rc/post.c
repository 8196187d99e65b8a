/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests of RC QPs: checked, queued, and sent at once when nothing is before them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rc/qp.h"

static const struct {
    bool known, responds; /* it ends with a response */
    uint8_t opcode, solicited;
} opcodes[] = {
    [IBV_WR_SEND] = {true, false, DW_RDMAP_SEND, DW_RDMAP_SEND_SE},
    [IBV_WR_SEND_WITH_IMM] = {true, false, DW_RDMAP_SEND_IMM, DW_RDMAP_SEND_SE_IMM},
    [IBV_WR_SEND_WITH_INV] = {true, false, DW_RDMAP_SEND_INVALIDATE, DW_RDMAP_SEND_SE_INVALIDATE},
    [IBV_WR_RDMA_WRITE] = {true, false, DW_RDMAP_WRITE, DW_RDMAP_WRITE},
    [IBV_WR_RDMA_WRITE_WITH_IMM] = {true, false, DW_RDMAP_WRITE, DW_RDMAP_WRITE},
    [IBV_WR_RDMA_READ] = {true, true, DW_RDMAP_READ_REQUEST, DW_RDMAP_READ_REQUEST},
    [IBV_WR_ATOMIC_CMP_AND_SWP] = {true, true, DW_RDMAP_ATOMIC_REQUEST, DW_RDMAP_ATOMIC_REQUEST},
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = {true, true, DW_RDMAP_ATOMIC_REQUEST, DW_RDMAP_ATOMIC_REQUEST},
};

/* Where it goes, and what with it, by its kind. */
static void aim(struct dw_rc_work *work, const struct ibv_send_wr *wr)
{
    switch (wr->opcode) {
    case IBV_WR_SEND:
        break;
    case IBV_WR_SEND_WITH_IMM:
        work->stag = wr->imm_data;
        break;
    case IBV_WR_SEND_WITH_INV:
        work->stag = wr->invalidate_rkey;
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        work->compare_swap = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
        work->add_swap = work->compare_swap ? wr->wr.atomic.swap : wr->wr.atomic.compare_add;
        work->compare = wr->wr.atomic.compare_add;
        work->stag = wr->wr.atomic.rkey;
        work->to = wr->wr.atomic.remote_addr;
        break;
    default:
        work->stag = wr->wr.rdma.rkey;
        work->to = wr->wr.rdma.remote_addr;
        break;
    }
}

static int fill(struct diwarp_rc_qp *qp, struct dw_rc_work *work, const struct ibv_send_wr *wr)
{
    if ((unsigned)wr->opcode >= sizeof opcodes / sizeof *opcodes || !opcodes[wr->opcode].known)
        return -EINVAL;
    const bool responds = opcodes[wr->opcode].responds;
    const bool alone = wr->opcode != IBV_WR_RDMA_WRITE_WITH_IMM && !responds;
    const bool atomic = opcodes[wr->opcode].opcode == DW_RDMAP_ATOMIC_REQUEST;
    if ((responds && !qp->ord) ||
        (!alone && wr->send_flags & (IBV_SEND_INLINE | DIWARP_SEND_BUFFERED)))
        return -EINVAL;
    int64_t total =
        dw_pd_gather(qp->pd, wr->sg_list, wr->num_sge, responds ? IBV_ACCESS_LOCAL_WRITE : 0,
                     UINT32_MAX, work->sge, (int)qp->attr.max_sge);
    if (total < 0)
        return (int)total;
    if (atomic && (total != sizeof(uint64_t) || wr->wr.atomic.remote_addr % sizeof(uint64_t)))
        return -EINVAL;
    memset(work, 0, offsetof(struct dw_rc_work, sge));
    work->wr_id = wr->wr_id;
    work->total = (uint32_t)total;
    work->opcode = wr->send_flags & IBV_SEND_SOLICITED ? opcodes[wr->opcode].solicited
                                                       : opcodes[wr->opcode].opcode;
    work->signaled = wr->send_flags & IBV_SEND_SIGNALED;
    work->fence = wr->send_flags & IBV_SEND_FENCE;
    work->inlined = wr->send_flags & IBV_SEND_INLINE;
    aim(work, wr);
    if (responds)
        work->sink_stag = (uint32_t)dw_device_random(qp->rc->device);
    return 0;
}

/* Behind a write: what tells the other side's application of it (RFC 7306 6). */
static int add_immediate(struct diwarp_rc_qp *qp, const struct ibv_send_wr *wr)
{
    const size_t bytes = dw_rc_work_bytes(qp->attr.max_sge);
    struct dw_rc_work *work = dw_ring_push(&qp->works, bytes, qp->attr.max_send_wr);
    if (!work)
        return -ENOMEM;
    struct dw_rc_work *write = dw_ring_at(&qp->works, bytes, qp->works.count - 2);
    memset(work, 0, bytes);
    work->opcode = wr->send_flags & IBV_SEND_SOLICITED ? DW_RDMAP_IMMEDIATE_SE : DW_RDMAP_IMMEDIATE;
    work->wr_id = write->wr_id;
    work->total = write->total;
    work->imm = wr->imm_data;
    work->signaled = write->signaled;
    write->signaled = false;
    return 0;
}

/* Sends the request that was just queued, the only one. As diwarp_rc_post_send(). */
static int send_now(struct diwarp_rc_qp *qp, struct dw_rc_work *work, bool buffered)
{
    const bool signaled = work->signaled, inlined = work->inlined;
    /* An inline request has to fit a train, however the FPDUs fall. */
    const uint32_t most_bytes =
        (DW_RC_TRAIN_FPDUS - 2) * (qp->max_ulpdu_bytes - DW_DDP_UNTAGGED_BYTES);
    work->signaled = signaled && !buffered; /* the return value says it */
    if (!inlined || (work->total <= DW_RC_STAGE_BYTES / 2 && work->total < most_bytes))
        dw_rc_flush(qp);
    if (qp->state == DW_RC_CLOSED)
        return 0; /* flushed */
    if (!qp->works.count)
        return buffered;
    work->signaled = signaled;
    return inlined ? -EAGAIN : 0;
}

static int post_locked(struct diwarp_rc_qp *qp, const struct ibv_send_wr *wr)
{
    const bool lazy = wr->send_flags & DIWARP_SEND_LAZY;
    const bool gathered = dw_list_linked(&qp->lazy_link); /* what waits there goes along */
    if (gathered && wr->send_flags & IBV_SEND_INLINE && !lazy)
        dw_rc_flush(qp); /* or first */
    if (qp->state >= DW_RC_CLOSING)
        return -ENOTCONN;
    /* First in line: nothing is queued, and TCP takes bytes. */
    const bool first = qp->may_send && !qp->blocked && !qp->works.count && !qp->tail.buf;
    if (wr->send_flags & IBV_SEND_INLINE && (!first || lazy || qp->responses.count))
        return -EAGAIN;
    struct dw_rc_work *work =
        dw_ring_push(&qp->works, dw_rc_work_bytes(qp->attr.max_sge), qp->attr.max_send_wr);
    if (!work)
        return -ENOMEM;
    const bool two = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    int rc = fill(qp, work, wr);
    if (!rc && two)
        rc = add_immediate(qp, wr);
    if (!rc && !lazy && (first ? two : gathered))
        dw_rc_flush(qp);
    else if (!rc && first && !lazy)
        rc = send_now(qp, work, wr->send_flags & DIWARP_SEND_BUFFERED);
    if (rc < 0) {
        dw_ring_unpush(&qp->works);
        return rc;
    }
    const bool write = opcodes[wr->opcode].opcode == DW_RDMAP_WRITE;
    const bool responds = opcodes[wr->opcode].responds;
    qp->rc->counters.rc_tx_write_msgs += write;
    qp->rc->counters.rc_tx_read_msgs += responds;
    qp->rc->counters.rc_tx_send_msgs += !write && !responds;
    if (first && lazy && !gathered)
        dw_list_append(&qp->rc->lazy, &qp->lazy_link);
    if (dw_list_linked(&qp->lazy_link) && qp->works.count >= DW_RC_TRAIN_FPDUS)
        dw_rc_flush(qp); /* so many share a call already */
    return rc;
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

int diwarp_rc_post_recv(struct diwarp_rc_qp *qp, const struct ibv_recv_wr *wr)
{
    struct diwarp_device *device = qp->rc->device;
    dw_lock(device);
    int rc = -EINVAL;
    if (qp->state == DW_RC_CLOSED)
        rc = -ENOTCONN;
    else if (!qp->attr.srq)
        rc = dw_recv_push(&qp->own, qp->attr.max_recv_wr, qp->attr.max_sge, qp->pd, wr);
    dw_unlock(device);
    return rc;
}
