/* SPDX-License-Identifier: BSD-3-Clause */
/* Which way large records are copied, by what copies took of late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/rnic/faster_way.h"

#define TRAIN_BYTES 65000
#define LOOK_EVERY  64
/* An average follows its measures within a few. */
#define SETTLE (16 * LOOK_EVERY)

/* Receives that bring records only; a copy takes so long by its way. Returns how many went past the
 * cache, those that were timed not counted. */
static unsigned receive(struct dw_faster_way *way, unsigned calls, uint64_t through_ns,
                        uint64_t past_ns)
{
    unsigned past = 0;

    for (unsigned i = 0; i < calls; i++) {
        bool timed = dw_faster_way_begin(way, TRAIN_BYTES);

        way->bytes += TRAIN_BYTES;
        if (timed)
            dw_faster_way_end(way, TRAIN_BYTES, way->other ? past_ns : through_ns);
        else
            past += way->other;
    }
    return past;
}

static void faster_way__usual_until_both_are_known(void **state)
{
    (void)state;
    struct dw_faster_way way = {.choose = true, .most_percent = 94};

    assert_int_equal(receive(&way, LOOK_EVERY / 2, 9000, 1000), 0);
    assert_true(receive(&way, LOOK_EVERY / 2, 9000, 1000) > 0);
}

static void faster_way__follows_what_is_faster(void **state)
{
    (void)state;
    struct dw_faster_way way = {.choose = true, .most_percent = 94};

    receive(&way, SETTLE, 9000, 6000);
    assert_int_equal(receive(&way, LOOK_EVERY, 9000, 6000), LOOK_EVERY - 2);
    receive(&way, SETTLE, 5000, 6000);
    assert_int_equal(receive(&way, LOOK_EVERY, 5000, 6000), 0);
}

static void faster_way__other_only_for_a_gain(void **state)
{
    (void)state;
    struct dw_faster_way way = {.choose = true, .most_percent = 94};

    receive(&way, SETTLE, 6200, 6000);
    assert_int_equal(receive(&way, LOOK_EVERY, 6200, 6000), 0);
}

static void faster_way_end__not_by_an_interruption(void **state)
{
    (void)state;
    struct dw_faster_way way = {.choose = true, .most_percent = 94};

    receive(&way, SETTLE, 9000, 4000);
    receive(&way, LOOK_EVERY, 9000, 100 * UINT64_C(1000000));
    assert_int_equal(receive(&way, LOOK_EVERY, 9000, 4000), LOOK_EVERY - 2);
}

/* Nor for long by one of the first copy. */
static void faster_way_end__interrupted_at_first(void **state)
{
    (void)state;
    struct dw_faster_way way = {.choose = true, .most_percent = 94};

    receive(&way, LOOK_EVERY / 2, 100 * UINT64_C(1000000), 0);
    receive(&way, SETTLE, 9000, 10000);
    assert_int_equal(receive(&way, LOOK_EVERY, 9000, 10000), 0);
}

/* A clock that stands still, as a simulator's does within a run, tells nothing. */
static void faster_way_end__no_time_at_all(void **state)
{
    (void)state;
    struct dw_faster_way way = {.choose = true, .most_percent = 94};

    assert_int_equal(receive(&way, SETTLE, 0, 0), 0);
}

static void faster_way_begin__no_choice(void **state)
{
    (void)state;
    struct dw_faster_way way = {0};

    for (unsigned i = 0; i < 2 * LOOK_EVERY; i++)
        assert_false(dw_faster_way_begin(&way, TRAIN_BYTES));
    assert_false(way.other);
}

static void faster_way_begin__little_is_not_timed(void **state)
{
    (void)state;
    struct dw_faster_way way = {.choose = true, .most_percent = 94};

    for (unsigned i = 0; i < 2 * LOOK_EVERY; i++)
        assert_false(dw_faster_way_begin(&way, 1500));
    assert_true(dw_faster_way_begin(&way, TRAIN_BYTES));
}

static void faster_way_end__not_by_what_else_came(void **state)
{
    (void)state;
    struct dw_faster_way way = {.choose = true, .most_percent = 94};

    receive(&way, SETTLE, 9000, 6000);
    for (unsigned i = 0; i < SETTLE; i++)
        if (dw_faster_way_begin(&way, TRAIN_BYTES)) {
            way.bytes = TRAIN_BYTES / 2;
            dw_faster_way_end(&way, TRAIN_BYTES, way.other ? 90000 : 1000);
        }
    assert_int_equal(receive(&way, LOOK_EVERY, 9000, 6000), LOOK_EVERY - 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faster_way__usual_until_both_are_known),
        cmocka_unit_test(faster_way__follows_what_is_faster),
        cmocka_unit_test(faster_way__other_only_for_a_gain),
        cmocka_unit_test(faster_way_end__not_by_an_interruption),
        cmocka_unit_test(faster_way_end__interrupted_at_first),
        cmocka_unit_test(faster_way_end__no_time_at_all),
        cmocka_unit_test(faster_way_begin__no_choice),
        cmocka_unit_test(faster_way_begin__little_is_not_timed),
        cmocka_unit_test(faster_way_end__not_by_what_else_came),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
