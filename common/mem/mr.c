/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered regions, and the check of every access by STag. */
#include "common/mem/mr.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/list.h"

#define REMOTE_WRITES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

/* A peer that names aligned addresses shall not have the CPU touch a word that is not. */
static bool suits_atomics(const struct diwarp_mr *mr)
{
    return !(mr->access & IBV_ACCESS_REMOTE_ATOMIC) ||
           ((uintptr_t)mr->addr - mr->iova) % sizeof(uint64_t) == 0;
}

/* Remote writes need local ones, as ibv_reg_mr(3) demands. */
static bool is_good(const struct diwarp_mr *mr, int local_access)
{
    return !(mr->access & ~(IBV_ACCESS_LOCAL_WRITE | DW_REMOTE_RIGHTS)) &&
           (uintptr_t)mr->addr + mr->length >= (uintptr_t)mr->addr &&
           mr->iova + mr->length >= mr->iova && suits_atomics(mr) &&
           (!(mr->access & REMOTE_WRITES) || local_access & IBV_ACCESS_LOCAL_WRITE);
}

static int add(struct dw_map *mrs, const struct dw_region *from, struct diwarp_mr **registered)
{
    const uint32_t stag = from->mr.stag;
    if (!stag || dw_map_get(mrs, stag))
        return -EEXIST;
    struct dw_region *region = malloc(sizeof *region);
    if (!region || dw_map_put(mrs, stag, region)) {
        free(region);
        return -ENOMEM;
    }
    *region = *from;
    *registered = &region->mr;
    return 0;
}

int dw_mr_register(struct dw_map *mrs, const struct diwarp_mr *mr, struct diwarp_mr **registered)
{
    return is_good(mr, mr->access) ? add(mrs, &(struct dw_region){.mr = *mr}, registered) : -EINVAL;
}

int dw_mr_register_window(struct dw_map *mrs, const struct diwarp_mr *of,
                          const struct diwarp_mr *window, const void *only,
                          struct diwarp_mr **registered)
{
    struct dw_region region = {.mr = *window, .is_window = true, .only = only};
    const uint64_t start = window->iova - of->iova;
    if (window->access & IBV_ACCESS_LOCAL_WRITE || start > of->length ||
        window->length > of->length - start)
        return -EINVAL;
    region.mr.addr = (uint8_t *)of->addr + start;
    if (window->access & IBV_ACCESS_ZERO_BASED) {
        region.mr.access &= ~IBV_ACCESS_ZERO_BASED;
        region.mr.iova = 0;
    }
    return is_good(&region.mr, of->access) ? add(mrs, &region, registered) : -EINVAL;
}

int dw_mr_reregister(struct diwarp_mr *mr, struct dw_map *from, struct dw_map *mrs,
                     const struct diwarp_mr *to)
{
    struct dw_region *region = dw_container(mr, struct dw_region, mr);
    if (!is_good(to, to->access))
        return -EINVAL;
    if (from != mrs && dw_map_get(mrs, to->stag))
        return -EEXIST;
    if (from != mrs && dw_map_put(mrs, to->stag, region))
        return -ENOMEM;
    if (from != mrs)
        (void)dw_map_remove(from, to->stag);
    *mr = *to;
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
    if (!found || (found->mr.access & access) != access ||
        (found->is_window && (!(access & DW_REMOTE_RIGHTS) || (peer && found->only))))
        return -EACCES;
    const uint64_t start = found->mr.iova;
    if (to < start || to - start > found->mr.length || length > found->mr.length - (to - start))
        return -ERANGE;
    *region = found;
    return peer && !dw_region_is_for(found, peer) ? -EACCES : 0;
}
