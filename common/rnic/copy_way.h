/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether large records are copied to their place through the cache or past it. Past it a cold
 * destination fills faster; what the cache holds, or what is read soon, is better written through
 * it. So both are tried now and then, a whole receive call at a time, and timed.
 */
#ifndef DW_COPY_WAY_H
#define DW_COPY_WAY_H

#include <stdbool.h>
#include <stdint.h>

/* All zero at first, but for `choose`. One thread at a time. */
struct dw_copy_way {
    bool choose;                  /* there are two ways; else always through */
    uint32_t ns_through, ns_past; /* for a MiB, moving averages; 0: not known */
    uint32_t turn;                /* receive calls that brought much */
    uint32_t bytes;               /* of large records placed since the last begin that was timed */
    bool past;                    /* the way to take now */
};

/* A receive call brought so many bytes, to be placed now. True: placing them is to be timed. */
bool dw_copy_way_begin(struct dw_copy_way *way, uint32_t received_bytes);
/* That placing took elapsed_ns. Counts only if nearly all of it was of large records. */
void dw_copy_way_end(struct dw_copy_way *way, uint32_t received_bytes, uint64_t elapsed_ns);

#endif
