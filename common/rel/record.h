/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ends of an RDMA Write-Record over RD. Pure: offsets and times in, what to ask for or to
 * send out. The sink drives: it grants bytes, and asks again for those its validity map lacks. */
#pragma once

#include "common/rel/stripes.h"

/* ---- sink ---- */

/* Of `total` bytes; heard_ns, reorder_bytes and again_bytes, the same at first, are set, too. */
struct dw_record_sink {
    struct dw_ranges map;       /* the validity map */
    struct dw_stripes *stripes; /* NULL: all of it comes by one way */
    uint32_t total;
    uint32_t granted;       /* the source may send [0, granted) */
    uint32_t order;         /* number of the grant that was the last */
    uint32_t requested;     /* holes before this have been asked for; the timer asks again */
    uint32_t lost;          /* holes before this are losses, by a time-out */
    uint32_t reorder_bytes; /* a hole this far behind the furthest byte is a loss */
    uint64_t again_bytes;   /* that may be asked for now */
    unsigned backoff;       /* fruitless time-outs in a row */
    uint64_t heard_ns;      /* last arrival, or the opening, or the last time-out */
};

/* A verified segment of [offset, offset + length), all of it granted, was placed. Returns the new
 * bytes, or -ENOMEM: do as if it had been lost. */
int64_t dw_record_sink_on_segment(struct dw_record_sink *sink, uint32_t offset, uint32_t length,
                                  uint64_t now_ns);

void dw_record_sink_fini(struct dw_record_sink *sink);

/* From now on its parts may come by several ways; what has been granted comes by way 0. False: no
 * memory. */
bool dw_record_sink_split(struct dw_record_sink *sink);
/* The source may send so many bytes more, by that way; 0 unless it is split. Requests to a source,
 * grants among them, are numbered in `order`: it sends what they ask for in turn, whichever its
 * way. */
void dw_record_sink_grant(struct dw_record_sink *sink, uint32_t bytes, uint8_t way, uint32_t order);

static inline bool dw_record_sink_full(const struct dw_record_sink *sink)
{
    return sink->map.bytes == sink->total;
}

/* Granted and not yet here. */
static inline uint32_t dw_record_sink_due_bytes(const struct dw_record_sink *sink)
{
    return sink->granted - (uint32_t)sink->map.bytes;
}

/* Holes that are lost, or that reordering no longer explains, and that have not been asked for: at
 * most `max`, and as many bytes as have come since, of which no more than again_max are saved up.
 * Asked for at the rate of arrival, they do not fill again the queue that they were lost of. */
unsigned dw_record_sink_on_gap(struct dw_record_sink *sink, uint32_t again_max,
                               struct dw_range *holes, unsigned max);
/* The same of one that is split, when something came in that stripe: of its way holes that lie
 * behind what has come by it since. They are asked for in that order. */
unsigned dw_record_sink_on_stripe_gap(struct dw_record_sink *sink, unsigned came, uint32_t order,
                                      uint32_t again_max, struct dw_range *holes, unsigned max);
/* Something that the source sends after all that is granted has come: holes below the grant, but
 * for those that have been asked for. */
unsigned dw_record_sink_on_overtaken(struct dw_record_sink *sink, struct dw_range *holes,
                                     unsigned max);
/* The time-out: holes below the grant, at most `max` and again_bytes. Others that something came
 * behind follow as these come (dw_record_sink_on_gap()). */
unsigned dw_record_sink_on_timeout(struct dw_record_sink *sink, uint32_t again_bytes,
                                   struct dw_range *holes, unsigned max);

/* Of one that is split: all that is due by that way is lost, and asked for by the request of that
 * order. */
unsigned dw_record_sink_on_way_lost(struct dw_record_sink *sink, uint8_t way, uint32_t order,
                                    uint32_t again_bytes, struct dw_range *holes, unsigned max);
/* The same of what was asked for by that way with lower numbers than `before`: it has been
 * overtaken. Of another record only what was asked for once: its source may be waiting for its turn
 * to send it again. */
unsigned dw_record_sink_on_way_overtaken(struct dw_record_sink *sink, uint8_t way, uint32_t before,
                                         bool once, uint32_t order, struct dw_range *holes,
                                         unsigned max);
/* Whether something is due by that way that was asked for with a lower number. */
bool dw_record_sink_is_due_before(const struct dw_record_sink *sink, uint8_t way, uint32_t before);
/* What is due of that stripe is to come by another way. */
unsigned dw_record_sink_move(struct dw_record_sink *sink, unsigned i, uint8_t to, uint32_t order,
                             struct dw_range *holes, unsigned max);

/* ---- source ---- */

/* Of what is to go by one of several ways, at a time. For what is more the sink asks again. */
#define DW_RECORD_PIECES_MAX (DW_STRIPES_MAX + DW_RECORD_MAX_RANGES)

/* A way, and the timestamp of the status that came last by it. */
struct dw_record_by {
    uint8_t way;
    uint16_t timestamp;
};

struct dw_record_piece {
    struct dw_range range; /* not empty */
    struct dw_record_by by;
};

struct dw_record_pieces {
    uint32_t count;
    struct dw_record_piece list[DW_RECORD_PIECES_MAX];
};

struct dw_record_source {
    uint32_t total;
    uint32_t sent;                   /* [0, sent) went out at least once, or is in a piece */
    uint32_t granted;                /* <= total */
    struct dw_ranges again;          /* asked for again, all below `sent` */
    struct dw_record_pieces *pieces; /* NULL: all of it goes by way 0 */
};

void dw_record_source_fini(struct dw_record_source *source);

/* A status that came by that way. By way 0: grants only grow; ranges never sent yet are left to the
 * grant. By another one, and by any from then on, the ranges are what may be sent, by this way and
 * no other; one by way 0 without ranges is an older one that others have overtaken. False when a
 * value lies outside the record (nothing is taken then). */
bool dw_record_source_on_status(struct dw_record_source *source, struct dw_record_by by,
                                uint32_t granted, const struct dw_range *missing, unsigned count);
/* By which way the next bytes are to go; by way 0 without a timestamp. */
struct dw_record_by dw_record_source_by(const struct dw_record_source *source);
/* These, taken as sent before, did not go out by that way. */
void dw_record_source_put_back(struct dw_record_source *source, struct dw_record_by by,
                               const struct dw_range *ranges, unsigned count);

static inline bool dw_record_source_ready(const struct dw_record_source *source)
{
    return source->again.count || source->sent < source->granted ||
           (source->pieces && source->pieces->count);
}

/* The next bytes to send by that way, at most max_bytes; *again when they may have gone out before.
 * False: none. */
bool dw_record_source_next(struct dw_record_source *source, uint8_t way, uint32_t max_bytes,
                           struct dw_range *range, bool *again);
