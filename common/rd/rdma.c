/* SPDX-License-Identifier: BSD-3-Clause */
/* Posts of reads and writes, and the messages about them. */
#include "common/rd/parts.h"

#include <errno.h>
#include <string.h>

#include "common/base/copy.h"

/* ---- posts ---- */

/* Tells the peer of a record of ours. False: no memory, it has ended. */
static bool announce(struct dw_record *record, enum dw_rdmap_opcode opcode, enum dw_ddp_queue qn,
                     const uint8_t *payload, uint32_t bytes, uint64_t now_ns)
{
    struct dw_peer *peer = dw_peer_of_records(record->peer);
    const struct dw_ends ours = {.qpns = record->qpns};
    struct dw_work *work = dw_work_own(peer, &ours, opcode, qn, payload, bytes);
    if (!work) {
        dw_record_destroy(record);
        return false;
    }
    work->record_id = record->id;
    dw_send_work(peer, work, now_ns);
    return true;
}

int dw_rdma_post_read(const struct dw_ends *ends, struct dw_peer *peer,
                      const struct ibv_send_wr *wr, uint64_t now_ns)
{
    struct iovec iov[DW_MAX_SGE];
    int64_t total = dw_pd_gather(ends->qp->pd, wr->sg_list, wr->num_sge, IBV_ACCESS_LOCAL_WRITE,
                                 UINT32_MAX >> 1, iov);
    if (total < 0)
        return (int)total;
    if (wr->num_sge != 1 || !total)
        return -EINVAL;
    struct dw_record *sink =
        dw_sink_create(ends, &peer->records, dw_record_next_id(&peer->records, 0), iov[0].iov_base,
                       (uint32_t)total, NULL, now_ns);
    if (!sink)
        return -ENOMEM;
    /* This record's own; dies with it. */
    sink->stag = (uint32_t)dw_device_random(dw_rd_of(peer)->port->device);
    sink->wr_id = wr->wr_id;
    sink->send_flags = wr->send_flags;
    const struct dw_read_request request = {
        .sink_stag = sink->stag,
        .sink_to = sink->to,
        .size = (uint32_t)total,
        .source_stag = wr->wr.rdma.rkey,
        .source_to = wr->wr.rdma.remote_addr,
        .record_id = sink->id,
        .granted = dw_grant_first(sink, now_ns),
    };
    uint8_t payload[DW_READ_REQUEST_BYTES];
    dw_read_request_put(payload, &request);
    if (!announce(sink, DW_RDMAP_READ_REQUEST, DW_QN_REQUEST, payload, sizeof payload, now_ns))
        return -ENOMEM;
    dw_rd_of(peer)->counters->tx_read_msgs++;
    return 0;
}

static int post_small_write(const struct dw_ends *ends, struct dw_peer *peer,
                            const struct ibv_send_wr *wr, const struct iovec *iov, uint32_t total,
                            uint64_t now_ns)
{
    const struct dw_ddp_header ddp = {
        .tagged = true,
        .opcode = DW_RDMAP_WRITE_RECORD,
        .stag = wr->wr.rdma.rkey,
        .to = wr->wr.rdma.remote_addr,
    };
    struct dw_work *work = dw_work_of_request(ends, peer, wr, IBV_WC_RDMA_WRITE, &ddp, iov, total);
    if (!work)
        return -ENOMEM;
    work->record_id = ++dw_rd_of(peer)->records.next_id | DW_RECORD_ID_FROM_SOURCE;
    if (wr->send_flags & IBV_SEND_INLINE)
        return dw_send_work_now(peer, work, now_ns);
    dw_send_work(peer, work, now_ns);
    return 0;
}

static int post_large_write(const struct dw_ends *ends, struct dw_peer *peer,
                            const struct ibv_send_wr *wr, const struct iovec *iov, uint32_t total,
                            uint64_t now_ns)
{
    const uint32_t id = dw_record_next_id(&peer->records, DW_RECORD_ID_FROM_SOURCE);
    struct dw_record *source =
        dw_source_create(ends, &peer->records, id, iov[0].iov_base, total, 0, NULL);
    if (!source)
        return -ENOMEM;
    source->stag = wr->wr.rdma.rkey;
    source->to = wr->wr.rdma.remote_addr;
    source->wr_id = wr->wr_id;
    source->send_flags = wr->send_flags;
    const struct dw_record_control open = {
        .kind = DW_RECORD_OPEN,
        .id = source->id,
        .stag = source->stag,
        .to = source->to,
        .length = total,
    };
    uint8_t payload[DW_RECORD_OPEN_BYTES];
    dw_record_control_put(payload, &open);
    return announce(source, DW_RDMAP_RECORD_CONTROL, DW_QN_RECORD, payload, sizeof payload, now_ns)
               ? 0
               : -ENOMEM;
}

int dw_rdma_post_write(const struct dw_ends *ends, struct dw_peer *peer,
                       const struct ibv_send_wr *wr, uint64_t now_ns)
{
    struct iovec iov[DW_MAX_SGE];
    int64_t total = dw_pd_gather(ends->qp->pd, wr->sg_list, wr->num_sge, 0, UINT32_MAX >> 1, iov);
    if (total < 0)
        return (int)total;
    int rc = -EINVAL;
    if (total && total <= DW_INLINE_WRITE_BYTES)
        rc = post_small_write(ends, peer, wr, iov, (uint32_t)total, now_ns);
    else if (total && wr->send_flags & IBV_SEND_INLINE)
        rc = -EMSGSIZE;
    else if (total && wr->num_sge == 1)
        rc = post_large_write(ends, peer, wr, iov, (uint32_t)total, now_ns);
    if (!rc)
        dw_rd_of(peer)->counters->tx_write_msgs++;
    return rc;
}

/* ---- what peers ask ---- */

static void send_abort(struct dw_peer *peer, struct dw_qpns qpns, uint32_t id, bool small_write,
                       enum dw_status status, uint64_t now_ns)
{
    const struct dw_record_control control = {
        .kind = DW_RECORD_ABORT,
        .status = status == DW_STATUS_OK ? DW_STATUS_NO_RESOURCE : (uint8_t)status,
        .id = id,
    };
    if (dw_peer_is_live(peer))
        (void)dw_send_record_answer(peer, qpns, &control, small_write, now_ns);
}

static enum dw_status check_region(struct dw_peer *peer, const struct diwarp_qp *qp, uint32_t stag,
                                   uint64_t to, uint32_t length, int access,
                                   struct dw_region **region)
{
    if (!qp) {
        dw_rd_of(peer)->counters->drop_qpn++;
        return DW_STATUS_CANCELLED;
    }
    int rc = dw_mr_check_peer(&qp->pd->mrs, dw_name_key(dw_handle_of(peer)->ah.name), stag, to,
                              length, access, region);
    if (!rc)
        return DW_STATUS_OK;
    dw_rd_of(peer)->counters->drop_stag++;
    return DW_STATUS_BAD_STAG;
}

/* In the sequenced stream, which loses nothing. Without memory for that the data go as a record, as
 * do those that the sink asks for again. */
static void answer_short_read(struct dw_record *source, uint64_t now_ns)
{
    struct dw_peer *peer = dw_peer_of_records(source->peer);
    struct diwarp_counters *counters = dw_rd_of(peer)->counters;
    const uint32_t bytes = source->out.total;
    const struct dw_ddp_header ddp = {
        .tagged = true,
        .opcode = DW_RDMAP_WRITE_RECORD,
        .stag = source->stag,
        .to = source->to,
    };
    if (dw_send_read_answer(peer, source->qpns, &ddp, source->id, source->addr, bytes, now_ns))
        return;
    source->out.sent = bytes;
    counters->tx_record_segments++;
    counters->tx_record_bytes += bytes;
}

void dw_rdma_on_read_request(struct dw_peer *peer, const struct dw_ends *ends,
                             const struct dw_segment *segment, uint64_t now_ns)
{
    struct dw_read_request request;
    struct dw_region *region = NULL;
    if (dw_read_request_get(&request, segment->payload, segment->bytes) || !request.size ||
        dw_source_of(&peer->records, request.record_id)) {
        dw_rd_of(peer)->counters->drop_header++;
        return;
    }
    enum dw_status status = check_region(peer, ends->qp, request.source_stag, request.source_to,
                                         request.size, IBV_ACCESS_REMOTE_READ, &region);
    struct dw_record *source = NULL;
    if (status == DW_STATUS_OK)
        source = dw_source_create(ends, &peer->records, request.record_id,
                                  (const void *)(uintptr_t)request.source_to, request.size,
                                  request.granted, region);
    if (!source) {
        send_abort(peer, ends->qpns, request.record_id, false, status, now_ns);
        return;
    }
    source->stag = request.sink_stag;
    source->to = request.sink_to;
    if (request.size <= DW_SHORT_READ_BYTES && request.granted == request.size)
        answer_short_read(source, now_ns);
    dw_timers_watch(peer); /* without a grant nothing is sent, which would see to that */
    dw_source_look(source);
}

static void on_open(struct dw_peer *peer, const struct dw_ends *ends,
                    const struct dw_record_control *open, uint64_t now_ns)
{
    struct dw_region *region = NULL;
    if (!open->length || dw_sink_of(&peer->records, open->id)) {
        dw_rd_of(peer)->counters->drop_header++;
        return;
    }
    enum dw_status status = check_region(peer, ends->qp, open->stag, open->to, open->length,
                                         IBV_ACCESS_REMOTE_WRITE, &region);
    struct dw_record *sink = NULL;
    if (status == DW_STATUS_OK)
        sink = dw_sink_create(ends, &peer->records, open->id, (void *)(uintptr_t)open->to,
                              open->length, region, now_ns);
    if (!sink) {
        send_abort(peer, ends->qpns, open->id, false, status, now_ns);
        return;
    }
    sink->stag = open->stag;
    sink->to = open->to;
}

static void on_status(struct dw_peer *peer, const struct dw_record_control *status, uint64_t now_ns)
{
    struct dw_record *source = dw_source_of(&peer->records, status->id);
    if (!source) {
        dw_rd_of(peer)->counters->drop_stale_record++;
        return;
    }
    if (!source->qp) { /* now the sink is known to have it */
        (void)dw_record_end(source, NULL, 0, now_ns);
        return;
    }
    if (status->range_count)
        dw_probe_on_asked_again(peer);
    if (status->granted > source->out.granted)
        peer->pairs_lost = 0;
    if (dw_record_source_on_status(&source->out, status->granted, status->ranges,
                                   status->range_count))
        dw_source_look(source);
    else
        dw_rd_of(peer)->counters->drop_header++;
}

static void push_release(const struct dw_record *source, const struct dw_record_control *complete)
{
    const struct diwarp_wc wc = {
        .wc = {.status = IBV_WC_SUCCESS,
               .opcode = (enum ibv_wc_opcode)DIWARP_WC_RELEASE,
               .byte_len = complete->release_bytes,
               .qp_num = source->qp->num,
               .src_qp = source->qpns.there},
        .src = source->peer->ah->name,
        .data = complete->release,
    };
    if (!source->qp->draining && complete->release_bytes)
        dw_qp_push_held(source->qp, &wc);
}

static void on_complete(struct dw_peer *peer, const struct dw_record_control *complete)
{
    struct dw_record *source = dw_source_of(&peer->records, complete->id);
    if (!source) {
        dw_rd_of(peer)->counters->drop_stale_record++;
        return;
    }
    peer->pairs_lost = 0;
    if (source->region)
        push_release(source, complete);
    else if (source->qp)
        dw_qp_complete(source->qp, source->wr_id, source->send_flags & IBV_SEND_SIGNALED,
                       IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS, source->out.total);
    dw_record_destroy(source);
}

static void on_abort(struct dw_peer *peer, const struct dw_record_control *control)
{
    enum ibv_wc_status status = dw_wc_status(control->status);
    if (status == IBV_WC_SUCCESS)
        status = IBV_WC_REM_ABORT_ERR;
    struct dw_record *sink = dw_sink_of(&peer->records, control->id);
    struct dw_record *source = dw_source_of(&peer->records, control->id);
    /* Who asked withdraws; only who was asked refuses, which is about a request of ours. The peer's
     * requests bear ids of its own counting: one may have the same. */
    if (control->status == DW_STATUS_WITHDRAWN) {
        if (sink && sink->region)
            dw_record_destroy(sink);
        else
            dw_rd_of(peer)->counters->drop_stale_record++;
    } else if (sink && !sink->region && sink->state != DW_RECORD_HELD)
        dw_record_fail(sink, status);
    else if (source && !source->region)
        dw_record_fail(source, status);
    else if (!dw_send_fail(peer, control->id, status))
        dw_rd_of(peer)->counters->drop_stale_record++;
}

void dw_rdma_on_control(struct dw_peer *peer, const struct dw_ends *ends,
                        const struct dw_segment *segment, bool sequenced, uint64_t now_ns)
{
    struct dw_record_control control;
    /* Unsequenced it may come twice, or into a buffer that does not stay: no harm in a status. */
    if (!segment->ddp.last || segment->ddp.mo ||
        dw_record_control_get(&control, segment->payload, segment->bytes) ||
        (!sequenced && control.kind != DW_RECORD_STATUS)) {
        dw_rd_of(peer)->counters->drop_header++;
        return;
    }
    switch (control.kind) {
    case DW_RECORD_OPEN:
        on_open(peer, ends, &control, now_ns);
        break;
    case DW_RECORD_STATUS:
        on_status(peer, &control, now_ns);
        break;
    case DW_RECORD_COMPLETE:
        on_complete(peer, &control);
        break;
    default:
        on_abort(peer, &control);
        break;
    }
}

void dw_rdma_on_write_segment(struct dw_peer *peer, const struct dw_ends *ends,
                              const struct dw_segment *segment, uint64_t now_ns)
{
    struct dw_rd *rd = dw_rd_of(peer);
    struct dw_write_record wr;
    struct dw_region *region;
    const uint8_t *data;
    uint32_t length;
    if (!dw_segment_write_record(segment, &wr, &data, &length)) {
        rd->counters->drop_header++;
        return;
    }
    if (!(wr.id & DW_RECORD_ID_FROM_SOURCE)) {
        dw_sink_on_segment(&peer->records, segment, now_ns); /* answers a short read of ours */
        return;
    }
    enum dw_status status = check_region(peer, ends->qp, segment->ddp.stag, segment->ddp.to, length,
                                         IBV_ACCESS_REMOTE_WRITE, &region);
    const uint64_t key = dw_record_key(&peer->records, wr.id, true);
    if (status == DW_STATUS_OK) {
        dw_copy((void *)(uintptr_t)segment->ddp.to, data, length);
        rd->port->device->served++;
    } else if (rd->refused_write != key) {
        rd->refused_write = key;
        send_abort(peer, ends->qpns, wr.id, true, status, now_ns);
    }
}

/* ---- records that end before they are done ---- */

void dw_rdma_end(struct dw_peer *peer, const struct dw_region *region, const struct diwarp_qp *qp,
                 enum dw_ending how, uint64_t now_ns)
{
    dw_foreach (record, struct dw_record, link, &peer->records.ends) {
        if (region ? record->region != region : qp && record->qp != qp)
            continue;
        if (how == DW_END_TELL_PEER && record->region)
            send_abort(peer, record->qpns, record->id, false, DW_STATUS_CANCELLED, now_ns);
        if (how == DW_END_TELL_PEER && !record->region)
            dw_record_abandon(record, now_ns);
        else if (how == DW_END_IN_ERROR && record->state != DW_RECORD_HELD)
            dw_record_fail(record, IBV_WC_RETRY_EXC_ERR);
        else
            dw_record_destroy(record);
    }
}
