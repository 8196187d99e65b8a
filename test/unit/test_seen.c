/* SPDX-License-Identifier: BSD-3-Clause */
/* The replay window, against a plain set of serial numbers of 31 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/ud/ud.h"
#include "test/unit/random.h"

#define FIRST   0xfffffff0u /* the numbers of each test cross the wrap */
#define DEPTH   64          /* how far behind the highest it can tell */
#define SERIALS 4000
#define SEEDS   50

static void seen_check__nothing_met_at_first(void **state)
{
    (void)state;
    static const uint32_t serials[] = {0, 1, FIRST, UINT32_MAX, 0x80000000u};
    const struct dw_seen seen = {0};

    for (size_t i = 0; i < sizeof serials / sizeof serials[0]; i++)
        assert_false(dw_seen_check(&seen, serials[i]));
}

static void seen_check__around_one(void **state)
{
    (void)state;
    static const struct {
        uint32_t serial;
        bool met;
    } cases[] = {
        {FIRST, true},
        {FIRST + 1, false},
        {FIRST + 0x20, false},
        {FIRST + (1u << 30) - 1, false},
        {FIRST ^ 0x80000000u, true}, /* its highest bit is not looked at */
        {(FIRST + 1) ^ 0x80000000u, false},
        {FIRST - 1, false},
        {FIRST - DEPTH, false},
        {FIRST - DEPTH - 1, true}, /* too old to tell */
        {FIRST - (1u << 30) + 1, true},
        {FIRST + (1u << 30), true}, /* neither side: cannot be noted, so cannot be let in */
    };
    struct dw_seen seen = {0};

    dw_seen_add(&seen, FIRST);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(dw_seen_check(&seen, cases[i].serial), cases[i].met);
}

static void seen_add__steps(void **state)
{
    (void)state;
    static const uint32_t steps[] = {1, 2, 31, 32, 33, 63, 64, 65, 1000, (1u << 30) - 1};

    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct dw_seen seen = {0};
        uint32_t second = FIRST + steps[i];
        dw_seen_add(&seen, FIRST);
        dw_seen_add(&seen, second);
        assert_true(dw_seen_check(&seen, FIRST));
        assert_true(dw_seen_check(&seen, second));
        for (uint32_t back = 1; back <= DEPTH; back++)
            assert_int_equal(dw_seen_check(&seen, second - back), second - back == FIRST);
    }
}

static void seen_add__late_ones_once(void **state)
{
    (void)state;
    struct dw_seen seen = {0};

    dw_seen_add(&seen, FIRST + DEPTH);
    for (uint32_t serial = FIRST; serial != FIRST + DEPTH; serial++) {
        assert_false(dw_seen_check(&seen, serial));
        dw_seen_add(&seen, serial);
        assert_true(dw_seen_check(&seen, serial));
    }
    assert_int_equal(seen.highest, FIRST + DEPTH);
    dw_seen_add(&seen, FIRST - 1); /* too old: nothing changes */
    assert_int_equal(seen.highest, FIRST + DEPTH);
    assert_true(dw_seen_check(&seen, FIRST - 1));
}

static void seen__agrees_with_a_set(void **state)
{
    (void)state;
    static bool met[SERIALS + 400];

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint64_t rng = seed;
        uint32_t highest = 100, jump = 1 + random_below(&rng, 150);
        struct dw_seen seen = {0};

        memset(met, 0, sizeof met);
        met[highest] = true;
        dw_seen_add(&seen, FIRST + highest);
        while (highest < SERIALS) {
            uint32_t i = random_percent(&rng, 30) ? highest + random_below(&rng, jump)
                                                  : highest - random_below(&rng, 80);
            bool too_old = i < highest && highest - i > DEPTH;
            assert_for_seed(seed, dw_seen_check(&seen, FIRST + i) == (too_old || met[i]));
            if (random_percent(&rng, 10))
                continue; /* as when there is no buffer for it */
            dw_seen_add(&seen, FIRST + i);
            met[i] = true;
            highest = i > highest ? i : highest;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seen_check__nothing_met_at_first),
        cmocka_unit_test(seen_check__around_one),
        cmocka_unit_test(seen_add__steps),
        cmocka_unit_test(seen_add__late_ones_once),
        cmocka_unit_test(seen__agrees_with_a_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
