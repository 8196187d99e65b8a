/* SPDX-License-Identifier: BSD-3-Clause */
/* Big-endian access to bytes whose bounds the caller has checked. */
#pragma once

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define DW_BE(bits)                                                  \
    static inline uint##bits##_t dw_get_be##bits(const uint8_t *p)   \
    {                                                                \
        uint##bits##_t v;                                            \
        memcpy(&v, p, sizeof v);                                     \
        return be##bits##toh(v);                                     \
    }                                                                \
    static inline void dw_put_be##bits(uint8_t *p, uint##bits##_t v) \
    {                                                                \
        v = htobe##bits(v);                                          \
        memcpy(p, &v, sizeof v);                                     \
    }

DW_BE(16)
DW_BE(32)
DW_BE(64)
#undef DW_BE

/* Of a list of a header's fields, X(bits, offset, member): one of struct `h`, to or from `buf`. */
#define DW_PUT_FIELD(bits, offset, member) dw_put_be##bits(buf + (offset), h->member);
#define DW_GET_FIELD(bits, offset, member) h->member = dw_get_be##bits(buf + (offset));
