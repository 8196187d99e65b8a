/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault injector's plan, as a text says it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/fault/llp_fault.h"

static void fault_parse__reads_every_entry(void **state)
{
    (void)state;
    struct dw_fault_plan plan;
    assert_int_equal(dw_fault_parse("drop=0.01,dup=0.5,reorder=1,corrupt=1e-3,delay=0,delay_us=250,"
                                    "seed=18446744073709551615,exact,report",
                                    &plan, NULL),
                     0);
    assert_true(plan.drop == 0.01 && plan.dup == 0.5 && plan.reorder == 1.0);
    assert_true(plan.corrupt == 1e-3 && plan.delay == 0.0);
    assert_int_equal(plan.delay_ns, 250000);
    assert_true(plan.seed == UINT64_MAX);
    assert_true(plan.exact && plan.report);
    assert_int_equal(dw_fault_parse("seed=3", &plan, NULL), 0);
    assert_true(plan.drop == 0.0 && plan.delay_ns == 1000000 && !plan.exact && !plan.report);
}

static void fault_parse__refuses_the_rest(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        ",",
        "drop",
        "drop=",
        "drop=x",
        "drop=1.1",
        "drop=-0.1",
        "drop=nan",
        "drop=0.1x",
        "drop= 0.1",
        "drop=0.1,",
        ",drop=0.1",
        "drop=0x1",
        "Drop=0.1",
        " drop=0.1",
        "loss=0.1",
        "seed=",
        "seed=-1",
        "seed=1.5",
        "exact=1",
        "report=yes",
        "delay_us=1e3",
        "delay_us=-",
        "drop=0.1;dup=0.1",
        "drop==0.1",
        "=0.1",
        "drop=--1",
        "seed=18446744073709551616",
        "delay_us=10000001",
        "drop=0.0000000000000000000000000000000000000000000000000000000000001",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct dw_fault_plan plan;
        struct diwarp_diagnosis why = {.text = ""};
        if (dw_fault_parse(bad[i], &plan, &why) != -EINVAL) {
            fail_msg("'%s' was read", bad[i]);
        }
        assert_non_null(strstr(why.text, "DIWARP_FAULTS"));
    }
    struct dw_fault_plan plan;
    struct diwarp_diagnosis why;
    assert_int_equal(dw_fault_parse("dup=0.1,drop=2,seed=1", &plan, &why), -EINVAL);
    assert_non_null(strstr(why.text, "'drop=2'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_parse__reads_every_entry),
        cmocka_unit_test(fault_parse__refuses_the_rest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
