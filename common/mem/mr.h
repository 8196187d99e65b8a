/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions by STag: who may touch which bytes (RFC 5040 section 8, RFC 5042). */
#pragma once

#include "common/base/map.h"
#include "common/include/diwarp.h"

/* Of peers. */
#define DW_REMOTE_RIGHTS \
    (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct dw_region {
    struct diwarp_mr mr; /* first: a diwarp_mr is a dw_region */
    unsigned records;    /* in progress, that hold its address */
    bool bound;          /* to `peer` */
    struct diwarp_name peer;
    bool is_window;   /* of another region: for peers alone */
    const void *only; /* of a window: the context of the RC QPs that it is for; NULL: any */
};

/* Into a table of regions by STag. -EEXIST: the STag is another's, or 0; -ENOMEM; -EINVAL: wraps
 * around the address space, that of its memory or of requests; rights that verbs does not allow; or
 * of atomics where aligned addresses lead to memory that is not. To deregister: remove it from the
 * table, and free it. */
int dw_mr_register(struct dw_map *mrs, const struct diwarp_mr *mr, struct diwarp_mr **registered);
/* A window, whose iova is an address of `of`, within which it must lie, without rights that `of`
 * does not give: as above; -EINVAL, too, where that is not so. With IBV_ACCESS_ZERO_BASED its own
 * addresses are offsets. Its addr is set here. */
int dw_mr_register_window(struct dw_map *mrs, const struct diwarp_mr *of,
                          const struct diwarp_mr *window, const void *only,
                          struct diwarp_mr **registered);
/* It gets the bounds, rights and PD of `to`, in the table `mrs` of that one: -EINVAL, -EEXIST,
 * -ENOMEM as above, and it is as before. */
int dw_mr_reregister(struct diwarp_mr *mr, struct dw_map *from, struct dw_map *mrs,
                     const struct diwarp_mr *to);
/* Frees what is still registered. */
void dw_mrs_fini(struct dw_map *mrs);
/* The region of that STag, which holds [to, to + length) with all of `access`: 0 and *region,
 * -EACCES (no such STag, without the right, or bound to another peer; peer NULL: ourselves, or one
 * over RC) or -ERANGE (out of bounds). */
int dw_mr_check(const struct dw_map *mrs, const struct diwarp_name *peer, uint32_t stag,
                uint64_t to, uint64_t length, int access, struct dw_region **region);

/* It is not bound to another peer. */
static inline bool dw_region_is_for(const struct dw_region *region, const struct diwarp_name *peer)
{
    return !region->bound || (region->peer.job == peer->job && region->peer.rank == peer->rank);
}

/* Where the memory is that requests call `to`, which dw_mr_check() has found in the region. */
static inline void *dw_region_at(const struct dw_region *region, uint64_t to)
{
    return (void *)((uintptr_t)region->mr.addr + (uintptr_t)(to - region->mr.iova));
}
