/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Placement fused with the CRC: a Write-Record segment is copied from the receive slot to where it
 * belongs, and its CRC taken, in one pass. What turns out to be damaged has then been written to a
 * hole of the record, whose bytes mean nothing before the validity map says so.
 */
#include "common/rnic/qp.h"
#include "common/rnic/rdma_record.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"

/* Records of this size and more are written past the cache: it would not hold them until they are
 * used, and a cold line costs twice as much to write through it. */
#define PAST_CACHE_MIN_BYTES (512u << 10)

#define HEAD_BYTES (DW_LLP_HEADER_BYTES + DW_RECORD_SEGMENT_BYTES)

/* The sink of the one segment that fills the datagram; NULL: something else is in it, or it is not
 * wholly beyond all that has come. Everything in the head is compared or checked. */
static struct dw_sink *find_sink(struct diwarp_qp *qp, const struct dw_llp_header *header,
                                 const uint8_t *segment, uint32_t bytes, struct dw_write_record *wr)
{
    struct diwarp_name name = {.job = header->job, .rank = header->rank};
    struct dw_peer *peer = dw_peer_find(qp, name);
    struct dw_ddp_header ddp;
    if (!peer || peer->gone || !peer->heard || peer->incarnation != header->incarnation ||
        dw_get_be16(segment) != bytes - DW_SEGMENT_LEN_BYTES ||
        dw_ddp_get(&ddp, segment + DW_SEGMENT_LEN_BYTES, bytes - DW_SEGMENT_LEN_BYTES) !=
            DW_DDP_TAGGED_BYTES ||
        ddp.opcode != DW_RDMAP_WRITE_RECORD ||
        dw_write_record_get(wr, segment + DW_SEGMENT_LEN_BYTES + DW_DDP_TAGGED_BYTES,
                            bytes - DW_SEGMENT_LEN_BYTES - DW_DDP_TAGGED_BYTES))
        return NULL;
    uint32_t length = bytes - DW_RECORD_SEGMENT_BYTES;
    struct dw_sink *sink = dw_map_get(&qp->sinks, dw_record_key(peer, wr->id));
    if (!sink || sink->held || wr->total != sink->record.total || !length ||
        length > wr->total - wr->offset || wr->offset < sink->record.highest ||
        ddp.stag != sink->stag || ddp.to != sink->to + wr->offset)
        return NULL;
    return sink;
}

bool dw_place(struct diwarp_qp *qp, const struct dw_llp_header *header, const uint8_t *buf,
              uint32_t len, uint64_t now_ns)
{
    struct dw_write_record wr;
    if (qp->ud || !qp->crc || header->flags || len < HEAD_BYTES + DW_CRC_BYTES)
        return false;
    struct dw_sink *sink = find_sink(qp, header, buf + DW_LLP_HEADER_BYTES,
                                     len - DW_LLP_HEADER_BYTES - DW_CRC_BYTES, &wr);
    if (!sink)
        return false;
    uint32_t length = len - HEAD_BYTES - DW_CRC_BYTES;
    uint32_t crc = dw_crc32c(0, buf, HEAD_BYTES);
    uint8_t *to = sink->addr + wr.offset;
    if (wr.total >= PAST_CACHE_MIN_BYTES)
        crc = dw_crc32c_copy_past_cache(crc, to, buf + HEAD_BYTES, length);
    else
        crc = dw_crc32c_copy(crc, to, buf + HEAD_BYTES, length);
    if (crc != dw_get_be32(buf + HEAD_BYTES + length))
        qp->counters.drop_crc++;
    else
        dw_receive_record(sink, header, wr.offset, length, now_ns);
    return true;
}
