/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA over an RD QP: reads and large writes as records, small writes in the sequenced stream.
 * Here are the posts and the messages; which bytes to ask for or to send is rel/record.c's affair,
 * the ends of a record are made and ended in rdma_record.c.
 */
#include <errno.h>

#include "common/base/copy.h"
#include "common/rnic/lock.h"
#include "common/rd/path.h"
#include "common/record/rdma.h"
#include "common/record/grant.h"
#include "common/record/sink.h"
#include "common/rd/receive.h"
#include "common/rd/send.h"

/* ---- posts ---- */

/* Not 0, nor one that is still in use after 2^31 others. */
static uint32_t next_record_id(struct diwarp_qp *qp, const struct dw_map *map,
                               const struct dw_peer *peer, uint32_t from_source)
{
    uint32_t id;
    do {
        id = ++qp->next_id & ~DW_RECORD_ID_FROM_SOURCE;
    } while (!id || dw_map_get(map, dw_record_key(peer, id | from_source)));
    return id | from_source;
}

int dw_rdma_post_read(struct diwarp_qp *qp, struct dw_peer *peer, const struct ibv_send_wr *wr,
                      uint64_t now_ns)
{
    struct iovec iov[DW_MAX_SGE];
    int64_t total = dw_send_gather(qp, wr, IBV_ACCESS_LOCAL_WRITE, UINT32_MAX >> 1, iov);
    if (total < 0)
        return (int)total;
    if (wr->num_sge != 1 || !total)
        return -EINVAL;
    uint32_t id = next_record_id(qp, &qp->sinks, peer, 0);
    struct dw_sink *sink = dw_sink_create(peer, id, (uint32_t)total, NULL, now_ns);
    if (!sink)
        return -ENOMEM;
    sink->addr = iov[0].iov_base;
    sink->stag = (uint32_t)dw_device_random(qp->device); /* this record's own; dies with it */
    sink->wr_id = wr->wr_id;
    sink->signaled = wr->send_flags & IBV_SEND_SIGNALED;
    sink->hold = wr->send_flags & DIWARP_SEND_HOLD;
    struct dw_read_request request = {
        .sink_stag = sink->stag,
        .sink_to = sink->to,
        .size = (uint32_t)total,
        .source_stag = wr->wr.rdma.rkey,
        .source_to = wr->wr.rdma.remote_addr,
        .record_id = sink->id,
        .granted = dw_sink_first_grant(sink, now_ns),
    };
    uint8_t payload[DW_READ_REQUEST_BYTES];
    dw_read_request_put(payload, &request);
    int rc = dw_send_request(peer, DW_RDMAP_READ_REQUEST, DW_QN_REQUEST, sink->id, payload,
                             sizeof payload, now_ns);
    if (rc) {
        dw_sink_destroy(sink);
        return rc;
    }
    qp->counters.tx_read_msgs++;
    return 0;
}

static int post_small_write(struct dw_peer *peer, const struct ibv_send_wr *wr,
                            const struct iovec *iov, uint32_t total, uint64_t now_ns)
{
    struct diwarp_qp *qp = peer->qp;
    struct dw_work *work = dw_work_get(qp);
    if (!work)
        return -ENOMEM;
    work->wr_id = wr->wr_id;
    work->opcode = IBV_WC_RDMA_WRITE;
    work->signaled = wr->send_flags & IBV_SEND_SIGNALED;
    work->ddp = (struct dw_ddp_header){
        .tagged = true,
        .opcode = DW_RDMAP_WRITE_RECORD,
        .stag = wr->wr.rdma.rkey,
        .to = wr->wr.rdma.remote_addr,
    };
    work->record_id = ++qp->next_id | DW_RECORD_ID_FROM_SOURCE;
    work->total = total;
    work->sge_count = (unsigned)wr->num_sge;
    memcpy(work->sge, iov, (size_t)wr->num_sge * sizeof *iov);
    if (wr->send_flags & IBV_SEND_INLINE)
        return dw_send_work_now(peer, work, now_ns);
    dw_send_work(peer, work, now_ns);
    return 0;
}

static int post_large_write(struct dw_peer *peer, const struct ibv_send_wr *wr,
                            const struct iovec *iov, uint32_t total, uint64_t now_ns)
{
    struct diwarp_qp *qp = peer->qp;
    uint32_t id = next_record_id(qp, &qp->sources, peer, DW_RECORD_ID_FROM_SOURCE);
    struct dw_source *source = dw_source_create(peer, id, iov[0].iov_base, total, 0, NULL);
    if (!source)
        return -ENOMEM;
    source->sink_stag = wr->wr.rdma.rkey;
    source->sink_to = wr->wr.rdma.remote_addr;
    source->wr_id = wr->wr_id;
    source->signaled = wr->send_flags & IBV_SEND_SIGNALED;
    struct dw_record_control open = {
        .kind = DW_RECORD_OPEN,
        .id = source->id,
        .stag = source->sink_stag,
        .to = source->sink_to,
        .length = total,
    };
    uint8_t payload[DW_RECORD_OPEN_BYTES];
    dw_record_control_put(payload, &open);
    int rc = dw_send_request(peer, DW_RDMAP_RECORD_CONTROL, DW_QN_RECORD, 0, payload,
                             sizeof payload, now_ns);
    if (rc)
        dw_source_destroy(source);
    return rc;
}

int dw_rdma_post_write(struct diwarp_qp *qp, struct dw_peer *peer, const struct ibv_send_wr *wr,
                       uint64_t now_ns)
{
    struct iovec iov[DW_MAX_SGE];
    int64_t total = dw_send_gather(qp, wr, 0, UINT32_MAX >> 1, iov);
    if (total < 0)
        return (int)total;
    int rc;
    if (!total)
        rc = -EINVAL;
    else if (total <= DW_INLINE_WRITE_BYTES)
        rc = post_small_write(peer, wr, iov, (uint32_t)total, now_ns);
    else if (wr->send_flags & IBV_SEND_INLINE)
        rc = -EMSGSIZE;
    else
        rc = wr->num_sge == 1 ? post_large_write(peer, wr, iov, (uint32_t)total, now_ns) : -EINVAL;
    if (!rc)
        qp->counters.tx_write_msgs++;
    return rc;
}

int diwarp_post_release(struct diwarp_qp *qp, uint64_t read_id, const void *data, size_t len)
{
    if (len > DIWARP_RELEASE_MAX_BYTES)
        return -EMSGSIZE;
    dw_lock(qp->device);
    struct dw_sink *sink = dw_map_get(&qp->sinks, read_id);
    int rc = 0;
    if (sink && sink->held)
        rc = dw_sink_send_complete(sink, data, (uint32_t)len, dw_device_now_ns(qp->device));
    else if (len)
        rc = -EINVAL; /* failed, or the peer is gone: nobody is there to be told */
    dw_unlock(qp->device);
    return rc;
}

/* ---- what peers ask ---- */

static void send_abort(struct dw_peer *peer, uint32_t id, bool small_write, enum dw_status status,
                       uint64_t now_ns)
{
    struct dw_record_control abort_control = {
        .kind = DW_RECORD_ABORT, .status = (uint8_t)status, .id = id};
    uint8_t payload[DW_RECORD_CONTROL_BYTES];
    dw_record_control_put(payload, &abort_control);
    if (peer->ah->gone)
        return;
    /* Without room to refuse, the other end would wait for ever: end the peer instead. */
    if (dw_send_answer(peer, DW_RDMAP_RECORD_CONTROL, DW_QN_RECORD, small_write, payload,
                       sizeof payload, now_ns))
        dw_peer_fail(peer, DIWARP_GONE_NO_ROOM);
}

void dw_rdma_abort(struct dw_peer *peer, uint32_t id, enum dw_status status, uint64_t now_ns)
{
    send_abort(peer, id, false, status, now_ns);
}

static enum dw_status check_region(struct dw_peer *peer, uint32_t stag, uint64_t to,
                                   uint32_t length, int access, struct dw_region **region)
{
    if (!dw_mr_check(&peer->qp->pd->mrs, stag, to, length, access, region))
        return DW_STATUS_OK;
    peer->qp->counters.drop_stag++;
    return DW_STATUS_BAD_STAG;
}

void dw_rdma_on_read_request(struct dw_peer *peer, const struct dw_segment *segment,
                             uint64_t now_ns)
{
    struct diwarp_qp *qp = peer->qp;
    struct dw_read_request request;
    struct dw_region *region = NULL;
    if (dw_read_request_get(&request, segment->payload, segment->bytes) || !request.size ||
        dw_map_get(&qp->sources, dw_record_key(peer, request.record_id))) {
        qp->counters.drop_header++;
        return;
    }
    enum dw_status status = check_region(peer, request.source_stag, request.source_to, request.size,
                                         IBV_ACCESS_REMOTE_READ, &region);
    struct dw_source *source = NULL;
    if (status == DW_STATUS_OK) {
        source =
            dw_source_create(peer, request.record_id, (const uint8_t *)(uintptr_t)request.source_to,
                             request.size, request.granted, region);
        if (!source)
            status = DW_STATUS_NO_RESOURCE;
    }
    if (!source) {
        dw_rdma_abort(peer, request.record_id, status, now_ns);
        return;
    }
    source->sink_stag = request.sink_stag;
    source->sink_to = request.sink_to;
    dw_peer_watch(peer); /* without a grant nothing is sent, which would see to that */
    dw_source_look(source);
}

static void on_open(struct dw_peer *peer, const struct dw_record_control *open, uint64_t now_ns)
{
    struct diwarp_qp *qp = peer->qp;
    struct dw_region *region = NULL;
    if (!open->length || dw_map_get(&qp->sinks, dw_record_key(peer, open->id))) {
        qp->counters.drop_header++;
        return;
    }
    enum dw_status status =
        check_region(peer, open->stag, open->to, open->length, IBV_ACCESS_REMOTE_WRITE, &region);
    struct dw_sink *sink = NULL;
    if (status == DW_STATUS_OK) {
        sink = dw_sink_create(peer, open->id, open->length, region, now_ns);
        if (!sink)
            status = DW_STATUS_NO_RESOURCE;
    }
    if (!sink) {
        dw_rdma_abort(peer, open->id, status, now_ns);
        return;
    }
    sink->stag = open->stag;
    sink->to = open->to;
    sink->addr = (uint8_t *)(uintptr_t)open->to;
    dw_sink_first_grant(sink, now_ns);
    dw_sink_send_status(sink, NULL, 0);
}

static void on_status(struct dw_peer *peer, const struct dw_record_control *status)
{
    struct dw_source *source = dw_map_get(&peer->qp->sources, dw_record_key(peer, status->id));
    if (!source) {
        peer->qp->counters.drop_stale_record++;
        return;
    }
    struct dw_range missing[DW_RECORD_MAX_RANGES];
    if (status->range_count)
        dw_path_on_asked_again(peer);
    for (unsigned i = 0; i < status->range_count; i++)
        missing[i] = (struct dw_range){status->ranges[i].start, status->ranges[i].end};
    if (status->granted > source->record.granted)
        dw_path_on_record_progress(peer);
    if (dw_record_source_on_status(&source->record, status->granted, missing, status->range_count))
        dw_source_look(source);
    else
        peer->qp->counters.drop_header++;
}

static void on_complete(struct dw_peer *peer, const struct dw_record_control *complete)
{
    struct diwarp_qp *qp = peer->qp;
    struct dw_source *source = dw_map_get(&qp->sources, dw_record_key(peer, complete->id));
    if (!source) {
        qp->counters.drop_stale_record++;
        return;
    }
    dw_path_on_record_progress(peer);
    if (!source->region) {
        dw_cq_complete(qp, source->wr_id, source->signaled, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS,
                       source->record.total);
    } else if (!qp->draining && complete->release_bytes) {
        struct diwarp_wc wc = {
            .wc = {.status = IBV_WC_SUCCESS,
                   .opcode = (enum ibv_wc_opcode)DIWARP_WC_RELEASE,
                   .byte_len = complete->release_bytes,
                   .qp_num = qp->num},
            .src = peer->ah->name,
            .data = complete->release,
        };
        qp->arena_held = true;
        dw_cq_push(qp->cq, &wc);
    }
    dw_source_destroy(source);
}

static void on_abort(struct dw_peer *peer, const struct dw_record_control *control)
{
    struct diwarp_qp *qp = peer->qp;
    enum ibv_wc_status status = dw_wc_status(control->status);
    if (status == IBV_WC_SUCCESS)
        status = IBV_WC_REM_ABORT_ERR;
    struct dw_sink *sink = dw_map_get(&qp->sinks, dw_record_key(peer, control->id));
    struct dw_source *source = dw_map_get(&qp->sources, dw_record_key(peer, control->id));
    /* Only who was asked refuses, so it is about a request of ours. The peer's requests bear ids of
     * its own counting: one may have the same. */
    if (sink && !sink->region && !sink->held)
        dw_sink_fail(sink, status);
    else if (source && !source->region)
        dw_source_fail(source, status);
    else if (!dw_send_fail(peer, control->id, status))
        qp->counters.drop_stale_record++;
}

void dw_rdma_on_control(struct dw_peer *peer, const struct dw_segment *segment, bool sequenced,
                        uint64_t now_ns)
{
    struct dw_record_control control;
    /* Unsequenced it may come twice, or into a buffer that does not stay: no harm in a status. */
    if (!segment->ddp.last || segment->ddp.mo ||
        dw_record_control_get(&control, segment->payload, segment->bytes) ||
        (!sequenced && control.kind != DW_RECORD_STATUS)) {
        peer->qp->counters.drop_header++;
        return;
    }
    switch (control.kind) {
    case DW_RECORD_OPEN:
        on_open(peer, &control, now_ns);
        break;
    case DW_RECORD_STATUS:
        on_status(peer, &control);
        break;
    case DW_RECORD_COMPLETE:
        on_complete(peer, &control);
        break;
    default:
        on_abort(peer, &control);
        break;
    }
}

/* ---- segments that carry data ---- */

/* The payload behind the Write-Record header, which must lie inside its record. */
static bool parse_write(struct dw_peer *peer, const struct dw_segment *segment,
                        struct dw_write_record *wr, const uint8_t **data, uint32_t *length)
{
    if (dw_write_record_get(wr, segment->payload, segment->bytes)) {
        peer->qp->counters.drop_header++;
        return false;
    }
    *data = segment->payload + DW_WRITE_RECORD_BYTES;
    *length = segment->bytes - DW_WRITE_RECORD_BYTES;
    if (*length && *length <= wr->total - wr->offset)
        return true;
    peer->qp->counters.drop_header++;
    return false;
}

void dw_rdma_on_record_segment(struct dw_peer *peer, const struct dw_segment *segment,
                               uint64_t now_ns)
{
    struct diwarp_qp *qp = peer->qp;
    struct dw_write_record wr;
    const uint8_t *data;
    uint32_t length;
    if (!parse_write(peer, segment, &wr, &data, &length))
        return;
    struct dw_sink *sink = dw_map_get(&qp->sinks, dw_record_key(peer, wr.id));
    if (!sink || sink->held) {
        qp->counters.drop_stale_record++;
        return;
    }
    if (segment->ddp.stag != sink->stag || wr.total != sink->record.total ||
        segment->ddp.to != sink->to + wr.offset || wr.offset + length > sink->record.granted) {
        qp->counters.drop_stag++;
        return;
    }
    dw_sink_place(sink, wr.offset, data, length, now_ns);
}

void dw_rdma_on_write_segment(struct dw_peer *peer, const struct dw_segment *segment,
                              uint64_t now_ns)
{
    struct diwarp_qp *qp = peer->qp;
    struct dw_write_record wr;
    struct dw_region *region;
    const uint8_t *data;
    uint32_t length;
    if (!parse_write(peer, segment, &wr, &data, &length))
        return;
    enum dw_status status = check_region(peer, segment->ddp.stag, segment->ddp.to, length,
                                         IBV_ACCESS_REMOTE_WRITE, &region);
    if (status == DW_STATUS_OK) {
        dw_copy((void *)(uintptr_t)segment->ddp.to, data, length);
        qp->cq->served++;
    } else if (qp->refused_write != dw_record_key(peer, wr.id)) {
        qp->refused_write = dw_record_key(peer, wr.id);
        send_abort(peer, wr.id, true, status, now_ns);
    }
}
