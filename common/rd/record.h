/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA Write-Record, reliable: the two ends of a record, and what all records of a port and of a
 * peer share. Which bytes to ask for or to send is rel/record.h's affair.
 *
 * A record's way: sink.c opens it, grant.c says how much may be under way, source.c sends,
 * place.c puts each segment into its place, the map completes it (sink.c).
 */
#pragma once

#include "common/base/map.h"
#include "common/datagram/segments.h"
#include "common/rd/handle.h"
#include "common/rel/record.h"
#include "common/rel/recordwin.h"
#include "common/rel/rtt.h"
#include "common/rnic/qp.h"

/* Writes up to this go in the sequenced stream, exactly once by PSN; larger ones are records. */
#define DW_INLINE_WRITE_BYTES 16384u
/* Of one record while others wait, and under way for all where processes take turns on a core, or
 * poll rarely: a sender whose turn ends with its grant is worse. Half: such senders stand still;
 * twice: others wait longer for their turn. */
#define DW_RECORD_TURN_BYTES (4u << 20)
/* Open records that a peer has asked us for, in 5 MB; beyond, its requests are refused. */
#define DW_ASKED_MAX 16384u
/* More of one peer's sinks are never set aside at a time. */
#define DW_SINKS_ASIDE_MAX ((1u << 13) - 1)

/* The records of a port. */
struct dw_records {
    struct dw_port *port;
    struct diwarp_counters *counters;
    struct dw_map sinks, sources; /* by dw_record_key() */
    struct dw_list want;          /* sinks that wait for grant, in turn */
    struct dw_list ready;         /* sources that may send, in turn */
    struct dw_list held;          /* sinks whose credit waits for a full socket */
    uint32_t next_id;
    uint64_t granted_ns;              /* grants were looked at last */
    bool left_some;                   /* were under way then */
    bool polled_rarely;               /* since the first of those under way */
    uint32_t eager_budget_bytes;      /* of the receive buffer, what is left to eager datagrams */
    uint32_t grant_budget_bytes;      /* of any datagrams */
    uint32_t grant_budget_long_bytes; /* of DW_LLP_LONG_BYTES and more, which leave more room */
    uint32_t granted_records;         /* something is due of them, but for those set aside */
    uint64_t granted_bytes;           /* given out, not yet here, but for those set aside */
    uint64_t granted_long_bytes;      /* of these, in long datagrams */
};

/* What the records of a peer share; part of struct dw_peer. */
struct dw_record_peer {
    struct dw_records *records;
    struct diwarp_ah *ah;
    struct dw_contact contact;
    struct dw_list sinks, sources; /* oldest first */
    uint64_t asked_count : 17;     /* open by its own reads and writes */
    uint64_t sinks_wanting : 18;   /* in state WANTING */
    uint64_t sinks_aside : 13;
    uint64_t sinks_late : 16;
    uint32_t silent_since;   /* the first probe since it was heard last, by the silence clock */
    uint32_t due_bytes;      /* granted, not yet here, but for those set aside */
    uint16_t own_count;      /* open by ours: no more than works */
    struct dw_recordwin win; /* of its records to us */
    struct dw_record_round round;
};

enum dw_sink_state {
    DW_SINK_ASKING,  /* our read, whose request is not in a datagram yet: waits for that */
    DW_SINK_WANTING, /* in records.want: lacks grant */
    DW_SINK_PARKED,  /* lacks grant, and its peer has no room for more now */
    DW_SINK_GRANTED, /* all of it */
    DW_SINK_HELD,    /* full, waits for diwarp_post_release() */
    DW_SINK_ENDED,
    DW_SINK_STATES
};

/* A record at the sink: of our RDMA read, or of a peer's write. */
struct dw_sink {
    struct dw_list peer_link, want_link;
    struct dw_list held_link; /* in records.held */
    struct dw_record_sink record;
    struct dw_record_peer *peer;
    struct diwarp_qp *qp; /* NULL: it is gone, the source is to be told */
    struct dw_qpns qpns;
    struct dw_timer timer;
    uint64_t asked_ns; /* for missing ranges, by the timer; 0: not yet */
    uint64_t late_ns;  /* the timer found it overdue; 0: never */
    uint32_t id, stag;
    uint64_t to; /* of offset 0 */
    uint8_t *addr;
    struct dw_region *region; /* of a peer's write; NULL: our read */
    uint64_t wr_id;
    uint32_t request_psn; /* of the datagram that asks for our read */
    unsigned send_flags;  /* of the read: IBV_SEND_SIGNALED, DIWARP_SEND_HOLD */
    uint8_t state;        /* enum dw_sink_state */
    bool late;            /* the timer found it overdue, and nothing has come of it since */
    bool aside;           /* nothing comes of it: others may have been granted what is due of it */
    bool long_datagrams;  /* brought by those of DW_LLP_LONG_BYTES and more, but for the last */
};

enum dw_source_state {
    DW_SOURCE_WAITING, /* for grant */
    DW_SOURCE_READY,   /* in records.ready */
    DW_SOURCE_ENDED,
    DW_SOURCE_STATES
};

/* A record at the source: answers a peer's read, or is our own write. */
struct dw_source {
    struct dw_list peer_link, ready_link;
    struct dw_record_source record;
    struct dw_record_peer *peer;
    struct diwarp_qp *qp; /* NULL: it is gone, the sink is to be told */
    struct dw_qpns qpns;
    uint32_t id, sink_stag;
    uint64_t sink_to;
    const uint8_t *addr;
    struct dw_region *region; /* of a peer's read; NULL: our write */
    uint64_t wr_id;
    uint32_t turn_bytes; /* sent since it was first of those that are ready */
    bool signaled;
    uint8_t state; /* enum dw_source_state */
};

static inline uint64_t dw_record_key(const struct dw_record_peer *peer, uint32_t id)
{
    return (uint64_t)dw_handle_of_ah(peer->ah)->met << 32 | id;
}

static inline struct dw_sink *dw_sink_of(const struct dw_record_peer *peer, uint32_t id)
{
    return dw_map_get(&peer->records->sinks, dw_record_key(peer, id));
}

static inline struct dw_source *dw_source_of(const struct dw_record_peer *peer, uint32_t id)
{
    return dw_map_get(&peer->records->sources, dw_record_key(peer, id));
}

/* Of a Write-Record datagram all but the payload, once the peer knows us. */
#define DW_RECORD_OVERHEAD_BYTES (DW_LLP_HEADER_BYTES + DW_RECORD_SEGMENT_BYTES + DW_TRAILER_BYTES)

/* Payload of a full Write-Record datagram of the peer's. */
static inline uint32_t dw_record_payload_bytes(const struct dw_record_peer *peer)
{
    return peer->ah->peer_datagram_bytes - DW_RECORD_OVERHEAD_BYTES;
}

/* ---- grant.c: what may be under way to the sinks of a port, as their life changes it ---- */
void dw_records_init(struct dw_records *records, struct dw_port *port);
void dw_records_fini(struct dw_records *records);
/* What the receive buffer allows to be under way to us, and the longest datagrams of a record: two
 * are to be under way, one sent while one is received. */
void dw_records_size_budgets(struct dw_records *records);
/* Not 0, nor one that is still in use after 2^31 others; from_source: 0, of a sink, or
 * DW_RECORD_ID_FROM_SOURCE, of a source. */
uint32_t dw_record_next_id(const struct dw_record_peer *peer, uint32_t from_source);

/* Check the tables of states; an undefined transition is a fault of ours. */
void dw_sink_set_state(struct dw_sink *sink, enum dw_sink_state state);
void dw_source_set_state(struct dw_source *source, enum dw_source_state state);

/* The request of a read of ours is in the datagram that goes as `psn`. */
void dw_sink_on_requested(struct dw_record_peer *peer, uint32_t id, uint32_t psn);
/* Credit, and what is missing. While the socket is full the credit is held, as it may be on the
 * way; the sink's timer asks for what is missing. Answers to probes are not held: they would
 * overtake the records that wait, and the sink would take those for lost. */
void dw_sink_send_status(struct dw_sink *sink, const struct dw_range *missing, unsigned count);
/* Sends what is held, as far as the socket takes it. */
void dw_sinks_tell_held(struct dw_records *records);
/* Sees that it is asked for what does not come. Lazy: a timer that is set earlier looks again when
 * it fires. */
void dw_sink_arm(struct dw_sink *sink);
/* How long it waits for that. */
uint64_t dw_sink_rto_ns(const struct dw_sink *sink);

/* Reads up to this are answered in the sequenced stream, where answers share datagrams: a record
 * needs one of its own, and often one more for its grant. With half as much, fewer reads gain;
 * twice as much makes every work that waits 128 bytes longer, for the answer is copied into it. */
#define DW_SHORT_READ_BYTES 128

/* What is due of the sink comes in the sequenced stream, whose window and credit cover it: it takes
 * nothing of the budget or the record window. */
static inline bool dw_grant_is_free(const struct dw_sink *sink)
{
    return !sink->region && sink->record.total <= DW_SHORT_READ_BYTES;
}

/* Hands grant to the sinks that wait, oldest first. */
void dw_grant_run(struct dw_records *records, uint64_t now_ns);
/* The next run would. */
bool dw_grant_is_due(const struct dw_records *records);
/* Grants what the budget has left now, and all to a short read; the rest follows as others
 * complete. Returns the bytes. */
uint32_t dw_grant_first(struct dw_sink *sink, uint64_t now_ns);
/* Of a peer's records, what may be under way to us. */
uint32_t dw_grant_window_bytes(const struct dw_record_peer *peer);
/* Each grant holds a whole datagram, unless it ends its record. */
bool dw_grants_are_whole(const struct dw_record_peer *peer);
/* So much of what was due of the sink's source has come, or will not. */
void dw_grant_on_came(struct dw_sink *sink, uint32_t bytes);
/* What is due of a silent peer, or one that sends nothing of it, is not on its way: others may have
 * it meanwhile. */
void dw_grant_set_aside(struct dw_sink *sink);
/* It comes after all, be it beyond the budget: then the next grants wait the longer. */
void dw_grant_take_back(struct dw_sink *sink);

/* ---- sink.c ---- */
/* A sink for `total` bytes of the QP; the caller fills where they go. asked: the region that the
 * peer writes to, or NULL, of a read of our own. NULL: no memory, or too many. */
struct dw_sink *dw_sink_create(const struct dw_ends *ends, struct dw_record_peer *peer, uint32_t id,
                               uint32_t total, struct dw_region *asked, uint64_t now_ns);
/* A verified segment: copies it to its place (data NULL: it is there) and does what follows. */
void dw_sink_place(struct dw_sink *sink, uint32_t offset, const uint8_t *data, uint32_t length,
                   uint64_t now_ns);
/* All that a peer had sent when it got the probe of that time has come, or is lost. */
void dw_sinks_on_probe_reply(struct dw_record_peer *peer, uint64_t sent_ns, uint64_t now_ns);
/* Record-complete, with the application's release in it; the sink is no more. As
 * send_answer(). */
int dw_sink_send_complete(struct dw_sink *sink, const void *release, uint32_t bytes,
                          uint64_t now_ns);
/* Of a read of ours, whose QP goes: no more of it is placed. It ends, and the source is told, once
 * the source is known to have the request: what tells it might come first. */
void dw_sink_abandon(struct dw_sink *sink, uint64_t now_ns);
/* Ends it without a completion. */
void dw_sink_destroy(struct dw_sink *sink);
/* ... with one that says why, if it is our own. */
void dw_sink_fail(struct dw_sink *sink, enum ibv_wc_status status);

/* ---- source.c ---- */
/* asked: the region that the peer reads, or NULL, of a write of our own. NULL: no memory, or too
 * many. */
struct dw_source *dw_source_create(const struct dw_ends *ends, struct dw_record_peer *peer,
                                   uint32_t id, const uint8_t *addr, uint32_t total,
                                   uint32_t granted, struct dw_region *asked);
/* Lets it send if it has something to send. */
void dw_source_look(struct dw_source *source);
/* Sends what grants allow of the records that are ready, a bounded amount. */
void dw_sources_run(struct dw_records *records, uint64_t now_ns);
/* Of a write of ours, whose QP goes: nothing of it is sent any more. It ends, and the sink is told,
 * once the sink is known to have opened it: what tells it might come first. */
void dw_source_abandon(struct dw_source *source, uint64_t now_ns);
/* The sink has opened one that was abandoned. */
void dw_source_withdraw(struct dw_source *source, uint64_t now_ns);
/* Ends it without a completion. */
void dw_source_destroy(struct dw_source *source);
/* ... with one that says why, if it is our own. */
void dw_source_fail(struct dw_source *source, enum ibv_wc_status status);

/* ---- place.c ---- */
/* The sink that a segment of a RECORD datagram goes to, checked in full; NULL: dropped, counted. */
struct dw_sink *dw_place_find(struct dw_record_peer *peer, const struct dw_segment *segment,
                              uint32_t *offset, const uint8_t **data, uint32_t *length);

enum dw_placed {
    DW_PLACED_NOT,   /* it is not one that can be, and nothing was touched */
    DW_PLACED_RIGHT, /* it is right, and its data in place */
    DW_PLACED_WRONG, /* it is damaged: to be dropped */
};
/* Opens a datagram that has this one segment, its data copied to its place in the same pass. What
 * turns out to be damaged has then been written to a hole of the record, whose bytes mean nothing
 * before the map says so. */
enum dw_placed dw_place_open(struct dw_record_peer *peer, const struct dw_arrival *arrival,
                             const struct dw_segment *segment, struct dw_sink **sink,
                             uint32_t *offset, uint32_t *length);
