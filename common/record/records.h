/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA Write-Record, reliable. Which bytes to ask for or to send is rel/record.h's affair; how
 * their datagrams look and leave is the service's, by a table. A record's way: record.c opens it,
 * grant.c says how much may be under way, source.c sends, sink.c puts each segment into its place,
 * and the map completes it. Every function here runs with the device's lock held.
 */
#pragma once

#include "common/base/map.h"
#include "common/datagram/segments.h"
#include "common/rel/record.h"
#include "common/rel/recordwin.h"
#include "common/rel/rtt.h"
#include "common/rnic/qp.h"

/* Writes up to this go in the sequenced stream, exactly once by PSN; larger ones are records. */
#define DW_INLINE_WRITE_BYTES 16384u
/* Of one record while others wait, and under way for all where processes share cores or poll
 * rarely. Half: a sender whose turn on the core outlasts its grant stands still; twice: others wait
 * longer.
 */
#define DW_RECORD_TURN_BYTES (4u << 20)
/* Open records that a peer has asked us for, in 5 MB, or 18 MB where all are split; beyond, its
 * requests are refused. */
#define DW_ASKED_MAX 16384u
/* Reads up to this are answered in the sequenced stream, where answers share datagrams: a record
 * needs one of its own, and often one more for its grant. Half: fewer reads gain; twice: every work
 * that waits is 128 bytes longer, for the answer is copied into it. */
#define DW_SHORT_READ_BYTES 128

struct dw_record_peer;

/* What a service does for its records. */
struct dw_record_ops {
    /* Writes all that leads the segments of a RECORD datagram that goes by that way, unless buf is
     * NULL; its bytes. */
    uint32_t (*put_lead)(struct dw_record_peer *peer, struct dw_qpns qpns, struct dw_record_by by,
                         uint8_t *buf);
    /* A train of such datagrams of `segment` bytes each but the last; as dw_datagrams_send(). */
    int (*send_train)(struct dw_record_peer *peer, uint8_t way, const struct iovec *iov, unsigned n,
                      uint32_t segment);
    /* A STATUS, which may be lost; as dw_datagrams_send(). */
    int (*send_status)(struct dw_record_peer *peer, struct dw_qpns qpns, uint8_t way,
                       const struct dw_record_control *status);
    /* A COMPLETE or ABORT, exactly once, with the next run unless it is awaited. -ENOMEM: the peer,
     * which would wait for ever, is failed. */
    int (*send_answer)(struct dw_record_peer *peer, struct dw_qpns qpns,
                       const struct dw_record_control *answer, bool awaited, uint64_t now_ns);
    /* The wait before the peer is asked again, after so many in vain. */
    uint64_t (*rto_ns)(const struct dw_record_peer *peer, unsigned backoff);
    /* A record was begun, or goes on: something is to come from the peer. */
    void (*on_asked)(struct dw_record_peer *peer, uint64_t now_ns);
    /* What the peer sent is lost. */
    void (*on_lost)(struct dw_record_peer *peer, uint64_t now_ns);
    /* Probes it, unless an answer may still be on its way. */
    void (*ask)(struct dw_record_peer *peer, uint64_t now_ns);
    /* Probes it by that way, which is not 0. */
    void (*ask_by)(struct dw_record_peer *peer, uint8_t way, uint64_t now_ns);
    /* One came to nothing, another one works. */
    void (*on_way_left)(struct dw_record_peer *peer, uint8_t way, uint8_t other);
    /* Looks, now and then, which ways work beside the current one. */
    void (*look_for_ways)(struct dw_record_peer *peer, uint64_t now_ns);
};

/* The records of a service on a port. What is due, granted and not yet here, counts as the kernel
 * charges the receive buffer for it. */
struct dw_records {
    const struct dw_record_ops *ops;
    struct dw_port *port;
    struct diwarp_counters *counters;
    struct dw_map ends;   /* by dw_record_key() */
    struct dw_map ways;   /* of peers whose records come by several, their dw_record_ways_count()
                           * struct dw_record_way, by their index */
    struct dw_list want;  /* of each peer the oldest sink that waits for grant, in turn */
    struct dw_list ready; /* sources that may send, in turn */
    uint32_t next_id;
    uint64_t granted_ns;         /* grants were looked at last; 0: nothing was due then */
    bool polled_rarely;          /* since the first of those under way */
    bool refused;                /* a full socket did not take a grant, in the last run */
    uint32_t eager_budget_bytes; /* of the receive buffer, what is left to eager datagrams */
    uint32_t grant_budget_bytes; /* of it, what is for records */
    uint32_t window_bytes;       /* of their payload, what may be under way at most */
    uint64_t due_bytes;          /* of all peers but those set aside */
    uint64_t sinks_bytes;        /* of all sinks that there are */
};

/* A way that was answered so often in a row and brought nothing lets only short ones through. */
#define DW_WAY_VAIN_MAX 3
/* Units of 1 us in which is known when a probe was sent, as a shift of nanoseconds. */
#define DW_PROBE_CLOCK_SHIFT 10
/* How fast a way is, is looked at whenever so much has come by it: half a train. */
#define DW_WAY_PACE_BYTES 32768u

/* One way of a peer whose records come by several. Index 0 of these is whichever way is the current
 * one; index n the way of that number (dw_way_number()), by the sink's interface. */
struct dw_record_way {
    struct dw_recordwin win; /* of way 0 the peer's counts, instead; and its rtt */
    struct dw_rtt rtt;
    uint32_t due_bytes;  /* granted and not yet here; of way 0 not counted */
    uint32_t ns_per_kib; /* that came while something was due; 0: it is not known yet */
    uint32_t came_bytes; /* since paced_ns */
    uint64_t paced_ns;
    uint64_t heard_ns; /* something came by it, or it was idle until then */
    uint64_t asked_ns; /* it was probed, for nothing came; not after heard_ns: no more */
    uint64_t alive_ns; /* another way answered the probe of asked_ns; earlier: none has */
    uint64_t came_ns;  /* bytes came by it, or it was idle until then */
    uint32_t order;    /* number of the latest request to the peer at came_ns; of way 0: by now */
    bool overtaken;    /* what was asked for after that has come by another way */
    uint8_t asked;     /* so often in a row */
    uint8_t vain;      /* so often it was answered and brought nothing */
};

/* What the records of a peer share; the service embeds it in its peer, and fills it. */
struct dw_record_peer {
    struct dw_records *records;
    struct diwarp_ah *ah;
    struct dw_contact contact;
    struct dw_list ends;   /* sinks and sources, oldest first */
    struct dw_list want;   /* sinks in state WANTING, oldest first */
    uint32_t index : 31;   /* unique in the service: makes keys of its records */
    bool aside : 1;        /* nothing of records comes from it: others may have what is due of it */
    uint32_t silent_since; /* the first probe since it was heard last, by the silence clock */
    uint32_t due_bytes;
    uint16_t asked_count : 15; /* open by its own reads and writes */
    bool sinks_late : 1;       /* one was found overdue, and no answer to a probe has come since */
    uint16_t own_count : 15;   /* open by ours: no more than works */
    bool by_ways : 1;          /* it is in records.ways */
    struct dw_recordwin win;   /* of its records to us */
};

enum dw_record_state {
    DW_RECORD_ASKING,  /* sink of our read, whose request is not in a datagram yet */
    DW_RECORD_WANTING, /* sink: lacks grant */
    DW_RECORD_GRANTED, /* sink: all of it */
    DW_RECORD_HELD,    /* sink: full, waits for diwarp_post_release() */
    DW_RECORD_WAITING, /* source, for grant */
    DW_RECORD_READY,   /* source: may send */
    DW_RECORD_ENDED,
    DW_RECORD_STATES
};

/* One end: the sink of our read or of a peer's write, the source of a peer's read or our write. */
struct dw_record {
    struct dw_list link;      /* in the peer's `ends` */
    struct dw_list turn_link; /* a sink's in the peer's `want`, a source's in records.ready */
    struct dw_record_peer *peer;
    struct diwarp_qp *qp; /* NULL: it is gone, the other end is to be told */
    struct dw_qpns qpns;
    struct dw_region *region; /* that the peer reads or writes; NULL: our own request */
    uint8_t *addr;            /* here, of offset 0 */
    uint64_t to;              /* likewise at the sink, as the source knows it */
    uint32_t stag;            /* of the sink */
    uint32_t id;
    uint64_t wr_id;
    unsigned send_flags; /* of our own request: IBV_SEND_SIGNALED, DIWARP_SEND_HOLD */
    bool is_sink;
    uint8_t state; /* enum dw_record_state */
    union {
        struct { /* of a sink */
            struct dw_record_sink in;
            struct dw_record_way *ways; /* of the peer; or NULL */
            struct dw_list grant_link;  /* in records.want, while its peer may be granted more */
            struct dw_timer timer;
            uint64_t late_ns; /* the timer found it overdue; 0: never */
            uint32_t first_grant_bytes;
            uint32_t cost_per_kib; /* what the kernel charges for each KiB of its payload */
        };
        struct { /* of a source */
            struct dw_record_source out;
            uint32_t turn_bytes; /* sent since it was first of those that are ready */
            uint32_t imm;        /* of a write that the peer's application is to be told of */
            bool has_imm;
        };
    };
};

static inline uint64_t dw_record_key(const struct dw_record_peer *peer, uint32_t id, bool is_sink)
{
    return (uint64_t)peer->index << 33 | (uint64_t)is_sink << 32 | id;
}

static inline struct dw_record *dw_sink_of(const struct dw_record_peer *peer, uint32_t id)
{
    return dw_map_get(&peer->records->ends, dw_record_key(peer, id, true));
}

static inline struct dw_record *dw_source_of(const struct dw_record_peer *peer, uint32_t id)
{
    return dw_map_get(&peer->records->ends, dw_record_key(peer, id, false));
}

/* Of a Write-Record datagram all but the payload, once the peer knows us. */
static inline uint32_t dw_record_overhead_bytes(const struct dw_records *records)
{
    return DW_LLP_HEADER_BYTES + DW_RECORD_SEGMENT_BYTES +
           records->port->datagrams.seal.trailer_bytes;
}

static inline struct dw_recordwin *dw_sink_win(const struct dw_record *sink, uint8_t way)
{
    return way ? &sink->ways[way].win : &sink->peer->win;
}

/* Number of the next request to the peer, of all its records. A source serves requests for one
 * record in this order; those for several mostly. */
static inline uint32_t dw_sink_next_order(const struct dw_record *sink)
{
    return sink->ways ? ++sink->ways->order : 0;
}

/* So much less is due by that way. */
static inline void dw_sink_less_due(const struct dw_record *sink, uint8_t way, uint32_t bytes)
{
    if (way)
        sink->ways[way].due_bytes -= bytes;
}

/* Something is to come by a way that was idle. */
static inline void dw_sink_begin_way(const struct dw_record *sink, uint8_t way, uint64_t now_ns)
{
    struct dw_record_way *its = &sink->ways[way];
    its->heard_ns = its->paced_ns = its->came_ns = now_ns;
    its->came_bytes = 0;
    its->overtaken = false;
    if (way)
        its->order = sink->ways->order + 1;
}

/* That there may be of a peer. */
static inline unsigned dw_record_ways_count(const struct dw_records *records)
{
    return 1 + records->port->device->attr.flows * DW_WAYS_MAX;
}

/* NULL: its records come by one. */
static inline struct dw_record_way *dw_record_ways(const struct dw_record_peer *peer)
{
    return peer->by_ways ? dw_map_get(&peer->records->ways, peer->index) : NULL;
}

/* Payload of a full Write-Record datagram of the peer's. */
static inline uint32_t dw_record_payload_bytes(const struct dw_record_peer *peer)
{
    return peer->ah->peer_datagram_bytes - dw_record_overhead_bytes(peer->records);
}

/* What the kernel charges for so much of the sink's payload. */
static inline uint64_t dw_record_charge(const struct dw_record *sink, uint64_t bytes)
{
    return bytes * sink->cost_per_kib >> 10;
}

/* What is due of the sink comes in the sequenced stream, whose window and credit cover it. */
static inline bool dw_grant_is_free(const struct dw_record *sink)
{
    return !sink->region && sink->in.total <= DW_SHORT_READ_BYTES;
}

/* ---- grant.c ---- */
/* What the receive buffer allows to be under way to us, and the longest datagrams of a record. */
void dw_records_size_budgets(struct dw_records *records);
/* Checks the table of states; an undefined transition is a fault of ours. */
void dw_record_set_state(struct dw_record *record, enum dw_record_state state);
/* The request of our read is in a datagram: from now on its sink may be granted more. */
void dw_grant_on_requested(struct dw_record_peer *peer, uint32_t id);
/* The bytes granted in the request: what there is now; all to a short read. */
uint32_t dw_grant_first(struct dw_record *sink, uint64_t now_ns);
/* Hands grant to the peers whose sinks wait, in turn. */
void dw_grant_run(struct dw_records *records, uint64_t now_ns);
/* The next run would hand some. */
bool dw_grant_is_due(const struct dw_records *records);
/* So much of what was due of the sink's source has come, or will not. */
void dw_grant_on_came(struct dw_record *sink, uint32_t bytes);
/* Nothing more of the sink is to come, and other threads may use its buffer. */
void dw_grant_end(struct dw_record *sink);
/* What is due of a silent peer, or one that sends nothing of it, is not on its way: others may have
 * it, and the peer is granted nothing, until it comes after all, be it beyond the budget. */
void dw_grant_set_aside(struct dw_record_peer *peer, bool aside);
/* Tells the source what it may send, by which way, and the first `missing` of status->ranges, which
 * alone the caller fills. False: the socket is full. */
bool dw_sink_send_status(const struct dw_record *sink, struct dw_record_control *status,
                         uint8_t way, uint32_t granted, unsigned missing);
/* When the sink is overdue; and when what is due by that way is. */
uint64_t dw_sink_deadline_ns(const struct dw_record *sink);
uint64_t dw_sink_way_deadline_ns(const struct dw_record *sink, uint8_t way);
/* ... and when one is that is split, though its ways are busy: with other records, maybe. */
uint64_t dw_sink_stuck_ns(const struct dw_record *sink);
/* Of those that may be used together, the one by which so much more would have come first; 0: there
 * is none beside the current one. */
uint8_t dw_grant_soonest_way(const struct dw_record *sink, uint32_t bytes);
/* Has its timer fire then or before. */
void dw_sink_arm(struct dw_record *sink);

/* The peer has no record any more: its ways are forgotten. */
void dw_record_ways_free(struct dw_record_peer *peer);

/* ---- record.c ---- */
void dw_records_init(struct dw_records *records, struct dw_port *port,
                     const struct dw_record_ops *ops);
void dw_records_fini(struct dw_records *records);
/* Not 0, nor one that is still in use after 2^31 others; from_source: 0, of a sink, or
 * DW_RECORD_ID_FROM_SOURCE, of a source. */
uint32_t dw_record_next_id(const struct dw_record_peer *peer, uint32_t from_source);
/* asked: the region that the peer writes or reads; NULL: a request of our own. Returns NULL: no
 * memory, or the peer has asked for too many. */
struct dw_record *dw_record_create(const struct dw_ends *ends, struct dw_record_peer *peer,
                                   uint32_t id, struct dw_region *asked, bool is_sink);
/* Ends it without a completion. */
void dw_record_destroy(struct dw_record *record);
/* Ends it, with a completion if it is our own. */
void dw_record_fail(struct dw_record *record, enum ibv_wc_status status);
/* Ends it and tells the other end, as send_answer(): record-complete of a sink, the application's
 * release in it; an ABORT of a source. */
int dw_record_end(struct dw_record *record, const void *release, uint32_t bytes, uint64_t now_ns);
/* Of a request of ours, whose QP goes: nothing more of it is sent or placed. It ends, and the other
 * end is told, once that is known to have the request. */
void dw_record_abandon(struct dw_record *record, uint64_t now_ns);

/* ---- source.c ---- */
/* As dw_record_create(); the caller fills where at the sink it goes. */
struct dw_record *dw_source_create(const struct dw_ends *ends, struct dw_record_peer *peer,
                                   uint32_t id, const void *addr, uint32_t total, uint32_t granted,
                                   struct dw_region *asked);
/* Lets it send if it has something to send. */
void dw_source_look(struct dw_record *source);
/* Sends what grants allow of the records that are ready, a bounded amount. */
void dw_sources_run(struct dw_records *records, uint64_t now_ns);

/* ---- sink.c ---- */
/* A segment of a record, the datagram that it came with, and where it goes. */
struct dw_placing {
    struct dw_record *sink;
    const struct dw_arrival *arrival;
    uint32_t offset, length;
    const uint8_t *data; /* NULL: it is there already */
};
/* As dw_record_create(); the caller fills STag and offset as the source knows them. */
struct dw_record *dw_sink_create(const struct dw_ends *ends, struct dw_record_peer *peer,
                                 uint32_t id, void *addr, uint32_t total, struct dw_region *asked,
                                 uint64_t now_ns);
/* A segment of a RECORD datagram that is what its sender sealed: checked, placed, or dropped. */
void dw_sink_on_segment(struct dw_record_peer *peer, const struct dw_segment *segment,
                        const struct dw_arrival *arrival, uint64_t now_ns);
/* Opens a datagram of this one segment, its data copied to its place in the same pass. What turns
 * out to be damaged (placing->sink: NULL) has been written to a hole of the record, whose bytes
 * mean nothing before the map says so. False: the datagram must be opened before its data may
 * be copied; nothing was touched. */
bool dw_sink_open(struct dw_record_peer *peer, const struct dw_arrival *arrival,
                  const struct dw_segment *segment, struct dw_placing *placing);
/* Notes a segment that was opened in the map; completes the record, or asks for what is missing. */
void dw_sink_place(const struct dw_placing *placing, uint64_t now_ns);
/* The peer has answered the probe that was sent at sent_ns (0: no probe of ours): what it had sent
 * by then has come or is lost, and is asked for again. */
void dw_sinks_on_probe_reply(struct dw_record_peer *peer, uint64_t sent_ns, uint64_t now_ns);

/* ---- sink_ways.c ---- */
/* As dw_sinks_on_probe_reply(), of a probe that was sent by that way, which is not 0. */
void dw_sinks_on_way_reply(struct dw_record_peer *peer, uint8_t way, uint64_t sent_ns,
                           uint64_t now_ns);
/* The peer has answered by one way: others that it was asked by at the same time are to answer. */
void dw_record_ways_on_alive(const struct dw_record_peer *peer, uint8_t answered, uint64_t sent_ns,
                             uint64_t now_ns);
/* The timer of a sink that is split. True: what is due by the current way is overdue, or of all
 * what does not come though its ways are busy. */
bool dw_sink_look_at_ways(struct dw_record *sink, uint64_t now_ns);
/* Asks, by that way, for the first n ranges of `status`, which are lost. */
void dw_sink_ask_for(struct dw_record *sink, uint8_t way, struct dw_record_control *status,
                     unsigned n, uint64_t now_ns);
/* Bytes that the window of that way has. */
uint32_t dw_sink_window_bytes(const struct dw_record *sink, uint8_t way);
/* All that is due by that way has come by then, or is lost. */
void dw_sink_ask_way(struct dw_record *sink, uint8_t way, uint64_t now_ns);
/* So many new bytes came by that way. */
void dw_sink_on_came_by(const struct dw_record *sink, uint8_t way, uint32_t bytes, uint64_t now_ns);
/* Of the stripes that a segment lies in less is due now. Index of the first of them. */
unsigned dw_sink_note_stripes(const struct dw_placing *placing, uint8_t way);
/* Something came in that stripe, by that way: what it overtook is lost. */
void dw_sink_ask_behind(struct dw_record *sink, unsigned came, uint8_t way, uint64_t now_ns);
