/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers in a pairing heap (Fredman et al. 1986), earliest deadline first. Owners embed struct
 * dw_timer, so that setting one takes no memory and cannot fail. */
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
    struct dw_timer **link;        /* what points here: a parent's child, a next; NULL: not set */
    struct dw_timer *child, *next; /* no earlier than this; of the same parent */
    void (*fire)(struct dw_timer *timer, uint64_t now_ns); /* already out of the heap */
};

/* Zeroed: empty. */
struct dw_heap {
    struct dw_timer *first;
    uint64_t floor_ns; /* while running, the next moment: no deadline is set before it */
};

/* Sets or moves the deadline; DW_NEVER takes the timer out. */
void dw_heap_set(struct dw_heap *heap, struct dw_timer *timer, uint64_t deadline_ns);

/* DW_NEVER when empty. */
static inline uint64_t dw_heap_next_ns(const struct dw_heap *heap)
{
    return heap->first ? heap->first->deadline_ns : DW_NEVER;
}

/* Takes out and fires the timers that were due at now_ns, at most `most` of them and each once: one
 * that a callback sets to that moment or earlier waits for a later run. */
void dw_heap_run(struct dw_heap *heap, uint64_t now_ns, size_t most);
