/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ends of a Write-Record: what to ask for, what to send. Moves no bytes itself. */
#include "common/rel/record.h"

#include <assert.h>

void dw_record_sink_init(struct dw_record_sink *sink, uint32_t total, uint32_t reorder_bytes,
                         uint64_t now_ns)
{
    *sink = (struct dw_record_sink){
        .total = total,
        .reorder_bytes = reorder_bytes,
        .again_bytes = reorder_bytes,
        .heard_ns = now_ns,
    };
    dw_ranges_init(&sink->map);
}

void dw_record_sink_fini(struct dw_record_sink *sink)
{
    dw_ranges_fini(&sink->map);
}

int64_t dw_record_sink_on_segment(struct dw_record_sink *sink, uint32_t offset, uint32_t length,
                                  uint64_t now_ns)
{
    assert(length && offset <= sink->granted && length <= sink->granted - offset);
    int64_t new_bytes = dw_ranges_add(&sink->map, offset, offset + length);
    if (new_bytes < 0)
        return new_bytes;
    sink->heard_ns = now_ns;
    if (new_bytes)
        sink->backoff = 0;
    sink->again_bytes =
        sink->again_bytes < UINT32_MAX - length ? sink->again_bytes + length : UINT32_MAX;
    if (offset + length > sink->highest)
        sink->highest = offset + length;
    return new_bytes;
}

/* Of the holes in [from, until) as many bytes as may be asked for, and `max` holes. */
static unsigned ask(struct dw_record_sink *sink, uint32_t from, uint32_t until,
                    struct dw_range *holes, unsigned max)
{
    const unsigned n = dw_ranges_missing(&sink->map, from, until, holes, max);
    for (unsigned i = 0; i < n; i++) {
        uint32_t bytes = holes[i].end - holes[i].start;
        if (bytes >= sink->again_bytes) {
            holes[i].end = holes[i].start + sink->again_bytes;
            sink->again_bytes = 0;
            sink->requested = holes[i].end;
            return holes[i].end > holes[i].start ? i + 1 : i;
        }
        sink->again_bytes -= bytes;
    }
    sink->requested = n == max ? holes[n - 1].end : until;
    return n;
}

unsigned dw_record_sink_on_gap(struct dw_record_sink *sink, uint32_t again_max,
                               struct dw_range *holes, unsigned max)
{
    if (sink->map.count <= 1 && sink->map.bytes == sink->highest)
        return 0;
    uint32_t limit = sink->highest > sink->reorder_bytes ? sink->highest - sink->reorder_bytes : 0;
    if (limit < sink->lost)
        limit = sink->lost;
    if (limit <= sink->requested)
        return 0;
    if (sink->again_bytes > again_max)
        sink->again_bytes = again_max;
    return ask(sink, sink->requested, limit, holes, max);
}

unsigned dw_record_sink_on_timeout(struct dw_record_sink *sink, uint32_t again_bytes,
                                   struct dw_range *holes, unsigned max)
{
    sink->backoff++;
    sink->lost = sink->highest;
    sink->again_bytes = again_bytes;
    return ask(sink, 0, sink->granted, holes, max);
}

void dw_record_source_init(struct dw_record_source *source, uint32_t total, uint32_t granted)
{
    *source = (struct dw_record_source){
        .total = total,
        .granted = granted < total ? granted : total,
    };
    dw_ranges_init(&source->again);
}

void dw_record_source_fini(struct dw_record_source *source)
{
    dw_ranges_fini(&source->again);
}

bool dw_record_source_on_status(struct dw_record_source *source, uint32_t granted,
                                const struct dw_range *missing, unsigned count)
{
    if (granted > source->total)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (missing[i].start >= missing[i].end || missing[i].end > source->total)
            return false;
    if (granted > source->granted)
        source->granted = granted;
    for (unsigned i = 0; i < count; i++) {
        uint32_t end = missing[i].end < source->sent ? missing[i].end : source->sent;
        /* No memory: as if the status had been lost; the sink asks again. */
        if (missing[i].start < end && dw_ranges_add(&source->again, missing[i].start, end) < 0)
            break;
    }
    return true;
}

bool dw_record_source_next(struct dw_record_source *source, uint32_t max_bytes,
                           struct dw_range *range, bool *again)
{
    *again = dw_ranges_take(&source->again, max_bytes, range);
    if (*again)
        return true;
    if (source->sent >= source->granted)
        return false;
    uint32_t left = source->granted - source->sent;
    *range = (struct dw_range){source->sent, source->sent + (left < max_bytes ? left : max_bytes)};
    source->sent = range->end;
    return true;
}
