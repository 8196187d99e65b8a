/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ends of a Write-Record: what to ask for, what to send. Moves no bytes itself. */
#include "common/rel/record.h"

#include <assert.h>

int64_t dw_record_sink_on_segment(struct dw_record_sink *sink, uint32_t offset, uint32_t length,
                                  uint64_t now_ns)
{
    assert(length && offset <= sink->granted && length <= sink->granted - offset);
    const int64_t new_bytes = dw_ranges_add(&sink->map, offset, offset + length);
    if (new_bytes < 0)
        return new_bytes;
    sink->heard_ns = now_ns;
    if (new_bytes)
        sink->backoff = 0;
    sink->again_bytes += length;
    return new_bytes;
}

/* Of the holes in [from, until) as many bytes as may be asked for, and `max` holes. */
static unsigned ask(struct dw_record_sink *sink, uint32_t from, uint32_t until,
                    struct dw_range *holes, unsigned max)
{
    unsigned n = dw_ranges_missing(&sink->map, from, until, holes, max);
    sink->requested = n == max ? holes[n - 1].end : until;
    for (unsigned i = 0; i < n; i++) {
        if (holes[i].end - holes[i].start > sink->again_bytes) {
            holes[i].end = holes[i].start + (uint32_t)sink->again_bytes;
            sink->requested = holes[i].end;
            n = i + (sink->again_bytes > 0);
        }
        sink->again_bytes -= holes[i].end - holes[i].start;
    }
    return n;
}

unsigned dw_record_sink_on_gap(struct dw_record_sink *sink, uint32_t again_max,
                               struct dw_range *holes, unsigned max)
{
    const uint32_t highest = dw_ranges_end(&sink->map);
    if (sink->map.bytes == highest)
        return 0;
    uint32_t limit = highest > sink->reorder_bytes ? highest - sink->reorder_bytes : 0;
    if (limit < sink->lost)
        limit = sink->lost;
    if (sink->again_bytes > again_max)
        sink->again_bytes = again_max;
    return limit > sink->requested ? ask(sink, sink->requested, limit, holes, max) : 0;
}

unsigned dw_record_sink_on_overtaken(struct dw_record_sink *sink, struct dw_range *holes,
                                     unsigned max)
{
    return sink->requested < sink->granted ? ask(sink, sink->requested, sink->granted, holes, max)
                                           : 0;
}

unsigned dw_record_sink_on_timeout(struct dw_record_sink *sink, uint32_t again_bytes,
                                   struct dw_range *holes, unsigned max)
{
    sink->backoff++;
    sink->lost = dw_ranges_end(&sink->map);
    sink->again_bytes = again_bytes;
    return ask(sink, 0, sink->granted, holes, max);
}

bool dw_record_source_on_status(struct dw_record_source *source, uint32_t granted,
                                const struct dw_range *missing, unsigned count)
{
    bool inside = granted <= source->total;
    for (unsigned i = 0; i < count; i++)
        inside &= missing[i].start < missing[i].end && missing[i].end <= source->total;
    if (inside && granted > source->granted)
        source->granted = granted;
    for (unsigned i = 0; inside && i < count; i++) {
        const uint32_t end = missing[i].end < source->sent ? missing[i].end : source->sent;
        /* No memory: as if the status had been lost; the sink asks again. */
        if (missing[i].start < end && dw_ranges_add(&source->again, missing[i].start, end) < 0)
            break;
    }
    return inside;
}

bool dw_record_source_next(struct dw_record_source *source, uint32_t max_bytes,
                           struct dw_range *range, bool *again)
{
    *again = dw_ranges_take(&source->again, max_bytes, range);
    if (*again)
        return true;
    const uint32_t left = source->granted - source->sent;
    *range = (struct dw_range){source->sent, source->sent + (left < max_bytes ? left : max_bytes)};
    source->sent = range->end;
    return left > 0;
}
