/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive window, against a plain set of PSNs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/rel/recvwin.h"
#include "test/unit/random.h"

#define FIRST 0xfffffff0u /* the PSNs of each test cross the wrap */
#define PSNS  2000
#define SEEDS 50

static void recvwin_check__edges_of_the_window(void **state)
{
    (void)state;
    static const struct {
        uint32_t psn;
        enum dw_recvwin_verdict verdict;
    } cases[] = {
        {FIRST, DW_RECVWIN_NEW},
        {FIRST + 1, DW_RECVWIN_NEW},
        {FIRST + DW_WINDOW_DATAGRAMS - 1, DW_RECVWIN_NEW},
        {FIRST + DW_WINDOW_DATAGRAMS, DW_RECVWIN_BEYOND},
        {FIRST + INT32_MAX, DW_RECVWIN_BEYOND},
        {FIRST - 1, DW_RECVWIN_DUPLICATE},
        {FIRST + 0x80000000u, DW_RECVWIN_DUPLICATE},
    };
    struct dw_recvwin win;

    win = (struct dw_recvwin){.ack = FIRST};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(dw_recvwin_check(&win, cases[i].psn), cases[i].verdict);
    assert_int_equal(win.ack, FIRST); /* looking takes nothing */
    assert_false(dw_recvwin_has_gap(&win));
}

static void recvwin_on_received__sequences(void **state)
{
    (void)state;
    static const struct {
        uint16_t psns[6]; /* after FIRST */
        unsigned count;
        uint32_t ack; /* after FIRST */
        uint64_t sack;
        bool gap;
    } cases[] = {
        {{0}, 1, 1, 0, false},
        {{0, 1, 2}, 3, 3, 0, false},
        {{1}, 1, 0, 1, true},
        {{1, 0}, 2, 2, 0, false},
        {{63}, 1, 0, 1ull << 62, true},
        {{63, 0}, 2, 1, 1ull << 61, true},
        {{64}, 1, 0, 1ull << 63, true},
        {{2, 1, 0}, 3, 3, 0, false},
        {{1, 3, 0}, 3, 2, 1, true},
        {{5, 3, 1, 0}, 4, 2, 1 | 1 << 2, true},
        {{20, 19, 0}, 3, 1, 3ull << 17, true}, /* across the wrap */
        {{65}, 1, 0, 0, true},                 /* beyond what the SACK tells of */
        {{65, 0}, 2, 1, 1ull << 63, true},
        {{255, 128, 1, 0}, 4, 2, 0, true},
        {{129, 128, 127, 0}, 4, 1, 0, true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dw_recvwin win;
        win = (struct dw_recvwin){.ack = FIRST};
        for (unsigned p = 0; p < cases[i].count; p++) {
            uint32_t psn = FIRST + cases[i].psns[p];
            assert_int_equal(dw_recvwin_check(&win, psn), DW_RECVWIN_NEW);
            dw_recvwin_on_received(&win, psn);
            assert_int_equal(dw_recvwin_check(&win, psn), DW_RECVWIN_DUPLICATE);
        }
        assert_int_equal(win.ack, FIRST + cases[i].ack);
        assert_int_equal(dw_recvwin_sack(&win), cases[i].sack);
        assert_int_equal(dw_recvwin_has_gap(&win), cases[i].gap);
    }
}

static void recvwin_on_received__oldest_closes_a_full_window(void **state)
{
    (void)state;
    struct dw_recvwin win;

    win = (struct dw_recvwin){.ack = FIRST};
    for (uint32_t psn = FIRST + DW_WINDOW_DATAGRAMS - 1; psn != FIRST; psn--)
        dw_recvwin_on_received(&win, psn);
    assert_int_equal(win.ack, FIRST);
    assert_true(dw_recvwin_has_gap(&win));
    dw_recvwin_on_received(&win, FIRST);
    assert_int_equal(win.ack, FIRST + DW_WINDOW_DATAGRAMS);
    assert_false(dw_recvwin_has_gap(&win));
}

static enum dw_recvwin_verdict expected(const bool *came, uint32_t next, uint32_t i)
{
    if (i >= next + DW_WINDOW_DATAGRAMS)
        return DW_RECVWIN_BEYOND;
    return came[i] ? DW_RECVWIN_DUPLICATE : DW_RECVWIN_NEW;
}

static void check_ack(uint64_t seed, const struct dw_recvwin *win, const bool *came, uint32_t next)
{
    assert_for_seed(seed, win->ack == FIRST + next);
    for (uint32_t bit = 0; bit < 64; bit++)
        assert_for_seed(seed, (dw_recvwin_sack(win) >> bit & 1) == came[next + 1 + bit]);
}

static void recvwin__agrees_with_a_set(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint64_t rng = seed;
        bool came[PSNS + 2 * DW_WINDOW_DATAGRAMS] = {0};
        uint32_t next = 0, spread = 1 + random_below(&rng, DW_WINDOW_DATAGRAMS + 10);
        struct dw_recvwin win;

        win = (struct dw_recvwin){.ack = FIRST};
        while (next < PSNS) {
            uint32_t behind = random_below(&rng, 10);
            uint32_t i = next + random_below(&rng, spread);
            i = random_percent(&rng, 20) && i >= behind ? i - behind : i;
            enum dw_recvwin_verdict verdict = dw_recvwin_check(&win, FIRST + i);
            assert_for_seed(seed, verdict == expected(came, next, i));
            if (verdict != DW_RECVWIN_NEW)
                continue;
            dw_recvwin_on_received(&win, FIRST + i);
            came[i] = true;
            while (came[next])
                next++;
            check_ack(seed, &win, came, next);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recvwin_check__edges_of_the_window),
        cmocka_unit_test(recvwin_on_received__sequences),
        cmocka_unit_test(recvwin_on_received__oldest_closes_a_full_window),
        cmocka_unit_test(recvwin__agrees_with_a_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
