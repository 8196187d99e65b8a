/* SPDX-License-Identifier: BSD-3-Clause */
/* Posts to RD QPs: checked, then made works and records by kind. */
#include "common/rd/parts.h"

#include <errno.h>
#include <string.h>

#include "common/rnic/device.h"

/* A work request whose gather list has been checked. */
struct post {
    const struct dw_ends *ends;
    struct dw_peer *peer;
    const struct ibv_send_wr *wr;
    struct iovec iov[DW_MAX_SGE];
    uint32_t total; /* bytes of iov */
    uint64_t now_ns;
};

/* A work of own_bytes, which the caller fills in; if that is 0, of what post->iov lists. NULL: no
 * memory. */
static struct dw_work *work_of(const struct post *post, enum ibv_wc_opcode kind,
                               enum dw_rdmap_opcode opcode, enum dw_ddp_queue qn,
                               uint32_t own_bytes)
{
    struct dw_work *work =
        dw_work_get(post->peer, post->ends, opcode, qn, own_bytes ? own_bytes : post->total);
    if (!work)
        return NULL;
    work->wr_id = post->wr->wr_id;
    work->opcode = kind;
    work->signaled = post->wr->send_flags & IBV_SEND_SIGNALED;
    if (!own_bytes)
        memcpy(work->sge, post->iov, (size_t)post->wr->num_sge * sizeof *post->iov);
    return work;
}

static enum dw_rdmap_opcode send_opcode(const struct ibv_send_wr *wr)
{
    static const enum dw_rdmap_opcode opcodes[][2] = {
        [IBV_WR_SEND] = {DW_RDMAP_SEND, DW_RDMAP_SEND_SE},
        [IBV_WR_SEND_WITH_IMM] = {DW_RDMAP_SEND_IMM, DW_RDMAP_SEND_SE_IMM},
        [IBV_WR_SEND_WITH_INV] = {DW_RDMAP_SEND_INVALIDATE, DW_RDMAP_SEND_SE_INVALIDATE},
    };
    return opcodes[wr->opcode][!!(wr->send_flags & IBV_SEND_SOLICITED)];
}

static int post_send(const struct post *post)
{
    struct dw_peer *peer = post->peer;
    const struct ibv_send_wr *wr = post->wr;
    const bool buffered = wr->send_flags & DIWARP_SEND_BUFFERED;
    if (post->total > post->ends->qp->attr.max_msg_bytes)
        return -EMSGSIZE;
    struct dw_work *work = work_of(post, IBV_WC_SEND, send_opcode(wr), DW_QN_SEND, 0);
    if (!work)
        return -ENOMEM;
    if (wr->opcode != IBV_WR_SEND)
        work->ddp.ulp = wr->imm_data; /* or invalidate_rkey, in the same place */
    work->ddp.msn = ++dw_met_of(peer)->send_msn;
    /* Told by the return value when it is copied before we return. */
    const bool signaled = work->signaled;
    work->signaled = signaled && !buffered;
    work->buffered = buffered;
    work->fence = wr->send_flags & IBV_SEND_FENCE;
    const int rc = dw_send_posted(peer, work, wr->send_flags & IBV_SEND_INLINE, post->now_ns);
    if (rc)
        return rc;
    dw_rd_of(peer)->counters->tx_send_msgs++;
    if (dw_list_empty(&peer->pending))
        return buffered;
    work->signaled = signaled;
    return 0;
}

static int post_small_write(const struct post *post)
{
    struct dw_rd *rd = dw_rd_of(post->peer);
    struct dw_work *work = work_of(post, IBV_WC_RDMA_WRITE, DW_RDMAP_WRITE_RECORD, 0, 0);
    if (!work)
        return -ENOMEM;
    work->ddp.tagged = true;
    work->ddp.stag = post->wr->wr.rdma.rkey;
    work->ddp.to = post->wr->wr.rdma.remote_addr;
    work->record_id = ++rd->records.next_id | DW_RECORD_ID_FROM_SOURCE;
    const int rc =
        dw_send_posted(post->peer, work, post->wr->send_flags & IBV_SEND_INLINE, post->now_ns);
    rd->counters->tx_write_msgs += !rc;
    return rc;
}

/* The message that tells the peer of a record of ours. NULL: no memory, the record has ended. */
static struct dw_work *announce(const struct post *post, struct dw_record *record,
                                enum dw_rdmap_opcode opcode, enum dw_ddp_queue qn, uint32_t bytes)
{
    const struct dw_ends ours = {.qpns = post->ends->qpns};
    struct dw_work *work = record ? dw_work_get(post->peer, &ours, opcode, qn, bytes) : NULL;
    if (work) {
        work->record_id = record->id;
        record->wr_id = post->wr->wr_id;
        record->send_flags = post->wr->send_flags;
    } else if (record) {
        dw_record_destroy(record);
    }
    return work;
}

/* Of no bytes: there is nothing to wait for. */
static int post_immediate(const struct post *post)
{
    const struct ibv_send_wr *wr = post->wr;
    struct dw_work *work =
        dw_rdma_immediate(post->peer, post->ends, wr->send_flags, wr->imm_data, 0);
    if (!work)
        return -ENOMEM;
    work->wr_id = wr->wr_id;
    dw_send_work(post->peer, work, post->now_ns);
    dw_rd_of(post->peer)->counters->tx_write_msgs++;
    return 0;
}

/* With immediate data even a short one is a record, for its end is known: of writes in the
 * sequenced stream the peer tells only those that it refuses. */
static int post_write(const struct post *post)
{
    struct dw_peer *peer = post->peer;
    const struct ibv_send_wr *wr = post->wr;
    const bool has_imm = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    if (has_imm && !post->total)
        return post_immediate(post);
    if (!has_imm && post->total && post->total <= DW_INLINE_WRITE_BYTES)
        return post_small_write(post);
    if (post->total && wr->send_flags & IBV_SEND_INLINE)
        return -EMSGSIZE;
    if (!post->total || wr->num_sge != 1)
        return -EINVAL;
    const uint32_t id = dw_record_next_id(&peer->records, DW_RECORD_ID_FROM_SOURCE);
    struct dw_record *source = dw_source_create(post->ends, &peer->records, id,
                                                post->iov[0].iov_base, post->total, 0, NULL);
    struct dw_work *work =
        announce(post, source, DW_RDMAP_RECORD_CONTROL, DW_QN_RECORD, DW_RECORD_OPEN_BYTES);
    if (!work)
        return -ENOMEM;
    source->stag = wr->wr.rdma.rkey;
    source->to = wr->wr.rdma.remote_addr;
    source->has_imm = has_imm;
    source->imm = has_imm ? wr->imm_data : 0;
    const struct dw_record_control open = {
        .kind = DW_RECORD_OPEN,
        .id = id,
        .stag = source->stag,
        .to = source->to,
        .length = post->total,
    };
    dw_record_control_put(work->own, &open);
    dw_send_work(peer, work, post->now_ns);
    dw_rd_of(peer)->counters->tx_write_msgs++;
    return 0;
}

static int post_read(const struct post *post)
{
    struct dw_peer *peer = post->peer;
    const struct ibv_send_wr *wr = post->wr;
    if (wr->num_sge != 1 || !post->total)
        return -EINVAL;
    struct dw_record *sink =
        dw_sink_create(post->ends, &peer->records, dw_record_next_id(&peer->records, 0),
                       post->iov[0].iov_base, post->total, NULL, post->now_ns);
    struct dw_work *work =
        announce(post, sink, DW_RDMAP_READ_REQUEST, DW_QN_REQUEST, DW_READ_REQUEST_BYTES);
    if (!work)
        return -ENOMEM;
    /* This record's own; dies with it. */
    sink->stag = (uint32_t)dw_device_random(dw_rd_of(peer)->port->device);
    const struct dw_read_request request = {
        .sink_stag = sink->stag,
        .sink_to = sink->to,
        .size = post->total,
        .source_stag = wr->wr.rdma.rkey,
        .source_to = wr->wr.rdma.remote_addr,
        .record_id = sink->id,
        .granted = dw_grant_first(sink, post->now_ns),
    };
    dw_read_request_put(work->own, &request);
    dw_send_work(peer, work, post->now_ns);
    dw_rd_of(peer)->counters->tx_read_msgs++;
    return 0;
}

/* A work that ends with its response. */
static int post_atomic(const struct post *post)
{
    struct dw_rd *rd = dw_rd_of(post->peer);
    const struct ibv_send_wr *wr = post->wr;
    const bool add = wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    const struct dw_atomic_request request = {
        .opcode = add ? DW_ATOMIC_FETCH_ADD : DW_ATOMIC_CMP_SWAP,
        .request_id = ++rd->records.next_id,
        .stag = wr->wr.atomic.rkey,
        .to = wr->wr.atomic.remote_addr,
        .add_swap = add ? wr->wr.atomic.compare_add : wr->wr.atomic.swap,
        .add_swap_mask = add ? 0 : UINT64_MAX,
        .compare = add ? 0 : wr->wr.atomic.compare_add,
        .compare_mask = add ? 0 : UINT64_MAX,
    };
    if (wr->num_sge > 1 || post->total != (size_t)wr->num_sge * sizeof(uint64_t) ||
        request.to % sizeof(uint64_t))
        return -EINVAL;
    struct dw_work *work = work_of(post, add ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP,
                                   DW_RDMAP_ATOMIC_REQUEST, DW_QN_REQUEST, DW_ATOMIC_REQUEST_BYTES);
    if (!work)
        return -ENOMEM;
    dw_atomic_request_put(work->own, &request);
    work->atomic = true;
    work->result = wr->num_sge ? post->iov[0].iov_base : NULL;
    work->record_id = request.request_id;
    dw_send_work(post->peer, work, post->now_ns);
    rd->counters->tx_atomic_msgs++;
    return 0;
}

int dw_rd_post_send(struct diwarp_qp *qp, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                    uint64_t now_ns)
{
    static const struct {
        int (*post)(const struct post *post);
        uint32_t max_bytes;
        int access; /* to our memory */
    } kinds[] = {
        [IBV_WR_SEND] = {post_send, DW_REQUEST_MAX_BYTES, 0},
        [IBV_WR_SEND_WITH_IMM] = {post_send, DW_REQUEST_MAX_BYTES, 0},
        [IBV_WR_SEND_WITH_INV] = {post_send, DW_REQUEST_MAX_BYTES, 0},
        [IBV_WR_RDMA_WRITE] = {post_write, DW_REQUEST_MAX_BYTES, 0},
        [IBV_WR_RDMA_WRITE_WITH_IMM] = {post_write, DW_REQUEST_MAX_BYTES, 0},
        [IBV_WR_RDMA_READ] = {post_read, DW_REQUEST_MAX_BYTES, IBV_ACCESS_LOCAL_WRITE},
        [IBV_WR_ATOMIC_CMP_AND_SWP] = {post_atomic, sizeof(uint64_t), IBV_ACCESS_LOCAL_WRITE},
        [IBV_WR_ATOMIC_FETCH_AND_ADD] = {post_atomic, sizeof(uint64_t), IBV_ACCESS_LOCAL_WRITE},
    };
    const struct dw_ends ends = {.qp = qp, .qpns = {.here = qp->num, .there = ah->qpn}};
    struct dw_handle *handle = dw_handle_of_ah(ah);
    const unsigned kind = (unsigned)wr->opcode;
    if (kind >= sizeof kinds / sizeof *kinds || !kinds[kind].post ||
        (wr->send_flags & IBV_SEND_FENCE && kinds[kind].post != post_send))
        return -EINVAL;
    if (handle->state == DW_PEER_GONE || handle->state == DW_PEER_DOOMED)
        return -EHOSTUNREACH;
    struct post post = {.ends = &ends, .peer = dw_peer_wake(handle), .wr = wr, .now_ns = now_ns};
    if (!post.peer || 0u + post.peer->queued + post.peer->records.own_count >= qp->attr.max_send_wr)
        return -ENOMEM;
    const int64_t total = dw_pd_gather(qp->pd, wr->sg_list, wr->num_sge, kinds[kind].access,
                                       kinds[kind].max_bytes, post.iov, DW_MAX_SGE);
    if (total < 0)
        return (int)total;
    post.total = (uint32_t)total;
    return kinds[kind].post(&post);
}

/* ---- calls that only RD knows ---- */

/* Holds the lock until diwarp_send_commit(). */
void *diwarp_send_reserve(struct diwarp_qp *qp, struct diwarp_ah *ah, size_t len)
{
    struct diwarp_device *device = qp->port->device;
    if (qp->attr.type != DIWARP_QPT_RD || len > qp->attr.max_msg_bytes)
        return NULL;
    dw_lock(device);
    const uint64_t now_ns = dw_device_now_ns(device);
    struct dw_peer *peer = dw_peer_wake(dw_handle_of_ah(ah));
    dw_cq_on_use(qp->cq, now_ns);
    const struct dw_qpns qpns = {.here = qp->num, .there = ah->qpn};
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
