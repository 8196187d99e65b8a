/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA Write-Record, reliable: the two ends of a record, and what all records of a service and of a
 * peer share. Which bytes to ask for or to send is rel/record.h's affair; how their datagrams look
 * and who answers is the service's, by a table.
 *
 * A record's way: sink.c opens it, grant.c says how much may be under way, source.c sends,
 * place.c puts each segment into its place, the map completes it (sink.c).
 */
#ifndef DW_RECORDS_H
#define DW_RECORDS_H

#include "common/base/heap.h"
#include "common/base/map.h"
#include "common/datagram/datagrams.h"
#include "common/datagram/segments.h"
#include "common/rel/record.h"
#include "common/rel/recordwin.h"
#include "common/rel/rtt.h"
#include "common/rnic/qp.h"

/* Requests to a peer at a time, whatever attr.max_send_wr says. Each may cost the other end 0.3 KB;
 * with half as many, a round trip of 1 ms allows 4 million small ones in a second. */
#define DW_QUEUED_MAX 8192u
/* More of one peer's sinks are never set aside at a time. */
#define DW_SINKS_ASIDE_MAX ((1u << 13) - 1)

struct dw_record_peer;

/* What a service does for its records. */
struct dw_record_ops {
    /* All that leads the segments of a RECORD datagram to the peer. */
    uint32_t (*lead_bytes)(const struct dw_record_peer *peer);
    void (*put_lead)(struct dw_record_peer *peer, struct dw_qpns qpns, uint8_t *buf);
    /* A train of such datagrams; -EAGAIN: nothing was sent. */
    int (*send)(struct dw_record_peer *peer, const struct iovec *iov, unsigned n, uint32_t segment);
    /* A STATUS, which may be lost. */
    void (*send_status)(struct dw_record_peer *peer, struct dw_qpns qpns,
                        const struct dw_record_control *control);
    /* A COMPLETE or ABORT, exactly once. -ENOMEM: the peer is about to be gone, it would wait for
     * ever. */
    int (*send_answer)(struct dw_record_peer *peer, struct dw_qpns qpns,
                       const struct dw_record_control *control, uint64_t now_ns);
    /* The wait before it is asked again, after so many in vain. */
    uint64_t (*rto_ns)(const struct dw_record_peer *peer, unsigned backoff);
    /* It was given something to answer. */
    void (*on_asked)(struct dw_record_peer *peer, uint64_t now_ns);
    /* Probes it, unless an answer may still be on its way. */
    void (*ask)(struct dw_record_peer *peer, uint64_t now_ns);
    /* What was begun as PSN has left. */
    bool (*has_left)(const struct dw_record_peer *peer, uint32_t psn);
};

/* The records of a service on a port. */
struct dw_records {
    const struct dw_record_ops *ops;
    struct dw_port *port;
    struct dw_map sinks, sources; /* by dw_record_key() */
    struct dw_list want;          /* sinks that wait for grant, in turn */
    struct dw_list ready;         /* sources that may send, in turn */
    uint32_t next_id;
    uint64_t ran_ns;                  /* last */
    bool left_some;                   /* were under way then */
    bool polled_rarely;               /* since the first of those under way */
    uint32_t grant_budget_bytes;      /* of any datagrams */
    uint32_t grant_budget_long_bytes; /* of DW_LLP_LONG_BYTES and more, which leave more room */
    uint32_t granted_records;         /* something is due of them, but for those set aside */
    uint64_t granted_bytes;           /* given out, not yet here, but for those set aside */
    uint64_t granted_long_bytes;      /* of these, in long datagrams */
};

/* What the records of a peer share; the service embeds it in its peer. */
struct dw_record_peer {
    struct dw_records *records;
    struct diwarp_ah *ah;
    struct dw_contact contact;
    struct dw_list sinks, sources; /* oldest first */
    uint32_t index;                /* unique in the service: makes keys of its records */
    uint32_t due_bytes;            /* granted, not yet here, but for those set aside */
    uint64_t asked_count : 17;     /* open: by its own reads and writes */
    uint64_t sinks_wanting : 18;   /* in state WANTING */
    uint64_t sinks_aside : 13;
    uint64_t sinks_late : 16;
    uint16_t own_count;      /* open: by ours, of which there are no more than works */
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
    return (uint64_t)peer->index << 32 | id;
}

/* Of a Write-Record datagram all but the payload, once the peer knows us. */
#define DW_RECORD_OVERHEAD_BYTES (DW_LLP_HEADER_BYTES + DW_RECORD_SEGMENT_BYTES + DW_TRAILER_BYTES)

/* Payload of a full Write-Record datagram of the peer's. */
static inline uint32_t dw_record_payload_bytes(const struct dw_record_peer *peer)
{
    return peer->ah->peer_datagram_bytes - DW_RECORD_OVERHEAD_BYTES;
}

static inline struct diwarp_counters *dw_record_counters(const struct dw_record_peer *peer)
{
    return &peer->records->port->datagrams.counters;
}

void dw_records_init(struct dw_records *records, struct dw_port *port,
                     const struct dw_record_ops *ops);
void dw_records_fini(struct dw_records *records);
/* What the receive buffer allows to be under way to us, and the longest datagrams of a record: two
 * are to be under way, one sent while one is received. */
void dw_records_size_budgets(struct dw_records *records);
/* Of the receive buffer, what records leave to eager datagrams. */
uint32_t dw_records_eager_bytes(const struct dw_port *port);
/* Not 0, nor one that is still in use after 2^31 others; from_source: 0 or
 * DW_RECORD_ID_FROM_SOURCE, of ids in that map. */
uint32_t dw_records_next_id(struct dw_records *records, const struct dw_map *map,
                            const struct dw_record_peer *peer, uint32_t from_source);

/* Check the tables of states; an undefined transition is a fault of ours. */
void dw_sink_set_state(struct dw_sink *sink, enum dw_sink_state state);
void dw_source_set_state(struct dw_source *source, enum dw_source_state state);

/* Credit, and what is missing. */
void dw_sink_send_status(struct dw_sink *sink, const struct dw_range *missing, unsigned count);
/* Sees that it is asked for what does not come. Lazy: a timer that is set earlier looks again when
 * it fires. */
void dw_sink_arm(struct dw_sink *sink);
static inline uint64_t dw_sink_deadline_ns(const struct dw_sink *sink)
{
    return sink->record.heard_ns +
           sink->peer->records->ops->rto_ns(sink->peer, sink->record.backoff);
}

/* The peer may have us open another record. */
bool dw_record_peer_may_ask(const struct dw_record_peer *peer);
void dw_record_peer_init(struct dw_record_peer *peer, struct dw_records *records,
                         struct diwarp_ah *ah, uint32_t index);

#endif
