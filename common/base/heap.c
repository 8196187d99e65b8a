/* SPDX-License-Identifier: BSD-3-Clause */
/* The timer heap: the earliest timer is the root, each other hangs below an earlier one. */
#include "common/base/heap.h"

static void point(struct dw_timer **link, struct dw_timer *timer)
{
    *link = timer;
    if (timer)
        timer->link = link;
}

/* Of two heaps by their roots, which have no siblings; NULL: empty. */
static struct dw_timer *meld(struct dw_timer *a, struct dw_timer *b)
{
    if (!a || !b)
        return a ? a : b;
    struct dw_timer *root = b->deadline_ns < a->deadline_ns ? b : a, *other = root == a ? b : a;
    point(&other->next, root->child);
    point(&root->child, other);
    return root;
}

static struct dw_timer *cut(struct dw_timer **siblings)
{
    struct dw_timer *first = *siblings;
    if (first) {
        *siblings = first->next;
        first->next = NULL;
    }
    return first;
}

/* In pairs first: that bounds the cost of what follows. */
static struct dw_timer *meld_siblings(struct dw_timer *siblings)
{
    struct dw_timer *pairs = NULL, *root = NULL;
    while (siblings) {
        struct dw_timer *a = cut(&siblings), *pair = meld(a, cut(&siblings));
        pair->next = pairs;
        pairs = pair;
    }
    while (pairs)
        root = meld(root, cut(&pairs));
    return root;
}

static void take_out(struct dw_heap *heap, struct dw_timer *timer)
{
    struct dw_timer *below = meld_siblings(timer->child);
    point(timer->link, timer->next);
    timer->child = timer->next = NULL;
    timer->link = NULL;
    point(&heap->first, meld(heap->first, below));
}

void dw_heap_set(struct dw_heap *heap, struct dw_timer *timer, uint64_t deadline_ns)
{
    if (timer->link)
        take_out(heap, timer);
    timer->deadline_ns = deadline_ns < heap->floor_ns ? heap->floor_ns : deadline_ns;
    if (deadline_ns != DW_NEVER)
        point(&heap->first, meld(heap->first, timer));
}

void dw_heap_run(struct dw_heap *heap, uint64_t now_ns, size_t most)
{
    heap->floor_ns = now_ns + 1;
    while (most-- > 0 && dw_heap_next_ns(heap) <= now_ns) {
        struct dw_timer *timer = heap->first;
        take_out(heap, timer);
        timer->fire(timer, now_ns);
    }
    heap->floor_ns = 0;
}
