/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA Write-Record, reliable: the two ends of a record, and what all records of the service and of
 * a peer share. Which bytes to ask for or to send is rel/record.h's affair.
 *
 * A record's way: record.c opens it, grant.c says how much may be under way, source.c sends, sink.c
 * puts each segment into its place, and the map completes it.
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
/* Of one record while others wait, and under way for all where processes take turns on a core, or
 * poll rarely: a sender whose turn ends with its grant is worse. Half: such senders stand still;
 * twice: others wait longer for their turn. */
#define DW_RECORD_TURN_BYTES (4u << 20)
/* Open records that a peer has asked us for, in 5 MB; beyond, its requests are refused. */
#define DW_ASKED_MAX 16384u
/* Reads up to this are answered in the sequenced stream, where answers share datagrams: a record
 * needs one of its own, and often one more for its grant. With half as much, fewer reads gain;
 * twice as much makes every work that waits 128 bytes longer, for the answer is copied into it. */
#define DW_SHORT_READ_BYTES 128

struct dw_peer;

/* The records of a service on a port. What is due, granted and not yet here, counts as the kernel
 * charges the receive buffer for it. */
struct dw_records {
    struct dw_map sinks, sources; /* by dw_record_key() */
    struct dw_list want;          /* of each peer the oldest sink that waits for grant, in turn */
    struct dw_list ready;         /* sources that may send, in turn */
    uint32_t next_id;
    uint64_t granted_ns;         /* grants were looked at last */
    bool left_some;              /* were under way then */
    bool polled_rarely;          /* since the first of those under way */
    bool refused;                /* a full socket did not take a grant, in the last run */
    uint32_t eager_budget_bytes; /* of the receive buffer, what is left to eager datagrams */
    uint32_t grant_budget_bytes; /* of it, what is for records */
    uint32_t window_bytes;       /* of their payload, what may be under way at most */
    uint64_t due_bytes;          /* of all peers but those set aside */
};

/* What the records of a peer share; it is embedded in the peer. */
struct dw_record_peer {
    struct dw_records *records;
    struct diwarp_ah *ah;
    struct dw_contact contact;
    struct dw_list ends;   /* sinks and sources, oldest first */
    struct dw_list want;   /* sinks in state WANTING, oldest first */
    uint32_t index;        /* unique in the service: makes keys of its records */
    uint32_t silent_since; /* the first probe since it was heard last, by the silence clock */
    uint32_t due_bytes;
    uint16_t asked_count;    /* open by its own reads and writes */
    uint16_t own_count;      /* open by ours: no more than works */
    struct dw_recordwin win; /* of its records to us */
    struct dw_record_round round;
    bool aside;      /* nothing of records comes from it: others may have what is due of it */
    bool sinks_late; /* one was found overdue, and no answer to a probe has come since */
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

/* One end of a record: the sink of a read of ours or of a peer's write, or the source of a peer's
 * read or of our write. */
struct dw_record {
    struct dw_list link;      /* in the peer's `ends` */
    struct dw_list turn_link; /* a sink's in the peer's `want`, a source's in records.ready */
    struct dw_peer *peer;
    struct diwarp_qp *qp; /* NULL: it is gone, the other end is to be told */
    struct dw_qpns qpns;
    struct dw_region *region; /* that the peer reads or writes; NULL: our own request */
    uint8_t *addr;            /* here, of offset 0 */
    uint64_t to;              /* likewise at the sink, as the source knows it, and its STag */
    uint32_t stag;
    uint32_t id;
    uint64_t wr_id;
    unsigned send_flags; /* of our own request: IBV_SEND_SIGNALED, DIWARP_SEND_HOLD */
    bool is_sink;
    uint8_t state; /* enum dw_record_state */
    union {
        struct { /* of a sink */
            struct dw_record_sink in;
            struct dw_list grant_link; /* in records.want, while its peer may be granted more */
            struct dw_timer timer;
            uint64_t late_ns;      /* the timer found it overdue; 0: never */
            uint32_t cost_per_kib; /* what the kernel charges for each KiB of its payload */
        };
        struct { /* of a source */
            struct dw_record_source out;
            uint32_t turn_bytes; /* sent since it was first of those that are ready */
        };
    };
};

static inline uint64_t dw_record_key(const struct dw_record_peer *peer, uint32_t id)
{
    return (uint64_t)peer->index << 32 | id;
}

static inline struct dw_record *dw_sink_of(const struct dw_record_peer *peer, uint32_t id)
{
    return dw_map_get(&peer->records->sinks, dw_record_key(peer, id));
}

static inline struct dw_record *dw_source_of(const struct dw_record_peer *peer, uint32_t id)
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

/* Of a peer's records, what may be under way to us. */
static inline uint32_t dw_record_window_bytes(const struct dw_record_peer *peer)
{
    return (uint32_t)dw_recordwin_bytes(peer->win, dw_record_payload_bytes(peer));
}

/* What the kernel charges for so much of the sink's payload. */
static inline uint64_t dw_record_charge(const struct dw_record *sink, uint64_t bytes)
{
    return bytes * sink->cost_per_kib >> 10;
}

/* What is due of the sink comes in the sequenced stream, whose window and credit cover it: it takes
 * nothing of the budget or the record window. */
static inline bool dw_grant_is_free(const struct dw_record *sink)
{
    return !sink->region && sink->in.total <= DW_SHORT_READ_BYTES;
}
