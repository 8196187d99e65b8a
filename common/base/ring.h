/* SPDX-License-Identifier: BSD-3-Clause */
/* A bounded first-in first-out queue of equal slots that grows on demand. Zeroed: empty. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dw_ring {
    void *slots;
    uint32_t head, count, capacity;
};

/* The slot behind the last, to be filled; NULL: max are in it, or no memory. */
void *dw_ring_push(struct dw_ring *ring, size_t slot_bytes, uint32_t max);
/* Of the oldest slots, `count` at most. */
void dw_ring_pop(struct dw_ring *ring, uint32_t count);
/* Takes the newest back. */
void dw_ring_unpush(struct dw_ring *ring);
void dw_ring_fini(struct dw_ring *ring);

/* Of the index-th oldest; index < count. */
static inline void *dw_ring_at(const struct dw_ring *ring, size_t slot_bytes, uint32_t index)
{
    uint32_t slot = ring->head + index;
    slot -= slot >= ring->capacity ? ring->capacity : 0;
    return (uint8_t *)ring->slots + slot * slot_bytes;
}
