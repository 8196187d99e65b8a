/* SPDX-License-Identifier: BSD-3-Clause */
/* The delay in queues: least of a round, less the base delay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/rel/rtt.h"

#define PERIOD (1ull << DW_DELAY_PERIOD_SHIFT)
#define UNIT   (1ull << DW_DELAY_UNIT_SHIFT)

static uint64_t queued_after(struct dw_delay *delay, uint64_t rtt_ns, uint64_t now_ns)
{
    uint64_t queued_ns;

    dw_delay_on_sample(delay, rtt_ns, now_ns);
    assert_true(dw_delay_query(delay, &queued_ns));
    delay->round = 0;
    return queued_ns;
}

static void delay_query__least_of_a_round_less_the_base(void **state)
{
    (void)state;
    struct dw_delay delay = {0};
    uint64_t queued_ns;

    assert_false(dw_delay_query(&delay, &queued_ns));
    assert_int_equal(queued_after(&delay, 10 * UNIT, 0), 0);
    dw_delay_on_sample(&delay, 90 * UNIT, 0);
    dw_delay_on_sample(&delay, 50 * UNIT, 0);
    assert_int_equal(queued_after(&delay, 70 * UNIT, 0), 40 * UNIT);
    assert_false(dw_delay_query(&delay, &queued_ns));
    assert_int_equal(queued_after(&delay, 5 * UNIT, 0), 0);
    assert_int_equal(queued_after(&delay, 10 * UNIT, 0), 5 * UNIT);
}

/* A path that has become longer is no queue, after a while. */
static void delay_base__is_forgotten_after_two_periods(void **state)
{
    (void)state;
    struct dw_delay delay = {0};

    assert_int_equal(queued_after(&delay, 10 * UNIT, 5 * PERIOD), 0);
    assert_int_equal(queued_after(&delay, 30 * UNIT, 6 * PERIOD), 20 * UNIT);
    assert_int_equal(queued_after(&delay, 31 * UNIT, 7 * PERIOD - 1), 21 * UNIT);
    assert_int_equal(queued_after(&delay, 31 * UNIT, 7 * PERIOD), 1 * UNIT);
    assert_int_equal(queued_after(&delay, 60 * UNIT, 10 * PERIOD), 0);
    assert_int_equal(queued_after(&delay, 61 * UNIT, 255 * PERIOD), 0);
    assert_int_equal(queued_after(&delay, 63 * UNIT, 256 * PERIOD), 2 * UNIT);
}

static void delay__extremes(void **state)
{
    (void)state;
    struct dw_delay delay = {0};

    assert_int_equal(queued_after(&delay, 0, 0), 0);
    assert_int_equal(queued_after(&delay, UINT64_MAX, 0), (UINT16_MAX - 1) * UNIT);
    delay = (struct dw_delay){0};
    assert_int_equal(queued_after(&delay, UINT64_MAX, UINT64_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delay_query__least_of_a_round_less_the_base),
        cmocka_unit_test(delay_base__is_forgotten_after_two_periods),
        cmocka_unit_test(delay__extremes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
