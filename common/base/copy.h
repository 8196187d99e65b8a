/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of payload. */
#pragma once

#include <stdint.h>
#include <string.h>

/* What glibc copies by vector registers on all CPUs: with more it may use `rep movsb`. */
#define DW_COPY_PIECE_BYTES 2048

/* memcpy, as fast whatever the addresses. No overlap. By `rep movsb` AMD's Zen 3 and 4 take 16
 * times as long when `to` lies 1 to 15 bytes after `from` within their pages (glibc bug 30994). */
static inline void dw_copy(void *to, const void *from, size_t bytes)
{
    uint8_t *at = to;
    const uint8_t *rest = from;
    while (bytes) {
        size_t piece = bytes < DW_COPY_PIECE_BYTES ? bytes : DW_COPY_PIECE_BYTES;
        /* Of a length that it knows something of, the compiler makes string instructions itself. */
        __asm__("" : "+r"(piece));
        memcpy(at, rest, piece);
        at += piece;
        rest += piece;
        bytes -= piece;
    }
}
