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

/* The longest word that begins there, is aligned and no longer than `bytes`. Returns its length. */
static inline uint32_t dw_store_word(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    const uintptr_t place = (uintptr_t)to;
    uint64_t eight;
    uint32_t four;
    uint16_t two;
    if (bytes >= sizeof eight && place % sizeof eight == 0) {
        memcpy(&eight, from, sizeof eight);
        __atomic_store_n((uint64_t *)place, eight, __ATOMIC_RELEASE);
        return sizeof eight;
    }
    if (bytes >= sizeof four && place % sizeof four == 0) {
        memcpy(&four, from, sizeof four);
        __atomic_store_n((uint32_t *)place, four, __ATOMIC_RELEASE);
        return sizeof four;
    }
    if (bytes >= sizeof two && place % sizeof two == 0) {
        memcpy(&two, from, sizeof two);
        __atomic_store_n((uint16_t *)place, two, __ATOMIC_RELEASE);
        return sizeof two;
    }
    __atomic_store_n(to, *from, __ATOMIC_RELEASE);
    return 1;
}

/* Programs look at the last bytes of what a peer writes for a sign that all of it is there, as
 * cards write in order: so the last word, or what there is of it, is stored last. */
static inline void dw_copy_in_order(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    const uint32_t over = (uint32_t)((uintptr_t)(to + bytes) % sizeof(uint64_t));
    const uint32_t word = over ? over : (uint32_t)sizeof(uint64_t);
    uint32_t at = bytes > word ? bytes - word : 0;
    dw_copy(to, from, at);
    while (at < bytes)
        at += dw_store_word(to + at, from + at, bytes - at);
}
