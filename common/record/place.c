/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Placement fused with the CRC: the payload of a segment is copied from the receive slot to where
 * it belongs, and its CRC taken, in one pass. What turns out to be damaged has then been written to
 * a hole of a record or of a message being put together, whose bytes mean nothing before the map
 * says so.
 */
#include "common/rd/deliver.h"
#include "common/record/rdma.h"
#include "common/record/sink.h"
#include "common/rd/receive.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "common/wire/rdmap.h"

/* Of a record: what is smaller is better in the cache in any case. */
#define LARGE_MIN_BYTES (512u << 10)
/* Smaller segments of a Send are hardly part of a longer one. */
#define SEND_MIN_BYTES 1024

/* The hardware prefetcher follows a copy within a page, after a few lines. A segment of a usual MTU
 * ends before that helps, and its stores wait for memory. */
#define HW_PREFETCH_MIN_BYTES 4096
#define PREFETCH_AHEAD_BYTES  8192u
#define CACHE_LINE_BYTES      64

static bool covers_payload(const struct diwarp_qp *qp, const struct dw_llp_header *header)
{
    return qp->crc && !(header->flags & DW_LLP_PARTIAL_CRC);
}

/* The CRC of the datagram, the last `length` bytes before the trailer copied on the way. What it
 * does not cover is just copied: see dw_crc32c_copies_faster(). */
static bool copy_right(const struct diwarp_qp *qp, const struct dw_llp_header *header,
                       const uint8_t *buf, uint32_t len, uint8_t *to, uint32_t length,
                       uint32_t (*copy)(uint32_t, void *, const void *, size_t))
{
    const uint32_t head = len - DW_CRC_BYTES - length, trailer = dw_get_be32(buf + head + length);
    uint32_t crc = qp->crc ? dw_crc32c(0, buf, head) : 0;
    if (covers_payload(qp, header))
        return copy(crc, to, buf + head, length) == trailer;
    if (qp->crc && crc != trailer)
        return false;
    (void)copy(0, to, buf + head, length);
    return true;
}

/* The sink of a segment; NULL: there is none, or it is not wholly beyond all that has come. */
static struct dw_sink *find_sink(struct dw_peer *peer, const struct dw_segment *segment,
                                 struct dw_write_record *wr)
{
    const struct dw_ddp_header *ddp = &segment->ddp;
    if (ddp->opcode != DW_RDMAP_WRITE_RECORD ||
        dw_write_record_get(wr, segment->payload, segment->bytes))
        return NULL;
    uint32_t length = segment->bytes - DW_WRITE_RECORD_BYTES;
    struct dw_sink *sink = dw_map_get(&peer->qp->sinks, dw_record_key(peer, wr->id));
    if (!sink || sink->held || wr->total != sink->record.total || !length ||
        length > wr->total - wr->offset || wr->offset + length > sink->record.granted ||
        wr->offset < sink->record.highest || ddp->stag != sink->stag ||
        ddp->to != sink->to + wr->offset)
        return NULL;
    return sink;
}

/* What stores to the sink will wait for 8 KiB from now, in whole segments of this length: all of a
 * small segment; past the cache, the one line that it shares with the segment before. */
static void prefetch_ahead(const struct dw_sink *sink, uint32_t offset, uint32_t length, bool past)
{
    const uint32_t left = sink->record.total - offset;
    const uint32_t first = (PREFETCH_AHEAD_BYTES + length - 1) / length * length;
    const uint32_t last = past ? first + 1 : first + length;
    const uint32_t end = last < left ? last : left;
    for (uint32_t i = first; i < end; i += CACHE_LINE_BYTES)
        __builtin_prefetch(sink->addr + offset + i, 1);
}

static bool place_record(struct dw_peer *peer, const struct dw_llp_header *header,
                         const struct dw_segment *segment, const uint8_t *buf, uint32_t len,
                         uint64_t now_ns)
{
    struct dw_write_record wr;
    struct dw_sink *sink = find_sink(peer, segment, &wr);
    if (!sink)
        return false;
    uint32_t length = segment->bytes - DW_WRITE_RECORD_BYTES;
    bool large = wr.total >= LARGE_MIN_BYTES, past = large && peer->qp->copy_way.other;
    if (large) {
        if (past || length < HW_PREFETCH_MIN_BYTES)
            prefetch_ahead(sink, wr.offset, length, past);
        peer->qp->copy_way.bytes += length;
    }
    if (copy_right(peer->qp, header, buf, len, sink->addr + wr.offset, length,
                   past ? dw_crc32c_copy_past : dw_crc32c_copy))
        dw_receive_record(sink, header, wr.offset, length, now_ns);
    else
        peer->qp->counters.drop_crc++;
    return true;
}

static bool place_send(struct dw_peer *peer, const struct dw_llp_header *header,
                       struct dw_segment *segment, const uint8_t *buf, uint32_t len,
                       uint64_t now_ns)
{
    uint8_t opcode = segment->ddp.opcode;
    if ((opcode != DW_RDMAP_SEND && opcode != DW_RDMAP_SEND_IMM) ||
        segment->bytes < SEND_MIN_BYTES || peer->qp->refuses_data ||
        dw_recvwin_check(&peer->recvwin, header->psn) != DW_RECVWIN_NEW)
        return false;
    uint8_t *to = dw_deliver_place(peer, segment);
    if (!to)
        return false;
    if (copy_right(peer->qp, header, buf, len, to, segment->bytes, dw_crc32c_copy)) {
        segment->payload = to;
        dw_receive_send(peer, header, segment, len - DW_LLP_HEADER_BYTES - DW_CRC_BYTES, now_ns);
    } else {
        peer->qp->counters.drop_crc++;
    }
    return true;
}

bool dw_place(struct diwarp_qp *qp, const struct dw_llp_header *header, const uint8_t *buf,
              uint32_t len, uint64_t now_ns)
{
    struct diwarp_name name = {.job = header->job, .rank = header->rank};
    struct dw_segment segment;
    if (qp->ud || (header->flags & DW_LLP_INTRO) || !(header->flags & DW_LLP_NO_CRC) != qp->crc ||
        (!covers_payload(qp, header) && !dw_crc32c_copies_faster()) ||
        (header->type != DW_LLP_RECORD && (header->type != DW_LLP_DATA || len < SEND_MIN_BYTES)) ||
        !dw_only_segment(buf, len, DW_LLP_HEADER_BYTES, &segment))
        return false;
    struct dw_peer *peer = dw_peer_find(qp, name);
    if (!peer || peer->ah->gone || !peer->ah->heard || peer->ah->incarnation != header->incarnation)
        return false;
    if (header->type == DW_LLP_RECORD)
        return place_record(peer, header, &segment, buf, len, now_ns);
    return place_send(peer, header, &segment, buf, len, now_ns);
}
