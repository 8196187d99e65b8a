/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "common/wire/mpa.h"

static const uint8_t bytes[DW_RC_HELLO_BYTES] = {'d',  'w',  1,    0,    0x01, 0x02, 0x03, 0x04,
                                                 0,    0,    0,    9,    0x11, 0x12, 0x13, 0x14,
                                                 0x15, 0x16, 0x17, 0x18, 0x01, 0x02, 0,    0};

static void rc_hello__is_as_documented(void **state)
{
    (void)state;
    const struct dw_rc_hello hello = {
        .name = {0x01020304, 9}, .token = 0x1112131415161718ull, .ird = 0x0102};
    struct dw_rc_hello got;
    uint8_t buf[DW_RC_HELLO_BYTES];

    dw_rc_hello_put(buf, &hello);
    assert_memory_equal(buf, bytes, sizeof bytes);
    assert_int_equal(dw_rc_hello_get(&got, bytes, sizeof bytes), 0);
    assert_int_equal(got.name.job, hello.name.job);
    assert_int_equal(got.name.rank, hello.name.rank);
    assert_true(got.token == hello.token);
    assert_int_equal(got.ird, hello.ird);
}

static void rc_hello__refuses_what_is_none(void **state)
{
    (void)state;
    struct dw_rc_hello got;

    for (size_t len = 0; len < sizeof bytes; len++)
        assert_int_equal(dw_rc_hello_get(&got, bytes, len), -EBADMSG);
    for (unsigned i = 0; i < 3; i++) {
        uint8_t buf[DW_RC_HELLO_BYTES];

        memcpy(buf, bytes, sizeof buf);
        buf[i] ^= 1;
        assert_int_equal(dw_rc_hello_get(&got, buf, sizeof buf), -EPROTO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_hello__is_as_documented),
        cmocka_unit_test(rc_hello__refuses_what_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
