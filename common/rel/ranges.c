/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of byte ranges. Knows nothing of what the bytes are. */
#include "common/rel/ranges.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void dw_ranges_fini(struct dw_ranges *set)
{
    if (set->list != set->in_place)
        free(set->list);
    *set = (struct dw_ranges){0};
}

static int grow(struct dw_ranges *set)
{
    if (!set->list) {
        set->list = set->in_place;
        set->capacity = sizeof set->in_place / sizeof *set->in_place;
        return 0;
    }
    const uint32_t capacity = set->capacity < 16 ? 16 : set->capacity * 2;
    const bool in_place = set->list == set->in_place;
    struct dw_range *list = NULL;
    if (capacity <= DW_RANGES_MAX)
        list = realloc(in_place ? NULL : set->list, capacity * sizeof *list);
    if (!list)
        return -ENOMEM;
    if (in_place)
        memcpy(list, set->in_place, sizeof set->in_place);
    set->list = list;
    set->capacity = capacity;
    return 0;
}

/* Index of the first range that ends at or after `at`. */
static uint32_t find(const struct dw_ranges *set, uint32_t at)
{
    uint32_t low = 0, high = set->count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (set->list[middle].end < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t dw_ranges_add(struct dw_ranges *set, uint32_t start, uint32_t end)
{
    assert(start < end);
    uint32_t first = find(set, start);
    uint32_t next = first;
    uint64_t held = 0;
    const bool apart = first == set->count || set->list[first].start > end;
    if (apart && set->count == set->capacity && grow(set))
        return -ENOMEM;
    /* Everything that touches [start, end) becomes one range. */
    if (!apart && set->list[first].start < start)
        start = set->list[first].start;
    for (; next < set->count && set->list[next].start <= end; next++) {
        held += set->list[next].end - set->list[next].start;
        if (set->list[next].end > end)
            end = set->list[next].end;
    }
    const int64_t new_bytes = (int64_t)(end - start - held);
    memmove(&set->list[first + 1], &set->list[next], (set->count - next) * sizeof *set->list);
    set->list[first] = (struct dw_range){start, end};
    set->count += 1 - (next - first);
    set->bytes += (uint64_t)new_bytes;
    return new_bytes;
}

bool dw_ranges_take(struct dw_ranges *set, uint32_t max_bytes, struct dw_range *taken)
{
    if (!set->count)
        return false;
    struct dw_range *front = &set->list[0];
    *taken = *front;
    if (taken->end - taken->start > max_bytes)
        taken->end = taken->start + max_bytes;
    set->bytes -= taken->end - taken->start;
    front->start = taken->end;
    if (front->start == front->end)
        memmove(front, front + 1, --set->count * sizeof *front);
    return true;
}

uint32_t dw_ranges_lack(const struct dw_ranges *set, uint32_t from, uint32_t to)
{
    uint32_t lack = to - from;
    for (uint32_t i = find(set, from); i < set->count && set->list[i].start < to; i++) {
        const struct dw_range *range = &set->list[i];
        const uint32_t start = range->start > from ? range->start : from;
        lack -= (range->end < to ? range->end : to) - start;
    }
    return lack;
}

unsigned dw_ranges_missing(const struct dw_ranges *set, uint32_t from, uint32_t to,
                           struct dw_range *holes, unsigned max)
{
    unsigned n = 0;
    for (uint32_t i = find(set, from); i < set->count && from < to && n < max; i++) {
        uint32_t until = set->list[i].start < to ? set->list[i].start : to;
        if (from < until)
            holes[n++] = (struct dw_range){from, until};
        if (set->list[i].end > from)
            from = set->list[i].end;
    }
    if (from < to && n < max)
        holes[n++] = (struct dw_range){from, to};
    return n;
}
