/* SPDX-License-Identifier: BSD-3-Clause */
/* See ring.h. A ring that grew beyond 32 slots gives its memory back when it runs empty. */
#include "common/base/ring.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool grow(struct dw_ring *ring, size_t slot_bytes)
{
    const uint32_t capacity = ring->capacity ? ring->capacity * 2 : 4;
    uint8_t *slots = malloc(capacity * slot_bytes);
    if (!slots)
        return false;
    for (uint32_t i = 0; i < ring->count; i++)
        memcpy(slots + i * slot_bytes, dw_ring_at(ring, slot_bytes, i), slot_bytes);
    free(ring->slots);
    *ring = (struct dw_ring){.slots = slots, .count = ring->count, .capacity = capacity};
    return true;
}

void *dw_ring_push(struct dw_ring *ring, size_t slot_bytes, uint32_t max)
{
    if (ring->count >= max || (ring->count == ring->capacity && !grow(ring, slot_bytes)))
        return NULL;
    return dw_ring_at(ring, slot_bytes, ring->count++);
}

static void shrink(struct dw_ring *ring, uint32_t by)
{
    assert(by <= ring->count);
    ring->count -= by;
    if (ring->count)
        return;
    ring->head = 0;
    if (ring->capacity > 32)
        dw_ring_fini(ring);
}

void dw_ring_pop(struct dw_ring *ring, uint32_t count)
{
    ring->head += count;
    if (ring->head >= ring->capacity)
        ring->head -= ring->capacity;
    shrink(ring, count);
}

void dw_ring_unpush(struct dw_ring *ring)
{
    shrink(ring, 1);
}

void dw_ring_fini(struct dw_ring *ring)
{
    free(ring->slots);
    *ring = (struct dw_ring){0};
}
