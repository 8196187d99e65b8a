/* SPDX-License-Identifier: BSD-3-Clause */
/* Round-trip estimate and time-out (RFC 6298); queueing delay. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The time-out while no sample has come, and the longest. Half the first asks peers again that are
 * only busy; half the second finds the end of an outage sooner, for twice the datagrams into it. */
#define DW_RTO_INITIAL_NS 20000000ull
#define DW_RTO_MAX_NS     (5 * DW_RTO_INITIAL_NS)

struct dw_rtt {
    uint32_t srtt_ns; /* 0: no sample yet */
    uint32_t rttvar_ns;
};

/* Counts as eight times the estimate and 2 ms, at most: that a peer computed once is not to slow
 * the repair of what is lost next. No sample counts for longer than 1 s, as no time-out does. */
static inline void dw_rtt_on_sample(struct dw_rtt *rtt, uint64_t sample_ns)
{
    const uint64_t limit = rtt->srtt_ns ? 8ull * rtt->srtt_ns + 2000000 : 1000000000;
    const uint64_t most = limit < 1000000000 ? limit : 1000000000;
    const uint32_t sample = (uint32_t)(sample_ns < most ? sample_ns : most);
    if (!rtt->srtt_ns) {
        *rtt = (struct dw_rtt){.srtt_ns = sample ? sample : 1, .rttvar_ns = sample / 2};
        return;
    }
    const uint32_t error = sample > rtt->srtt_ns ? sample - rtt->srtt_ns : rtt->srtt_ns - sample;
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
    rto <<= backoff < 16 ? backoff : 16;
    return rto < max ? rto : max;
}

/* When a peer was heard, asked and probed last. */
struct dw_contact {
    uint64_t heard_ns;
    uint64_t asked_ns; /* we gave it something to answer */
    uint64_t probe_sent_ns : 63;
    bool probe_answered : 1; /* the latest of ours */
};

/* Units of 16 us, and periods of 8.6 s, as shifts of nanoseconds. */
#define DW_DELAY_UNIT_SHIFT   14
#define DW_DELAY_PERIOD_SHIFT 33

/* How long what is sent waits in queues, told from round-trip times: the least of a round, which
 * acknowledgements held back or a peer that was busy for a moment do not raise (as in RFC 9406),
 * less the least of the last 8 to 17 s, the base delay (RFC 6817). */
struct dw_delay {
    uint16_t round;   /* least of this round, in units; 0: no sample */
    uint16_t base[2]; /* least of this period and of the one before; 0: no sample */
    uint8_t period;
};

static inline void dw_delay_on_sample(struct dw_delay *delay, uint64_t rtt_ns, uint64_t now_ns)
{
    const uint64_t units = (rtt_ns >> DW_DELAY_UNIT_SHIFT) + 1;
    const uint16_t sample = units < UINT16_MAX ? (uint16_t)units : UINT16_MAX;
    const uint8_t passed = (uint8_t)((now_ns >> DW_DELAY_PERIOD_SHIFT) - delay->period);
    if (passed) {
        delay->base[1] = passed == 1 ? delay->base[0] : 0;
        delay->base[0] = 0;
        delay->period = (uint8_t)(delay->period + passed);
    }
    if (!delay->base[0] || sample < delay->base[0])
        delay->base[0] = sample;
    if (!delay->round || sample < delay->round)
        delay->round = sample;
}

/* Of this round; false: it had no sample. */
static inline bool dw_delay_query(const struct dw_delay *delay, uint64_t *queued_ns)
{
    const uint16_t round = delay->round, before = delay->base[1];
    const uint16_t base = before && before < delay->base[0] ? before : delay->base[0];
    *queued_ns = round > base ? (uint64_t)(round - base) << DW_DELAY_UNIT_SHIFT : 0;
    return round > 0;
}
