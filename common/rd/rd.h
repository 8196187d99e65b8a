/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RD service: messages exactly once, over datagrams. As with InfiniBand's RD, queue pairs share
 * end-to-end contexts, one for each peer process (struct dw_peer), which hold the windows.
 *
 * A message's way: post.c (checks) -> send.c (queue, segments into datagrams) -> transmit.c
 * (header, seal, exit) -> receive.c (window, by opcode) -> deliver.c | rdma.c. What is large goes
 * as a record (common/record). Around it: probe.c asks a silent peer, peer.c takes and gives back
 * contexts, service.c is the table. Every function of these headers runs with the device's lock
 * held.
 */
#pragma once

#include "common/rd/handle.h"
#include "common/record/records.h"
#include "common/rel/recvwin.h"
#include "common/rel/sendwin.h"

#define DW_EPOCH_NS 1000000
/* Of one that nothing is known of: what any socket holds, and any path lets be on its way whatever
 * the delay. A long eager message. */
#define DW_FIRST_BYTES (64u << 10)
/* What happens so often in a row is no mere loss: a datagram is sent again, or a peer answers only
 * the bare one of a pair of probes. Half: a lossy path is taken for a narrow one; twice: a narrow
 * one is seen that much later. */
#define DW_OFTEN 3
/* So often a peer that is waited for is asked, though nothing is unacknowledged, and a pair of
 * probes is sent. Half: more is sent in vain; twice: a peer that is gone, and a narrow path, are
 * seen that much later. */
#define DW_ASK_NS 500000000ull
/* Idle peers that one call looks at: some 10 us. */
#define DW_LOOKS_MAX 256
/* Requests to a peer at a time, whatever attr.max_send_wr says. Each may cost the other end 0.3 KB;
 * with half as many, a round trip of 1 ms allows 4 million small ones in a second. Of those that
 * ask for records, some have ended here and not yet there: there is room for twice as many. */
#define DW_QUEUED_MAX (DW_ASKED_MAX / 2)
/* Silence is counted in units of 8 ms: 32 bits of them are longer than any time-out. */
#define DW_SILENCE_CLOCK_SHIFT 23

/* RD on a port. */
struct dw_rd {
    struct dw_port *port;
    struct diwarp_counters *counters;
    struct dw_handles handles;
    struct dw_records records;
    struct dw_list awake;  /* peers that hold state, the longest idle first */
    struct dw_list flush;  /* peers with open, pending or lost datagrams to look at */
    struct dw_list ack;    /* peers to acknowledge at the end of a run */
    struct dw_list full;   /* peers that were told that there is no room */
    struct dw_list doomed; /* peers to be failed as soon as nobody is amid their state */
    uint32_t awake_count;
    uint32_t epoch_senders, senders; /* peers that sent to us: in this epoch, in the one before */
    uint64_t epoch_end_ns;
    uint32_t resets;     /* sent in this epoch */
    uint64_t silence_ns; /* time that goes by while we run, which silence is counted by */
    uint64_t ran_ns;     /* the last run */

    /* Of handles made of datagrams, which are looked at in rounds (identity.c). */
    bool strangers;     /* there may be some */
    bool forgot;        /* one of them, at least */
    uint32_t looked_at; /* the last in this round, by index; 0: the next begins at look_ns */
    uint64_t look_ns;

    bool tried, sent; /* in this run: a send call was made; one was taken */
    bool transmitted; /* something, since the last append */
    bool starved; /* the last run sent nothing, and nothing was posted or freed since: what is in
                   * `flush` waits for a buffer */
    struct dw_peer *reserved; /* and reserved_bytes: from diwarp_send_reserve to its commit */
    uint32_t reserved_bytes;
    uint32_t work_count;
    const struct diwarp_qp *refuser; /* where what takes a receive met none, last; or NULL */
    uint64_t refused_write; /* dw_record_key() of the last: one ABORT for all its segments */

    struct dw_list free_assemblies, done_assemblies; /* done: until the next recycling */
    unsigned assembly_count;                         /* being put together */
    unsigned free_assembly_count;        /* the last is taken when there is no memory for another */
    uint32_t message_max_bytes;          /* what each has room for: the longest of any QP */
    uint64_t assembly_bytes;             /* that have come of them, and a page for each */
    uint64_t done_bytes;                 /* of messages that are whole, and not recycled yet */
    const struct dw_assembly *oversize;  /* the one that goes on beyond their bound; or NULL */
    const struct dw_peer *oversize_peer; /* whose it is */
};

/* The end-to-end context of a peer: its protocol state while it is awake. */
struct dw_peer {
    struct dw_record_peer records;
    struct dw_list awake_link;
    struct dw_list path_link; /* in path.awake */
    uint64_t number;          /* of our last datagram to it */
    struct dw_sendwin sendwin;
    struct dw_datagram *open; /* being filled */
    uint64_t appended_ns; /* a message was last appended, or the send call ended that it caused */
    struct dw_list flush_link; /* in rd.flush; in state DOOMED in rd.doomed */
    struct dw_list pending;    /* works not wholly copied */
    struct dw_list awaiting;   /* works that end with their acknowledgement */
    struct dw_timer timer;     /* acknowledgement, probe */
    struct dw_list assemblies; /* oldest first */
    struct dw_list ack_link;   /* in rd.ack if ack_soon, else in rd.full if told_full */
    struct dw_recvwin recvwin;
    uint32_t ack_owed_bytes;
    uint16_t answers;         /* ABORTs, COMPLETEs and atomic responses in pending */
    uint16_t queued;          /* requests posted and not ended, but for records of our own */
    uint16_t refusals;        /* ABORTs of its small writes that it has not acknowledged */
    uint16_t timestamp;       /* of its datagram that came last */
    uint16_t pairs_lost;      /* in a row: of each it answered the bare probe only */
    uint8_t send_error;       /* errno with which our own host refused the last datagram; 0: sent */
    uint8_t unreachables : 2; /* ICMP unreachable since it was heard, up to DW_OFTEN */
    uint8_t unanswered : 2;   /* probes in a row, up to DW_OFTEN */
    uint8_t backoff : 4;
    uint8_t doom : 4;        /* enum diwarp_gone, in state DOOMED */
    uint8_t ack_owed : 4;    /* in parts of ACK_OWED_MAX (receive.c); 0: none */
    uint8_t asked_again : 3; /* for parts of records: how often, less pairs of probes */
    uint8_t proofs : 5;      /* sent to it, modulo 32 */
    bool ack_soon : 1;
    bool introduced : 1; /* it has been heard since it woke: it knows our address */
    bool confirming : 1; /* it is asked so that it may be forgotten */
    bool told_full : 1;  /* its last credit from us is none: it is told of room */
    bool qp_full : 1; /* of its messages one met no receive: its credit is none while that lasts */
    bool at_once : 1; /* what is appended now, or was last, is not to wait for others */
    bool data_acked : 1;  /* our last new DATA acknowledged all that has come */
    bool probe_acked : 1; /* our last probe did */
    bool yields : 1;      /* we proved ourselves to it: it is not asked to, once */
    bool sent : 1;        /* at least one, since it woke */
    bool prohibited : 1;  /* so says ICMP where it says unreachable */
    bool warned : 1;      /* the application, that nothing was ever heard of it */
    bool trying : 1;      /* other ways: by the current one it has not answered since */
    bool retrying : 1;    /* what the peer refused is sent by and by: it has room again */
};

static inline struct dw_peer *dw_peer_of_records(const struct dw_record_peer *records)
{
    return dw_container(records, struct dw_peer, records);
}

static inline struct dw_rd *dw_rd_of(const struct dw_peer *peer)
{
    return dw_container(peer->records.records, struct dw_rd, records);
}

static inline struct dw_rd *dw_rd_of_handle(const struct dw_handle *handle)
{
    return dw_container(dw_handles_of(handle), struct dw_rd, handles);
}

static inline struct dw_handle *dw_handle_of(const struct dw_peer *peer)
{
    return dw_container(peer->records.ah, struct dw_handle, ah);
}

/* What protects the datagrams to it; and the process that it is. */
static inline const struct dw_seal *dw_seal_for(const struct dw_peer *peer)
{
    return &dw_rd_of(peer)->port->datagrams.seal;
}

static inline struct dw_process dw_process_of(const struct dw_peer *peer)
{
    const struct diwarp_ah *ah = peer->records.ah;
    return (struct dw_process){.name = ah->name, .incarnation = ah->incarnation};
}

static inline uint32_t dw_trailer_bytes(const struct dw_peer *peer)
{
    return dw_seal_for(peer)->trailer_bytes;
}

static inline struct dw_met *dw_met_of(const struct dw_peer *peer)
{
    return dw_handle_met(dw_handle_of(peer));
}

/* A work request, or a message of our own, on its way into sequenced datagrams. */
struct dw_work {
    struct dw_list link;  /* in peer.pending, then peer.awaiting */
    struct diwarp_qp *qp; /* whose it is; NULL: our own message, no completion, even in error */
    struct dw_qpns qpns;
    uint8_t *rest; /* its QP is gone: a copy of what has not been sent; or NULL */
    uint64_t wr_id;
    enum ibv_wc_opcode opcode;
    bool signaled;
    bool buffered;            /* complete when copied */
    bool answer;              /* to the peer's requests */
    bool refusal;             /* the ABORT of a small write */
    bool fence;               /* begins once all before it is acknowledged */
    struct dw_ddp_header ddp; /* of its first segment */
    bool atomic;              /* it ends with its response, which tells the id, and `result` */
    uint64_t *result;         /* or NULL */
    uint32_t record_id;       /* tagged: of its Write-Record header; or of a request */
    uint32_t total, copied;
    uint32_t last_psn; /* once all is copied */
    struct iovec sge[DW_MAX_SGE];
    uint8_t own[DW_RECORD_CONTROL_BYTES + DIWARP_RELEASE_MAX_BYTES]; /* our own messages' bytes */
};

/* A sequenced datagram. Kept, as it went out, until it is acknowledged. */
struct dw_datagram {
    struct dw_tx tx;
    struct dw_train *train; /* whose buffer it lies in */
    struct dw_qpns qpns;    /* of all that is in it */
    uint8_t *buf;
    uint32_t bytes;    /* so far, without the trailer */
    uint32_t room;     /* most that `bytes` may become */
    bool intro;        /* leads with an intro block */
    bool ack_request;  /* a request completes with its acknowledgement, or a fence
                        * waits for it, or it refuses a request */
    uint16_t refusals; /* ABORTs of small writes in it */
};

/* A buffer: one datagram, or those of a message that leave together; behind them their bytes. */
struct dw_train {
    unsigned kept; /* datagrams not yet acknowledged */
    struct dw_datagram datagrams[];
};

/* Reassembly of a Send of more than one segment. */
struct dw_assembly {
    struct dw_list link; /* in peer.assemblies, rd.free_assemblies, rd.done_assemblies */
    size_t mapped_bytes;
    struct diwarp_qp *qp;
    uint32_t msn;
    uint32_t total; /* 0: the last segment has not come */
    bool in_order;  /* its first segment came when all before it had come */
    struct dw_ranges map;
    uint8_t buf[];
};

static inline uint32_t dw_silence_clock(const struct dw_rd *rd)
{
    return (uint32_t)(rd->silence_ns >> DW_SILENCE_CLOCK_SHIFT);
}

static inline uint64_t dw_silence_ns(const struct dw_rd *rd, uint32_t since)
{
    return (uint64_t)(dw_silence_clock(rd) - since) << DW_SILENCE_CLOCK_SHIFT;
}

/* An answer of the peer's tells that it has our last acknowledgement: it sends nothing again that
 * we have. */
static inline bool dw_peer_is_confirmed(const struct dw_peer *peer)
{
    return (!peer->sendwin.count && peer->data_acked) ||
           (peer->records.contact.probe_answered && peer->probe_acked);
}

/* It has been silent for so long that it may have taken us for gone. */
static inline bool dw_peer_is_in_doubt(const struct dw_peer *peer, uint64_t now_ns)
{
    const uint64_t limit_ns = dw_rd_of(peer)->port->device->attr.peer_timeout_ns / 2;
    return limit_ns && now_ns > peer->records.contact.heard_ns &&
           now_ns - peer->records.contact.heard_ns > limit_ns;
}

/* Neither gone nor about to be. */
static inline bool dw_peer_is_live(const struct dw_peer *peer)
{
    return dw_handle_of(peer)->state == DW_PEER_AWAKE;
}

/* Of epochs of 1 ms begins the next, if it is its turn. */
void dw_rd_begin_epoch(struct dw_rd *rd, uint64_t now_ns);
/* The peer cannot go on. Who finds that out may be amid its state: it is failed later in the run,
 * or in the next (peer.c). */
void dw_peer_doom(struct dw_peer *peer, enum diwarp_gone why);
/* The wait before it is asked again, after so many in vain. */
uint64_t dw_peer_rto_ns(const struct dw_record_peer *records, unsigned backoff);
/* Something sent to it, or by it, was lost. */
void dw_peer_on_lost(struct dw_record_peer *records, uint64_t now_ns);
/* Sees that the next run looks at its datagrams. */
void dw_peer_look_again(struct dw_peer *peer);
/* Its acknowledgement leaves with this run or the next, unless something else brings it. */
void dw_peer_ack_soon(struct dw_peer *peer);
/* The same, behind all others to be acknowledged. */
void dw_peer_ack_last(struct dw_peer *peer);
/* It has been told all that any datagram tells: nothing has to be acknowledged. */
void dw_peer_on_told(struct dw_peer *peer);
/* What it sends would be refused: its credit is none. */
bool dw_peer_is_refused(const struct dw_peer *peer);

/* ---- when it is asked: the policy of its one timer, by what happens to it ---- */
/* Something is to come from it: an answer, or the rest of what it began. */
bool dw_timers_peer_owes(const struct dw_peer *peer);
/* When it is probed, unless it is heard or asked before. */
uint64_t dw_timers_probe_due_ns(const struct dw_peer *peer);
/* When the oldest unacknowledged datagram is sent again, once, though nothing tells that it is lost
 * (RFC 8985 section 7); DW_NEVER: it is not. */
uint64_t dw_timers_tail_due_ns(const struct dw_peer *peer);
/* Makes the timer run at deadline_ns or before. */
void dw_timers_wake(struct dw_peer *peer, uint64_t deadline_ns);
/* We gave it something to answer: sees that it is probed. */
void dw_timers_on_asked(struct dw_peer *peer, uint64_t now_ns);
/* The same for a record, but while data is unacknowledged, whose probe is not put off. */
void dw_timers_on_record(struct dw_record_peer *records, uint64_t now_ns);
/* It began something that it has to go on with, unasked: sees that it is probed when silent. */
void dw_timers_watch(struct dw_peer *peer);

/* ---- what the service's table leads to ---- */
extern const struct dw_service dw_rd_service;
/* As of struct dw_service (post.c, receive.c). */
int dw_rd_post_send(struct diwarp_qp *qp, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                    uint64_t now_ns);
bool dw_rd_place(void *state, const struct dw_arrival *arrival, uint64_t now_ns);
void dw_rd_take(void *state, struct diwarp_qp *qp, const struct dw_arrival *arrival,
                uint64_t now_ns);
