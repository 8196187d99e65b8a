/* SPDX-License-Identifier: BSD-3-Clause */
/* Round-trip estimate and time-out (RFC 6298), in nanoseconds; when a peer was spoken with. Pure.
 */
#ifndef DW_RTT_H
#define DW_RTT_H

#include <stdbool.h>
#include <stdint.h>

/* The time-out while no sample has come, and the longest of a peer that answers. Half the first
 * asks peers again that are only busy; half the second finds the end of an outage sooner, for twice
 * the datagrams sent into it. */
#define DW_RTO_INITIAL_NS 20000000ull
#define DW_RTO_MAX_NS     (5 * DW_RTO_INITIAL_NS)

/* Zeroed: nothing is known. */
struct dw_rtt {
    uint32_t srtt_ns; /* 0: no sample yet */
    uint32_t rttvar_ns;
};

/* Counts as eight times the estimate, and 2 ms more, at most: that a peer computed once is not to
 * slow the repair of what is lost next; a path that has become longer is learnt in some steps. No
 * sample counts for longer than 1 s, as no time-out does. */
static inline void dw_rtt_on_sample(struct dw_rtt *rtt, uint64_t sample_ns)
{
    uint32_t sample = sample_ns < 1000000000u ? (uint32_t)sample_ns : 1000000000u;
    if (!rtt->srtt_ns) {
        rtt->srtt_ns = sample ? sample : 1;
        rtt->rttvar_ns = sample / 2;
        return;
    }
    const uint64_t limit = 8ull * rtt->srtt_ns + 2000000;
    if (sample > limit)
        sample = (uint32_t)limit;
    uint32_t error = sample > rtt->srtt_ns ? sample - rtt->srtt_ns : rtt->srtt_ns - sample;
    rtt->rttvar_ns += error / 4 - rtt->rttvar_ns / 4;
    rtt->srtt_ns += sample / 8 - rtt->srtt_ns / 8;
}

/* The wait before asking again, after `backoff` fruitless ones: doubles up to DW_RTO_MAX_NS, or
 * rto_min_ns where that is longer. */
static inline uint64_t dw_rtt_rto_ns(const struct dw_rtt *rtt, uint64_t rto_min_ns,
                                     unsigned backoff)
{
    const uint64_t max = rto_min_ns > DW_RTO_MAX_NS ? rto_min_ns : DW_RTO_MAX_NS;
    uint64_t rto = rtt->srtt_ns ? rtt->srtt_ns + 4ull * rtt->rttvar_ns : DW_RTO_INITIAL_NS;
    if (rto < rto_min_ns)
        rto = rto_min_ns;
    for (; backoff && rto < max; backoff--)
        rto *= 2;
    return rto < max ? rto : max;
}

/* When a peer was heard, asked and probed last. */
struct dw_contact {
    uint64_t heard_ns;
    uint64_t asked_ns; /* we gave it something to answer */
    uint64_t probe_sent_ns : 63;
    bool probe_answered : 1; /* the latest of ours */
};

static inline void dw_contact_on_probe(struct dw_contact *contact, uint64_t now_ns)
{
    contact->probe_sent_ns = now_ns & INT64_MAX;
    contact->probe_answered = false;
}

#endif
