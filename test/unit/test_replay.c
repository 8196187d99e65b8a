/* SPDX-License-Identifier: BSD-3-Clause */
/* The window of numbers that have come, against a plain set of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/rel/replay.h"
#include "test/unit/random.h"

#define FIRST (UINT64_MAX - 5000) /* the numbers cross the wrap */
#define LAST  20000
#define SEEDS 50

_Static_assert(DW_REPLAY_NUMBERS >= 1024, "several paths reorder");

static void replay_check__edges_of_the_window(void **state)
{
    (void)state;
    static const uint64_t highests[] = {FIRST, 0, 63, 64, 127, UINT64_MAX, UINT64_MAX - 63};
    for (unsigned i = 0; i < sizeof highests / sizeof *highests; i++) {
        const uint64_t highest = highests[i];
        struct dw_replay replay = {.any = false};
        assert_false(dw_replay_check(&replay, highest));
        dw_replay_add(&replay, highest);
        assert_true(dw_replay_check(&replay, highest));
        assert_false(dw_replay_check(&replay, highest + 1));
        assert_false(dw_replay_check(&replay, highest + INT64_MAX));
        assert_false(dw_replay_check(&replay, highest - 1)); /* reordered */
        assert_false(dw_replay_check(&replay, highest - DW_REPLAY_NUMBERS + 1));
        assert_true(dw_replay_check(&replay, highest - DW_REPLAY_NUMBERS));
        assert_true(dw_replay_check(&replay, highest - INT64_MAX));
        assert_true(replay.highest == highest); /* looking takes nothing */
    }
}

/* A ring that is gone round forgets nothing, and takes nothing for come that has not. */
static void replay_add__jumps(void **state)
{
    (void)state;
    static const uint64_t jumps[] = {
        1, 63, 64, 65, 64 * 63, DW_REPLAY_NUMBERS, 64 * 64, 64 * 64 + 1, 1u << 20, INT64_MAX};
    for (unsigned i = 0; i < sizeof jumps / sizeof *jumps; i++)
        for (uint64_t first = FIRST; first != FIRST + 130; first++) {
            struct dw_replay replay = {.any = false};
            for (uint64_t back = 0; back < DW_REPLAY_NUMBERS; back++)
                dw_replay_add(&replay, first - DW_REPLAY_NUMBERS + 1 + back);
            const uint64_t next = first + jumps[i];
            assert_false(dw_replay_check(&replay, next));
            dw_replay_add(&replay, next);
            assert_true(dw_replay_check(&replay, next));
            assert_true(dw_replay_check(&replay, first));
            if (jumps[i] > 1)
                assert_false(dw_replay_check(&replay, next - 1));
        }
}

static void replay_init_behind__all_has_come(void **state)
{
    (void)state;
    for (uint64_t highest = FIRST; highest - FIRST < 6000; highest += 37) {
        struct dw_replay replay;
        dw_replay_init_behind(&replay, highest);
        for (uint64_t back = 0; back < 2 * DW_REPLAY_NUMBERS; back++)
            assert_true(dw_replay_check(&replay, highest - back));
        dw_replay_add(&replay, highest + 2);
        assert_true(dw_replay_check(&replay, highest));
        assert_false(dw_replay_check(&replay, highest + 1));
    }
}

static void replay__random_order_like_a_set(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct dw_replay replay = {.any = false};
        bool *came = calloc(LAST + 1, sizeof *came);
        uint64_t random = seed, base = 0, highest = 0;
        bool any = false;
        const uint64_t spread = 1 + random_next(&random) % (2 * DW_REPLAY_NUMBERS);
        while (base < LAST - 2 * DW_REPLAY_NUMBERS) {
            const uint64_t n = base + random_next(&random) % spread;
            const bool late = any && highest >= DW_REPLAY_NUMBERS + n;
            assert_int_equal(dw_replay_check(&replay, FIRST + n), late || came[n]);
            if (!late && !came[n])
                dw_replay_add(&replay, FIRST + n);
            came[n] |= !late;
            highest = any && highest > n ? highest : n;
            any = true;
            base += random_next(&random) % 8;
        }
        free(came);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replay_check__edges_of_the_window),
        cmocka_unit_test(replay_add__jumps),
        cmocka_unit_test(replay_init_behind__all_has_come),
        cmocka_unit_test(replay__random_order_like_a_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
