/* SPDX-License-Identifier: BSD-3-Clause */
/* The hash map. Owns its slots, never its values. */
#include "common/base/map.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

void dw_map_init(struct dw_map *map, uint64_t seed)
{
    *map = (struct dw_map){.seed = seed};
}

void dw_map_fini(struct dw_map *map)
{
    free(map->slots);
    *map = (struct dw_map){.seed = map->seed};
}

static size_t home(const struct dw_map *map, uint64_t key)
{
    return (size_t)dw_map_hash(key, map->seed) & (map->capacity - 1);
}

static size_t find(const struct dw_map *map, uint64_t key)
{
    size_t i = home(map, key);
    while (map->slots[i].value && map->slots[i].key != key)
        i = (i + 1) & (map->capacity - 1);
    return i;
}

void *dw_map_get(const struct dw_map *map, uint64_t key)
{
    return map->count ? map->slots[find(map, key)].value : NULL;
}

static int grow(struct dw_map *map)
{
    struct dw_map bigger = *map;
    bigger.capacity = map->capacity ? map->capacity * 2 : 16;
    bigger.slots = calloc(bigger.capacity, sizeof *bigger.slots);
    if (!bigger.slots)
        return -ENOMEM;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].value)
            bigger.slots[find(&bigger, map->slots[i].key)] = map->slots[i];
    free(map->slots);
    *map = bigger;
    return 0;
}

int dw_map_put(struct dw_map *map, uint64_t key, void *value)
{
    assert(value);
    if (4 * (map->count + 1) > 3 * map->capacity && grow(map))
        return -ENOMEM;
    size_t i = find(map, key);
    assert(!map->slots[i].value);
    map->slots[i] = (struct dw_map_slot){key, value};
    map->count++;
    return 0;
}

void *dw_map_remove(struct dw_map *map, uint64_t key)
{
    size_t hole = map->count ? find(map, key) : 0;
    void *value = map->count ? map->slots[hole].value : NULL;
    if (!value)
        return NULL;
    /* Close the probe chains that ran across the hole. */
    size_t mask = map->capacity - 1;
    for (size_t i = (hole + 1) & mask; map->slots[i].value; i = (i + 1) & mask) {
        if (((i - home(map, map->slots[i].key)) & mask) >= ((i - hole) & mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole].value = NULL;
    map->count--;
    return value;
}

void *dw_map_next(const struct dw_map *map, size_t *slot)
{
    while (*slot < map->capacity) {
        void *value = map->slots[(*slot)++].value;
        if (value)
            return value;
    }
    return NULL;
}
