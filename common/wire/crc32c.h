/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C (Castagnoli, reflected 0x82F63B78; RFC 3720 B.4), dispatched at run time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Continues `crc` (0 to begin: the pre- and post-inversion are inside) over len bytes. */
uint32_t dw_crc32c(uint32_t crc, const void *data, size_t len);

/* memcpy and dw_crc32c() of the source in one pass; past the cache if `past`, where the CPU can:
 * then another thread may see the copy only after dw_crc32c_copy_fence(). No overlap. */
uint32_t dw_crc32c_copy(uint32_t crc, void *to, const void *from, size_t len, bool past);
void dw_crc32c_copy_fence(void);

/* "vpclmulqdq", "sse4.2" or "portable": what the CPU allows. */
const char *dw_crc32c_path(void);

/* For tests and benchmarks: forces a path by name; -ENOTSUP when the CPU lacks it. */
int dw_crc32c_force(const char *path);
