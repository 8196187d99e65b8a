/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What comes from the LLP. Each datagram: length, version, token, CRC, source, window; then its
 * segments, by opcode; STags last. A failed check is a counted drop, nothing else.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/pages.h"
#include "common/rd/atomic.h"
#include "common/rd/deliver.h"
#include "common/rd/identity.h"
#include "common/rd/path.h"
#include "common/record/rdma.h"
#include "common/record/sink.h"
#include "common/rd/receive.h"
#include "common/rd/send.h"
#include "common/rd/transmit.h"
#include "common/ud/ud.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"

/* Standalone acknowledgements: at least one for so many datagrams. */
#define ACK_EVERY_DATAGRAMS 8
#define EPOCH_NS            1000000

/* ---- segments ---- */

int dw_next_segment(struct diwarp_qp *qp, const uint8_t *buf, uint32_t len, uint32_t *offset,
                    struct dw_segment *segment)
{
    if (*offset == len)
        return 0;
    /* `buf` is where the first segment may begin. */
    for (uint32_t pad = dw_segment_padding(DW_LLP_HEADER_BYTES + *offset); pad; pad--)
        if (buf[(*offset)++] || *offset == len)
            goto bad_length;
    if (len - *offset < DW_SEGMENT_LEN_BYTES)
        goto bad_length;
    uint32_t bytes = dw_get_be16(buf + *offset);
    const uint8_t *start = buf + *offset + DW_SEGMENT_LEN_BYTES;
    if (bytes > len - *offset - DW_SEGMENT_LEN_BYTES)
        goto bad_length;
    int head = dw_ddp_get(&segment->ddp, start, bytes);
    if (head < 0) {
        qp->counters.drop_header++;
        return head;
    }
    segment->payload = start + head;
    segment->bytes = bytes - (uint32_t)head;
    *offset += DW_SEGMENT_LEN_BYTES + bytes;
    return 1;

bad_length:
    qp->counters.drop_short++;
    return -EBADMSG;
}

bool dw_only_segment(const uint8_t *buf, uint32_t len, uint32_t lead, struct dw_segment *segment)
{
    const uint8_t *start = buf + lead + DW_SEGMENT_LEN_BYTES;
    if (len < lead + DW_SEGMENT_LEN_BYTES + DW_CRC_BYTES)
        return false;
    uint32_t bytes = len - lead - DW_SEGMENT_LEN_BYTES - DW_CRC_BYTES;
    if (dw_get_be16(buf + lead) != bytes)
        return false;
    int head = dw_ddp_get(&segment->ddp, start, bytes);
    if (head < 0)
        return false;
    segment->payload = start + head;
    segment->bytes = bytes - (uint32_t)head;
    return true;
}

/* A segment of a sequenced datagram. false: no buffer for it. */
static bool on_sequenced_segment(struct dw_peer *peer, const struct dw_segment *segment,
                                 bool in_order, uint64_t now_ns)
{
    switch (segment->ddp.opcode) {
    case DW_RDMAP_SEND:
    case DW_RDMAP_SEND_IMM:
        return dw_deliver_send(peer, segment, in_order);
    case DW_RDMAP_WRITE_RECORD:
        dw_rdma_on_write_segment(peer, segment, now_ns);
        return true;
    case DW_RDMAP_READ_REQUEST:
        dw_rdma_on_read_request(peer, segment, now_ns);
        return true;
    case DW_RDMAP_RECORD_CONTROL:
        dw_rdma_on_control(peer, segment, true, now_ns);
        return true;
    case DW_RDMAP_ATOMIC_REQUEST:
        dw_atomic_on_request(peer, segment, now_ns);
        return true;
    case DW_RDMAP_ATOMIC_RESPONSE:
        dw_atomic_on_response(peer, segment);
        return true;
    default:
        peer->qp->counters.drop_header++;
        return true;
    }
}

/* ---- RD datagrams ---- */

/* With the answer of the application, if there is one soon. */
static void ack_soon(struct dw_peer *peer)
{
    if (!dw_list_linked(&peer->ack_link))
        dw_list_append(&peer->qp->ack, &peer->ack_link);
}

static void ack_now(struct dw_peer *peer)
{
    ack_soon(peer);
    peer->ack_now = true;
}

static void owe_ack(struct dw_peer *peer, uint32_t len, uint64_t now_ns)
{
    struct diwarp_qp *qp = peer->qp;
    peer->unanswered = true;
    if (!peer->ack_owed_datagrams)
        dw_peer_set_ack_due(peer, qp->device->attr.ack_delay_ns, now_ns);
    if (peer->ack_owed_datagrams < DW_ACK_OWED_MAX)
        peer->ack_owed_datagrams++;
    peer->ack_owed_256b = (uint16_t)(peer->ack_owed_256b + dw_llp_truesize(len) / 256);
    if (dw_recvwin_has_gap(&peer->recvwin))
        ack_now(peer);
    else if (peer->ack_owed_datagrams >= ACK_EVERY_DATAGRAMS ||
             peer->ack_owed_256b >= qp->eager_budget_bytes / 4 / 256)
        ack_soon(peer);
    else
        dw_peer_wake(peer, dw_peer_ack_due_ns(peer, now_ns));
}

static void on_data(struct dw_peer *peer, const struct dw_llp_header *header,
                    const uint8_t *segments, uint32_t len, uint64_t now_ns)
{
    struct diwarp_qp *qp = peer->qp;
    switch (dw_recvwin_check(&peer->recvwin, header->psn)) {
    case DW_RECVWIN_DUPLICATE:
        qp->counters.rx_dup_datagrams++;
        ack_now(peer);
        return;
    case DW_RECVWIN_BEYOND:
        qp->counters.drop_window++;
        ack_now(peer);
        return;
    case DW_RECVWIN_NEW:
        break;
    }
    if (qp->refuses_data) {
        qp->counters.drop_no_buffer++;
        if (!peer->told_full)
            ack_now(peer); /* its credit is none */
        return;
    }
    struct dw_segment segment;
    uint32_t offset = 0;
    bool in_order = header->psn == peer->recvwin.ack;
    for (bool first = true; dw_next_segment(qp, segments, len, &offset, &segment) > 0;
         first = false) {
        bool taken = on_sequenced_segment(peer, &segment, in_order, now_ns);
        if (peer->ah->gone)
            return;
        if (taken)
            continue;
        qp->counters.drop_no_buffer++;
        /* Only a message that spans datagrams can lack a buffer, and such a one begins its
         * datagram: nothing of it has been taken yet. */
        if (first)
            return;
    }
    dw_recvwin_on_received(&peer->recvwin, header->psn);
    owe_ack(peer, len, now_ns);
}

static void on_record(struct dw_peer *peer, const uint8_t *segments, uint32_t len, uint64_t now_ns)
{
    struct dw_segment segment;
    uint32_t offset = 0;
    while (!peer->ah->gone && dw_next_segment(peer->qp, segments, len, &offset, &segment) > 0) {
        if (segment.ddp.opcode == DW_RDMAP_WRITE_RECORD)
            dw_rdma_on_record_segment(peer, &segment, now_ns);
        else if (segment.ddp.opcode == DW_RDMAP_RECORD_CONTROL)
            dw_rdma_on_control(peer, &segment, false, now_ns);
        else
            peer->qp->counters.drop_header++;
    }
}

static void free_acked(struct dw_peer *peer, struct dw_list *acked)
{
    dw_list_foreach (it, acked) {
        struct dw_datagram *datagram = dw_container(it, struct dw_datagram, tx.link);
        /* It has the last ABORT of its writes: it is told that the others are placed. */
        if (datagram->refusals && !(peer->refusals -= datagram->refusals))
            ack_now(peer);
        dw_list_remove(it);
        dw_datagram_put(peer->qp, datagram);
    }
}

/* How many datagrams it tells to be lost. */
static unsigned take_probe_reply(struct dw_peer *peer, const struct dw_llp_header *header,
                                 uint64_t now_ns)
{
    uint64_t sent_ns = dw_peer_on_probe_reply(peer, header->psn, now_ns);
    dw_rdma_on_probe_reply(peer, sent_ns, now_ns);
    return header->credit_kib ? dw_sendwin_on_probe_reply(&peer->sendwin, sent_ns) : 0;
}

/* Taken after the segments: a refusal that travels with the ack must come first. */
static void take_ack(struct dw_peer *peer, const struct dw_llp_header *header, uint64_t now_ns)
{
    struct dw_list acked;
    struct dw_sendwin_result result;
    dw_list_init(&acked);
    const bool had_room = peer->sendwin.credit_bytes;
    if (!had_room || !header->credit_kib)
        dw_sendwin_on_refusal(&peer->sendwin);
    if (dw_sendwin_on_ack(&peer->sendwin, header->ack, header->sack, now_ns, &acked, &result)) {
        peer->qp->counters.drop_header++;
        return;
    }
    /* Not of one that others have overtaken. */
    if (!dw_serial_before(header->ack, dw_sendwin_first_psn(&peer->sendwin)))
        peer->sendwin.credit_bytes = (uint32_t)header->credit_kib << 10;
    const bool has_room = peer->sendwin.credit_bytes;
    dw_path_on_acked(peer, &acked);
    free_acked(peer, &acked);
    if (result.rtt_ns)
        dw_rtt_on_sample(&peer->ah->rtt, result.rtt_ns);
    if (result.acked) {
        peer->backoff = 0;
        peer->asked_ns = now_ns;
    }
    unsigned lost = result.lost;
    if (header->type == DW_LLP_PROBE_REPLY)
        lost += take_probe_reply(peer, header, now_ns);
    if (has_room != had_room) {
        peer->backoff = 0; /* this may be older than what it says last: it is asked soon */
        dw_peer_watch(peer);
        if (has_room)
            dw_sendwin_on_room(&peer->sendwin);
    }
    if (lost || !had_room)
        dw_transmit_lost(peer, now_ns);
    /* Also what was held back while it refused: then nothing is acknowledged a second time. */
    bool refusing = header->flags & DW_LLP_REFUSING;
    if ((result.acked || !refusing) && dw_send_end_awaiting(peer, header->ack, refusing))
        peer->backoff = 0;
    if (result.acked)
        dw_send_on_acked(peer);
}

/* How many peers send to us at the same time: they share the credit. */
static void count_sender(struct dw_peer *peer, uint64_t now_ns)
{
    struct diwarp_qp *qp = peer->qp;
    if (now_ns >= qp->epoch_end_ns) {
        qp->senders = qp->epoch_senders;
        qp->epoch_senders = 0;
        qp->epoch++;
        qp->epoch_end_ns = now_ns + EPOCH_NS;
    }
    if (peer->epoch != qp->epoch) {
        peer->epoch = qp->epoch;
        qp->epoch_senders++;
    }
}

static void heard_from(struct dw_peer *peer, const struct dw_llp_header *header, uint64_t now_ns)
{
    peer->timestamp = header->timestamp;
    /* It has our token, so it has our address too: both come together. */
    peer->ah->heard = true;
    peer->heard_ns = now_ns;
    peer->unreachables = 0;
    count_sender(peer, now_ns);
}

static void after_segments(struct dw_peer *peer, const struct dw_llp_header *header,
                           uint64_t now_ns)
{
    if (header->flags & DW_LLP_ACK_REQUEST) {
        ack_now(peer);
        peer->qp->cq->served++;
    }
    if (!peer->ah->gone)
        take_ack(peer, header, now_ns);
}

static void on_rd_datagram(struct diwarp_qp *qp, const struct dw_llp_header *header,
                           const struct dw_intro *intro, const uint8_t *segments, uint32_t len,
                           uint64_t now_ns)
{
    if (header->type == DW_LLP_RESET) {
        dw_identity_on_reset(qp, header, segments, len, now_ns);
        return;
    }
    struct dw_peer *peer = header->type == DW_LLP_PROOF
                               ? dw_identity_on_proof(qp, header, intro, segments, len, now_ns)
                               : dw_identity_of(qp, header, intro, now_ns);
    if (!peer)
        return;
    uint64_t heard_before_ns = peer->heard_ns;
    heard_from(peer, header, now_ns);
    if (header->type != DW_LLP_PROBE)
        peer->probes = 0;
    switch (header->type) {
    case DW_LLP_DATA:
        on_data(peer, header, segments, len, now_ns);
        break;
    case DW_LLP_RECORD:
        on_record(peer, segments, len, now_ns);
        break;
    case DW_LLP_PROBE:
        dw_peer_on_probe(peer, heard_before_ns, now_ns);
        (void)dw_transmit_bare(peer, DW_LLP_PROBE_REPLY, header->psn);
        break;
    default:
        break;
    }
    after_segments(peer, header, now_ns);
}

void dw_receive_record(struct dw_sink *sink, const struct dw_llp_header *header, uint32_t offset,
                       uint32_t length, uint64_t now_ns)
{
    struct dw_peer *peer = sink->peer;
    heard_from(peer, header, now_ns);
    dw_sink_place(sink, offset, NULL, length, now_ns);
    after_segments(peer, header, now_ns);
}

void dw_receive_send(struct dw_peer *peer, const struct dw_llp_header *header,
                     const struct dw_segment *segment, uint32_t bytes, uint64_t now_ns)
{
    heard_from(peer, header, now_ns);
    if (dw_deliver_send(peer, segment, header->psn == peer->recvwin.ack)) {
        dw_recvwin_on_received(&peer->recvwin, header->psn);
        owe_ack(peer, bytes, now_ns);
    } else {
        peer->qp->counters.drop_no_buffer++;
    }
    after_segments(peer, header, now_ns);
}

/* ---- every datagram ---- */

/* How many bytes the CRC covers; 0: it is partial, and there is no segment that it may be of. */
static uint32_t covered_bytes(const struct dw_llp_header *header, const uint8_t *buf, uint32_t len)
{
    struct dw_segment segment;
    if (!(header->flags & DW_LLP_PARTIAL_CRC))
        return len - DW_CRC_BYTES;
    uint32_t lead = DW_LLP_HEADER_BYTES + (header->flags & DW_LLP_INTRO ? DW_INTRO_BYTES : 0);
    if (!dw_only_segment(buf, len, lead, &segment))
        return 0;
    const uint32_t head = (uint32_t)(segment.payload - buf);
    switch (segment.ddp.opcode) {
    case DW_RDMAP_SEND:
    case DW_RDMAP_SEND_IMM:
        return head;
    case DW_RDMAP_WRITE_RECORD:
        return segment.bytes < DW_WRITE_RECORD_BYTES ? 0 : head + DW_WRITE_RECORD_BYTES;
    default:
        return 0;
    }
}

static bool crc_right(const struct diwarp_qp *qp, const struct dw_llp_header *header,
                      const uint8_t *buf, uint32_t len)
{
    if (!qp->crc)
        return header->flags & DW_LLP_NO_CRC;
    uint32_t covered = header->flags & DW_LLP_NO_CRC ? 0 : covered_bytes(header, buf, len);
    return covered && dw_crc32c(0, buf, covered) == dw_get_be32(buf + len - DW_CRC_BYTES);
}

static void on_datagram(struct diwarp_qp *qp, const uint8_t *buf, uint32_t len, uint64_t now_ns)
{
    struct diwarp_counters *counters = &qp->counters;
    struct dw_llp_header header;
    struct dw_intro intro;
    counters->rx_datagrams++;
    counters->rx_bytes += len;
    int rc = dw_llp_header_get(&header, buf, len);
    if (rc) {
        rc == -EPROTONOSUPPORT ? counters->drop_version++
        : rc == -EBADMSG       ? counters->drop_short++
                               : counters->drop_header++;
        return;
    }
    if (header.token != qp->token) {
        counters->drop_token++;
        return;
    }
    if (header.dst_qpn) {
        counters->drop_qpn++;
        return;
    }
    if (dw_place(qp, &header, buf, len, now_ns))
        return;
    if (!crc_right(qp, &header, buf, len)) {
        counters->drop_crc++;
        return;
    }
    uint32_t lead = DW_LLP_HEADER_BYTES, end = len - DW_CRC_BYTES;
    bool introduced = header.flags & DW_LLP_INTRO;
    if (introduced) {
        rc = dw_intro_get(&intro, buf + lead, end - lead);
        if (rc) {
            rc == -EBADMSG ? counters->drop_short++ : counters->drop_header++;
            return;
        }
        lead += DW_INTRO_BYTES;
    }
    if (end != lead && (header.type == DW_LLP_ACK || header.type == DW_LLP_PROBE_REPLY)) {
        counters->drop_short++;
        return;
    }
    if ((header.type == DW_LLP_UD) != (qp->ud != NULL))
        counters->drop_header++;
    else if (qp->ud)
        dw_ud_on_datagram(qp, &header, buf + lead, end - lead, now_ns);
    else
        on_rd_datagram(qp, &header, introduced ? &intro : NULL, buf + lead, end - lead, now_ns);
}

static void on_slot(struct diwarp_qp *qp, const struct dw_llp_slot *slot, uint64_t now_ns)
{
    uint32_t at = 0;
    do { /* an empty datagram is one, too */
        uint32_t left = slot->bytes - at;
        on_datagram(qp, slot->buf + at, left < slot->segment_bytes ? left : slot->segment_bytes,
                    now_ns);
        at += slot->segment_bytes;
    } while (at < slot->bytes);
}

static void on_slot_timed(struct diwarp_qp *qp, const struct dw_llp_slot *slot, uint64_t now_ns)
{
    uint64_t began_ns = dw_device_now_ns(qp->device); /* the run's time is of before the call */
    on_slot(qp, slot, now_ns);
    /* A CPU keeps a few KiB of stores to itself: until all are done. */
    atomic_thread_fence(memory_order_seq_cst);
    dw_faster_way_end(&qp->copy_way, slot->bytes, dw_device_now_ns(qp->device) - began_ns);
}

/* Room for what completions point to while nobody polls. When it is used up, sequenced datagrams
 * are refused, and come again; probes, acknowledgements and records are still served. */
_Static_assert(DW_ARENA_BYTES % 4096 == 0 && DW_ARENA_BYTES >= 2 * DW_LLP_SLOT_BYTES,
               "whole pages, room for one receive call and what is held of another");
/* Of the arena, never given back: what is used all the time. */
#define ARENA_KEEP_BYTES DW_LLP_SLOT_BYTES

/* Completions that bound it as well: small messages need more memory there than here. */
#define HELD_WCS_MAX 2048
/* So many fewer before more is taken: not a few at a time, of which all peers would be told. */
#define HELD_WCS_ROOM 1024

/* Where the next receive call goes; NULL: nowhere that would leave alone what is held. */
static uint8_t *next_place(struct diwarp_qp *qp)
{
    if (dw_deliver_is_full(qp))
        return NULL;
    if (qp->arena_held) {
        uint32_t used = (qp->arena_used + qp->arena_last + 63u) & ~63u;
        uint32_t held_max = qp->refuses_data ? HELD_WCS_MAX - HELD_WCS_ROOM : HELD_WCS_MAX;
        if (used + DW_LLP_SLOT_BYTES > DW_ARENA_BYTES || qp->cq->count >= held_max)
            return NULL;
        qp->arena_used = used;
        qp->arena_held = false;
    }
    return qp->arena + qp->arena_used;
}

void dw_receive_recycle(struct diwarp_qp *qp)
{
    qp->arena_held = false;
    qp->arena_used = 0;
}

bool dw_receive_trim(struct diwarp_qp *qp)
{
    uint32_t keep = qp->arena_most < ARENA_KEEP_BYTES ? ARENA_KEEP_BYTES : qp->arena_most;
    keep = (keep + 4095u) & ~4095u;
    if (qp->arena_touched > keep) {
        dw_pages_drop(qp->arena + keep, qp->arena_touched - keep);
        qp->arena_touched = keep;
    }
    qp->arena_most = qp->arena_used + qp->arena_last;
    return qp->arena_touched > ARENA_KEEP_BYTES;
}

static void tell_room(struct diwarp_qp *qp)
{
    struct dw_peer *peer;
    for (size_t slot = 0; (peer = dw_peer_next(qp, &slot));) {
        if (peer->told_full && !peer->ah->gone) {
            ack_now(peer);
            qp->cq->served++; /* it sends again what was refused: soon there is something to take */
        }
    }
}

bool dw_receive(struct diwarp_qp *qp, uint64_t now_ns)
{
    uint8_t *place = next_place(qp);
    if (qp->refuses_data && place)
        tell_room(qp);
    qp->refuses_data = !place;
    /* The stage is idle now; nothing that comes then stays in it. */
    struct dw_llp_slot slot = {.buf = place ? place : qp->stage};
    if (!dw_llp_recv(qp->llp, &slot))
        return false;
    if (slot.truncated) {
        qp->counters.drop_truncated++;
        return true;
    }
    if (place) {
        qp->arena_last = slot.bytes;
        uint32_t end = qp->arena_used + slot.bytes;
        if (qp->arena_most < end) {
            qp->arena_most = end;
            if (qp->arena_touched < end)
                qp->arena_touched = end;
        }
    }
    if (dw_faster_way_begin(&qp->copy_way, slot.bytes))
        on_slot_timed(qp, &slot, now_ns);
    else
        on_slot(qp, &slot, now_ns);
    return true;
}
