/* SPDX-License-Identifier: BSD-3-Clause */
/* Round-trip estimate and time-out (RFC 6298), in nanoseconds. Pure. */
#ifndef DW_RTT_H
#define DW_RTT_H

#include <stdint.h>

struct dw_rtt {
    uint32_t srtt_ns; /* 0: no sample yet */
    uint32_t rttvar_ns;
};

#define DW_RTO_INITIAL_NS 20000000ull
#define DW_RTO_MAX_NS     100000000ull
/* Longer samples count as this: no time-out is as long. */
#define DW_RTT_SAMPLE_MAX_NS 1000000000u

/* A sample counts as so many times the estimate, and this, at most: that a peer computed once is
 * not to slow the repair of what is lost next; a path that has become longer is learnt in some
 * steps. */
#define DW_RTT_GROWTH_MAX    8
#define DW_RTT_GROWTH_MAX_NS 2000000u

static inline void dw_rtt_init(struct dw_rtt *rtt)
{
    *rtt = (struct dw_rtt){0};
}

static inline void dw_rtt_on_sample(struct dw_rtt *rtt, uint64_t sample_ns)
{
    uint32_t sample = sample_ns < DW_RTT_SAMPLE_MAX_NS ? (uint32_t)sample_ns : DW_RTT_SAMPLE_MAX_NS;
    if (!rtt->srtt_ns) {
        rtt->srtt_ns = sample ? sample : 1;
        rtt->rttvar_ns = sample / 2;
        return;
    }
    uint64_t limit = (uint64_t)DW_RTT_GROWTH_MAX * rtt->srtt_ns + DW_RTT_GROWTH_MAX_NS;
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

#endif
