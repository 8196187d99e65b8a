/* SPDX-License-Identifier: BSD-3-Clause */
/* Moving averages of what each way takes, and the choice by them. */
#include "common/rnic/faster_way.h"

/* Of less, reading the clock takes too much of the time. */
#define MUCH_BYTES 4096
/* Of so many calls that move much, one is timed each way. */
#define LOOK_EVERY 64
#define MIB        (1u << 20)
/* What a first measure may be; the next are bound by the average. */
#define MOST_NS 1000000

bool dw_faster_way_begin(struct dw_faster_way *way, uint32_t call_bytes)
{
    if (!way->choose || call_bytes < MUCH_BYTES)
        return false;
    uint32_t turn = way->turn++ % LOOK_EVERY;
    if (turn % (LOOK_EVERY / 2))
        return false;
    way->other = turn != 0;
    way->bytes = 0;
    return true;
}

static void note(uint32_t *average, uint64_t ns)
{
    /* Now and then somebody else has the core meanwhile. */
    uint64_t most = *average ? 2 * (uint64_t)*average : MOST_NS;
    if (ns > most)
        ns = most;
    *average = *average ? (uint32_t)((3 * (uint64_t)*average + ns) / 4) : (uint32_t)ns;
}

void dw_faster_way_end(struct dw_faster_way *way, uint32_t call_bytes, uint64_t elapsed_ns)
{
    if (way->bytes >= call_bytes - call_bytes / 8)
        note(way->other ? &way->ns_other : &way->ns_usual, elapsed_ns * MIB / way->bytes);
    way->other =
        way->ns_other && 100ull * way->ns_other < (uint64_t)way->most_percent * way->ns_usual;
}
