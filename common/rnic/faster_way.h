/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Of two ways to do the same, the one that has been faster of late. Both are tried now and then, a
 * call at a time, and timed. So is chosen whether large records are copied to their place through
 * the cache or past it: what the cache holds, or what is read soon, is better written through it.
 */
#ifndef DW_FASTER_WAY_H
#define DW_FASTER_WAY_H

#include <stdbool.h>
#include <stdint.h>

/* All zero at first, but for the first three. One thread at a time. */
struct dw_faster_way {
    bool choose;                 /* there are two ways; else always as `other` says */
    bool other;                  /* the way to take now, and not the usual one */
    uint8_t most_percent;        /* of the usual one's time, less than which the other takes */
    uint32_t ns_usual, ns_other; /* for a MiB, moving averages; 0: not known */
    uint32_t turn;               /* calls of much */
    uint32_t bytes;              /* that went either way since the last begin that was timed */
};

/* A call is to move so many bytes. True: it is to be timed. */
bool dw_faster_way_begin(struct dw_faster_way *way, uint32_t call_bytes);
/* That took elapsed_ns. Counts only if nearly all of it went one of the two ways. */
void dw_faster_way_end(struct dw_faster_way *way, uint32_t call_bytes, uint64_t elapsed_ns);

#endif
