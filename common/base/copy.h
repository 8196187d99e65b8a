/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of payload. */
#ifndef DW_COPY_H
#define DW_COPY_H

#include <stdint.h>
#include <string.h>

/* memcpy, at the same speed whatever the addresses. What is longer than some 2 KiB glibc may copy
 * by `rep movsb`; AMD's Zen 3 and 4 take 16 times as long for that when `to` lies 1 to 15 bytes
 * after `from` within their pages (glibc bug 30994). In pieces this short it uses vector registers.
 */
#define DW_COPY_PIECE_BYTES 2048

static inline void dw_copy(void *to, const void *from, size_t bytes)
{
    uint8_t *at = to;
    const uint8_t *rest = from;
    for (; bytes > DW_COPY_PIECE_BYTES; bytes -= DW_COPY_PIECE_BYTES) {
        memcpy(at, rest, DW_COPY_PIECE_BYTES);
        at += DW_COPY_PIECE_BYTES;
        rest += DW_COPY_PIECE_BYTES;
    }
    memcpy(at, rest, bytes);
}

#endif
