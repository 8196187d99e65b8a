/* SPDX-License-Identifier: BSD-3-Clause */
/* Ways: sets of paths, kept with the first of them. */
#include "common/path/ways.h"

#include <stdlib.h>
#include <string.h>

/* Doublings of the interval between looks. */
#define LEFT_MAX 6

static void put_paths(struct dw_paths *paths, struct dw_path *const *list, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        dw_path_put(paths, list[i]);
}

static bool is_of(const struct dw_ways *ways, const struct dw_ways_list *list)
{
    return ways->count == list->count && ways->udp_port == list->udp_port &&
           !memcmp(ways->paths, list->paths, list->count * sizeof *list->paths) &&
           !memcmp(ways->there, list->there, list->count) &&
           !memcmp(ways->nics, list->nics, list->count);
}

static bool shares(const struct dw_ways *ways, unsigned i, unsigned other)
{
    return ways->nics[i] == ways->nics[other] && ways->paths[i]->flow == ways->paths[other]->flow;
}

/* The current one, and of each other NIC and flow the first. */
static unsigned find_apart(const struct dw_ways *ways)
{
    unsigned apart = 0;
    for (unsigned i = 0; i < ways->count; i++) {
        bool first = i == ways->current || !shares(ways, i, ways->current);
        for (unsigned other = 0; i != ways->current && other < i; other++)
            first = first && !shares(ways, i, other);
        if (first && ways->nics[i] != DW_WAYS_NO_NIC)
            apart |= 1u << i;
    }
    return apart;
}

struct dw_ways *dw_ways_get(struct dw_paths *paths, const struct dw_ways_list *list)
{
    const size_t bytes = list->count * sizeof *list->paths;
    struct dw_ways *ways = list->paths[0]->ways;
    while (ways && !is_of(ways, list))
        ways = ways->next;
    if (ways) {
        ways->users++;
        put_paths(paths, list->paths, list->count);
        return ways;
    }
    ways = malloc(sizeof *ways + bytes);
    if (!ways) {
        put_paths(paths, list->paths, list->count);
        return NULL;
    }
    *ways = (struct dw_ways){
        .next = list->paths[0]->ways, .users = 1, .udp_port = list->udp_port, .count = list->count};
    memcpy(ways->paths, list->paths, bytes);
    memcpy(ways->there, list->there, list->count);
    memcpy(ways->nics, list->nics, list->count);
    ways->apart = (uint8_t)find_apart(ways);
    list->paths[0]->ways = ways;
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

unsigned dw_ways_find(const struct dw_ways *ways, const struct dw_llp_addr *host, unsigned flow)
{
    unsigned i = 0;
    while (i < ways->count &&
           (ways->paths[i]->flow != flow || !dw_llp_same_host(&ways->paths[i]->host, host)))
        i++;
    return i;
}

unsigned dw_ways_from(const struct dw_ways *ways, uint8_t number)
{
    unsigned i = 0;
    while (i < ways->count && (!(ways->apart >> i & 1) || dw_path_number(ways->paths[i]) != number))
        i++;
    return i;
}

unsigned dw_ways_to(const struct dw_ways *ways, uint8_t number)
{
    unsigned i = 0;
    while (i < ways->count && dw_way_number(ways->paths[i]->flow, ways->there[i]) != number)
        i++;
    return i;
}

unsigned dw_ways_together(const struct dw_ways *ways)
{
    const uint32_t bytes = dw_ways_path(ways)->datagram_max_bytes;
    const unsigned current = 1u << ways->current;
    unsigned others = ways->working & ~current;
    for (unsigned i = 0; others >> i; i++)
        if (ways->paths[i]->datagram_max_bytes < bytes)
            others &= ~(1u << i);
    return others ? others | (ways->apart & current) : 0;
}

unsigned dw_ways_to_look_at(struct dw_ways *ways, uint64_t interval_ns, uint64_t now_ns)
{
    const unsigned unknown = ways->apart & ~ways->working & ~(1u << ways->current);
    if (now_ns < ways->look_ns || (!unknown && !ways->left))
        return 0;
    ways->look_ns = now_ns + (interval_ns << ways->left);
    if (!unknown)
        ways->left--;
    return unknown;
}

void dw_ways_leave(struct dw_ways *ways, unsigned way)
{
    ways->working &= (uint8_t) ~(1u << way);
    if (ways->left < LEFT_MAX)
        ways->left++;
}

void dw_ways_change(struct dw_ways *ways, unsigned way)
{
    ways->current = (uint8_t)way;
    ways->answered = false;
    ways->apart = (uint8_t)find_apart(ways);
    ways->working &= ways->apart;
    ways->look_ns = 0;
}
