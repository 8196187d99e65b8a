/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a segment belongs: record, STag, bounds and grant are checked, then only memory. */
#include "common/rd/rd.h"

/* A record of this and more is copied past the cache: it would push out of there what the kernel
 * copies next. Smaller ones are likely read soon. */
#define PAST_MIN_BYTES       (512u << 10)
#define PREFETCH_AHEAD_BYTES 8192u

static bool fits(const struct dw_sink *sink, const struct dw_segment *segment,
                 const struct dw_write_record *wr, uint32_t length)
{
    return segment->ddp.stag == sink->stag && wr->total == sink->record.total &&
           segment->ddp.to == sink->to + wr->offset && wr->offset + length <= sink->record.granted;
}

static struct dw_sink *open_sink(const struct dw_record_peer *peer, uint32_t id)
{
    struct dw_sink *sink = dw_sink_of(peer, id);
    return sink && sink->state != DW_SINK_HELD ? sink : NULL;
}

struct dw_sink *dw_place_find(struct dw_record_peer *peer, const struct dw_segment *segment,
                              uint32_t *offset, const uint8_t **data, uint32_t *length)
{
    struct diwarp_counters *counters = peer->records->counters;
    struct dw_write_record wr;
    if (!dw_segment_write_record(segment, &wr, data, length)) {
        counters->drop_header++;
        return NULL;
    }
    struct dw_sink *sink = open_sink(peer, wr.id);
    if (!sink) {
        counters->drop_stale_record++;
        return NULL;
    }
    if (!fits(sink, segment, &wr, *length)) {
        counters->drop_stag++;
        return NULL;
    }
    *offset = wr.offset;
    return sink;
}

/* The line of the sink which two segments of this length share, 8 KiB from now: the only one that
 * stores past the cache wait for. */
static void prefetch_ahead(const struct dw_sink *sink, uint32_t offset, uint32_t length)
{
    const uint32_t ahead = (PREFETCH_AHEAD_BYTES + length - 1) / length * length;
    if (ahead < sink->record.total - offset)
        __builtin_prefetch(sink->addr + offset + ahead, 1);
}

enum dw_placed dw_place_open(struct dw_record_peer *peer, const struct dw_arrival *arrival,
                             const struct dw_segment *segment, struct dw_sink **sink_out,
                             uint32_t *offset, uint32_t *length)
{
    struct dw_write_record wr;
    const uint8_t *data;
    if (segment->ddp.opcode != DW_RDMAP_WRITE_RECORD ||
        !dw_segment_write_record(segment, &wr, &data, length))
        return DW_PLACED_NOT;
    struct dw_sink *sink = open_sink(peer, wr.id);
    /* Only wholly beyond all that has come: elsewhere good bytes may be. */
    if (!sink || !sink->qp || !fits(sink, segment, &wr, *length) ||
        wr.offset < sink->record.highest)
        return DW_PLACED_NOT;
    const bool past = wr.total >= PAST_MIN_BYTES;
    if (past)
        prefetch_ahead(sink, wr.offset, *length);
    if (!dw_open_copy(arrival->buf, arrival->len, sink->addr + wr.offset, *length, past))
        return DW_PLACED_WRONG;
    *sink_out = sink;
    *offset = wr.offset;
    return DW_PLACED_RIGHT;
}
