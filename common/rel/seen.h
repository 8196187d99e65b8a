/* SPDX-License-Identifier: BSD-3-Clause */
/* Which serial numbers of a source have been met lately (as the replay window of RFC 4303 3.4.3):
 * makes UD messages and records at most once. The highest of their 32 bits is ignored. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct dw_seen {
    uint32_t highest;
    uint64_t below; /* bit i: highest - 1 - i has been met */
    bool any;
};

static inline int32_t dw_seen_ahead(const struct dw_seen *seen, uint32_t serial)
{
    return (int32_t)((serial - seen->highest) << 1) / 2;
}

/* Met before, or too old to tell. */
static inline bool dw_seen_check(const struct dw_seen *seen, uint32_t serial)
{
    const int32_t ahead = dw_seen_ahead(seen, serial);
    return seen->any &&
           (ahead == 0 || ahead < -64 || (ahead < 0 && seen->below >> (-ahead - 1) & 1));
}

static inline void dw_seen_add(struct dw_seen *seen, uint32_t serial)
{
    int32_t ahead = dw_seen_ahead(seen, serial);
    if (!seen->any) {
        *seen = (struct dw_seen){.highest = serial, .any = true};
    } else if (ahead > 0) {
        seen->below = ahead < 64 ? seen->below << ahead : 0;
        seen->below |= ahead <= 64 ? 1ull << (ahead - 1) : 0;
        seen->highest = serial;
    } else if (ahead < 0 && ahead >= -64) {
        seen->below |= 1ull << (-ahead - 1);
    }
}
