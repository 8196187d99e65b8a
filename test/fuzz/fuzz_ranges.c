/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzes the range set: the bytes are operations, done on a set and on one byte for each byte. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/rel/ranges.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SPACE      (4 * DW_RANGES_MAX) /* bytes of the model: twice what the bound needs */
#define HOLES_MAX  16
#define STEP_BYTES 5 /* operation, two 16-bit operands */

enum { ADD, ADD_COMB, TAKE, MISSING, OPERATIONS };

static uint8_t model[SPACE];
static uint32_t base; /* where model[0] lies */

static void require(int truth)
{
    if (!truth)
        abort();
}

/* The next run of `value` at or after *at, below `to`; leaves *at behind it. */
static bool next_run(uint8_t value, uint32_t *at, uint32_t to, struct dw_range *run)
{
    while (*at < to && model[*at] != value)
        ++*at;
    run->start = base + *at;
    while (*at < to && model[*at] == value)
        ++*at;
    run->end = base + *at;
    return run->start < run->end;
}

static bool same(const struct dw_range *a, const struct dw_range *b)
{
    return a->start == b->start && a->end == b->end;
}

static void add(struct dw_ranges *set, uint32_t start, uint32_t end)
{
    uint32_t below = start ? start - 1 : 0, above = end < SPACE ? end + 1 : SPACE;
    int64_t added = dw_ranges_add(set, base + start, base + end);

    if (added < 0) { /* only when full, and nothing to merge with */
        require(set->count == DW_RANGES_MAX);
        require(!memchr(model + below, 1, above - below));
        return;
    }
    for (uint32_t at = start; at < end; at++) {
        added -= !model[at];
        model[at] = 1;
    }
    require(added == 0);
}

/* Single bytes with a gap between, so that few bytes of input reach the bound. */
static void add_comb(struct dw_ranges *set, uint32_t start, uint32_t count)
{
    for (uint32_t at = start; count && at < SPACE; at += 2, count--)
        add(set, at, at + 1);
}

static void take(struct dw_ranges *set, uint32_t max_bytes)
{
    struct dw_range first, taken;
    uint32_t at = 0;
    bool any = next_run(1, &at, SPACE, &first);

    require(dw_ranges_take(set, max_bytes, &taken) == any);
    if (!any)
        return;
    if (first.end - first.start > max_bytes)
        first.end = first.start + max_bytes;
    require(same(&first, &taken));
    memset(model + (first.start - base), 0, first.end - first.start);
}

static void missing(const struct dw_ranges *set, uint32_t from, uint32_t to)
{
    struct dw_range holes[HOLES_MAX], hole;
    unsigned max = (from ^ to) % (HOLES_MAX + 1);
    unsigned n = dw_ranges_missing(set, base + from, base + to, holes, max);

    require(n <= max);
    for (unsigned i = 0; i < n; i++)
        require(next_run(0, &from, to, &hole) && same(&hole, &holes[i]));
    require(n == max || !next_run(0, &from, to, &hole));
}

static void check(const struct dw_ranges *set)
{
    struct dw_range run;
    uint64_t bytes = 0;
    uint32_t at = 0, n = 0;

    for (; next_run(1, &at, SPACE, &run); n++) {
        require(n < set->count && same(&run, &set->list[n]));
        bytes += run.end - run.start;
    }
    require(n == set->count && bytes == set->bytes);
    require(set->count <= set->capacity && set->capacity <= DW_RANGES_MAX);
}

static void step(struct dw_ranges *set, const uint8_t *data)
{
    uint32_t a = ((uint32_t)data[1] << 8 | data[2]) % SPACE;
    uint32_t b = ((uint32_t)data[3] << 8 | data[4]) % SPACE;

    switch (data[0] % OPERATIONS) {
    case ADD:
        add(set, a, a + 1 + b % (SPACE - a));
        break;
    case ADD_COMB:
        add_comb(set, a, b);
        break;
    case TAKE:
        take(set, a + 1);
        break;
    default:
        missing(set, a, b);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t bases[] = {0, UINT32_MAX - SPACE, 0x80000000u - SPACE / 2};
    struct dw_ranges set = {0};

    if (size == 0)
        return 0;
    base = bases[data[0] % 3];
    memset(model, 0, sizeof model);
    for (size_t at = 1; at + STEP_BYTES <= size; at += STEP_BYTES)
        step(&set, data + at);
    check(&set);
    dw_ranges_fini(&set);
    return 0;
}
