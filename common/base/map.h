/* SPDX-License-Identifier: BSD-3-Clause */
/* Hash map from a 64-bit key to a pointer: open addressing, linear probing, 16 bytes a slot.
 * Values are borrowed. Not thread-safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct dw_map_slot {
    uint64_t key;
    void *value; /* NULL: free */
};

struct dw_map {
    struct dw_map_slot *slots;
    size_t capacity; /* a power of two, or 0 before the first put */
    size_t count;
    uint64_t seed; /* keys come from peers: they must not choose the bucket */
};

/* The finaliser of MurmurHash3 over a seeded key. */
static inline uint64_t dw_map_hash(uint64_t key, uint64_t seed)
{
    key ^= seed;
    key = (key ^ (key >> 33)) * 0xff51afd7ed558ccdull;
    key = (key ^ (key >> 33)) * 0xc4ceb9fe1a85ec53ull;
    return key ^ (key >> 33);
}

void dw_map_init(struct dw_map *map, uint64_t seed);
void dw_map_fini(struct dw_map *map);
/* NULL when absent. */
void *dw_map_get(const struct dw_map *map, uint64_t key);
/* The key must be absent, the value not NULL. -ENOMEM. */
int dw_map_put(struct dw_map *map, uint64_t key, void *value);
/* Returns the value that was there, or NULL. */
void *dw_map_remove(struct dw_map *map, uint64_t key);
/* The value in a slot at or after *slot, which moves behind it; NULL: no more. To visit all; what
 * is visited may be freed, the map must not change. */
void *dw_map_next(const struct dw_map *map, size_t *slot);

/* Memory that it holds. */
static inline uint64_t dw_map_bytes(const struct dw_map *map)
{
    return map->capacity * sizeof *map->slots;
}
