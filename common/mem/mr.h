/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions and their STags: who may touch which bytes (RFC 5040 section 8, RFC 5042).
 * An STag is of 32 random bits that nothing else a peer sees depends on: one that was not given it
 * can only try. */
#pragma once

#include "common/base/map.h"
#include "common/include/diwarp.h"

/* A region, and how many records in progress hold its address. */
struct dw_region {
    struct diwarp_mr mr; /* first: a diwarp_mr of ours is a dw_region */
    unsigned records;
    bool bound;    /* to one peer */
    uint64_t peer; /* dw_name_key() of its name */
};

/* Tables of regions are by STag. Frees what is still registered. */
void dw_mrs_fini(struct dw_map *mrs);

/* With that STag. -EEXIST: it is another's, or 0; -ENOMEM, -EINVAL (wraps around the address space,
 * or rights that verbs does not allow). To deregister: remove it from the table, and free it. */
int dw_mr_register(struct dw_map *mrs, void *addr, size_t length, int access, uint32_t stag,
                   struct diwarp_mr **mr);

/* The region that holds [to, to + length) with all of `access`: 0 and *region, -EACCES (no such
 * STag, or without the right) or -ERANGE (out of bounds). */
int dw_mr_check(const struct dw_map *mrs, uint32_t stag, uint64_t to, uint64_t length, int access,
                struct dw_region **region);
/* For a peer: -EACCES, too, where the region is bound to another one. */
int dw_mr_check_peer(const struct dw_map *mrs, uint64_t peer, uint32_t stag, uint64_t to,
                     uint64_t length, int access, struct dw_region **region);
