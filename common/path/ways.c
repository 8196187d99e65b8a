/* SPDX-License-Identifier: BSD-3-Clause */
/* Ways: sets of paths, kept with the first of them. */
#include "common/path/ways.h"

#include <stdlib.h>
#include <string.h>

static void put_paths(struct dw_paths *paths, struct dw_path *const *list, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        dw_path_put(paths, list[i]);
}

struct dw_ways *dw_ways_get(struct dw_paths *paths, struct dw_path *const *list, unsigned count)
{
    const size_t bytes = count * sizeof *list;
    struct dw_ways *ways = list[0]->ways;
    while (ways && (ways->count != count || memcmp(ways->paths, list, bytes)))
        ways = ways->next;
    if (ways) {
        ways->users++;
        put_paths(paths, list, count);
        return ways;
    }
    ways = malloc(sizeof *ways + bytes);
    if (!ways) {
        put_paths(paths, list, count);
        return NULL;
    }
    *ways = (struct dw_ways){.next = list[0]->ways, .users = 1, .count = (uint8_t)count};
    memcpy(ways->paths, list, bytes);
    list[0]->ways = ways;
    paths->ways_bytes += sizeof *ways + bytes;
    return ways;
}

void dw_ways_put(struct dw_paths *paths, struct dw_ways *ways)
{
    if (--ways->users)
        return;
    struct dw_ways **link = &ways->paths[0]->ways;
    while (*link != ways)
        link = &(*link)->next;
    *link = ways->next;
    paths->ways_bytes -= sizeof *ways + ways->count * sizeof *ways->paths;
    put_paths(paths, ways->paths, ways->count);
    free(ways);
}

void dw_ways_fini(struct dw_paths *paths)
{
    struct dw_path *path;
    for (size_t slot = 0; (path = dw_map_next(&paths->buckets, &slot));)
        for (; path; path = path->next)
            for (struct dw_ways *ways = path->ways, *others; ways; ways = others) {
                others = ways->next;
                free(ways);
            }
}

unsigned dw_ways_find(const struct dw_ways *ways, const struct dw_llp_addr *host)
{
    unsigned i = 0;
    while (i < ways->count && !dw_llp_same_host(&ways->paths[i]->host, host))
        i++;
    return i;
}
