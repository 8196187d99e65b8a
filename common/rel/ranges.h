/* SPDX-License-Identifier: BSD-3-Clause */
/* A set of byte ranges, sorted and disjoint: the validity map of a record, the bytes a source is to
 * send again. Holds a few ranges in place, more on the heap, up to a bound. Pure. */
#pragma once

#include "common/wire/rdmap.h"

#define DW_RANGES_MAX 4096

/* Zeroed: empty. Must not be moved otherwise: list may point into it. */
struct dw_ranges {
    struct dw_range *list;
    uint32_t count, capacity;
    uint64_t bytes;
    struct dw_range in_place[2];
};

void dw_ranges_fini(struct dw_ranges *set);

/* Behind the last range; 0: there is none. */
static inline uint32_t dw_ranges_end(const struct dw_ranges *set)
{
    return set->count ? set->list[set->count - 1].end : 0;
}

/* Adds [start, end), start < end; returns the bytes that were new, or -ENOMEM (unchanged): no
 * memory, or it would take more than DW_RANGES_MAX ranges. */
int64_t dw_ranges_add(struct dw_ranges *set, uint32_t start, uint32_t end);

/* Takes up to max_bytes from the front; false when empty. */
bool dw_ranges_take(struct dw_ranges *set, uint32_t max_bytes, struct dw_range *taken);

/* Bytes of [from, to) that are not in it. */
uint32_t dw_ranges_lack(const struct dw_ranges *set, uint32_t from, uint32_t to);

/* The holes in [from, to), rising, at most `max`; returns how many were written. */
unsigned dw_ranges_missing(const struct dw_ranges *set, uint32_t from, uint32_t to,
                           struct dw_range *holes, unsigned max);
