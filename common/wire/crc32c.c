/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C: choice of the path, and the portable one (eight tables, eight bytes per step). What the
 * CPU offers beyond that is in crc32c_x86.c. */
#include "common/wire/crc32c.h"

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "common/wire/crc32c_internal.h"

/* tables[k][b]: what byte b, followed by k zero bytes, does to a register of 0. */
static uint32_t tables[8][256];

static void fill_tables(void)
{
    for (uint32_t b = 0; b < 256; b++)
        for (unsigned k = 0; k < 8; k++)
            tables[k][b] = dw_crc32c_shift(k ? tables[k - 1][b] : b, 8);
}

static uint32_t portable_update(uint32_t state, const uint8_t *p, size_t len)
{
    for (; len >= 8; len -= 8, p += 8) {
        uint32_t near, far; /* `far` does not wait for the state of the step before */
        memcpy(&near, p, sizeof near);
        memcpy(&far, p + 4, sizeof far);
        near = le32toh(near) ^ state;
        far = le32toh(far);
        far = tables[3][far & 0xff] ^ tables[2][far >> 8 & 0xff] ^ tables[1][far >> 16 & 0xff] ^
              tables[0][far >> 24];
        state = (tables[7][near & 0xff] ^ tables[6][near >> 8 & 0xff]) ^
                (tables[5][near >> 16 & 0xff] ^ tables[4][near >> 24]) ^ far;
    }
    for (; len > 0; len--, p++)
        state = state >> 8 ^ tables[0][(state ^ *p) & 0xff];
    return state;
}

static uint32_t portable_update_copy(uint32_t state, uint8_t *dst, const uint8_t *src, size_t len)
{
    return dw_crc32c_copy_blocks(portable_update, state, dst, src, len);
}

static const struct dw_crc32c_impl portable = {"portable", portable_update, portable_update_copy,
                                               portable_update_copy};

/* What the CPU has, best first. */
static const struct dw_crc32c_impl *impls[] = {NULL, NULL, &portable};

/* Atomic for the sake of dw_crc32c_force(); a relaxed load costs nothing. */
static const struct dw_crc32c_impl *_Atomic current = &portable;

/* Before main() or the return of dlopen(), so that no caller can be earlier. */
__attribute__((constructor)) static void choose_impl(void)
{
    fill_tables();
#if defined(__x86_64__)
    dw_crc32c_x86_init();
    impls[0] = dw_crc32c_x86(true);
    impls[1] = dw_crc32c_x86(false);
#endif
    current = impls[0] ? impls[0] : impls[1] ? impls[1] : &portable;
}

static const struct dw_crc32c_impl *impl(void)
{
    return atomic_load_explicit(&current, memory_order_relaxed);
}

uint32_t dw_crc32c(uint32_t crc, const void *data, size_t len)
{
    return ~impl()->update(~crc, data, len);
}

uint32_t dw_crc32c_copy(uint32_t crc, void *dst, const void *src, size_t len)
{
    return ~impl()->update_copy(~crc, dst, src, len);
}

uint32_t dw_crc32c_copy_past(uint32_t crc, void *dst, const void *src, size_t len)
{
    return ~impl()->update_copy_past(~crc, dst, src, len);
}

void dw_crc32c_copy_fence(void)
{
#if defined(__x86_64__)
    __builtin_ia32_sfence(); /* such stores are not ordered as others are */
#endif
}

const char *dw_crc32c_path(void)
{
    return impl()->name;
}

int dw_crc32c_force(const char *path)
{
    for (unsigned i = 0; i < sizeof impls / sizeof *impls; i++)
        if (impls[i] && strcmp(impls[i]->name, path) == 0) {
            current = impls[i];
            return 0;
        }
    return -ENOTSUP;
}
