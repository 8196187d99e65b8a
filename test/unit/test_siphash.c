/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/siphash.h"

/* Key and message of the authors' test vectors: bytes 0, 1, 2 ... */
static void siphash__golden(void **state)
{
    (void)state;
    const uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

    assert_true(dw_siphash(key, 0x0706050403020100) == 0x93f5f5799a932462);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(siphash__golden),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
