/* SPDX-License-Identifier: BSD-3-Clause */
/* The range set, against one byte for each byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/rel/ranges.h"
#include "test/unit/random.h"

#define SPACE 1000 /* bytes of the model */
#define SEEDS 50
#define STEPS 2000

static void add_all(struct dw_ranges *set, const struct dw_range *ranges, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_true(dw_ranges_add(set, ranges[i].start, ranges[i].end) >= 0);
}

static void ranges_add__merges(void **state)
{
    (void)state;
    /* Each starts with [10, 20) and [40, 50). */
    static const struct {
        struct dw_range add;
        int64_t new_bytes;
        uint32_t count;
        struct dw_range after[3];
    } cases[] = {
        {{0, 5}, 5, 3, {{0, 5}, {10, 20}, {40, 50}}},
        {{25, 30}, 5, 3, {{10, 20}, {25, 30}, {40, 50}}},
        {{60, 70}, 10, 3, {{10, 20}, {40, 50}, {60, 70}}},
        {{10, 20}, 0, 2, {{10, 20}, {40, 50}}},
        {{12, 15}, 0, 2, {{10, 20}, {40, 50}}},
        {{5, 10}, 5, 2, {{5, 20}, {40, 50}}},   /* touches from below */
        {{20, 25}, 5, 2, {{10, 25}, {40, 50}}}, /* touches from above */
        {{5, 15}, 5, 2, {{5, 20}, {40, 50}}},
        {{15, 25}, 5, 2, {{10, 25}, {40, 50}}},
        {{5, 25}, 10, 2, {{5, 25}, {40, 50}}},
        {{20, 40}, 20, 1, {{10, 50}}},
        {{15, 45}, 20, 1, {{10, 50}}},
        {{0, 60}, 40, 1, {{0, 60}}},
        {{50, UINT32_MAX}, UINT32_MAX - 50, 2, {{10, 20}, {40, UINT32_MAX}}},
        {{0, UINT32_MAX}, UINT32_MAX - 20ll, 1, {{0, UINT32_MAX}}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dw_ranges set = {0};
        add_all(&set, (const struct dw_range[]){{40, 50}, {10, 20}}, 2);
        assert_int_equal(dw_ranges_add(&set, cases[i].add.start, cases[i].add.end),
                         cases[i].new_bytes);
        assert_int_equal(set.count, cases[i].count);
        assert_int_equal(set.bytes, 20 + cases[i].new_bytes);
        assert_memory_equal(set.list, cases[i].after, set.count * sizeof *set.list);
        dw_ranges_fini(&set);
    }
}

static void ranges_take__from_the_front(void **state)
{
    (void)state;
    static const struct dw_range pieces[] = {{10, 18}, {18, 20}, {40, 48}, {48, 50}};
    struct dw_ranges set = {0};
    struct dw_range taken;

    assert_false(dw_ranges_take(&set, 8, &taken));
    add_all(&set, (const struct dw_range[]){{40, 50}, {10, 20}}, 2);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        assert_true(dw_ranges_take(&set, 8, &taken));
        assert_memory_equal(&taken, &pieces[i], sizeof taken);
    }
    assert_false(dw_ranges_take(&set, 8, &taken));
    assert_int_equal(set.bytes, 0);
    dw_ranges_fini(&set);
}

static void ranges_missing__clipped(void **state)
{
    (void)state;
    /* Of [10, 20) and [40, 50). */
    static const struct {
        uint32_t from, to;
        unsigned max, count;
        struct dw_range holes[3];
    } cases[] = {
        {0, 60, 3, 3, {{0, 10}, {20, 40}, {50, 60}}},
        {0, 60, 2, 2, {{0, 10}, {20, 40}}},
        {0, 60, 1, 1, {{0, 10}}},
        {0, 60, 0, 0, {{0}}},
        {5, 55, 3, 3, {{5, 10}, {20, 40}, {50, 55}}},
        {10, 50, 3, 1, {{20, 40}}},
        {15, 45, 3, 1, {{20, 40}}},
        {25, 30, 3, 1, {{25, 30}}},
        {20, 21, 3, 1, {{20, 21}}},
        {12, 18, 3, 0, {{0}}},
        {10, 20, 3, 0, {{0}}},
        {30, 30, 3, 0, {{0}}},
        {60, 0, 3, 0, {{0}}},
        {50, UINT32_MAX, 3, 1, {{50, UINT32_MAX}}},
    };
    struct dw_ranges set = {0};

    add_all(&set, (const struct dw_range[]){{10, 20}, {40, 50}}, 2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dw_range holes[3];
        assert_int_equal(dw_ranges_missing(&set, cases[i].from, cases[i].to, holes, cases[i].max),
                         cases[i].count);
        assert_memory_equal(holes, cases[i].holes, cases[i].count * sizeof holes[0]);
    }
    dw_ranges_fini(&set);
    struct dw_range hole;
    assert_int_equal(dw_ranges_missing(&set, 3, 9, &hole, 1), 1); /* of an empty set: all */
    assert_int_equal(hole.start, 3);
    assert_int_equal(hole.end, 9);
}

static void ranges_add__bound(void **state)
{
    (void)state;
    struct dw_ranges set = {0};

    for (uint32_t i = 0; i < DW_RANGES_MAX; i++)
        assert_int_equal(dw_ranges_add(&set, 4 * i + 4, 4 * i + 5), 1);
    assert_int_equal(set.count, DW_RANGES_MAX);

    /* One more range, wherever it lies, is refused and changes nothing. */
    static const uint32_t starts[] = {0, 6, 4 * DW_RANGES_MAX / 2 + 2, 4 * DW_RANGES_MAX + 6};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        assert_int_equal(dw_ranges_add(&set, starts[i], starts[i] + 1), -ENOMEM);
    assert_int_equal(set.count, DW_RANGES_MAX);
    assert_int_equal(set.bytes, DW_RANGES_MAX);
    for (uint32_t i = 0; i < DW_RANGES_MAX; i++)
        assert_int_equal(set.list[i].start, 4 * i + 4);

    /* What needs no further range still goes in; a merge makes room again. */
    assert_int_equal(dw_ranges_add(&set, 5, 6), 1);
    assert_int_equal(dw_ranges_add(&set, 6, 8), 2);
    assert_int_equal(set.count, DW_RANGES_MAX - 1);
    assert_int_equal(dw_ranges_add(&set, 0, 1), 1);
    assert_int_equal(dw_ranges_add(&set, 0, 4 * DW_RANGES_MAX + 5),
                     4 * DW_RANGES_MAX + 5 - (DW_RANGES_MAX + 4));
    assert_int_equal(set.count, 1);
    dw_ranges_fini(&set);
}

static void ranges_fini__usable_again(void **state)
{
    (void)state;
    struct dw_ranges set = {0};

    for (unsigned round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 100; i++)
            assert_int_equal(dw_ranges_add(&set, 2 * i, 2 * i + 1), 1);
        dw_ranges_fini(&set);
        assert_int_equal(set.count, 0);
        assert_int_equal(set.bytes, 0);
    }
}

/* ---- the model ---- */

struct pair {
    uint64_t seed, rng;
    uint32_t base; /* of model[0] */
    struct dw_ranges set;
    uint8_t model[SPACE + 1]; /* the last stays 0 */
};

/* The first hole or range (by `value`) of the model at or after *i, before `to`. */
static bool next_run(const struct pair *pair, uint8_t value, uint32_t *i, uint32_t to,
                     struct dw_range *found)
{
    while (*i < to && pair->model[*i] != value)
        ++*i;
    found->start = pair->base + *i;
    while (*i < to && pair->model[*i] == value)
        ++*i;
    found->end = pair->base + *i;
    return found->start < found->end;
}

static bool same(const struct dw_range *a, const struct dw_range *b)
{
    return a->start == b->start && a->end == b->end;
}

static void check_set(const struct pair *pair)
{
    uint32_t at = 0, n = 0;
    uint64_t bytes = 0;

    for (struct dw_range range; next_run(pair, 1, &at, SPACE, &range); n++) {
        assert_for_seed(pair->seed, n < pair->set.count && same(&range, &pair->set.list[n]));
        bytes += range.end - range.start;
    }
    assert_for_seed(pair->seed, n == pair->set.count);
    assert_for_seed(pair->seed, bytes == pair->set.bytes);
    assert_for_seed(pair->seed, pair->set.count <= pair->set.capacity);
}

static void step_add(struct pair *pair, uint32_t longest)
{
    uint32_t start = random_below(&pair->rng, SPACE);
    uint32_t end = start + 1 + random_below(&pair->rng, longest);
    int64_t new_bytes = 0;

    end = end < SPACE ? end : SPACE;
    for (uint32_t i = start; i < end; i++) {
        new_bytes += !pair->model[i];
        pair->model[i] = 1;
    }
    assert_for_seed(pair->seed,
                    dw_ranges_add(&pair->set, pair->base + start, pair->base + end) == new_bytes);
}

static void step_take(struct pair *pair)
{
    uint32_t at = 0, max = 1 + random_below(&pair->rng, 40);
    struct dw_range first, taken;
    bool any = next_run(pair, 1, &at, SPACE, &first);

    assert_for_seed(pair->seed, dw_ranges_take(&pair->set, max, &taken) == any);
    if (!any)
        return;
    if (first.end - first.start > max)
        first.end = first.start + max;
    assert_for_seed(pair->seed, same(&first, &taken));
    memset(&pair->model[first.start - pair->base], 0, first.end - first.start);
}

static void step_missing(struct pair *pair)
{
    enum { MAX = 10 };
    uint32_t from = random_below(&pair->rng, SPACE + 1), to = random_below(&pair->rng, SPACE + 1);
    struct dw_range holes[MAX], hole;
    unsigned max = random_below(&pair->rng, MAX + 1);
    unsigned n = dw_ranges_missing(&pair->set, pair->base + from, pair->base + to, holes, max);

    assert_for_seed(pair->seed, n <= max);
    for (unsigned i = 0; i < n; i++) {
        assert_for_seed(pair->seed, next_run(pair, 0, &from, to, &hole));
        assert_for_seed(pair->seed, same(&hole, &holes[i]));
    }
    if (n < max)
        assert_for_seed(pair->seed, !next_run(pair, 0, &from, to, &hole));
}

static void ranges__agrees_with_a_bitmap(void **state)
{
    (void)state;
    static const uint32_t bases[] = {0, 0x7fffff00, UINT32_MAX - SPACE};

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct pair pair = {.seed = seed, .rng = seed, .base = bases[seed % 3]};
        /* Short ranges make many, long ones merge many. */
        uint32_t longest = 1 + random_below(&pair.rng, seed % 2 ? 5 : 100);

        for (unsigned step = 0; step < STEPS; step++) {
            uint32_t what = random_below(&pair.rng, 10);
            if (what < 5)
                step_add(&pair, longest);
            else if (what < 8)
                step_take(&pair);
            else
                step_missing(&pair);
            check_set(&pair);
        }
        dw_ranges_fini(&pair.set);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_add__merges),        cmocka_unit_test(ranges_take__from_the_front),
        cmocka_unit_test(ranges_missing__clipped),   cmocka_unit_test(ranges_add__bound),
        cmocka_unit_test(ranges_fini__usable_again), cmocka_unit_test(ranges__agrees_with_a_bitmap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
