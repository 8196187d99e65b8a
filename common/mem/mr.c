/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered regions and the check of every access by STag. */
#include "common/mem/mr.h"

#include <errno.h>
#include <stdlib.h>

#define KNOWN_RIGHTS                                                             \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)

void dw_mrs_fini(struct dw_map *mrs)
{
    size_t slot = 0;
    for (struct dw_region *region; (region = dw_map_next(mrs, &slot));)
        free(region);
    dw_map_fini(mrs);
}

int dw_mr_register(struct dw_map *mrs, void *addr, size_t length, int access, uint32_t stag,
                   struct diwarp_mr **mr)
{
    if ((access & ~KNOWN_RIGHTS) || (uintptr_t)addr + length < (uintptr_t)addr)
        return -EINVAL;
    if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
        !(access & IBV_ACCESS_LOCAL_WRITE))
        return -EINVAL; /* as ibv_reg_mr(3) demands */
    if (!stag || dw_map_get(mrs, stag))
        return -EEXIST;
    struct dw_region *region = malloc(sizeof *region);
    if (!region || dw_map_put(mrs, stag, region)) {
        free(region);
        return -ENOMEM;
    }
    *region =
        (struct dw_region){.mr = {.addr = addr, .length = length, .access = access, .stag = stag}};
    *mr = &region->mr;
    return 0;
}

int dw_mr_check(const struct dw_map *mrs, uint32_t stag, uint64_t to, uint64_t length, int access,
                struct dw_region **region)
{
    struct dw_region *found = dw_map_get(mrs, stag);
    if (!found || (found->mr.access & access) != access)
        return -EACCES;
    uint64_t start = (uint64_t)(uintptr_t)found->mr.addr;
    if (to < start || to - start > found->mr.length || length > found->mr.length - (to - start))
        return -ERANGE;
    *region = found;
    return 0;
}

int dw_mr_check_peer(const struct dw_map *mrs, uint64_t peer, uint32_t stag, uint64_t to,
                     uint64_t length, int access, struct dw_region **region)
{
    int rc = dw_mr_check(mrs, stag, to, length, access, region);
    return !rc && (*region)->bound && (*region)->peer != peer ? -EACCES : rc;
}
