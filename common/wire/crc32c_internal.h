/* SPDX-License-Identifier: BSD-3-Clause */
/* What the CRC32C paths share. Only crc32c.c, crc32c_x86.c include it. */
#ifndef DW_CRC32C_INTERNAL_H
#define DW_CRC32C_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/copy.h"

/* One way to compute. `state` is the CRC register itself: no inversions. */
struct dw_crc32c_impl {
    const char *name;
    uint32_t (*update)(uint32_t state, const uint8_t *data, size_t len);
    uint32_t (*update_copy)(uint32_t state, uint8_t *dst, const uint8_t *src, size_t len);
    uint32_t (*update_copy_past)(uint32_t state, uint8_t *dst, const uint8_t *src, size_t len);
};

/* v * x^degree modulo Castagnoli's polynomial, all reflected: bit 31 is x^0, x^32 is implied. Takes
 * degree steps. */
static inline uint32_t dw_crc32c_shift(uint32_t v, unsigned degree)
{
    while (degree-- > 0)
        v = v >> 1 ^ (v & 1 ? 0x82f63b78u : 0);
    return v;
}

/* For a path without a fused copy: in blocks that are still in the first-level cache when the CRC
 * reads them, from where they were put. */
static inline uint32_t dw_crc32c_copy_blocks(uint32_t (*update)(uint32_t, const uint8_t *, size_t),
                                             uint32_t state, uint8_t *dst, const uint8_t *src,
                                             size_t len)
{
    for (size_t n; len > 0; dst += n, src += n, len -= n) {
        n = len < 8192 ? len : 8192;
        dw_copy(dst, src, n);
        state = update(state, dst, n);
    }
    return state;
}

#if defined(__x86_64__)
/* The path by vectors, or that by the crc32 instruction; NULL: the CPU lacks it. */
const struct dw_crc32c_impl *dw_crc32c_x86(bool vectors);
/* Fills the constants of both. Once, before either is used. */
void dw_crc32c_x86_init(void);
#endif

#endif
