/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The send window of one peer: datagrams sent and not yet acknowledged, which of them are lost, and
 * how many may be on their way. Pure: callers send, and say when.
 *
 * Loss is told by order of transmission, as in RFC 8985 (RACK): a datagram is lost when one handed
 * to the LLP DW_REORDER_DATAGRAMS later has been acknowledged, or when the answer to a later probe
 * does not acknowledge it; in both cases only if acknowledgements report it by now: if it is one of
 * the first DW_SACK_DATAGRAMS from the oldest on. Time alone makes none lost: the peer may compute.
 *
 * A loss shrinks the congestion window as CUBIC's (RFC 9438), unless queues on the way are known to
 * be short: then one, or up to one in eight of a round, is taken for a bad link; more halve it.
 * Where each datagram of a round waited in queues for longer than `queue_max_ns`, it shrinks by a
 * quarter: a switch's buffer need not overflow for the senders to learn of it. It grows by one in a
 * round, and doubles up to `ssthresh_datagrams` where the queue is short again.
 */
#pragma once

#include "common/base/list.h"
#include "common/rel/rtt.h"

#define DW_REORDER_DATAGRAMS 3

/* Of one sequenced datagram; its owner embeds it. */
struct dw_tx {
    struct dw_list link; /* in sendwin.unacked, by PSN */
    uint32_t psn;
    uint32_t order; /* of its last transmission, among all to this peer */
    uint64_t sent_ns;
    uint32_t truesize_bytes;
    uint16_t resends;
    bool lost;
    bool guessed; /* its last transmission was on suspicion: an ack may be that of an earlier one */
};

struct dw_sendwin {
    struct dw_list unacked;
    uint32_t next_psn, next_order;
    uint32_t acked_order;  /* the latest order known to have arrived */
    uint32_t recovery_psn; /* losses before it belong to one event */
    uint16_t max_datagrams;
    uint16_t cwnd_datagrams;
    uint16_t ssthresh_datagrams; /* what loss has left of it, and what it has regained */
    uint16_t cwnd_acked : 10;    /* in this round: a full window acknowledged ends it */
    uint16_t cwnd_lost : 6;      /* likewise */
    uint16_t count;              /* of unacked */
    struct dw_delay delay;
    bool cwnd_used : 1;      /* in this round, half of it or more */
    bool queue_is_short : 1; /* in the last round that tells */
    bool any_lost : 1;       /* of unacked, perhaps; its owner, who sends them again, clears it */
    uint8_t floor_datagrams; /* delay does not shrink it further; the owner may change it */
    uint32_t queue_max_ns;   /* 0: delay does not matter */
    uint32_t bytes;          /* truesize of unacked */
    uint32_t credit_bytes;   /* what the peer grants; one datagram may always go */
};

/* What an acknowledgement tells. */
struct dw_ack {
    uint32_t psn;     /* the first that has not come */
    uint64_t sack;    /* which of the DW_SACK_DATAGRAMS - 1 behind it have */
    uint64_t echo_ns; /* when the datagram that came last was sent, as RFC 7323's; 0: not known */
    uint64_t echo_from_ns; /* of what was sent before, it tells nothing */
};

struct dw_sendwin_result {
    unsigned acked;
    unsigned lost;   /* newly told lost; flagged in unacked */
    uint64_t rtt_ns; /* 0: no sample */
};

/* The congestion window begins at its floor; at `ssthresh_datagrams` if that is less, or delay does
 * not matter. */
void dw_sendwin_init(struct dw_sendwin *win, uint32_t first_psn, uint32_t max_datagrams,
                     uint32_t credit_bytes, uint32_t ssthresh_datagrams, uint32_t floor_datagrams,
                     uint32_t queue_max_ns);

/* How many more datagrams the congestion window and the PSNs allow. */
uint32_t dw_sendwin_room_datagrams(const struct dw_sendwin *win);
/* Little room is left: not to be spent on small datagrams. */
bool dw_sendwin_is_filling(const struct dw_sendwin *win);
bool dw_sendwin_may_send(const struct dw_sendwin *win, uint32_t truesize_bytes);

/* A new datagram goes out: gives it its PSN. */
void dw_sendwin_on_send(struct dw_sendwin *win, struct dw_tx *tx, uint64_t now_ns);
/* It never left, or is known not to have arrived. */
static inline void dw_sendwin_on_lost(struct dw_sendwin *win, struct dw_tx *tx)
{
    win->any_lost = tx->lost = true;
}
/* A lost one goes out again; or, on suspicion, one that is not known to be lost. */
void dw_sendwin_on_resend(struct dw_sendwin *win, struct dw_tx *tx, uint64_t now_ns);

/* Moves what is acknowledged to `acked`, flags what is lost. An ack outside the window is ignored
 * (-EPROTO). */
int dw_sendwin_on_ack(struct dw_sendwin *win, const struct dw_ack *ack, uint64_t now_ns,
                      struct dw_list *acked, struct dw_sendwin_result *result);

/* The first PSN that is not acknowledged; the next one, when all are. */
uint32_t dw_sendwin_first_psn(const struct dw_sendwin *win);
/* None of what is unacknowledged has arrived: it gets the PSNs from first_psn on. Returns by how
 * much that is more. */
uint32_t dw_sendwin_renumber(struct dw_sendwin *win, uint32_t first_psn);

/* Before the ack of a peer that has no room, or had none until now: what it misses, it has refused,
 * which is no sign of congestion. */
static inline void dw_sendwin_on_refusal(struct dw_sendwin *win)
{
    win->recovery_psn = win->next_psn;
}

/* The answer to a probe has been taken as an ack: what was sent before the probe, is still here and
 * is reported is lost. UINT64_MAX: the peer took nothing so far, and has room now. Returns how many
 * became so. */
unsigned dw_sendwin_on_probe_reply(struct dw_sendwin *win, uint64_t probe_sent_ns);
