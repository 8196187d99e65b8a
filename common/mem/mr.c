/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered regions, and the check of every access by STag. */
#include "common/mem/mr.h"

#include <errno.h>
#include <stdlib.h>

int dw_mr_register(struct dw_map *mrs, const struct diwarp_mr *mr, struct diwarp_mr **registered)
{
    const int remote_writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    const int known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | remote_writes;
    /* Remote writes need local ones, as ibv_reg_mr(3) demands. */
    if ((mr->access & ~known) || (uintptr_t)mr->addr + mr->length < (uintptr_t)mr->addr ||
        ((mr->access & remote_writes) && !(mr->access & IBV_ACCESS_LOCAL_WRITE)))
        return -EINVAL;
    if (!mr->stag || dw_map_get(mrs, mr->stag))
        return -EEXIST;
    struct dw_region *region = malloc(sizeof *region);
    if (!region || dw_map_put(mrs, mr->stag, region)) {
        free(region);
        return -ENOMEM;
    }
    *region = (struct dw_region){.mr = *mr};
    *registered = &region->mr;
    return 0;
}

void dw_mrs_fini(struct dw_map *mrs)
{
    size_t slot = 0;
    for (struct dw_region *region; (region = dw_map_next(mrs, &slot));)
        free(region);
    dw_map_fini(mrs);
}

int dw_mr_check(const struct dw_map *mrs, const struct diwarp_name *peer, uint32_t stag,
                uint64_t to, uint64_t length, int access, struct dw_region **region)
{
    struct dw_region *found = dw_map_get(mrs, stag);
    if (!found || (found->mr.access & access) != access)
        return -EACCES;
    const uint64_t start = (uintptr_t)found->mr.addr;
    if (to < start || to - start > found->mr.length || length > found->mr.length - (to - start))
        return -ERANGE;
    *region = found;
    const bool others =
        peer && found->bound && (found->peer.job != peer->job || found->peer.rank != peer->rank);
    return others ? -EACCES : 0;
}
