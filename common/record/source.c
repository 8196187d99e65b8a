/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Write-Record segments to the LLP. Large datagrams are gathered from the user's buffer; small ones
 * are copied into one flat train, with the CRC taken on the way.
 */
#include <errno.h>

#include "common/base/copy.h"
#include "common/record/rdma.h"
#include "common/rd/transmit.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"

/* Trains in one run, so that acknowledgements are not kept waiting. */
#define TRAINS_PER_RUN 4
/* Of one record while others wait: more than a sink grants at once, unless it is asked to. How much
 * a peer grants is its own affair, but the others have their turn. */
#define TURN_BYTES (4u << 20)
/* From this on a datagram is gathered: one pass over the payload for the CRC, none for a copy. */
#define GATHER_MIN_BYTES 16384

/* All of a record is user data. */
static bool covers_payload(const struct dw_peer *peer)
{
    return peer->qp->crc && !peer->ah->partial_crc;
}

/* Writes all that leads the payload of `range`; returns its length. */
static uint32_t put_head(const struct dw_source *source, uint8_t *buf, struct dw_range range)
{
    struct dw_peer *peer = source->peer;
    uint32_t lead = dw_lead_bytes(peer), length = range.end - range.start;
    struct dw_ddp_header ddp = {
        .tagged = true,
        .last = range.end == source->record.total,
        .opcode = DW_RDMAP_WRITE_RECORD,
        .stag = source->sink_stag,
        .to = source->sink_to + range.start,
    };
    dw_put_lead(peer, buf, DW_LLP_RECORD, peer->ah->partial_crc ? DW_LLP_PARTIAL_CRC : 0, 0);
    struct dw_write_record wr = {
        .id = source->id, .offset = range.start, .total = source->record.total};
    uint8_t *segment = buf + lead;
    dw_put_be16(segment, (uint16_t)(DW_DDP_TAGGED_BYTES + DW_WRITE_RECORD_BYTES + length));
    dw_ddp_put(segment + DW_SEGMENT_LEN_BYTES, &ddp);
    dw_write_record_put(segment + DW_SEGMENT_LEN_BYTES + DW_DDP_TAGGED_BYTES, &wr);
    return lead + DW_RECORD_SEGMENT_BYTES;
}

/* Builds the datagram that carries `range` at buf; returns its length. */
static uint32_t build(const struct dw_source *source, uint8_t *buf, struct dw_range range)
{
    uint32_t head = put_head(source, buf, range), length = range.end - range.start;
    const uint8_t *from = source->addr + range.start;
    uint32_t crc = dw_crc_of_head(source->peer->qp, buf, head);
    if (covers_payload(source->peer))
        crc = dw_crc32c_copy(crc, buf + head, from, length);
    else
        dw_copy(buf + head, from, length);
    dw_put_be32(buf + head + length, crc);
    return head + length + DW_CRC_BYTES;
}

/* The one datagram of `range`, its payload gathered from where it lies. */
static int send_gathered(const struct dw_source *source, struct dw_range range)
{
    struct dw_peer *peer = source->peer;
    uint8_t *buf = peer->qp->stage, trailer[DW_CRC_BYTES];
    uint32_t head = put_head(source, buf, range), length = range.end - range.start;
    const uint8_t *from = source->addr + range.start;
    uint32_t crc = dw_crc_of_head(peer->qp, buf, head);
    if (covers_payload(peer))
        crc = dw_crc32c(crc, from, length);
    dw_put_be32(trailer, crc);
    struct iovec iov[] = {
        {.iov_base = buf, .iov_len = head},
        {.iov_base = (void *)(uintptr_t)from, .iov_len = length},
        {.iov_base = trailer, .iov_len = sizeof trailer},
    };
    return dw_transmit_train(peer, iov, 3, head + length + DW_CRC_BYTES);
}

/* The bytes of a train, and whether they went out before. */
struct part {
    struct dw_range range;
    bool again;
};

/* Returns how many bytes. */
static uint32_t count_sent(struct diwarp_counters *counters, const struct part *parts, unsigned n)
{
    uint32_t all = 0;
    counters->tx_record_segments += n;
    for (unsigned i = 0; i < n; i++) {
        uint32_t bytes = parts[i].range.end - parts[i].range.start;
        counters->tx_record_bytes += bytes;
        if (parts[i].again)
            counters->tx_resent_record_bytes += bytes;
        all += bytes;
    }
    return all;
}

/* The socket took nothing of a train: the record is as it was before. For want of memory a part may
 * be forgotten: the sink's timer asks for it. */
static void take_back(struct dw_source *source, uint32_t sent, const struct part *parts, unsigned n)
{
    source->record.sent = sent;
    for (unsigned i = 0; i < n; i++)
        if (parts[i].again)
            (void)dw_ranges_add(&source->record.again, parts[i].range.start, parts[i].range.end);
}

/* One train of a record. false: the socket is full, the record waits as it was. */
static bool send_train(struct dw_source *source, uint64_t now_ns)
{
    struct dw_peer *peer = source->peer;
    uint32_t sent_before = source->record.sent;
    uint8_t *stage = peer->qp->stage;
    uint32_t overhead = dw_lead_bytes(peer) + DW_RECORD_SEGMENT_BYTES + DW_CRC_BYTES;
    uint32_t payload_max = peer->ah->datagram_max_bytes - overhead;
    struct part parts[DW_LLP_TRAIN_DATAGRAMS];
    uint32_t total = 0, segment = 0;
    unsigned n = 0;
    bool gathered = false;
    /* No datagram of a train but the last may be shorter, none longer than the first. */
    while (n < DW_LLP_TRAIN_DATAGRAMS && total + segment <= DW_LLP_TRAIN_BYTES) {
        struct part *part = &parts[n];
        if (!dw_record_source_next(&source->record, payload_max, &part->range, &part->again))
            break;
        n++;
        /* Memory that changes while it is sent fails the CRC: the second time it is copied. */
        gathered =
            n == 1 && !part->again && part->range.end - part->range.start >= GATHER_MIN_BYTES;
        if (gathered)
            break;
        uint32_t bytes = build(source, stage + total, part->range);
        total += bytes;
        if (segment && bytes < segment)
            break;
        segment = bytes;
        payload_max = bytes - overhead;
    }
    if (!n)
        return true;
    struct iovec iov = {.iov_base = stage, .iov_len = total};
    dw_peer_on_record(peer, now_ns);
    int rc = gathered ? send_gathered(source, parts[0].range)
                      : dw_transmit_train(peer, &iov, 1, segment);
    if (rc == -EAGAIN) {
        take_back(source, sent_before, parts, n);
        return false;
    }
    source->turn_bytes += count_sent(&peer->qp->counters, parts, n);
    return true;
}

/* The next in the list after all of a peer whose socket is full. */
static struct dw_list *skip_peer(const struct diwarp_qp *qp, struct dw_list *it)
{
    const struct dw_peer *full = dw_container(it, struct dw_source, ready_link)->peer;
    while (it != &qp->ready && dw_container(it, struct dw_source, ready_link)->peer == full)
        it = it->next;
    return it;
}

void dw_transmit_records(struct diwarp_qp *qp, uint64_t now_ns)
{
    /* The oldest first, for its turn: a sink gets one record whole sooner than two halves. What a
     * full socket holds up keeps its place; the next may have a socket of its own. */
    struct dw_list *it = qp->ready.next;
    unsigned trains = 0, refusals = 0;
    while (it != &qp->ready && trains < TRAINS_PER_RUN && refusals < DW_REFUSALS_PER_RUN) {
        struct dw_source *source = dw_container(it, struct dw_source, ready_link);
        if (!send_train(source, now_ns)) {
            refusals++;
            it = skip_peer(qp, it);
            continue;
        }
        trains++;
        bool ready = dw_record_source_ready(&source->record);
        if (ready && source->turn_bytes < TURN_BYTES)
            continue;
        it = it->next;
        source->turn_bytes = 0;
        dw_list_remove(&source->ready_link);
        if (ready)
            dw_list_append(&qp->ready, &source->ready_link);
    }
}
