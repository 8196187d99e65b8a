/* SPDX-License-Identifier: BSD-3-Clause */
/* Serial numbers: order across the wrap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/serial.h"

static void serial_diff__table(void **state)
{
    (void)state;
    static const struct {
        uint32_t a, b;
        int32_t diff;
    } cases[] = {
        {0, 0, 0},
        {1, 0, 1},
        {0, 1, -1},
        {0, UINT32_MAX, 1},
        {UINT32_MAX, 0, -1},
        {0x10, 0xfffffff0, 0x20},
        {0xfffffff0, 0x10, -0x20},
        {0x80000000, 0x7fffffff, 1},
        {0x7fffffff, 0, INT32_MAX},
        {0x80000001, 0, -INT32_MAX},
        {0x80000000, 0, INT32_MIN},
        {0, 0x80000000, INT32_MIN},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(dw_serial_diff(cases[i].a, cases[i].b), cases[i].diff);
        assert_int_equal(dw_serial_before(cases[i].a, cases[i].b), cases[i].diff < 0);
    }
}

static void serial_before__total_within_half_the_circle(void **state)
{
    (void)state;
    for (uint32_t start = 0xfffffff0; start != 0x10; start++) {
        assert_false(dw_serial_before(start, start));
        for (uint32_t ahead = 1; ahead < 0x80000000; ahead = ahead * 2 + 1) {
            assert_true(dw_serial_before(start, start + ahead));
            assert_false(dw_serial_before(start + ahead, start));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serial_diff__table),
        cmocka_unit_test(serial_before__total_within_half_the_circle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
