/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ends of a Write-Record: what to ask for, what to send. Moves no bytes itself. */
#include "common/rel/record.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

void dw_record_sink_fini(struct dw_record_sink *sink)
{
    dw_ranges_fini(&sink->map);
    free(sink->stripes);
}

bool dw_record_sink_split(struct dw_record_sink *sink)
{
    if (sink->stripes)
        return true;
    sink->stripes = calloc(1, sizeof *sink->stripes);
    if (!sink->stripes || !sink->granted)
        return sink->stripes;
    dw_stripes_add(sink->stripes, (struct dw_range){0, sink->granted}, 0);
    (void)dw_stripe_on_came(sink->stripes, 0, &sink->map);
    sink->stripes->list->came_end = dw_ranges_end(&sink->map);
    sink->stripes->list->requested = sink->requested;
    dw_stripes_trim(sink->stripes);
    return true;
}

void dw_record_sink_grant(struct dw_record_sink *sink, uint32_t bytes, uint8_t way)
{
    const struct dw_range range = {sink->granted, sink->granted + bytes};
    sink->granted = range.end;
    if (sink->stripes)
        dw_stripes_add(sink->stripes, range, way);
}

/* Of the holes in [from, until) as many bytes as may be asked for, and `max` holes; *requested is
 * behind them. */
static unsigned ask(struct dw_record_sink *sink, uint32_t from, uint32_t until, uint32_t *requested,
                    struct dw_range *holes, unsigned max)
{
    unsigned n = dw_ranges_missing(&sink->map, from, until, holes, max);
    *requested = n == max ? holes[n - 1].end : until;
    for (unsigned i = 0; i < n; i++) {
        if (holes[i].end - holes[i].start > sink->again_bytes) {
            holes[i].end = holes[i].start + (uint32_t)sink->again_bytes;
            *requested = holes[i].end;
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
    return limit > sink->requested ? ask(sink, sink->requested, limit, &sink->requested, holes, max)
                                   : 0;
}

unsigned dw_record_sink_on_stripe_gap(struct dw_record_sink *sink, unsigned came,
                                      uint32_t again_max, struct dw_range *holes, unsigned max)
{
    struct dw_stripes *stripes = sink->stripes;
    unsigned n = 0;
    if (sink->again_bytes > again_max)
        sink->again_bytes = again_max;
    for (unsigned i = 0; i < stripes->count && n < max; i++) {
        struct dw_stripe *stripe = &stripes->list[i];
        uint32_t limit = stripe->lost ? stripe->end : 0;
        if (stripe->way != stripes->list[came].way)
            continue;
        if (i <= came && !stripe->lost)
            limit = dw_stripe_lost_end(stripes, i, came, sink->reorder_bytes);
        if (limit > stripe->requested)
            n += ask(sink, stripe->requested, limit, &stripe->requested, holes + n, max - n);
    }
    return n;
}

unsigned dw_record_sink_on_overtaken(struct dw_record_sink *sink, struct dw_range *holes,
                                     unsigned max)
{
    return sink->requested < sink->granted
               ? ask(sink, sink->requested, sink->granted, &sink->requested, holes, max)
               : 0;
}

unsigned dw_record_sink_on_timeout(struct dw_record_sink *sink, uint32_t again_bytes,
                                   struct dw_range *holes, unsigned max)
{
    sink->backoff++;
    sink->lost = dw_ranges_end(&sink->map);
    sink->again_bytes = again_bytes;
    return ask(sink, 0, sink->granted, &sink->requested, holes, max);
}

unsigned dw_record_sink_on_way_timeout(struct dw_record_sink *sink, uint8_t way,
                                       uint32_t again_bytes, struct dw_range *holes, unsigned max)
{
    struct dw_stripes *stripes = sink->stripes;
    unsigned n = 0;
    sink->again_bytes = again_bytes;
    for (unsigned i = 0; i < stripes->count; i++) {
        struct dw_stripe *stripe = &stripes->list[i];
        if (stripe->way != way || !stripe->due_bytes)
            continue;
        stripe->lost = true;
        stripe->requested = stripe->start; /* the rest as others come */
        if (n < max)
            n += ask(sink, stripe->requested, stripe->end, &stripe->requested, holes + n, max - n);
    }
    return n;
}

/* ---- source ---- */

void dw_record_source_fini(struct dw_record_source *source)
{
    dw_ranges_fini(&source->again);
    free(source->pieces);
}

/* Of what is asked for now nothing is left to go by another way. */
static void cut_pieces(struct dw_record_pieces *pieces, struct dw_range range)
{
    struct dw_record_piece rest = {0}; /* of the one that it lies within */
    unsigned kept = 0;
    for (unsigned i = 0; i < pieces->count; i++) {
        struct dw_record_piece piece = pieces->list[i];
        if (range.start <= piece.range.start && range.end > piece.range.start)
            piece.range.start = range.end < piece.range.end ? range.end : piece.range.end;
        else if (range.start < piece.range.end && range.start > piece.range.start) {
            if (range.end < piece.range.end)
                rest = (struct dw_record_piece){{range.end, piece.range.end}, piece.by};
            piece.range.end = range.start;
        }
        if (piece.range.start < piece.range.end)
            pieces->list[kept++] = piece;
    }
    if (rest.range.end && kept < DW_RECORD_PIECES_MAX)
        pieces->list[kept++] = rest;
    pieces->count = kept;
}

static void add_pieces(struct dw_record_pieces *pieces, struct dw_record_by by,
                       const struct dw_range *ranges, unsigned count)
{
    for (unsigned i = 0; i < pieces->count; i++)
        if (pieces->list[i].by.way == by.way)
            pieces->list[i].by = by;
    for (unsigned i = 0; i < count; i++) {
        cut_pieces(pieces, ranges[i]);
        if (pieces->count < DW_RECORD_PIECES_MAX)
            pieces->list[pieces->count++] = (struct dw_record_piece){ranges[i], by};
    }
}

bool dw_record_source_on_status(struct dw_record_source *source, struct dw_record_by by,
                                uint32_t granted, const struct dw_range *missing, unsigned count)
{
    bool inside = granted <= source->total;
    for (unsigned i = 0; i < count; i++)
        inside &= missing[i].start < missing[i].end && missing[i].end <= source->total;
    if (!inside)
        return false;
    if (by.way && !source->pieces)
        source->pieces = calloc(1, sizeof *source->pieces);
    if (source->pieces) {
        add_pieces(source->pieces, by, missing, count);
        return true;
    }
    if (granted > source->granted)
        source->granted = granted;
    for (unsigned i = 0; i < count; i++) {
        const uint32_t end = missing[i].end < source->sent ? missing[i].end : source->sent;
        /* No memory: as if the status had been lost; the sink asks again. */
        if (missing[i].start < end && dw_ranges_add(&source->again, missing[i].start, end) < 0)
            break;
    }
    return true;
}

/* What was granted, or asked for, before there were pieces goes first. */
static struct dw_record_piece *first_piece(const struct dw_record_source *source)
{
    const bool others = source->again.count || source->sent < source->granted;
    return !others && source->pieces && source->pieces->count ? source->pieces->list : NULL;
}

struct dw_record_by dw_record_source_by(const struct dw_record_source *source)
{
    const struct dw_record_piece *piece = first_piece(source);
    return piece ? piece->by : (struct dw_record_by){0};
}

void dw_record_source_put_back(struct dw_record_source *source, struct dw_record_by by,
                               const struct dw_range *ranges, unsigned count)
{
    struct dw_record_pieces *pieces = source->pieces;
    for (unsigned i = count; i-- > 0;) {
        struct dw_record_piece *first = pieces && pieces->count ? pieces->list : NULL;
        if (!pieces) {
            /* without memory the sink's timer asks for it */
            (void)dw_ranges_add(&source->again, ranges[i].start, ranges[i].end);
        } else if (first && first->by.way == by.way && first->range.start == ranges[i].end) {
            first->range.start = ranges[i].start;
        } else if (pieces->count < DW_RECORD_PIECES_MAX) {
            memmove(pieces->list + 1, pieces->list, pieces->count++ * sizeof *pieces->list);
            pieces->list[0] = (struct dw_record_piece){ranges[i], by};
        }
    }
}

static void take_of_piece(struct dw_record_source *source, uint32_t max_bytes,
                          struct dw_range *range)
{
    struct dw_record_pieces *pieces = source->pieces;
    struct dw_range *left = &pieces->list[0].range;
    *range = *left;
    if (range->end - range->start > max_bytes)
        range->end = range->start + max_bytes;
    left->start = range->end;
    if (left->start == left->end)
        memmove(pieces->list, pieces->list + 1, --pieces->count * sizeof *pieces->list);
    if (source->sent < range->end)
        source->sent = range->end;
}

bool dw_record_source_next(struct dw_record_source *source, uint8_t way, uint32_t max_bytes,
                           struct dw_range *range, bool *again)
{
    const struct dw_record_piece *piece = first_piece(source);
    *again = piece || source->again.count;
    if (dw_record_source_by(source).way != way)
        return false;
    if (piece) {
        take_of_piece(source, max_bytes, range);
        return true;
    }
    if (*again)
        return dw_ranges_take(&source->again, max_bytes, range);
    const uint32_t left = source->sent < source->granted ? source->granted - source->sent : 0;
    *range = (struct dw_range){source->sent, source->sent + (left < max_bytes ? left : max_bytes)};
    source->sent = range->end;
    return left > 0;
}
