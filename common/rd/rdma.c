/* SPDX-License-Identifier: BSD-3-Clause */
/* What peers ask of our memory, and what they answer: reads, writes, and 64-bit atomics (RFC 7306
 * section 5). These have a PSN: each is executed once. The CPU does it: they mix with its own. */
#include "common/rd/parts.h"

#include <errno.h>
#include <string.h>

#include "common/base/copy.h"
#include "common/mem/atomic.h"
#include "common/wire/bytes.h"

/* Answers that wait for the window to a peer, in 5 MB: a peer that asks without end and
 * acknowledges nothing is not to fill our memory. An honest peer stays below: it has DW_QUEUED_MAX
 * requests open at most, and as many COMPLETEs of our reads from it wait behind their answers. */
#define ANSWERS_MAX (2 * DW_QUEUED_MAX)
/* ABORTs of small writes, until they are acknowledged: of those that are under way, and of a
 * datagram full of later ones that brings the acknowledgement. */
#define REFUSALS_MAX (2 * DW_QUEUED_MAX)

/* ---- our answers ---- */

/* refusal: the ABORT of a small write. NULL: there is no room, and the peer is doomed, for it would
 * wait for ever. To drop what asks instead would drop the answers that come with it: two such ends
 * would wait for each other. */
static struct dw_work *answer(struct dw_peer *peer, struct dw_qpns qpns,
                              enum dw_rdmap_opcode opcode, enum dw_ddp_queue qn, bool refusal,
                              uint32_t bytes)
{
    const struct dw_ends ends = {.qpns = qpns};
    struct dw_work *work = NULL;
    if (peer->answers < ANSWERS_MAX && (!refusal || peer->refusals < REFUSALS_MAX))
        work = dw_work_get(peer, &ends, opcode, qn, bytes);
    if (!work) {
        dw_peer_doom(peer, DIWARP_GONE_NO_ROOM);
        return NULL;
    }
    work->answer = true;
    work->refusal = refusal;
    peer->answers++;
    peer->refusals = (uint16_t)(peer->refusals + refusal);
    return work;
}

int dw_rdma_answer(struct dw_peer *peer, struct dw_qpns qpns,
                   const struct dw_record_control *control, enum dw_answer how, uint64_t now_ns)
{
    struct dw_work *work =
        answer(peer, qpns, DW_RDMAP_RECORD_CONTROL, DW_QN_RECORD, how == DW_ANSWER_REFUSAL,
               DW_RECORD_CONTROL_BYTES + control->release_bytes);
    if (!work)
        return -ENOMEM;
    dw_record_control_put(work->own, control);
    if (how == DW_ANSWER_NEXT_RUN)
        dw_send_work_next_run(peer, work, now_ns);
    else
        dw_send_work(peer, work, now_ns);
    return 0;
}

static void send_abort(struct dw_peer *peer, struct dw_qpns qpns, uint32_t id, bool refusal,
                       enum dw_status status, uint64_t now_ns)
{
    const struct dw_record_control control = {
        .kind = DW_RECORD_ABORT,
        .status = status == DW_STATUS_OK ? DW_STATUS_NO_RESOURCE : (uint8_t)status,
        .id = id,
    };
    if (dw_peer_is_live(peer))
        (void)dw_rdma_answer(peer, qpns, &control, refusal ? DW_ANSWER_REFUSAL : DW_ANSWER_AWAITED,
                             now_ns);
}

/* In the sequenced stream, which loses nothing; what the sink asks for again goes as a record. */
static void answer_short_read(struct dw_peer *peer, struct dw_record *source, uint64_t now_ns)
{
    const uint32_t bytes = source->out.total;
    struct dw_work *work = answer(peer, source->qpns, DW_RDMAP_WRITE_RECORD, 0, false, bytes);
    if (!work)
        return;
    work->ddp.tagged = true;
    work->ddp.stag = source->stag;
    work->ddp.to = source->to;
    work->record_id = source->id;
    memcpy(work->own, source->addr, bytes);
    dw_send_work(peer, work, now_ns);
    source->out.sent = bytes;
    dw_rd_of(peer)->counters->tx_record_segments++;
    dw_rd_of(peer)->counters->tx_record_bytes += bytes;
}

/* ---- what peers ask ---- */

/* Of `length` bytes at `to` here. */
static enum dw_status check_region(const struct dw_incoming *in, uint32_t stag, uint64_t to,
                                   uint32_t length, int access, struct dw_region **region)
{
    struct diwarp_counters *counters = dw_rd_of(in->peer)->counters;
    if (!in->ends.qp) {
        counters->drop_qpn++;
        return DW_STATUS_CANCELLED;
    }
    const struct diwarp_name *name = &dw_handle_of(in->peer)->ah.name;
    const bool aligned = access != IBV_ACCESS_REMOTE_ATOMIC || to % sizeof(uint64_t) == 0;
    if (aligned && !dw_mr_check(&in->ends.qp->pd->mrs, name, stag, to, length, access, region))
        return DW_STATUS_OK;
    counters->drop_stag++;
    return DW_STATUS_BAD_STAG;
}

bool dw_rdma_on_read_request(const struct dw_incoming *in)
{
    struct dw_peer *peer = in->peer;
    struct dw_read_request request;
    struct dw_region *region = NULL;
    if (dw_read_request_get(&request, in->segment.payload, in->segment.bytes) || !request.size ||
        dw_source_of(&peer->records, request.record_id))
        return false;
    enum dw_status status = check_region(in, request.source_stag, request.source_to, request.size,
                                         IBV_ACCESS_REMOTE_READ, &region);
    struct dw_record *source = NULL;
    if (status == DW_STATUS_OK)
        source = dw_source_create(&in->ends, &peer->records, request.record_id,
                                  dw_region_at(region, request.source_to), request.size,
                                  request.granted, region);
    if (!source) {
        send_abort(peer, in->ends.qpns, request.record_id, false, status, in->now_ns);
        return true;
    }
    source->stag = request.sink_stag;
    source->to = request.sink_to;
    if (request.size <= DW_SHORT_READ_BYTES && request.granted == request.size)
        answer_short_read(peer, source, in->now_ns);
    dw_timers_watch(peer); /* without a grant nothing is sent, which would see to that */
    dw_source_look(source);
    return true;
}

static bool on_open(const struct dw_incoming *in, const struct dw_record_control *open)
{
    struct dw_peer *peer = in->peer;
    struct dw_region *region = NULL;
    if (!open->length || dw_sink_of(&peer->records, open->id))
        return false;
    enum dw_status status =
        check_region(in, open->stag, open->to, open->length, IBV_ACCESS_REMOTE_WRITE, &region);
    struct dw_record *sink = NULL;
    if (status == DW_STATUS_OK)
        sink = dw_sink_create(&in->ends, &peer->records, open->id, dw_region_at(region, open->to),
                              open->length, region, in->now_ns);
    if (!sink) {
        send_abort(peer, in->ends.qpns, open->id, false, status, in->now_ns);
        return true;
    }
    sink->stag = open->stag;
    sink->to = open->to;
    return true;
}

bool dw_rdma_on_write_segment(const struct dw_incoming *in)
{
    struct dw_rd *rd = dw_rd_of(in->peer);
    const uint64_t to = in->segment.ddp.to;
    struct dw_write_record wr;
    struct dw_region *region;
    const uint8_t *data;
    uint32_t length;
    if (!dw_segment_write_record(&in->segment, &wr, &data, &length))
        return false;
    if (!in->sequenced || !(wr.id & DW_RECORD_ID_FROM_SOURCE)) {
        /* Of a record, or it answers a short read of ours. */
        dw_probe_on_record_came(in->peer, in->arrival->header.path);
        dw_sink_on_segment(&in->peer->records, &in->segment, in->arrival, in->now_ns);
        return true;
    }
    enum dw_status status =
        check_region(in, in->segment.ddp.stag, to, length, IBV_ACCESS_REMOTE_WRITE, &region);
    const uint64_t key = dw_record_key(&in->peer->records, wr.id, true);
    if (status == DW_STATUS_OK) {
        dw_copy(dw_region_at(region, to), data, length);
        rd->port->device->served++;
    } else if (rd->refused_write != key) {
        rd->refused_write = key;
        send_abort(in->peer, in->ends.qpns, wr.id, true, status, in->now_ns);
    }
    return true;
}

bool dw_rdma_on_atomic_request(const struct dw_incoming *in)
{
    struct dw_atomic_request request;
    struct dw_region *region;
    if (dw_atomic_request_get(&request, in->segment.payload, in->segment.bytes))
        return false;
    struct dw_atomic_response response = {.request_id = request.request_id};
    response.status = check_region(in, request.stag, request.to, sizeof(uint64_t),
                                   IBV_ACCESS_REMOTE_ATOMIC, &region);
    if (response.status == DW_STATUS_OK)
        response.original = dw_atomic_execute(&request, dw_region_at(region, request.to));
    struct dw_work *work = answer(in->peer, in->ends.qpns, DW_RDMAP_ATOMIC_RESPONSE,
                                  DW_QN_ATOMIC_RESPONSE, false, DW_ATOMIC_RESPONSE_BYTES);
    if (!work)
        return true;
    dw_atomic_response_put(work->own, &response);
    dw_send_work(in->peer, work, in->now_ns);
    return true;
}

/* ---- what they answer ---- */

struct dw_work *dw_rdma_immediate(struct dw_peer *peer, const struct dw_ends *ends,
                                  unsigned send_flags, uint32_t imm, uint32_t bytes)
{
    const bool solicited = send_flags & IBV_SEND_SOLICITED;
    struct dw_work *work =
        dw_work_get(peer, ends, solicited ? DW_RDMAP_IMMEDIATE_SE : DW_RDMAP_IMMEDIATE, DW_QN_SEND,
                    DW_IMMEDIATE_BYTES);
    if (!work)
        return NULL;
    work->opcode = IBV_WC_RDMA_WRITE;
    work->signaled = send_flags & IBV_SEND_SIGNALED;
    work->ddp.msn = ++dw_met_of(peer)->send_msn;
    dw_put_be32(work->own, imm);
    dw_put_be32(work->own + sizeof(uint32_t), bytes);
    return work;
}

static bool on_status(const struct dw_incoming *in, struct dw_record *source,
                      const struct dw_record_control *status)
{
    struct dw_peer *peer = in->peer;
    if (!source->qp) { /* now the sink is known to have it */
        (void)dw_record_end(source, NULL, 0, in->now_ns);
        return true;
    }
    const struct dw_llp_header *header = &in->arrival->header;
    const struct dw_record_by by = {.way = header->path, .timestamp = header->timestamp};
    if (status->range_count && !by.way)
        dw_probe_on_asked_again(peer);
    if (status->granted > source->out.granted)
        peer->pairs_lost = 0;
    if (!dw_record_source_on_status(&source->out, by, status->granted, status->ranges,
                                    status->range_count))
        return false;
    dw_source_look(source);
    return true;
}

/* A write with immediate data is all there: now its application is told. */
static void tell(struct dw_peer *peer, const struct dw_record *write, uint64_t now_ns)
{
    const struct dw_ends ends = {.qp = write->qp, .qpns = write->qpns};
    struct dw_work *work =
        dw_rdma_immediate(peer, &ends, write->send_flags, write->imm, write->out.total);
    if (!work) {
        dw_qp_complete(write->qp, write->wr_id, true, IBV_WC_RDMA_WRITE, IBV_WC_GENERAL_ERR, 0);
        return;
    }
    work->wr_id = write->wr_id;
    dw_send_work(peer, work, now_ns);
}

static void on_complete(struct dw_peer *peer, struct dw_record *source,
                        const struct dw_record_control *complete, uint64_t now_ns)
{
    const struct dw_ends ends = {.qp = source->qp, .qpns = source->qpns};
    peer->pairs_lost = 0;
    if (source->region && complete->release_bytes)
        dw_deliver(peer, &ends,
                   &(struct ibv_wc){.opcode = (enum ibv_wc_opcode)DIWARP_WC_RELEASE,
                                    .byte_len = complete->release_bytes},
                   complete->release);
    else if (!source->region && source->qp && source->has_imm)
        tell(peer, source, now_ns);
    else if (!source->region && source->qp)
        dw_qp_complete(source->qp, source->wr_id, source->send_flags & IBV_SEND_SIGNALED,
                       IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS, source->out.total);
    dw_record_destroy(source);
}

/* WITHDRAWN comes from the end that asked, and ends what we do for it; any other status comes from
 * the end that was asked, and ends a request of ours. Each end numbers its own requests, so that
 * both may use one id. */
static void on_abort(struct dw_peer *peer, struct dw_record *source,
                     const struct dw_record_control *control)
{
    enum ibv_wc_status status = dw_wc_status(control->status);
    if (status == IBV_WC_SUCCESS)
        status = IBV_WC_REM_ABORT_ERR;
    const bool withdrawn = control->status == DW_STATUS_WITHDRAWN;
    struct dw_record *sink = dw_sink_of(&peer->records, control->id);
    struct dw_work *write = NULL;
    if (withdrawn && sink && sink->region)
        dw_record_destroy(sink);
    else if (!withdrawn && sink && !sink->region && sink->state != DW_RECORD_HELD)
        dw_record_fail(sink, status);
    else if (!withdrawn && source && !source->region)
        dw_record_fail(source, status);
    else if (!withdrawn && (write = dw_work_find(peer, control->id, false)))
        dw_work_end(peer, write, status);
    else
        dw_rd_of(peer)->counters->drop_stale_record++;
}

bool dw_rdma_on_control(const struct dw_incoming *in)
{
    struct dw_record_control control;
    /* Unsequenced it may come twice, or into a buffer that does not stay: no harm in a status. */
    if (dw_record_control_get(&control, in->segment.payload, in->segment.bytes) ||
        (!in->sequenced && control.kind != DW_RECORD_STATUS))
        return false;
    struct dw_record *source = dw_source_of(&in->peer->records, control.id);
    if (control.kind == DW_RECORD_OPEN)
        return on_open(in, &control);
    if (control.kind == DW_RECORD_STATUS && source)
        return on_status(in, source, &control);
    if (control.kind == DW_RECORD_ABORT)
        on_abort(in->peer, source, &control);
    else if (source)
        on_complete(in->peer, source, &control, in->now_ns);
    else
        dw_rd_of(in->peer)->counters->drop_stale_record++;
    return true;
}

bool dw_rdma_on_atomic_response(const struct dw_incoming *in)
{
    struct dw_atomic_response response;
    if (dw_atomic_response_get(&response, in->segment.payload, in->segment.bytes))
        return false;
    struct dw_work *work = dw_work_find(in->peer, response.request_id, true);
    if (!work) {
        dw_rd_of(in->peer)->counters->drop_stale_record++;
        return true;
    }
    if (work->result && response.status == DW_STATUS_OK)
        *work->result = response.original;
    dw_work_end(in->peer, work, dw_wc_status((uint8_t)response.status));
    return true;
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
