/* SPDX-License-Identifier: BSD-3-Clause */
/* See ring.h. A ring that grew large gives its memory back when it runs empty. */
#include "common/base/ring.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 4
#define KEPT_SLOTS  32

static int grow(struct dw_ring *ring, size_t slot_bytes)
{
    uint32_t capacity = ring->capacity ? ring->capacity * 2 : FIRST_SLOTS;
    uint8_t *slots = malloc(capacity * slot_bytes);
    if (!slots)
        return -1;
    uint32_t first = ring->capacity - ring->head; /* up to the end of the memory */
    if (first > ring->count)
        first = ring->count;
    if (ring->count) {
        const uint8_t *old = ring->slots;
        memcpy(slots, old + ring->head * slot_bytes, first * slot_bytes);
        memcpy(slots + first * slot_bytes, old, (ring->count - first) * slot_bytes);
    }
    free(ring->slots);
    ring->slots = slots;
    ring->head = 0;
    ring->capacity = capacity;
    return 0;
}

void *dw_ring_push(struct dw_ring *ring, size_t slot_bytes, uint32_t max)
{
    if (ring->count >= max || (ring->count == ring->capacity && grow(ring, slot_bytes)))
        return NULL;
    return dw_ring_at(ring, slot_bytes, ring->count++);
}

static void on_empty(struct dw_ring *ring)
{
    ring->head = 0;
    if (ring->capacity > KEPT_SLOTS)
        dw_ring_fini(ring);
}

void dw_ring_pop(struct dw_ring *ring, uint32_t count)
{
    assert(count <= ring->count);
    ring->count -= count;
    ring->head += count;
    if (ring->head >= ring->capacity)
        ring->head -= ring->capacity;
    if (!ring->count)
        on_empty(ring);
}

void dw_ring_unpush(struct dw_ring *ring)
{
    assert(ring->count);
    if (!--ring->count)
        on_empty(ring);
}

void dw_ring_fini(struct dw_ring *ring)
{
    free(ring->slots);
    *ring = (struct dw_ring){0};
}
