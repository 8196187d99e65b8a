/* SPDX-License-Identifier: BSD-3-Clause */
/* SipHash-2-4 (Aumasson, Bernstein 2012) of one 64-bit word: a keyed pseudo-random function. Who
 * has seen any number of outputs can tell neither the key nor another output. */
#pragma once

#include <stdint.h>

static inline uint64_t dw_siphash_rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void dw_siphash_rounds(uint64_t v[4], unsigned count)
{
    while (count--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = dw_siphash_rotate(v[1], 13) ^ v[0];
        v[3] = dw_siphash_rotate(v[3], 16) ^ v[2];
        v[0] = dw_siphash_rotate(v[0], 32) + v[3];
        v[2] += v[1];
        v[1] = dw_siphash_rotate(v[1], 17) ^ v[2];
        v[3] = dw_siphash_rotate(v[3], 21) ^ v[0];
        v[2] = dw_siphash_rotate(v[2], 32);
    }
}

static inline uint64_t dw_siphash(const uint64_t key[2], uint64_t word)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                     key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
    const uint64_t words[] = {word, (uint64_t)sizeof word << 56}; /* the length ends the message */
    for (unsigned i = 0; i < 2; i++) {
        v[3] ^= words[i];
        dw_siphash_rounds(v, 2);
        v[0] ^= words[i];
    }
    v[2] ^= 0xff;
    dw_siphash_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
