/* SPDX-License-Identifier: BSD-3-Clause */
/* For harnesses: values that may be anything, and buffers of exactly so many bytes of anything, so
 * that a read behind them is an error. */
#ifndef TEST_CBMC_ANY_H
#define TEST_CBMC_ANY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The tool gives whatever value to what is called so. */
uint8_t nondet_u8(void);
uint16_t nondet_u16(void);
uint32_t nondet_u32(void);
uint64_t nondet_u64(void);

#define require(truth, what) __CPROVER_assert(truth, what)
#define given(truth)         __CPROVER_assume(truth)

static inline bool any_bool(void)
{
    return nondet_u8() & 1;
}

static inline size_t any_length(size_t most)
{
    const size_t length = nondet_u64();
    given(length <= most);
    return length;
}

static inline uint8_t *any_bytes(size_t length)
{
    uint8_t *bytes = malloc(length);
    given(bytes != NULL);
    return bytes;
}

/* Of any one byte, and so of each. */
static inline void require_same(const uint8_t *a, const uint8_t *b, size_t bytes)
{
    const size_t at = nondet_u64();
    given(at < bytes);
    require(a[at] == b[at], "each byte is the same");
}

#endif
