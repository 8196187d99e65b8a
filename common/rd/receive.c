/* SPDX-License-Identifier: BSD-3-Clause */
/* RD datagrams that come: source, then window, then segments by opcode; acknowledgements last, for
 * a refusal that travels with one must come first. A failed check is a counted drop, nothing else.
 */
#include "common/rd/parts.h"

/* A standalone acknowledgement costs both sides as much as a train does, and is sent when so much
 * is owed: one part for each receive call that brought data, one more for so many datagrams of it.
 * A sender that cannot wait asks. */
#define ACK_OWED_MAX       8u
#define ACK_PART_DATAGRAMS 16

static void heard_from(struct dw_peer *peer, const struct dw_llp_header *header, uint64_t now_ns)
{
    struct dw_rd *rd = dw_rd_of(peer);
    dw_rd_begin_epoch(rd, now_ns);
    if ((!peer->introduced && !header->path) ||
        peer->records.contact.heard_ns < rd->epoch_end_ns - DW_EPOCH_NS) {
        rd->epoch_senders++;
        dw_peer_on_use(peer);
    }
    if (!header->path) {
        peer->timestamp = header->timestamp;
        /* It has our token, so it has our address too: both come together. */
        peer->introduced = true;
    }
    dw_handle_of(peer)->heard = dw_met_of(peer)->goes_on = true;
    peer->records.contact.heard_ns = now_ns;
    peer->unreachables = 0;
    peer->yields = false;
}

/* ---- segments ---- */

/* false: no buffer for it. */
static bool take_segment(const struct dw_incoming *in)
{
    static bool (*const takers[])(const struct dw_incoming *in) = {
        [DW_RDMAP_READ_REQUEST] = dw_rdma_on_read_request,
        [DW_RDMAP_IMMEDIATE] = dw_deliver_immediate,
        [DW_RDMAP_IMMEDIATE_SE] = dw_deliver_immediate,
        [DW_RDMAP_ATOMIC_REQUEST] = dw_rdma_on_atomic_request,
        [DW_RDMAP_ATOMIC_RESPONSE] = dw_rdma_on_atomic_response,
        [DW_RDMAP_WRITE_RECORD] = dw_rdma_on_write_segment,
        [DW_RDMAP_RECORD_CONTROL] = dw_rdma_on_control,
    };
    const struct dw_ddp_header *ddp = &in->segment.ddp;
    const uint8_t opcode = ddp->opcode;
    if (in->sequenced && dw_rdmap_takes_receive(opcode) && !dw_rdmap_is_immediate(opcode))
        return dw_deliver_send(in);
    /* What is untagged and not a Send is one whole message (WIRE.md 4). */
    const bool whole = ddp->tagged || (ddp->last && !ddp->mo);
    const bool expected =
        in->sequenced || opcode == DW_RDMAP_WRITE_RECORD || opcode == DW_RDMAP_RECORD_CONTROL;
    if (!whole || !expected || opcode >= sizeof takers / sizeof *takers || !takers[opcode] ||
        !takers[opcode](in))
        dw_rd_of(in->peer)->counters->drop_header++;
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

static bool wants_a_receive(const struct dw_arrival *arrival)
{
    struct diwarp_counters unused = {0};
    struct dw_segment segment;
    uint32_t offset = 0;
    bool wants = false;
    while (!wants &&
           dw_segment_next(&unused, arrival->segments, arrival->segments_len, &offset, &segment))
        wants = dw_rdmap_takes_receive(segment.ddp.opcode);
    return wants;
}

/* By its PSN, and the room for it: false, it is not taken. */
static bool is_new(const struct dw_incoming *in, const struct dw_arrival *arrival)
{
    struct dw_peer *peer = in->peer;
    struct dw_rd *rd = dw_rd_of(peer);
    const enum dw_recvwin_verdict verdict = dw_recvwin_check(&peer->recvwin, arrival->header.psn);
    const bool fresh = verdict == DW_RECVWIN_NEW;
    const struct diwarp_qp *qp = in->ends.qp;
    if (fresh && qp && !dw_qp_takes_sends(qp) && wants_a_receive(arrival)) {
        rd->refuser = qp;
        peer->qp_full = true;
    } else if (fresh && !rd->port->refuses_data) {
        return true;
    }
    rd->counters->rx_dup_datagrams += verdict == DW_RECVWIN_DUPLICATE;
    rd->counters->drop_window += verdict == DW_RECVWIN_BEYOND;
    rd->counters->drop_no_buffer += fresh;
    if (!fresh || !peer->told_full) /* else it knows that its credit is none */
        dw_peer_ack_soon(peer);
    return false;
}

static void take_segments(struct dw_incoming *in, const struct dw_arrival *arrival)
{
    struct dw_peer *peer = in->peer;
    struct dw_rd *rd = dw_rd_of(peer);
    const uint32_t psn = arrival->header.psn;
    uint32_t offset = 0;
    in->sequenced = arrival->header.type == DW_LLP_DATA;
    in->in_order = psn == peer->recvwin.ack;
    if (in->sequenced && !is_new(in, arrival))
        return;
    for (bool first = true; dw_segment_next(rd->counters, arrival->segments, arrival->segments_len,
                                            &offset, &in->segment);
         first = false) {
        bool taken = take_segment(in);
        rd->counters->drop_no_buffer += !taken;
        /* Only a message that spans datagrams can lack a buffer, and such a one begins its
         * datagram: nothing of it has been taken yet. */
        if (!dw_peer_is_live(peer) || (!taken && first))
            return;
    }
    if (!in->sequenced)
        return;
    dw_recvwin_on_received(&peer->recvwin, psn);
    peer->data_acked = peer->probe_acked = false;
    owe_ack(peer, arrival, in->now_ns);
}

/* ---- acknowledgements ---- */

static void free_acked(struct dw_peer *peer, struct dw_list *acked)
{
    dw_foreach (datagram, struct dw_datagram, tx.link, acked) {
        /* The peer has the last ABORT of its writes: our headers say REFUSING no more, by which it
         * knows that its other writes are placed. */
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
    peer->backoff = 0; /* a newer credit may have been overtaken by this header: probe soon */
    dw_timers_watch(peer);
    if (has_room) {
        (void)dw_sendwin_on_probe_reply(&peer->sendwin, UINT64_MAX);
        peer->retrying = peer->sendwin.any_lost;
    }
}

/* An echo's 16 bits of time repeat after 67 ms. Of what was sent again longer ago than half of
 * that, the echo of the first transmission may read like that of the repeat. */
#define ECHO_TELLS_NS (UINT64_C(0x8000) << DW_TIMESTAMP_SHIFT)

/* When what the echo names was sent: of the times with these 16 bits, the last. */
static uint64_t echo_ns(const struct dw_llp_header *header, uint64_t now_ns)
{
    const uint64_t now = now_ns >> DW_TIMESTAMP_SHIFT;
    const uint16_t age = (uint16_t)(now - header->timestamp_echo);
    const bool told = header->timestamp_echo && !header->path; /* what goes by it has no PSN */
    return told && age < now ? ((now - age + 1) << DW_TIMESTAMP_SHIFT) - 1 : 0;
}

static void send_again(struct dw_peer *peer, unsigned acked, unsigned lost, bool had_room,
                       uint64_t now_ns)
{
    if (lost && had_room && !peer->retrying) /* else it was refused */
        dw_peer_on_lost(&peer->records, now_ns);
    if (acked && peer->retrying) /* there may be room for twice as many */
        dw_transmit_lost_most(peer, 2 * acked, now_ns);
    else if (lost || peer->retrying)
        dw_transmit_lost(peer, now_ns);
}

/* After the segments. */
static void take_ack(struct dw_peer *peer, const struct dw_llp_header *header, uint64_t now_ns)
{
    struct dw_list acked;
    struct dw_sendwin_result result;
    dw_list_init(&acked);
    if (header->flags & DW_LLP_ACK_REQUEST) {
        dw_peer_ack_soon(peer);
        dw_rd_of(peer)->port->device->served++;
    }
    if (!dw_peer_is_live(peer))
        return;
    const bool had_room = peer->sendwin.credit_bytes;
    if (!had_room || !header->credit_kib)
        dw_sendwin_on_refusal(&peer->sendwin);
    const struct dw_ack ack = {.psn = header->ack,
                               .sack = header->sack,
                               .echo_ns = echo_ns(header, now_ns),
                               .echo_from_ns = now_ns > ECHO_TELLS_NS ? now_ns - ECHO_TELLS_NS : 0};
    if (dw_sendwin_on_ack(&peer->sendwin, &ack, now_ns, &acked, &result)) {
        dw_rd_of(peer)->counters->drop_header++;
        return;
    }
    if (result.acked)
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
        const uint64_t sent_ns = dw_probe_on_reply(peer, header, now_ns);
        dw_sinks_on_probe_reply(&peer->records, sent_ns, now_ns);
        lost += header->credit_kib ? dw_sendwin_on_probe_reply(&peer->sendwin, sent_ns) : 0;
    }
    take_credit(peer, header, had_room);
    send_again(peer, result.acked, lost, had_room, now_ns);
    /* Also the writes that were held back while it said REFUSING, though this header may
     * acknowledge nothing new: no other would end them. */
    bool refusing = header->flags & DW_LLP_REFUSING;
    if ((result.acked || !refusing) && dw_send_end_awaiting(peer, header->ack, refusing))
        peer->backoff = 0;
    /* There may be room for more, and what is sent again may be refused again. */
    if ((result.acked || !had_room) && (peer->open || !dw_list_empty(&peer->pending)))
        dw_peer_look_again(peer);
}

/* ---- datagrams ---- */

void dw_rd_take(void *state, struct diwarp_qp *qp, const struct dw_arrival *arrival,
                uint64_t now_ns)
{
    struct dw_rd *rd = state;
    const struct dw_llp_header *header = &arrival->header;
    struct dw_auth *auth = rd->port->datagrams.seal.auth;
    struct dw_peer *peer = dw_identity_of(rd, arrival, now_ns);
    if (!peer)
        return;
    if (auth && !dw_auth_on_taken(auth, header)) {
        rd->counters->drop_no_buffer++;
        return;
    }
    struct dw_incoming in = {
        .peer = peer,
        .ends = {.qp = qp, .qpns = {.here = header->dst_qpn, .there = header->src_qpn}},
        .arrival = arrival,
        .now_ns = now_ns,
    };
    heard_from(peer, header, now_ns);
    if (arrival->intro && !header->path)
        dw_probe_on_intro(peer, arrival->intro);
    if (header->type == DW_LLP_DATA || header->type == DW_LLP_RECORD)
        take_segments(&in, arrival);
    else if (header->type == DW_LLP_PROBE)
        dw_probe_answer(peer, arrival);
    take_ack(peer, header, now_ns);
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
                         arrival->len - DW_LLP_HEADER_BYTES - DW_CRC_BYTES, &segment))
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
    dw_probe_on_record_came(peer, header->path);
    dw_sink_place(&placing, now_ns);
    take_ack(peer, header, now_ns);
    return true;
}
