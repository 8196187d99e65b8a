/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C: each path that this CPU has, against RFC 3720 B.4 and against a bit-serial reference. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire/crc32c.h"

#define ALL_LENGTHS_UP_TO 1100
#define ALIGNMENTS        16
#define LINE_BYTES        64 /* what is written past the cache at once */
#define LARGE_BYTES       70000
#define GUARD             0xa5

static const char *const paths[] = {"portable", "sse4.2", "vpclmulqdq"};
static const char *best;

static uint8_t source[LARGE_BYTES + ALIGNMENTS];
static _Alignas(LINE_BYTES) uint8_t copied[LARGE_BYTES + LINE_BYTES + ALIGNMENTS];

/* Runs `check` once for each path that the CPU has, and returns to the best one. */
static void on_each_path(void (*check)(void))
{
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (dw_crc32c_force(paths[i]) != 0) {
            print_message("%s: not on this CPU\n", paths[i]);
            continue;
        }
        assert_string_equal(dw_crc32c_path(), paths[i]);
        check();
    }
    assert_int_equal(dw_crc32c_force(best), 0);
}

static uint32_t reference_byte(uint32_t state, uint8_t byte)
{
    state ^= byte;
    for (int bit = 0; bit < 8; bit++) {
        state = state >> 1 ^ (state & 1 ? 0x82f63b78u : 0);
    }
    return state;
}

static uint32_t reference(uint32_t crc, const uint8_t *data, size_t len)
{
    uint32_t state = ~crc;

    for (size_t i = 0; i < len; i++) {
        state = reference_byte(state, data[i]);
    }
    return ~state;
}

static void check_rfc3720(void)
{
    static const uint8_t read_pdu[48] = {
        0x01, 0xc0, [16] = 0x14, [22] = 0x04, [27] = 0x14, [31] = 0x18, [32] = 0x28, [40] = 0x02};
    uint8_t buf[32];

    memset(buf, 0, sizeof buf);
    assert_int_equal(dw_crc32c(0, buf, sizeof buf), 0x8a9136aa);
    memset(buf, 0xff, sizeof buf);
    assert_int_equal(dw_crc32c(0, buf, sizeof buf), 0x62a8ab43);
    for (uint8_t i = 0; i < sizeof buf; i++) {
        buf[i] = i;
    }
    assert_int_equal(dw_crc32c(0, buf, sizeof buf), 0x46dd794e);
    for (uint8_t i = 0; i < sizeof buf; i++) {
        buf[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(dw_crc32c(0, buf, sizeof buf), 0x113fdb5c);
    assert_int_equal(dw_crc32c(0, read_pdu, sizeof read_pdu), 0xd9963a56);
    assert_int_equal(dw_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(dw_crc32c(0, NULL, 0), 0);
}

static void crc32c__rfc3720_b4(void **state)
{
    (void)state;
    on_each_path(check_rfc3720);
}

static void check_all_lengths(void)
{
    for (size_t align = 0; align < ALIGNMENTS; align++) {
        uint32_t state = ~0x12345678u;

        for (size_t len = 0; len <= ALL_LENGTHS_UP_TO; len++) {
            assert_int_equal(dw_crc32c(0x12345678, source + align, len), ~state);
            state = reference_byte(state, source[align + len]);
        }
    }
}

static void crc32c__all_lengths_and_alignments(void **state)
{
    (void)state;
    on_each_path(check_all_lengths);
}

static void check_copy_by(bool past, size_t dst_align, size_t src_align, size_t len,
                          uint32_t expected)
{
    uint8_t *dst = copied + dst_align;

    memset(copied, GUARD, dst_align + len + ALIGNMENTS);
    assert_int_equal(dw_crc32c_copy(0x12345678, dst, source + src_align, len, past), expected);
    dw_crc32c_copy_fence();
    assert_int_equal(memcmp(dst, source + src_align, len), 0);
    for (size_t i = 0; i < dst_align; i++) {
        assert_int_equal(copied[i], GUARD);
    }
    for (size_t i = 0; i < ALIGNMENTS; i++) {
        assert_int_equal(dst[len + i], GUARD);
    }
}

static void check_copy(size_t dst_align, size_t src_align, size_t len, uint32_t expected)
{
    check_copy_by(false, dst_align, src_align, len, expected);
    check_copy_by(true, dst_align, src_align, len, expected);
}

static void check_copy_all_lengths(void)
{
    for (size_t align = 0; align < ALIGNMENTS; align++) {
        uint32_t state = ~0x12345678u;

        for (size_t len = 0; len <= ALL_LENGTHS_UP_TO; len++) {
            check_copy((5 * align + 3) % ALIGNMENTS, align, len, ~state);
            check_copy_by(true, (13 * align + 7 * len) % LINE_BYTES, align, len, ~state);
            state = reference_byte(state, source[align + len]);
        }
    }
}

static void crc32c_copy__all_lengths_and_alignments(void **state)
{
    (void)state;
    on_each_path(check_copy_all_lengths);
}

static const size_t large[] = {1472, 3071,  3072,  3073,  4096,  8191,  8192,       8193,
                               8952, 16384, 65000, 65507, 65535, 65536, LARGE_BYTES};
#define LARGE_COUNT (sizeof large / sizeof large[0])

static void check_large(void)
{
    for (size_t i = 0; i < LARGE_COUNT; i++) {
        uint32_t expected = reference(0x12345678, source + 1, large[i]);

        assert_int_equal(dw_crc32c(0x12345678, source + 1, large[i]), expected);
        check_copy(3, 1, large[i], expected);
    }
}

static void crc32c__large(void **state)
{
    (void)state;
    on_each_path(check_large);
}

/* A CRC that is continued at any place equals the one over the whole. */
static void check_split(void)
{
    uint32_t whole = reference(0, source, ALL_LENGTHS_UP_TO);

    for (size_t at = 0; at <= ALL_LENGTHS_UP_TO; at++) {
        uint32_t first = dw_crc32c(0, source, at);
        uint32_t first_copied = dw_crc32c_copy(0, copied, source, at, false);

        assert_int_equal(first, first_copied);
        assert_int_equal(dw_crc32c(first, source + at, ALL_LENGTHS_UP_TO - at), whole);
        assert_int_equal(
            dw_crc32c_copy(first, copied + at, source + at, ALL_LENGTHS_UP_TO - at, false), whole);
        assert_memory_equal(copied, source, ALL_LENGTHS_UP_TO);
    }
}

static void crc32c__split(void **state)
{
    (void)state;
    on_each_path(check_split);
}

/* A read or write past the end is seen by ASan. */
static void check_exact_buffers(void)
{
    for (size_t len = 0; len <= ALL_LENGTHS_UP_TO; len++) {
        uint8_t *src = malloc(len), *dst = malloc(len);

        assert_true(len == 0 || (src != NULL && dst != NULL));
        if (len > 0) {
            memcpy(src, source, len);
        }
        assert_int_equal(dw_crc32c_copy(0, dst, src, len, false), dw_crc32c(0, src, len));
        assert_int_equal(dw_crc32c_copy(0, dst, src, len, true), dw_crc32c(0, src, len));
        dw_crc32c_copy_fence();
        free(src);
        free(dst);
    }
}

static void crc32c__exact_buffers(void **state)
{
    (void)state;
    on_each_path(check_exact_buffers);
}

static void crc32c_force__unknown(void **state)
{
    (void)state;
    assert_int_equal(dw_crc32c_force("abacus"), -ENOTSUP);
    assert_int_equal(dw_crc32c_force(""), -ENOTSUP);
    assert_string_equal(dw_crc32c_path(), best);
}

/* The path chosen at start is the best that can be forced. */
static void crc32c_path__best(void **state)
{
    const char *expected = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        expected = dw_crc32c_force(paths[i]) == 0 ? paths[i] : expected;
    }
    assert_int_equal(dw_crc32c_force(best), 0);
    assert_string_equal(best, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c__rfc3720_b4),
        cmocka_unit_test(crc32c__all_lengths_and_alignments),
        cmocka_unit_test(crc32c_copy__all_lengths_and_alignments),
        cmocka_unit_test(crc32c__large),
        cmocka_unit_test(crc32c__split),
        cmocka_unit_test(crc32c__exact_buffers),
        cmocka_unit_test(crc32c_force__unknown),
        cmocka_unit_test(crc32c_path__best),
    };
    uint32_t random = 1;

    best = dw_crc32c_path();
    for (size_t i = 0; i < sizeof source; i++) {
        random = random * 1664525 + 1013904223;
        source[i] = (uint8_t)(random >> 24);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
