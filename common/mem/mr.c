/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered regions and the check of every access by STag. */
#include "common/mem/mr.h"

#include <errno.h>
#include <stdlib.h>

#define KNOWN_RIGHTS                                                             \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)

void dw_mr_table_init(struct dw_mr_table *table, uint64_t seed)
{
    dw_map_init(&table->by_stag, seed);
}

void dw_mr_table_fini(struct dw_mr_table *table)
{
    size_t slot = 0;
    for (struct dw_region *region; (region = dw_map_next(&table->by_stag, &slot));)
        free(region);
    dw_map_fini(&table->by_stag);
}

int dw_mr_register(struct dw_mr_table *table, void *addr, size_t length, int access, uint32_t stag,
                   struct diwarp_mr **mr)
{
    if ((access & ~KNOWN_RIGHTS) || (uintptr_t)addr + length < (uintptr_t)addr)
        return -EINVAL;
    if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
        !(access & IBV_ACCESS_LOCAL_WRITE))
        return -EINVAL; /* as ibv_reg_mr(3) demands */
    if (!stag || dw_map_get(&table->by_stag, stag))
        return -EEXIST;
    struct dw_region *region = malloc(sizeof *region);
    if (!region || dw_map_put(&table->by_stag, stag, region)) {
        free(region);
        return -ENOMEM;
    }
    *region =
        (struct dw_region){.mr = {.addr = addr, .length = length, .access = access, .stag = stag}};
    *mr = &region->mr;
    return 0;
}

void dw_mr_deregister(struct dw_mr_table *table, struct diwarp_mr *mr)
{
    free(dw_map_remove(&table->by_stag, mr->stag));
}

int dw_mr_check(const struct dw_mr_table *table, uint32_t stag, uint64_t to, uint64_t length,
                int access, struct dw_region **region)
{
    struct dw_region *found = dw_map_get(&table->by_stag, stag);
    if (!found || (found->mr.access & access) != access)
        return -EACCES;
    uint64_t start = (uint64_t)(uintptr_t)found->mr.addr;
    if (to < start || to - start > found->mr.length || length > found->mr.length - (to - start))
        return -ERANGE;
    *region = found;
    return 0;
}

int dw_mr_check_peer(const struct dw_mr_table *table, uint64_t peer, uint32_t stag, uint64_t to,
                     uint64_t length, int access, struct dw_region **region)
{
    int rc = dw_mr_check(table, stag, to, length, access, region);
    return !rc && (*region)->bound && (*region)->peer != peer ? -EACCES : rc;
}
