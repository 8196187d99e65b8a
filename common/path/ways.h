/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ways to the processes that have told the same interfaces: pairs of one of ours and one of
 * theirs, best first. All of them are reached by the current one, until that fails and another is
 * found to work: who speaks with them finds that out, nothing here sends.
 */
#pragma once

#include "common/path/path.h"

/* One for each interface that a process can tell. */
#define DW_WAYS_MAX DIWARP_MAX_INTERFACES

struct dw_ways {
    struct dw_ways *next; /* with the same first path */
    uint32_t users;       /* handles */
    uint8_t count, current;
    bool answered; /* a process there has answered what took the current one */
    struct dw_path *paths[];
};

static inline struct dw_path *dw_ways_path(const struct dw_ways *ways)
{
    return ways->paths[ways->current];
}

/* One more user of those that lead by exactly these paths, of whose users the ways take over one
 * each; made if there are none. NULL: no memory; the paths are put. */
struct dw_ways *dw_ways_get(struct dw_paths *paths, struct dw_path *const *list, unsigned count);
void dw_ways_put(struct dw_paths *paths, struct dw_ways *ways);
/* Frees those that there are, before dw_paths_fini(). */
void dw_ways_fini(struct dw_paths *paths);

/* Index of the way to that host; or the count: none leads there. */
unsigned dw_ways_find(const struct dw_ways *ways, const struct dw_llp_addr *host);
