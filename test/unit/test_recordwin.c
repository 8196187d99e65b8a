/* SPDX-License-Identifier: BSD-3-Clause */
/* The window of a peer's records: how it grows, what it takes for a queue that overflows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/rel/recordwin.h"

#define PAYLOAD 1400u
#define MOST    DW_RECORDWIN_MOST
#define FIRST   (DW_RECORDWIN_FIRST_BYTES / PAYLOAD)

struct window {
    struct dw_recordwin win;
    struct dw_record_round round;
};

/* So many datagrams come; one in each `lost_of` of them has been asked for again. */
static void pass(struct window *w, uint32_t datagrams, uint32_t lost_of)
{
    for (uint32_t i = 1; i <= datagrams; i++) {
        if (lost_of && i % lost_of == 0)
            dw_recordwin_on_datagrams(&w->win, &w->round, 0, 1, PAYLOAD);
        else
            dw_recordwin_on_datagrams(&w->win, &w->round, 1, 0, PAYLOAD);
    }
}

static void recordwin__at_first(void **state)
{
    (void)state;
    const struct dw_recordwin win = {.datagrams = 0};

    assert_int_equal(dw_recordwin_datagrams(win, PAYLOAD), FIRST);
    assert_int_equal(dw_recordwin_datagrams(win, 1), DW_RECORDWIN_FIRST_BYTES);
    assert_int_equal(dw_recordwin_datagrams(win, 1u << 20), DW_RECORDWIN_LEAST);
}

static void recordwin__doubles_until_something_is_cut(void **state)
{
    (void)state;
    struct window w = {.win = {.datagrams = 0}};

    pass(&w, FIRST - 1, 0);
    assert_int_equal(dw_recordwin_datagrams(w.win, PAYLOAD), FIRST);
    pass(&w, 1, 0);
    assert_int_equal(w.win.datagrams, 2 * FIRST);
    pass(&w, 2 * FIRST, 0);
    assert_int_equal(w.win.datagrams, 4 * FIRST);
    pass(&w, 4 * FIRST, 2);
    assert_int_equal(w.win.datagrams, 2 * FIRST);
    pass(&w, 2 * FIRST, 0);
    assert_int_equal(w.win.datagrams, 2 * FIRST + 8);
}

/* A link that loses one datagram in ten is no queue. */
static void recordwin__bears_the_weather(void **state)
{
    (void)state;
    struct window w = {.win = {.datagrams = 0}};

    pass(&w, 3 * FIRST, 10);
    assert_int_equal(w.win.datagrams, 4 * FIRST);
    assert_false(w.win.cut);
    pass(&w, 4 * FIRST, 7);
    assert_int_equal(w.win.datagrams, 2 * FIRST);
}

static void recordwin__bounds(void **state)
{
    (void)state;
    struct window w = {.win = {.datagrams = 0}};

    pass(&w, 1u << 20, 0);
    assert_int_equal(w.win.datagrams, MOST);
    dw_recordwin_on_datagrams(&w.win, &w.round, 0, MOST, PAYLOAD);
    assert_int_equal(w.win.datagrams, MOST / 2);
    for (unsigned i = 0; i < 100; i++)
        dw_recordwin_on_datagrams(&w.win, &w.round, 0, MOST, PAYLOAD);
    assert_int_equal(w.win.datagrams, DW_RECORDWIN_LEAST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recordwin__at_first),
        cmocka_unit_test(recordwin__doubles_until_something_is_cut),
        cmocka_unit_test(recordwin__bears_the_weather),
        cmocka_unit_test(recordwin__bounds),
    };

    return cmocka_run_group_tests_name("recordwin", tests, NULL, NULL);
}
