/* SPDX-License-Identifier: BSD-3-Clause */
/* The random numbers of the NAS kernels, and the local steps of the radix sort. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "benchmarks/npb/npb_random.h"
#include "benchmarks/npb/radix_digit.h"
#include "test/unit/random.h"

#define MAX_KEYS  300
#define MAX_RANKS 7

/* a x mod 2^46 in double precision, from halves of 23 bits, as RNR-94-007 gives it in section 2.3.
 */
static double product_mod_2_46(double x, double a)
{
    double a1 = (double)(int64_t)(a * 0x1p-23), a2 = a - 0x1p23 * a1;
    double x1 = (double)(int64_t)(x * 0x1p-23), x2 = x - 0x1p23 * x1;
    double cross = a1 * x2 + a2 * x1;
    double high = cross - 0x1p23 * (double)(int64_t)(cross * 0x1p-23);
    double sum = 0x1p23 * high + a2 * x2;

    return sum - 0x1p46 * (double)(int64_t)(sum * 0x1p-46);
}

static void random_next__equals_double_precision(void **state)
{
    (void)state;
    uint64_t x = NPB_RANDOM_SEED;
    double reference = 314159265.0;

    for (int i = 0; i < 10000; i++) {
        reference = product_mod_2_46(reference, 1220703125.0);
        double value = npb_random_next(&x, NPB_RANDOM_A);
        assert_true((double)x == reference);
        assert_true(value == reference * 0x1p-46);
        assert_true(value > 0 && value < 1);
    }
}

/* By arithmetic of unlimited precision; 314159265 and 271828183 are the benchmarks' seeds. */
static void random_next__known_values(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed, steps, x;
    } cases[] = {
        {UINT64_C(314159265), 0, UINT64_C(314159265)},
        {UINT64_C(314159265), 1, UINT64_C(55909509111989)},
        {UINT64_C(314159265), 2, UINT64_C(61155031930969)},
        {UINT64_C(314159265), 100, UINT64_C(54040635609297)},
        {UINT64_C(314159265), 65536, UINT64_C(9264085446817)},
        {UINT64_C(271828183), 0, UINT64_C(271828183)},
        {UINT64_C(271828183), 1, UINT64_C(32883653486115)},
        {UINT64_C(271828183), 2, UINT64_C(55063727434591)},
        {UINT64_C(271828183), 100, UINT64_C(34413165337383)},
        {UINT64_C(271828183), 100000, UINT64_C(4673857192279)},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t x = cases[i].seed;
        for (uint64_t n = 0; n < cases[i].steps; n++)
            npb_random_next(&x, NPB_RANDOM_A);
        assert_int_equal(x, cases[i].x);
        assert_int_equal(npb_random_skip(cases[i].seed, cases[i].steps), cases[i].x);
    }
}

static void random_power__known_values(void **state)
{
    (void)state;
    static const struct {
        uint64_t n, power;
    } cases[] = {
        {UINT64_C(0), UINT64_C(1)},
        {UINT64_C(1), UINT64_C(1220703125)},
        {UINT64_C(2), UINT64_C(57961422730425)},
        {UINT64_C(3), UINT64_C(8081127688877)},
        {UINT64_C(256), UINT64_C(32768037506049)},
        {UINT64_C(65536), UINT64_C(1185214627841)},
        {UINT64_C(16777217), UINT64_C(12457632494485)},
        {UINT64_C(8796093022208), UINT64_C(35184372088833)},
        {UINT64_C(17592186044416), UINT64_C(1)},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(npb_random_power(NPB_RANDOM_A, cases[i].n), cases[i].power);
}

static void radix_prefix__sums(void **state)
{
    (void)state;
    int counts[] = {3, 0, 5, 1};
    static const int sums[] = {0, 3, 3, 8};

    assert_int_equal(radix_prefix(counts, 4, counts), 9);
    assert_memory_equal(counts, sums, sizeof sums);
    assert_int_equal(radix_prefix(counts, 0, counts), 0);
}

static void order(struct radix_digit digit, const uint32_t *keys, int n, uint32_t *out)
{
    int counts[256];

    radix_count(digit, keys, n, counts);
    radix_order(digit, keys, n, counts, out);
}

static void radix_order__stable(void **state)
{
    (void)state;
    static const uint32_t keys[] = {0x31, 0x12, 0x21, 0x10, 0x02, 0x11};
    static const uint32_t low_digit[] = {0x10, 0x31, 0x21, 0x11, 0x12, 0x02};
    static const uint32_t high_digit[] = {0x02, 0x12, 0x10, 0x11, 0x21, 0x31};
    uint32_t out[6];

    order((struct radix_digit){0, 4}, keys, 6, out);
    assert_memory_equal(out, low_digit, sizeof out);
    order((struct radix_digit){4, 4}, keys, 6, out);
    assert_memory_equal(out, high_digit, sizeof out);
}

static void radix_share__covers_all(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++) {
        assert_int_equal(radix_share(INT32_MAX, 0, ranks), 0);
        assert_int_equal(radix_share(INT32_MAX, ranks, ranks), INT32_MAX);
        for (int r = 0; r < ranks; r++)
            assert_in_range(radix_share(INT32_MAX, r + 1, ranks) - radix_share(INT32_MAX, r, ranks),
                            INT32_MAX / ranks, (uintmax_t)(INT32_MAX / ranks) + 1);
    }
}

static void radix_destinations__cases(void **state)
{
    (void)state;
    static const struct {
        int counts[3], first[3], total, ranks, send[4];
    } cases[] = {
        {{4, 0, 0}, {0, 4, 4}, 4, 4, {1, 1, 1, 1}},   /* one run over all */
        {{1, 1, 1}, {0, 5, 11}, 12, 3, {1, 1, 1}},    /* one to each */
        {{0, 0, 2}, {0, 0, 10}, 12, 4, {0, 0, 0, 2}}, /* only the last */
        {{2, 2, 0}, {2, 6, 8}, 8, 4, {0, 2, 0, 2}},   /* gaps */
        {{0, 0, 0}, {0, 0, 0}, 8, 2, {0, 0}},         /* nothing */
        {{3, 3, 1}, {0, 3, 6}, 7, 1, {7}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int send[4] = {-1, -1, -1, -1};
        radix_destinations(cases[i].counts, cases[i].first, 3, cases[i].total, cases[i].ranks,
                           send);
        for (int r = 0; r < cases[i].ranks; r++)
            assert_int_equal(send[r], cases[i].send[r]);
    }
}

/* ---- a whole sort, with ranks that are pieces of one array --------------------------------------
 */

struct sort_case {
    int total, ranks;
    uint32_t keys[MAX_KEYS], next[MAX_KEYS];
};

/* What the ranks below `rank` have of each digit, and what there is of lower ones. */
static void global_first(const struct sort_case *c, struct radix_digit digit, int rank, int *first)
{
    int all[256], below[256];

    radix_count(digit, c->keys, c->total, all);
    radix_prefix(all, radix_digit_values(digit), first);
    radix_count(digit, c->keys, radix_share(c->total, rank, c->ranks), below);
    for (int d = 0; d < radix_digit_values(digit); d++)
        first[d] += below[d];
}

/* Appends to each receiver's share what `rank` sends. */
static void send_share(struct sort_case *c, struct radix_digit digit, int rank, int *filled)
{
    int begin = radix_share(c->total, rank, c->ranks);
    int n = radix_share(c->total, rank + 1, c->ranks) - begin;
    int counts[256], first[256], send[MAX_RANKS];
    uint32_t ordered[MAX_KEYS], *from = ordered;

    radix_count(digit, c->keys + begin, n, counts);
    global_first(c, digit, rank, first);
    radix_destinations(counts, first, radix_digit_values(digit), c->total, c->ranks, send);
    radix_order(digit, c->keys + begin, n, counts, ordered);
    for (int r = 0; r < c->ranks; r++) {
        assert_true(filled[r] + send[r] <= radix_share(c->total, r + 1, c->ranks));
        memcpy(c->next + filled[r], from, (size_t)send[r] * sizeof *from);
        filled[r] += send[r];
        from += send[r];
    }
    assert_int_equal(from - ordered, n);
}

static void sort_digit(struct sort_case *c, struct radix_digit digit)
{
    int filled[MAX_RANKS];

    for (int r = 0; r < c->ranks; r++)
        filled[r] = radix_share(c->total, r, c->ranks);
    for (int r = 0; r < c->ranks; r++)
        send_share(c, digit, r, filled);
    for (int r = 0; r < c->ranks; r++) {
        int begin = radix_share(c->total, r, c->ranks);
        int end = radix_share(c->total, r + 1, c->ranks);
        assert_int_equal(filled[r], end);
        order(digit, c->next + begin, end - begin, c->keys + begin);
    }
}

static int compare_keys(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void radix__sorts_over_ranks(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        uint64_t rng = seed;
        struct sort_case c = {.ranks = 1 + (int)random_below(&rng, MAX_RANKS)};
        uint32_t sorted[MAX_KEYS], mask = UINT32_MAX >> random_below(&rng, 32);
        int bits = 1 + (int)random_below(&rng, 8);

        c.total = c.ranks + (int)random_below(&rng, MAX_KEYS - MAX_RANKS);
        for (int i = 0; i < c.total; i++)
            c.keys[i] = sorted[i] = (uint32_t)random_next(&rng) & mask;
        qsort(sorted, (size_t)c.total, sizeof *sorted, compare_keys);
        for (int shift = 0; shift < 32; shift += bits)
            sort_digit(&c, (struct radix_digit){shift, bits < 32 - shift ? bits : 32 - shift});
        assert_for_seed(seed, !memcmp(c.keys, sorted, (size_t)c.total * sizeof *sorted));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_next__equals_double_precision),
        cmocka_unit_test(random_next__known_values),
        cmocka_unit_test(random_power__known_values),
        cmocka_unit_test(radix_prefix__sums),
        cmocka_unit_test(radix_order__stable),
        cmocka_unit_test(radix_share__covers_all),
        cmocka_unit_test(radix_destinations__cases),
        cmocka_unit_test(radix__sorts_over_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
