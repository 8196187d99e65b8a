/* SPDX-License-Identifier: BSD-3-Clause */
/* The timer heap. Owns its slots, never the timers. */
#include "common/base/heap.h"

#include <errno.h>
#include <stdlib.h>

void dw_heap_fini(struct dw_heap *heap)
{
    free(heap->slots);
    *heap = (struct dw_heap){0};
}

static void place(struct dw_heap *heap, size_t slot, struct dw_timer *timer)
{
    heap->slots[slot] = timer;
    timer->slot = slot;
}

static void sift(struct dw_heap *heap, size_t slot, struct dw_timer *timer)
{
    struct dw_timer **slots = heap->slots;
    for (; slot > 1 && slots[slot / 2]->deadline_ns > timer->deadline_ns; slot /= 2)
        place(heap, slot, slots[slot / 2]);
    for (size_t child; (child = 2 * slot) <= heap->count; slot = child) {
        child += child < heap->count && slots[child + 1]->deadline_ns < slots[child]->deadline_ns;
        if (slots[child]->deadline_ns >= timer->deadline_ns)
            break;
        place(heap, slot, slots[child]);
    }
    place(heap, slot, timer);
}

static void take_out(struct dw_heap *heap, struct dw_timer *timer)
{
    size_t slot = timer->slot;
    struct dw_timer *last = heap->slots[heap->count--];
    timer->slot = 0;
    if (last != timer)
        sift(heap, slot, last);
}

/* Room for more than `count` timers. */
static int grow(struct dw_heap *heap, size_t count)
{
    if (count < heap->capacity)
        return 0;
    size_t capacity = heap->capacity ? heap->capacity * 2 : 16;
    struct dw_timer **slots = realloc(heap->slots, (capacity + 1) * sizeof *slots);
    if (!slots)
        return -ENOMEM;
    heap->slots = slots;
    heap->capacity = capacity;
    return 0;
}

int dw_heap_reserve(struct dw_heap *heap)
{
    int rc = grow(heap, heap->reserved);
    heap->reserved += !rc;
    return rc;
}

int dw_heap_set(struct dw_heap *heap, struct dw_timer *timer, uint64_t deadline_ns)
{
    timer->deadline_ns = deadline_ns < heap->floor_ns ? heap->floor_ns : deadline_ns;
    if (deadline_ns == DW_NEVER) {
        if (timer->slot)
            take_out(heap, timer);
        return 0;
    }
    if (!timer->slot) {
        if (grow(heap, heap->count))
            return -ENOMEM;
        place(heap, ++heap->count, timer);
    }
    sift(heap, timer->slot, timer);
    return 0;
}

void dw_heap_run(struct dw_heap *heap, uint64_t now_ns, size_t most)
{
    heap->floor_ns = now_ns + 1;
    while (most-- > 0 && dw_heap_next_ns(heap) <= now_ns) {
        struct dw_timer *timer = heap->slots[1];
        take_out(heap, timer);
        timer->fire(timer, now_ns);
    }
    heap->floor_ns = 0;
}
