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
    dw_stripes_add(sink->stripes, (struct dw_range){0, sink->granted}, 0, sink->order);
    (void)dw_stripe_on_came(sink->stripes, 0, &sink->map);
    sink->stripes->list->came_end = dw_ranges_end(&sink->map);
    sink->stripes->list->requested = sink->requested;
    sink->stripes->list->again = sink->requested > 0;
    dw_stripes_trim(sink->stripes);
    return true;
}

void dw_record_sink_grant(struct dw_record_sink *sink, uint32_t bytes, uint8_t way, uint32_t order)
{
    const struct dw_range range = {sink->granted, sink->granted + bytes};
    sink->granted = range.end;
    sink->order = order;
    if (sink->stripes)
        dw_stripes_add(sink->stripes, range, way, order);
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

/* Of the stripe, until there. */
static unsigned ask_of_stripe(struct dw_record_sink *sink, struct dw_stripe *stripe, uint32_t until,
                              uint32_t order, struct dw_range *holes, unsigned max)
{
    const unsigned n =
        max ? ask(sink, stripe->requested, until, &stripe->requested, holes, max) : 0;
    if (n) {
        stripe->order = order;
        stripe->again = true;
    }
    return n;
}

unsigned dw_record_sink_on_stripe_gap(struct dw_record_sink *sink, unsigned came, uint32_t order,
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
            n += ask_of_stripe(sink, stripe, limit, order, holes + n, max - n);
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

/* All that is due of it; the rest as others come. */
static unsigned ask_for_stripe(struct dw_record_sink *sink, struct dw_stripe *stripe,
                               uint32_t order, struct dw_range *holes, unsigned max)
{
    stripe->lost = true;
    stripe->requested = stripe->start;
    return ask_of_stripe(sink, stripe, stripe->end, order, holes, max);
}

static bool is_due_before(const struct dw_stripe *stripe, uint8_t way, uint32_t before)
{
    return stripe->way == way && stripe->due_bytes && (int32_t)(stripe->order - before) < 0;
}

unsigned dw_record_sink_on_way_overtaken(struct dw_record_sink *sink, uint8_t way, uint32_t before,
                                         bool once, uint32_t order, struct dw_range *holes,
                                         unsigned max)
{
    struct dw_stripes *stripes = sink->stripes;
    unsigned n = 0;
    for (unsigned i = 0; i < stripes->count; i++) {
        struct dw_stripe *stripe = &stripes->list[i];
        if (is_due_before(stripe, way, before) && !(once && stripe->again))
            n += ask_for_stripe(sink, stripe, order, holes + n, max - n);
    }
    return n;
}

unsigned dw_record_sink_on_way_lost(struct dw_record_sink *sink, uint8_t way, uint32_t order,
                                    uint32_t again_bytes, struct dw_range *holes, unsigned max)
{
    sink->again_bytes = again_bytes;
    return dw_record_sink_on_way_overtaken(sink, way, order, false, order, holes, max);
}

bool dw_record_sink_is_due_before(const struct dw_record_sink *sink, uint8_t way, uint32_t before)
{
    for (unsigned i = 0; i < sink->stripes->count; i++)
        if (is_due_before(&sink->stripes->list[i], way, before))
            return true;
    return false;
}

unsigned dw_record_sink_move(struct dw_record_sink *sink, unsigned i, uint8_t to, uint32_t order,
                             struct dw_range *holes, unsigned max)
{
    struct dw_stripe *stripe = &sink->stripes->list[i];
    stripe->way = to;
    stripe->came_end = stripe->start;
    sink->again_bytes = stripe->due_bytes;
    return ask_for_stripe(sink, stripe, order, holes, max);
}

/* ---- source ---- */

void dw_record_source_fini(struct dw_record_source *source)
{
    dw_ranges_fini(&source->again);
    free(source->pieces);
}

/* Of what is asked for by one way nothing is left to go by another. */
static void cut_pieces(struct dw_record_pieces *pieces, struct dw_range range, uint8_t way)
{
    struct dw_record_piece rest = {0}; /* of the one that it lies within */
    unsigned kept = 0;
    for (unsigned i = 0; i < pieces->count; i++) {
        struct dw_record_piece piece = pieces->list[i];
        if (piece.by.way == way) {
            /* as it is */
        } else if (range.start <= piece.range.start && range.end > piece.range.start) {
            piece.range.start = range.end < piece.range.end ? range.end : piece.range.end;
        } else if (range.start < piece.range.end && range.start > piece.range.start) {
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

/* How many bytes there are from `at`, on to where a piece of that way begins, or to the end; *next
 * is there. 0: a piece of that way lies at `at`, and *next is behind it. */
static uint32_t bytes_until_piece(const struct dw_record_pieces *pieces, uint8_t way, uint32_t at,
                                  uint32_t end, uint32_t *next)
{
    uint32_t until = end;
    for (unsigned i = 0; i < pieces->count; i++) {
        const struct dw_range *range = &pieces->list[i].range;
        if (pieces->list[i].by.way != way || range->end <= at)
            continue;
        if (range->start <= at) {
            *next = range->end;
            return 0;
        }
        until = range->start < until ? range->start : until;
    }
    *next = until;
    return until - at;
}

/* A piece that is to go by that way already keeps its place: a sink that asks again before its turn
 * has come would else never have it. */
static void add_piece(struct dw_record_pieces *pieces, struct dw_record_by by,
                      struct dw_range range)
{
    uint32_t next;
    cut_pieces(pieces, range, by.way);
    for (uint32_t at = range.start; at < range.end && pieces->count < DW_RECORD_PIECES_MAX;
         at = next) {
        const uint32_t bytes = bytes_until_piece(pieces, by.way, at, range.end, &next);
        if (bytes)
            pieces->list[pieces->count++] = (struct dw_record_piece){{at, at + bytes}, by};
    }
}

static void add_pieces(struct dw_record_pieces *pieces, struct dw_record_by by,
                       const struct dw_range *ranges, unsigned count)
{
    for (unsigned i = 0; i < pieces->count; i++)
        if (pieces->list[i].by.way == by.way)
            pieces->list[i].by = by;
    for (unsigned i = 0; i < count; i++)
        add_piece(pieces, by, ranges[i]);
}

/* A grant that was sent before the first status with ranges, and overtaken by it: the bytes between
 * the grant before and this one become a piece, where later ones have been sent already. */
static void add_late_grant(struct dw_record_source *source, struct dw_record_by by,
                           uint32_t granted)
{
    const struct dw_range late = {source->granted, granted};
    if (source->sent > source->granted)
        add_piece(source->pieces, by, late);
    source->granted = granted;
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
        if (!by.way && !count && granted > source->granted)
            add_late_grant(source, by, granted);
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
