/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers in a binary heap, earliest deadline first. Owners embed struct dw_timer. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DW_NEVER UINT64_MAX

/* A time limit that reaches beyond all time is none. */
static inline uint64_t dw_deadline_ns(uint64_t now_ns, uint64_t wait_ns)
{
    return wait_ns < DW_NEVER - now_ns ? now_ns + wait_ns : DW_NEVER;
}

struct dw_timer {
    uint64_t deadline_ns;
    size_t slot;                                           /* 0: not in the heap */
    void (*fire)(struct dw_timer *timer, uint64_t now_ns); /* already out of the heap */
};

/* Zeroed: empty. */
struct dw_heap {
    struct dw_timer **slots; /* from 1 */
    size_t count, capacity;
    size_t reserved;   /* of capacity */
    uint64_t floor_ns; /* while running, the next moment: no deadline is set before it */
};

void dw_heap_fini(struct dw_heap *heap);
/* Room for one more timer, or -ENOMEM. Where all timers of a heap have theirs, dw_heap_set() does
 * not fail. */
int dw_heap_reserve(struct dw_heap *heap);

static inline void dw_heap_unreserve(struct dw_heap *heap)
{
    heap->reserved--;
}

/* Sets or moves the deadline; DW_NEVER removes the timer. -ENOMEM leaves it out. */
int dw_heap_set(struct dw_heap *heap, struct dw_timer *timer, uint64_t deadline_ns);

/* DW_NEVER when empty. */
static inline uint64_t dw_heap_next_ns(const struct dw_heap *heap)
{
    return heap->count ? heap->slots[1]->deadline_ns : DW_NEVER;
}

/* Takes out and fires the timers that were due at now_ns, at most `most` of them and each once: one
 * that a callback sets to that moment or earlier waits for a later run. */
void dw_heap_run(struct dw_heap *heap, uint64_t now_ns, size_t most);

/* Memory that it holds. */
static inline uint64_t dw_heap_bytes(const struct dw_heap *heap)
{
    return heap->capacity ? (heap->capacity + 1) * sizeof *heap->slots : 0;
}
