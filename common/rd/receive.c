/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RD datagrams that come: source, then window, then segments by opcode; acknowledgements last, for
 * a refusal that travels with one must come first. A failed check is a counted drop, nothing else.
 */
#include "common/rd/parts.h"
#include "common/rnic/port.h"

/* A standalone acknowledgement costs both sides as much as a train does, and is sent when so much
 * is owed: one part for each receive call that brought data, one more for so many datagrams of it.
 * A sender that cannot wait asks. */
#define ACK_OWED_MAX       8u
#define ACK_PART_DATAGRAMS 16

/* ---- the source ---- */

/* How many peers send to us at the same time: they share the credit. */
static void count_sender(struct dw_peer *peer, uint64_t now_ns)
{
    struct dw_rd *rd = dw_rd_of(peer);
    dw_rd_begin_epoch(rd, now_ns);
    if (!peer->introduced || peer->records.contact.heard_ns < rd->epoch_end_ns - DW_EPOCH_NS) {
        rd->epoch_senders++;
        dw_peer_on_use(peer);
    }
}

static void heard_from(struct dw_peer *peer, const struct dw_llp_header *header, uint64_t now_ns)
{
    count_sender(peer, now_ns);
    peer->timestamp = header->timestamp;
    /* It has our token, so it has our address too: both come together. */
    dw_handle_of(peer)->heard = dw_met_of(peer)->goes_on = peer->introduced = true;
    peer->records.contact.heard_ns = now_ns;
    peer->unreachable = false;
}

/* ---- segments ---- */

/* What is untagged and not a Send is one whole message (WIRE.md 4). */
static bool is_whole(const struct dw_ddp_header *ddp)
{
    return ddp->tagged || ddp->opcode == DW_RDMAP_SEND || ddp->opcode == DW_RDMAP_SEND_IMM ||
           (ddp->last && !ddp->mo);
}

/* false: no buffer for it. */
static bool on_sequenced_segment(struct dw_peer *peer, const struct dw_ends *ends,
                                 const struct dw_segment *segment, bool in_order, uint64_t now_ns)
{
    switch (is_whole(&segment->ddp) ? segment->ddp.opcode : UINT8_MAX) {
    case DW_RDMAP_SEND:
    case DW_RDMAP_SEND_IMM:
        return dw_deliver_send(peer, ends, segment, in_order);
    case DW_RDMAP_WRITE_RECORD:
        dw_rdma_on_write_segment(peer, ends, segment, now_ns);
        break;
    case DW_RDMAP_READ_REQUEST:
        dw_rdma_on_read_request(peer, ends, segment, now_ns);
        break;
    case DW_RDMAP_RECORD_CONTROL:
        dw_rdma_on_control(peer, ends, segment, true, now_ns);
        break;
    case DW_RDMAP_ATOMIC_REQUEST:
        dw_atomic_on_request(peer, ends, segment, now_ns);
        break;
    case DW_RDMAP_ATOMIC_RESPONSE:
        dw_atomic_on_response(peer, segment);
        break;
    default:
        dw_rd_of(peer)->counters->drop_header++;
        break;
    }
    return true;
}

static void owe_ack(struct dw_peer *peer, const struct dw_arrival *arrival, uint64_t now_ns)
{
    struct dw_rd *rd = dw_rd_of(peer);
    unsigned owed = peer->ack_owed;
    owed += arrival->train ? 1u + arrival->train / ACK_PART_DATAGRAMS : !owed;
    peer->ack_owed = (owed < ACK_OWED_MAX ? owed : ACK_OWED_MAX) & 0xf;
    peer->ack_owed_bytes += dw_llp_truesize(arrival->len);
    if (dw_recvwin_has_gap(&peer->recvwin) || peer->ack_owed >= ACK_OWED_MAX ||
        peer->ack_owed_bytes >= rd->records.eager_budget_bytes / 4)
        dw_peer_ack_soon(peer);
    else
        dw_timers_wake(peer, now_ns + rd->port->device->attr.ack_delay_ns);
}

/* By its PSN: false, it is not taken. */
static bool is_new(struct dw_peer *peer, uint32_t psn)
{
    struct dw_rd *rd = dw_rd_of(peer);
    switch (dw_recvwin_check(&peer->recvwin, psn)) {
    case DW_RECVWIN_DUPLICATE:
        rd->counters->rx_dup_datagrams++;
        break;
    case DW_RECVWIN_BEYOND:
        rd->counters->drop_window++;
        break;
    case DW_RECVWIN_NEW:
        if (!rd->port->refuses_data)
            return true;
        rd->counters->drop_no_buffer++;
        if (peer->told_full)
            return false; /* it knows that its credit is none */
        break;
    }
    dw_peer_ack_soon(peer);
    return false;
}

static void on_data(struct dw_peer *peer, const struct dw_ends *ends,
                    const struct dw_arrival *arrival, uint64_t now_ns)
{
    struct dw_rd *rd = dw_rd_of(peer);
    const uint32_t psn = arrival->header.psn, len = arrival->segments_len;
    if (!is_new(peer, psn))
        return;
    struct dw_segment segment;
    uint32_t offset = 0;
    bool in_order = psn == peer->recvwin.ack;
    for (bool first = true;
         dw_segment_next(rd->counters, arrival->segments, len, &offset, &segment) > 0;
         first = false) {
        bool taken = on_sequenced_segment(peer, ends, &segment, in_order, now_ns);
        rd->counters->drop_no_buffer += !taken;
        /* Only a message that spans datagrams can lack a buffer, and such a one begins its
         * datagram: nothing of it has been taken yet. */
        if (!dw_peer_is_live(peer) || (!taken && first))
            return;
    }
    dw_recvwin_on_received(&peer->recvwin, psn);
    peer->data_acked = peer->probe_acked = false;
    owe_ack(peer, arrival, now_ns);
}

static void on_record(struct dw_peer *peer, const struct dw_ends *ends,
                      const struct dw_arrival *arrival, uint64_t now_ns)
{
    struct dw_rd *rd = dw_rd_of(peer);
    struct dw_segment segment;
    uint32_t at = 0;
    while (dw_peer_is_live(peer) && dw_segment_next(rd->counters, arrival->segments,
                                                    arrival->segments_len, &at, &segment) > 0) {
        if (segment.ddp.opcode == DW_RDMAP_WRITE_RECORD) {
            dw_sink_on_segment(&peer->records, &segment, now_ns);
        } else if (segment.ddp.opcode == DW_RDMAP_RECORD_CONTROL) {
            dw_rdma_on_control(peer, ends, &segment, false, now_ns);
        } else {
            rd->counters->drop_header++;
        }
    }
}

/* ---- acknowledgements ---- */

static void free_acked(struct dw_peer *peer, struct dw_list *acked)
{
    dw_foreach (datagram, struct dw_datagram, tx.link, acked) {
        /* It has the last ABORT of its writes: it is told that the others are placed. */
        if (datagram->refusals && !(peer->refusals -= datagram->refusals))
            dw_peer_ack_soon(peer);
        dw_list_remove(&datagram->tx.link);
        dw_datagram_put(dw_rd_of(peer), datagram);
    }
}

/* What its credit was and is now. */
static void take_credit(struct dw_peer *peer, const struct dw_llp_header *header, bool had_room)
{
    /* Not of one that others have overtaken. */
    if (!dw_serial_before(header->ack, dw_sendwin_first_psn(&peer->sendwin)))
        peer->sendwin.credit_bytes = (uint32_t)header->credit_kib << 10;
    const bool has_room = peer->sendwin.credit_bytes;
    if (has_room == had_room)
        return;
    peer->backoff = 0; /* this may be older than what it says last: it is asked soon */
    dw_timers_watch(peer);
    if (has_room)
        (void)dw_sendwin_on_probe_reply(&peer->sendwin, UINT64_MAX);
}

static void take_ack(struct dw_peer *peer, const struct dw_llp_header *header, uint64_t now_ns)
{
    struct dw_list acked;
    struct dw_sendwin_result result;
    dw_list_init(&acked);
    const bool had_room = peer->sendwin.credit_bytes;
    if (!had_room || !header->credit_kib)
        dw_sendwin_on_refusal(&peer->sendwin);
    if (dw_sendwin_on_ack(&peer->sendwin, header->ack, header->sack, now_ns, &acked, &result)) {
        dw_rd_of(peer)->counters->drop_header++;
        return;
    }
    dw_probe_on_acked(peer, &acked);
    free_acked(peer, &acked);
    if (result.rtt_ns)
        dw_rtt_on_sample(&dw_met_of(peer)->rtt, result.rtt_ns);
    if (result.acked) {
        peer->backoff = 0;
        peer->records.contact.asked_ns = now_ns;
    }
    unsigned lost = result.lost;
    if (header->type == DW_LLP_PROBE_REPLY) {
        const uint64_t sent_ns = dw_probe_on_reply(peer, header->psn, now_ns);
        dw_sinks_on_probe_reply(&peer->records, sent_ns, now_ns);
        lost += header->credit_kib ? dw_sendwin_on_probe_reply(&peer->sendwin, sent_ns) : 0;
    }
    take_credit(peer, header, had_room);
    if (lost || !had_room)
        dw_transmit_lost(peer, now_ns);
    /* Also what was held back while it refused: then nothing is acknowledged a second time. */
    bool refusing = header->flags & DW_LLP_REFUSING;
    if ((result.acked || !refusing) && dw_send_end_awaiting(peer, header->ack, refusing))
        peer->backoff = 0;
    /* There may be room for more. */
    if (result.acked && (peer->open || !dw_list_empty(&peer->pending)))
        dw_peer_look_again(peer);
}

static void after_segments(struct dw_peer *peer, const struct dw_llp_header *header,
                           uint64_t now_ns)
{
    if (header->flags & DW_LLP_ACK_REQUEST) {
        dw_peer_ack_soon(peer);
        dw_rd_of(peer)->port->device->served++;
    }
    if (dw_peer_is_live(peer))
        take_ack(peer, header, now_ns);
}

/* ---- datagrams ---- */

void dw_rd_take(void *state, struct diwarp_qp *qp, const struct dw_arrival *arrival,
                uint64_t now_ns)
{
    struct dw_rd *rd = state;
    const struct dw_llp_header *header = &arrival->header;
    struct dw_peer *peer = dw_identity_of(rd, arrival, now_ns);
    if (!peer)
        return;
    const struct dw_ends ends = {.qp = qp,
                                 .qpns = {.here = header->dst_qpn, .there = header->src_qpn}};
    heard_from(peer, header, now_ns);
    switch (header->type) {
    case DW_LLP_DATA:
        on_data(peer, &ends, arrival, now_ns);
        break;
    case DW_LLP_RECORD:
        on_record(peer, &ends, arrival, now_ns);
        break;
    case DW_LLP_PROBE:
        (void)dw_control_send(peer, DW_LLP_PROBE_REPLY, header->psn);
        break;
    default:
        break;
    }
    after_segments(peer, header, now_ns);
}

/* The one segment of a record: copied to its place while it is opened. */
bool dw_rd_place(void *state, const struct dw_arrival *arrival, uint64_t now_ns)
{
    const struct dw_rd *rd = state;
    const struct dw_llp_header *header = &arrival->header;
    const struct diwarp_name name = {.job = header->job, .rank = header->rank};
    struct dw_segment segment;
    struct dw_placing placing;
    if (header->type != DW_LLP_RECORD || (header->flags & DW_LLP_INTRO) ||
        !dw_segment_only(arrival->buf + DW_LLP_HEADER_BYTES,
                         arrival->len - DW_LLP_HEADER_BYTES - DW_TRAILER_BYTES, &segment))
        return false;
    struct dw_handle *handle = dw_handle_find(&rd->handles, name);
    if (!handle || handle->state != DW_PEER_AWAKE || !handle->heard ||
        handle->ah.incarnation != header->incarnation)
        return false;
    struct dw_peer *peer = dw_handle_peer(handle);
    if (!dw_sink_open(&peer->records, arrival, &segment, &placing))
        return false;
    if (!placing.sink)
        return true; /* damaged */
    heard_from(peer, header, now_ns);
    dw_sink_place(&placing, now_ns);
    after_segments(peer, header, now_ns);
    return true;
}
