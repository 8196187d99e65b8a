/* SPDX-License-Identifier: BSD-3-Clause */
/* What the CRC32C paths share. Only crc32c.c, crc32c_x86.c include it. */
#ifndef DW_CRC32C_INTERNAL_H
#define DW_CRC32C_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/copy.h"

/* Castagnoli's polynomial, reflected: bit 31 is x^0, x^32 is implied. */
#define DW_CRC32C_POLY 0x82f63b78u

/* One way to compute. `state` is the CRC register itself: no inversions. */
struct dw_crc32c_impl {
    const char *name;
    bool (*usable)(void); /* the CPU and the OS allow it */
    uint32_t (*update)(uint32_t state, const uint8_t *data, size_t len);
    uint32_t (*update_copy)(uint32_t state, uint8_t *dst, const uint8_t *src, size_t len);
    uint32_t (*update_copy_past)(uint32_t state, uint8_t *dst, const uint8_t *src, size_t len);
};

/* x^0, reflected. */
#define DW_CRC32C_ONE 0x80000000u

/* v * x^degree modulo the polynomial, both reflected. Takes degree steps. */
static inline uint32_t dw_crc32c_shift(uint32_t v, unsigned degree)
{
    while (degree-- > 0) {
        v = v >> 1 ^ (v & 1 ? DW_CRC32C_POLY : 0);
    }
    return v;
}

/* For a path without a fused copy: in blocks that are still in the first-level cache when the CRC
 * reads them, from where they were put. */
#define DW_CRC32C_COPY_BLOCK_BYTES 8192
static inline uint32_t dw_crc32c_copy_blocks(const struct dw_crc32c_impl *impl, uint32_t state,
                                             uint8_t *dst, const uint8_t *src, size_t len)
{
    while (len > 0) {
        size_t n = len < DW_CRC32C_COPY_BLOCK_BYTES ? len : DW_CRC32C_COPY_BLOCK_BYTES;

        dw_copy(dst, src, n);
        state = impl->update(state, dst, n);
        dst += n;
        src += n;
        len -= n;
    }
    return state;
}

#if defined(__x86_64__)
extern const struct dw_crc32c_impl dw_crc32c_sse42;
extern const struct dw_crc32c_impl dw_crc32c_vpclmulqdq;

/* Fills the constants of both. Once, before either is used. */
void dw_crc32c_x86_init(void);
#endif

#endif
