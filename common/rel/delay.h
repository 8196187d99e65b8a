/* SPDX-License-Identifier: BSD-3-Clause */
/* How long what is sent waits in queues on its way, told from round-trip times: the least of a
 * round, which acknowledgements that were held back or a peer that was busy for a moment do not
 * raise (as in RFC 9406), less the least of the last 8 to 17 s, the base delay (RFC 6817). Pure. */
#ifndef DW_DELAY_H
#define DW_DELAY_H

#include <stdbool.h>
#include <stdint.h>

/* In units of 16 us (shifts of nanoseconds): every peer has one of these, so it is small. */
#define DW_DELAY_UNIT_SHIFT   14
#define DW_DELAY_PERIOD_SHIFT 33 /* 8.6 s */

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

/* Ends a round; false: it had no sample. */
static inline bool dw_delay_end_round(struct dw_delay *delay, uint64_t *queued_ns)
{
    const uint16_t round = delay->round, before = delay->base[1];
    const uint16_t base = before && before < delay->base[0] ? before : delay->base[0];
    delay->round = 0;
    *queued_ns = round > base ? (uint64_t)(round - base) << DW_DELAY_UNIT_SHIFT : 0;
    return round > 0;
}

#endif
