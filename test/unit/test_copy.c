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
    static const size_t lengths[] = {0,  1,  2,         3,     7,         8,
                                     15, 64, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 1};
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
            memset(to, 0, ROOM);
            dw_copy_in_order(to + begin, from + skip, (uint32_t)lengths[n]);
            assert_memory_equal(to, expected, ROOM);
        }
}

/* Whole where its place allows, so that nobody sees half of a flag. */
static void store_word__longest_that_is_aligned(void **state)
{
    (void)state;
    static const uint8_t from[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    static const struct {
        unsigned at;
        uint32_t bytes, stored;
    } cases[] = {{0, 9, 8}, {0, 7, 4}, {4, 9, 4}, {4, 3, 2}, {2, 9, 2}, {6, 1, 1}, {1, 9, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        _Alignas(8) uint8_t to[24] = {0}, expected[24] = {0};
        memcpy(expected + cases[i].at, from, cases[i].stored);
        assert_int_equal(dw_store_word(to + cases[i].at, from, cases[i].bytes), cases[i].stored);
        assert_memory_equal(to, expected, sizeof to);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy__all_and_no_more),
        cmocka_unit_test(store_word__longest_that_is_aligned),
    };
    return cmocka_run_group_tests_name("copy", tests, NULL, NULL);
}
