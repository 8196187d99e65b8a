/* SPDX-License-Identifier: BSD-3-Clause */
/* Posts to RD QPs: checked, then queued by kind. */
#include "common/rd/parts.h"

#include <errno.h>
#include <string.h>

#include "common/rnic/device.h"

static int post_send(const struct dw_ends *ends, struct dw_peer *peer, const struct ibv_send_wr *wr,
                     uint64_t now_ns)
{
    const struct diwarp_qp *qp = ends->qp;
    const bool imm = wr->opcode == IBV_WR_SEND_WITH_IMM;
    const bool buffered = wr->send_flags & DIWARP_SEND_BUFFERED;
    struct iovec iov[DW_MAX_SGE];
    int64_t total = dw_pd_gather(qp->pd, wr->sg_list, wr->num_sge, 0, qp->attr.max_msg_bytes, iov);
    if (total < 0)
        return (int)total;
    const struct dw_ddp_header ddp = {
        .opcode = imm ? DW_RDMAP_SEND_IMM : DW_RDMAP_SEND,
        .ulp = imm ? wr->imm_data : 0,
        .qn = DW_QN_SEND,
        .msn = dw_met_of(peer)->send_msn + 1,
    };
    struct dw_work *work =
        dw_work_of_request(ends, peer, wr, IBV_WC_SEND, &ddp, iov, (uint32_t)total);
    if (!work)
        return -ENOMEM;
    dw_met_of(peer)->send_msn++;
    /* Told by the return value when it is copied before we return. */
    work->signaled = work->signaled && !buffered;
    work->buffered = buffered;
    if (wr->send_flags & IBV_SEND_INLINE) {
        int rc = dw_send_work_now(peer, work, now_ns);
        if (rc)
            return rc;
    } else {
        dw_send_work(peer, work, now_ns);
    }
    dw_rd_of(peer)->counters->tx_send_msgs++;
    if (dw_list_empty(&peer->pending))
        return buffered ? 1 : 0;
    if (buffered)
        work->signaled = wr->send_flags & IBV_SEND_SIGNALED;
    return 0;
}

int dw_rd_post_send(struct diwarp_qp *qp, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                    uint64_t now_ns)
{
    const struct dw_ends ends = {.qp = qp, .qpns = {.here = qp->num, .there = dw_qpn_of_ah(ah)}};
    struct dw_handle *handle = dw_handle_of_ah(ah);
    if (wr->send_flags & IBV_SEND_FENCE)
        return -EINVAL;
    if (handle->state == DW_PEER_GONE || handle->state == DW_PEER_DOOMED)
        return -EHOSTUNREACH;
    struct dw_peer *peer = dw_peer_wake(handle);
    if (!peer || peer->queued + peer->records.own_count >= qp->attr.max_send_wr)
        return -ENOMEM;
    switch (wr->opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return post_send(&ends, peer, wr, now_ns);
    case IBV_WR_RDMA_WRITE:
        return dw_rdma_post_write(&ends, peer, wr, now_ns);
    case IBV_WR_RDMA_READ:
        return dw_rdma_post_read(&ends, peer, wr, now_ns);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return dw_atomic_post(&ends, peer, wr, now_ns);
    default:
        return -EINVAL;
    }
}

/* ---- calls that only RD knows ---- */

void *diwarp_send_reserve(struct diwarp_qp *qp, struct diwarp_ah *ah, size_t len)
{
    struct diwarp_device *device = qp->port->device;
    if (qp->attr.type != DIWARP_QPT_RD || len > qp->attr.max_msg_bytes)
        return NULL;
    dw_lock(device);
    const uint64_t now_ns = dw_device_now_ns(device);
    struct dw_peer *peer = dw_peer_wake(dw_handle_of_ah(ah));
    dw_cq_on_use(qp->cq, now_ns);
    const struct dw_qpns qpns = {.here = qp->num, .there = dw_qpn_of_ah(ah)};
    void *at = peer ? dw_send_reserve(peer, qpns, (uint32_t)len, now_ns) : NULL;
    if (!at)
        dw_unlock(device);
    return at;
}

void diwarp_send_commit(struct diwarp_qp *qp, struct diwarp_ah *ah, uint32_t imm)
{
    (void)ah; /* it is the one that room was reserved for */
    dw_send_commit(qp->state, imm);
    dw_unlock(qp->port->device);
}

int diwarp_post_release(struct diwarp_qp *qp, uint64_t read_id, const void *data, size_t len)
{
    struct diwarp_device *device = qp->port->device;
    if (qp->attr.type != DIWARP_QPT_RD)
        return -EINVAL;
    if (len > DIWARP_RELEASE_MAX_BYTES)
        return -EMSGSIZE;
    dw_lock(device);
    const struct dw_rd *rd = qp->state;
    struct dw_record *sink = dw_map_get(&rd->records.ends, read_id);
    int rc = 0;
    if (sink && sink->state == DW_RECORD_HELD)
        rc = dw_record_end(sink, data, (uint32_t)len, dw_device_now_ns(device));
    else if (len)
        rc = -EINVAL; /* failed, or the peer is gone: nobody is there to be told */
    dw_unlock(device);
    return rc;
}
