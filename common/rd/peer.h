/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer of an RD QP that is awake: its protocol state, and when it is asked. */
#ifndef DW_PEER_H
#define DW_PEER_H

#include "common/base/heap.h"
#include "common/base/list.h"
#include "common/rel/recvwin.h"
#include "common/rel/rtt.h"
#include "common/rel/sendwin.h"
#include "common/rnic/address.h"
#include "common/rnic/qp.h"

#define DW_NUMBER_MAX      ((UINT64_C(1) << 48) - 1)
#define DW_ACK_OWED_MAX    31u
#define DW_SINKS_ASIDE_MAX ((1u << 14) - 1)
#define DW_SOON_POSTS_MAX  3u

/* Silence is counted in units of 8 ms: 32 bits of them are longer than any time-out. */
#define DW_SILENCE_CLOCK_SHIFT 23

struct dw_peer {
    struct diwarp_qp *qp;
    struct diwarp_ah *ah;
    uint32_t index; /* unique in the QP: makes keys of its records */

    uint16_t epoch;            /* of its last datagram: counts active senders */
    uint16_t sinks_aside : 14; /* up to DW_SINKS_ASIDE_MAX */
    uint16_t soon_posts : 2;   /* in a row, soon after the one before; up to DW_SOON_POSTS_MAX */
    uint64_t number : 48;      /* of our last datagram to it */
    uint64_t timestamp : 16;   /* of its datagram that came last */
    struct dw_sendwin sendwin;
    struct dw_datagram *open; /* being filled */
    uint64_t appended_ns;     /* last, to it or to one before, or the end of that one's send call */
    struct dw_list flush_link; /* in qp.flush: open, pending or lost datagrams to look at */
    struct dw_list pending;    /* works not wholly copied */
    struct dw_list awaiting;   /* works that end with their acknowledgement */

    struct dw_recvwin recvwin;
    uint32_t ack_due;               /* while one is owed: see dw_peer_ack_due_ns() */
    uint16_t ack_owed_256b;         /* truesize, in units of 256 bytes */
    uint8_t ack_owed_datagrams : 5; /* up to DW_ACK_OWED_MAX */
    bool probe_answered : 1;        /* the latest of ours */
    uint8_t probes : 2; /* in a row, each though it must have had the answer to the one before */
    uint8_t backoff : 4;
    uint8_t unreachables : 3; /* ICMP unreachable since it was heard last */
    bool at_once : 1;         /* what is appended now, or was last, is not to wait for others */
    uint16_t refusals;        /* ABORTs of its small writes that it has not acknowledged */
    uint16_t answers;         /* ABORTs, COMPLETEs and atomic responses in pending */
    struct dw_list assemblies;
    struct dw_list ack_link; /* in qp.ack: acknowledge at the end of this run, or of the next */

    struct dw_list sinks, sources, atomics;

    struct dw_timer timer; /* acknowledgement, probe */
    uint64_t heard_ns;
    uint64_t asked_ns; /* last time we gave it something to answer */
    uint64_t probe_sent_ns;
    uint32_t silent_since;   /* the first probe since it was heard last, by the silence clock */
    uint16_t pairs_lost;     /* in a row: of each it answered the bare probe only */
    uint8_t send_error;      /* errno with which our own host refused the last datagram; 0: sent */
    bool sent : 1;           /* at least one, since it woke */
    uint8_t asked_again : 3; /* for parts of records: how often, less pairs of probes */
    bool told_full : 1;      /* its last credit from us is none: it is told of room */
    bool unanswered : 1;     /* data of its has come since new data last left to it */
    bool ping_pong : 1;      /* the last that was answered so was so right away */
    bool ack_now : 1;        /* its acknowledgement is not to wait for an answer of ours */
};

/* Acknowledgements are due by a clock of units of 1024 ns, which wraps after an hour: none waits
 * for longer than DW_ACK_DELAY_MAX_NS. */
#define DW_ACK_CLOCK_SHIFT  10
#define DW_ACK_DELAY_MAX_NS 1000000000u

static inline void dw_peer_set_ack_due(struct dw_peer *peer, uint64_t delay_ns, uint64_t now_ns)
{
    if (delay_ns > DW_ACK_DELAY_MAX_NS)
        delay_ns = DW_ACK_DELAY_MAX_NS;
    peer->ack_due = (uint32_t)((now_ns + delay_ns) >> DW_ACK_CLOCK_SHIFT);
}

static inline uint64_t dw_peer_ack_due_ns(const struct dw_peer *peer, uint64_t now_ns)
{
    const int32_t left = (int32_t)(peer->ack_due - (uint32_t)(now_ns >> DW_ACK_CLOCK_SHIFT));
    return left > 0 ? now_ns + ((uint64_t)left << DW_ACK_CLOCK_SHIFT) : now_ns;
}

static inline uint32_t dw_silence_clock(uint64_t ns)
{
    return (uint32_t)(ns >> DW_SILENCE_CLOCK_SHIFT);
}

/* The wait before it is asked again. */
static inline uint64_t dw_peer_rto_ns(const struct dw_peer *peer, unsigned backoff)
{
    return dw_rtt_rto_ns(&peer->ah->rtt, peer->qp->device->attr.rto_min_ns, backoff);
}

static inline uint64_t dw_record_key(const struct dw_peer *peer, uint32_t id)
{
    return (uint64_t)peer->index << 32 | id;
}

/* NULL: not known, or at rest. */
struct dw_peer *dw_peer_find(const struct diwarp_qp *qp, struct diwarp_name name);
/* The next peer that is not at rest, at or after *slot of qp.ahs, which moves behind it; NULL: no
 * more. */
struct dw_peer *dw_peer_next(const struct diwarp_qp *qp, size_t *slot);
/* The protocol state, taken now if it has to be; NULL: no memory. */
struct dw_peer *dw_peer_of_ah(struct diwarp_ah *ah);
void dw_peer_destroy(struct dw_peer *peer);
/* Puts those to rest that may, of a bounded number in turn; *more: some may yet. False: there are
 * others to look at before all have had their turn. */
bool dw_peer_rest_some(struct diwarp_qp *qp, uint64_t now_ns, bool *more);
/* Tells the application once, and ends all it owes and is owed with errors. */
void dw_peer_fail(struct dw_peer *peer, enum diwarp_gone why);
/* Another process has the peer's name now: all that is under way with the one before ends in error,
 * and both begin anew. */
void dw_peer_restart(struct diwarp_ah *ah, uint32_t incarnation);
/* Makes the timer run at deadline_ns or before. */
void dw_peer_wake(struct dw_peer *peer, uint64_t deadline_ns);
/* It asks again and again, so our answers do not reach it. */
void dw_peer_on_probe(struct dw_peer *peer, uint64_t heard_before_ns, uint64_t now_ns);
/* We gave it something to answer: sees that it is probed. */
void dw_peer_on_asked(struct dw_peer *peer, uint64_t now_ns);
/* The same for a record, but while data is unacknowledged: many records do not put off its probe.
 */
void dw_peer_on_record(struct dw_peer *peer, uint64_t now_ns);
/* Returns when the probe was sent whose reply has that PSN; 0: it cannot be one of ours. */
uint64_t dw_peer_on_probe_reply(struct dw_peer *peer, uint32_t psn, uint64_t now_ns);
/* It began something that it has to go on with, unasked: sees that it is probed when silent. */
void dw_peer_watch(struct dw_peer *peer);
/* Probes it, unless an answer may still be on its way: whether it computes, or something was lost.
 * That costs less than asking for things again would, once it reads all that waits for it. */
void dw_peer_ask(struct dw_peer *peer, uint64_t now_ns);
void dw_peer_on_unreachable(struct diwarp_qp *qp, const struct dw_llp_addr *addr, uint64_t now_ns);
/* Its datagrams have become shorter. */
void dw_peer_on_narrowed(struct dw_peer *peer);
/* Something is to come from it: an answer, or the rest of what it began. */
bool dw_peer_owes(const struct dw_peer *peer);

#endif
