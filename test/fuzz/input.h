/* SPDX-License-Identifier: BSD-3-Clause */
/* What the targets that drive a whole QP share: numbers out of the fuzzer's bytes, and a claim. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static inline void require(bool truth)
{
    if (!truth)
        abort();
}

struct input {
    const uint8_t *at, *end;
};

/* Big-endian; what is not there any more is left out. */
static inline uint32_t take(struct input *in, unsigned bytes)
{
    uint32_t value = 0;
    for (; bytes && in->at < in->end; bytes--)
        value = value << 8 | *in->at++;
    return value;
}

#endif
