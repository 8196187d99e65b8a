/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a segment belongs: record, STag, bounds and grant are checked, then only memory. */
#include "common/record/place.h"

/* Stores to a record of this and more are prefetched where the hardware does not. */
#define LARGE_MIN_BYTES (512u << 10)
/* The hardware prefetcher follows a copy within a page, after a few lines. A segment of a usual MTU
 * ends before that helps, and its stores wait for memory. */
#define HW_PREFETCH_MIN_BYTES 4096
#define PREFETCH_AHEAD_BYTES  8192u
#define CACHE_LINE_BYTES      64

static bool fits(const struct dw_sink *sink, const struct dw_segment *segment,
                 const struct dw_write_record *wr, uint32_t length)
{
    return segment->ddp.stag == sink->stag && wr->total == sink->record.total &&
           segment->ddp.to == sink->to + wr->offset && wr->offset + length <= sink->record.granted;
}

static struct dw_sink *open_sink(const struct dw_record_peer *peer, uint32_t id)
{
    struct dw_sink *sink = dw_map_get(&peer->records->sinks, dw_record_key(peer, id));
    return sink && sink->state != DW_SINK_HELD ? sink : NULL;
}

struct dw_sink *dw_place_find(struct dw_record_peer *peer, const struct dw_segment *segment,
                              uint32_t *offset, const uint8_t **data, uint32_t *length)
{
    struct diwarp_counters *counters = dw_record_counters(peer);
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

/* What stores to the sink will wait for 8 KiB from now, in whole segments of this length. */
static void prefetch_ahead(const struct dw_sink *sink, uint32_t offset, uint32_t length)
{
    const uint32_t left = sink->record.total - offset;
    const uint32_t first = (PREFETCH_AHEAD_BYTES + length - 1) / length * length;
    const uint32_t end = first + length < left ? first + length : left;
    for (uint32_t i = first; i < end; i += CACHE_LINE_BYTES)
        __builtin_prefetch(sink->addr + offset + i, 1);
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
    if (wr.total >= LARGE_MIN_BYTES && *length < HW_PREFETCH_MIN_BYTES)
        prefetch_ahead(sink, wr.offset, *length);
    if (!dw_open_copy(arrival->buf, arrival->len, sink->addr + wr.offset, *length))
        return DW_PLACED_WRONG;
    *sink_out = sink;
    *offset = wr.offset;
    return DW_PLACED_RIGHT;
}
