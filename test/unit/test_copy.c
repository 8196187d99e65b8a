/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies: all of the bytes and no others, whatever the length and the addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/copy.h"

#define PIECE DW_COPY_PIECE_BYTES
#define GUARD 64
#define ROOM  (3 * PIECE + 1 + 2 * GUARD)

static void copy__all_and_no_more(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 64, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 1};
    static uint8_t from[ROOM], to[ROOM], expected[ROOM];

    for (size_t i = 0; i < ROOM; i++)
        from[i] = (uint8_t)(1 + i % 251);
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
        for (size_t shift = 0; shift < 2 * GUARD; shift += 5) {
            const size_t begin = shift % GUARD, skip = shift / 2;
            memset(to, 0, ROOM);
            memset(expected, 0, ROOM);
            for (size_t i = 0; i < lengths[n]; i++)
                expected[begin + i] = from[skip + i];
            dw_copy(to + begin, from + skip, lengths[n]);
            assert_memory_equal(to, expected, ROOM);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy__all_and_no_more),
    };
    return cmocka_run_group_tests_name("copy", tests, NULL, NULL);
}
