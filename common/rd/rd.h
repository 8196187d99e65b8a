/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RD service: messages exactly once, over datagrams. As with InfiniBand's RD, queue pairs share
 * end-to-end contexts, one for each peer process (struct dw_peer), which hold the windows.
 *
 * A message's way: post.c (checks) -> send.c (queue, coalescing) -> segment.c (segments into
 * datagrams) -> transmit.c (header, seal, exit) -> receive.c (window, by opcode) -> deliver.c |
 * rdma.c | atomic.c. Around it: timers.c and probe.c ask a silent peer, peer.c takes and gives back
 * contexts, service.c is the table. Every function of these headers runs with the device's lock
 * held.
 */
#ifndef DW_RD_H
#define DW_RD_H

#include "common/record/record.h"
#include "common/rel/recvwin.h"
#include "common/rel/rtt.h"
#include "common/rel/sendwin.h"

/* Writes up to this go in the sequenced stream, exactly once by PSN; larger ones are records. */
#define DW_INLINE_WRITE_BYTES 16384
/* Datagrams of this payload and more are sent one by one, the sooner the better. */
#define DW_APART_MIN_BYTES 8192
/* Full sockets met in one run, of each kind of datagrams: others may have a socket of their own. */
#define DW_REFUSALS_PER_RUN 2
#define DW_ACK_OWED_MAX     31u
/* Requests to a peer at a time, whatever attr.max_send_wr says. */
#define DW_QUEUED_MAX UINT16_MAX
/* Silence is counted in units of 8 ms: 32 bits of them are longer than any time-out. */
#define DW_SILENCE_CLOCK_SHIFT 23
#define DW_CWND_BITS           9
_Static_assert(DW_WINDOW_DATAGRAMS < 1u << DW_CWND_BITS, "the congestion window fits");

struct dw_peer;

/* RD on a port. */
struct dw_rd {
    struct dw_port *port;
    const struct dw_service *service;
    struct diwarp_counters *counters;
    struct dw_records records;
    struct dw_map handles; /* struct dw_handle by name */
    struct dw_list further_ahs; /* struct dw_further_ah */
    struct dw_map atomics; /* ours that wait for their answer, by dw_record_key() */
    struct dw_list awake;  /* peers that hold state, the longest idle first */
    struct dw_list flush;  /* peers with open, pending or lost datagrams to look at */
    struct dw_list ack;    /* peers to acknowledge at the end of a run */
    struct dw_list full;   /* peers that were told that there is no room */
    struct dw_list doomed; /* peers to be failed as soon as nobody is amid their state */
    struct dw_list held_control; /* record control, while the socket is full */
    uint32_t awake_count;
    uint32_t unproven;     /* handles */
    struct dw_list learnt; /* struct dw_learnt: handles made of datagrams (forget.c) */
    struct dw_timer forget_timer;
    bool forgot; /* one of them, at least */
    uint32_t resets;       /* sent in the millisecond that ends at reset_end_ns */
    uint64_t reset_end_ns;
    uint32_t next_peer_index;
    uint32_t next_atomic_id;
    uint64_t refused_write; /* dw_record_key() of the last: one ABORT for all its segments */

    /* How many peers send to us at a time: they share the credit. */
    uint16_t epoch;
    uint32_t epoch_senders, senders; /* senders: of the last whole epoch */
    uint64_t epoch_end_ns;
    uint32_t eager_budget_bytes;

    bool tried, sent;  /* in this run: a send call was made; one was taken */
    bool transmitted;  /* something, since the last append */
    bool starved; /* the last run sent nothing, and nothing was posted or freed since: what is in
                   * `flush` waits for a buffer */
    uint32_t reserved_bytes; /* between diwarp_send_reserve and its commit */

    struct dw_list free_works;
    unsigned free_work_count;
    uint32_t work_count, work_most; /* out now; since the last trim */

    struct dw_list free_assemblies, done_assemblies; /* done: until the next recycling */
    unsigned assembly_count, assembly_most;          /* being put together; since the last trim */
    unsigned free_assembly_count;
    struct dw_assembly *last_assembly;  /* taken when there is no memory for another; or NULL */
    uint32_t message_max_bytes;         /* what each has room for: the longest of any QP */
    uint64_t assembly_bytes;            /* that have come of them */
    uint64_t done_bytes;                /* of messages that are whole, and not recycled yet */
    const struct dw_assembly *oversize; /* the one that goes on beyond their bound; or NULL */
};

enum dw_peer_state {
    DW_PEER_UNMET,   /* nothing was sent to it or heard of it */
    DW_PEER_AWAKE,   /* it holds a context */
    DW_PEER_RESTING, /* it has been, and does no more: what must outlast it is in its handle */
    DW_PEER_DOOMED,  /* awake, and about to be gone */
    DW_PEER_GONE,
    DW_PEER_STATES
};

/*
 * What is known of another process: where it is, and all that must outlast its context for each
 * message to come exactly once. It belongs to the service once the peer is met, and goes with it;
 * until then to its owner. Nothing of this shows on the wire; either end rests and wakes when it
 * likes.
 */
struct dw_handle {
    struct diwarp_ah ah;
    struct dw_peer *peer; /* NULL but in AWAKE, DOOMED, and GONE until it rests */
    uint32_t incarnation; /* of the process that is meant; told with its address */
    uint32_t next_psn;    /* resting: the first that has not been sent */
    uint32_t ack;         /* resting: the first that has not come; none after it has, either */
    uint32_t send_msn;
    struct dw_rtt rtt;
    struct dw_recordwin recordwin; /* of its records to us */
    uint16_t credit_kib;           /* resting: what it granted last */
    uint16_t ssthresh_datagrams;   /* resting */
    uint8_t state;                 /* enum dw_peer_state */
    bool heard;                    /* since it was made */
    bool goes_on;   /* it may remember us: our intros say so */
    bool used;      /* it has gone to rest since forget.c looked */
    bool confirmed; /* resting: the peer knows of all that came of it that we have it */
    bool given;    /* its address is the application's word, not a datagram's */
    bool unproven; /* its address is the word of one that may not be there */
};

/* An address handle for a QP of a peer beyond the one that its handle is for. */
struct dw_further_ah {
    struct diwarp_ah ah;
    struct dw_handle *handle;
    struct dw_list link;
};

/* The end-to-end context of a peer: its protocol state while it is awake. */
struct dw_peer {
    struct dw_rd *rd;
    struct dw_handle *handle;
    struct dw_record_peer records;
    struct dw_contact contact;
    struct dw_list awake_link;

    bool introduced; /* it has been heard since it woke: it knows our address */
    bool confirming; /* it is asked so that it may be forgotten */
    /* What our last new DATA, and our last probe, acknowledged. */
    uint32_t data_ack, probe_ack;
    uint64_t number; /* of our last datagram to it */
    uint16_t timestamp; /* of its datagram that came last */
    struct dw_sendwin sendwin;
    struct dw_datagram *open; /* being filled */
    uint64_t appended_ns;     /* last, to it or to one before, or the end of that one's send call */
    struct dw_list flush_link;
    struct dw_list pending;  /* works not wholly copied */
    struct dw_list awaiting; /* works that end with their acknowledgement */
    uint32_t queued;         /* requests posted and not ended, but for records of our own */
    bool at_once;            /* what is appended now, or was last, is not to wait for others */

    struct dw_recvwin recvwin;
    struct dw_list assemblies;
    uint32_t assembly_count;
    uint64_t assembly_bytes; /* that have come of them */
    uint32_t ack_owed_bytes;
    uint8_t ack_owed_datagrams; /* up to DW_ACK_OWED_MAX */
    struct dw_list ack_link;    /* in rd.ack */
    uint64_t ack_due_ns;
    struct dw_list full_link; /* in rd.full: its last credit from us is none, it is told of room */

    struct dw_list atomics;
    uint16_t refusals; /* ABORTs of its small writes that it has not acknowledged */
    uint32_t answers;  /* ABORTs, COMPLETEs and atomic responses in pending */

    struct dw_timer timer; /* acknowledgement, probe */
    uint16_t epoch;        /* of its last datagram: counts active senders */
    uint8_t backoff;
    uint8_t held; /* in rd.held_control */
    uint8_t probes; /* in a row, each though it must have had the answer to the one before */
    uint8_t unreachables;  /* ICMP unreachable since it was heard last */
    uint8_t doom;          /* enum diwarp_gone, in state DOOMED */
    uint8_t send_error;    /* errno with which our own host refused the last datagram; 0: sent */
    bool sent;             /* at least one, since it woke */
    uint32_t silent_since; /* the first probe since it was heard last, by the silence clock */
    uint16_t pairs_lost;   /* in a row: of each it answered the bare probe only */
    uint8_t asked_again;   /* for parts of records: how often, less pairs of probes */
    uint32_t asked_again_bytes; /* the longest datagram of those */
    struct dw_list doomed_link;
};

/* A work request, or a message of our own, on its way into sequenced datagrams. */
struct dw_work {
    struct dw_list link; /* in peer.pending, then peer.awaiting */
    struct diwarp_qp *qp; /* whose it is; NULL: our own message, no completion, even in error */
    struct dw_qpns qpns;
    uint8_t *rest; /* its QP is gone: a copy of what has not been sent; or NULL */
    uint64_t wr_id;
    enum ibv_wc_opcode opcode;
    bool signaled;
    bool buffered;            /* complete when copied */
    bool answer;              /* to the peer's requests */
    bool refusal;             /* the ABORT of a small write */
    struct dw_ddp_header ddp; /* of its first segment */
    uint32_t record_id;       /* tagged: of its Write-Record header; or of a read request */
    uint32_t total, copied;
    uint32_t last_psn; /* once all is copied */
    unsigned sge_count;
    struct iovec sge[DW_MAX_SGE];
    uint8_t own[DW_RECORD_CONTROL_BYTES + DIWARP_RELEASE_MAX_BYTES]; /* our own messages' bytes */
};

/* A sequenced datagram. Kept, as it went out, until it is acknowledged. */
struct dw_datagram {
    struct dw_tx tx;
    struct dw_train *train; /* whose buffer it lies in; NULL: it has its own, buf follows */
    struct dw_qpns qpns;    /* of all that is in it */
    uint8_t *buf;
    uint32_t bytes;    /* so far, without the trailer */
    uint32_t room;     /* most that `bytes` may become */
    bool intro;        /* leads with an intro block */
    bool urgent;       /* not to wait for others to join */
    bool ack_request;  /* a request completes with its acknowledgement, or it refuses one */
    uint16_t refusals; /* ABORTs of small writes in it */
};

/* Datagrams of one message, their bytes behind them one after the other, as they leave. */
struct dw_train {
    unsigned kept; /* not yet acknowledged */
    struct dw_datagram datagrams[];
};

/* Reassembly of a Send of more than one segment. */
struct dw_assembly {
    struct dw_list link;
    size_t mapped_bytes;
    struct diwarp_qp *qp;
    uint32_t msn;
    uint32_t total; /* 0: the last segment has not come */
    struct dw_ranges map;
    uint8_t buf[];
};

static inline struct dw_handle *dw_handle_of(struct diwarp_ah *ah)
{
    return ah->further ? dw_container(ah, struct dw_further_ah, ah)->handle
                       : dw_container(ah, struct dw_handle, ah);
}

static inline struct dw_peer *dw_peer_of(const struct dw_record_peer *records)
{
    return dw_container(records, struct dw_peer, records);
}

static inline uint32_t dw_silence_clock(uint64_t ns)
{
    return (uint32_t)(ns >> DW_SILENCE_CLOCK_SHIFT);
}

/* An answer of the peer's tells that it has our last acknowledgement: it sends nothing again that we
 * have. */
static inline bool dw_peer_is_confirmed(const struct dw_peer *peer)
{
    const uint32_t ack = peer->recvwin.ack;
    return (!peer->sendwin.count && peer->data_ack == ack) ||
           (peer->contact.probe_answered && peer->probe_ack == ack);
}

/* It has been silent for so long that it may have taken us for gone. */
static inline bool dw_peer_is_in_doubt(const struct dw_peer *peer, uint64_t now_ns)
{
    const uint64_t limit_ns = peer->rd->port->device->attr.peer_timeout_ns / 2;
    return limit_ns && now_ns > peer->contact.heard_ns &&
           now_ns - peer->contact.heard_ns > limit_ns;
}

/* Neither gone nor about to be. */
static inline bool dw_peer_is_live(const struct dw_peer *peer)
{
    return peer->handle->state == DW_PEER_AWAKE;
}

/* Checks the table of states; an undefined transition is a fault of ours. */
void dw_handle_set_state(struct dw_handle *handle, enum dw_peer_state state);
/* The peer cannot go on. Who finds that out may be amid its state: it is failed later in the run,
 * or in the next (peer.c). */
void dw_peer_doom(struct dw_peer *peer, enum diwarp_gone why);
/* The wait before it is asked again, after so many in vain. */
uint64_t dw_peer_rto_ns(const struct dw_peer *peer, unsigned backoff);
/* Sees that the next run looks at its datagrams. */
void dw_peer_look_again(struct dw_peer *peer);
/* Its acknowledgement leaves with this run or the next, unless something else brings it. */
void dw_peer_ack_soon(struct dw_peer *peer);

#endif
