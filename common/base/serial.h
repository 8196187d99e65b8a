/* SPDX-License-Identifier: BSD-3-Clause */
/* Serial number arithmetic modulo 2^32 (RFC 1982): PSN, MSN, record ids. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* a - b: negative when a comes before b. */
static inline int32_t dw_serial_diff(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b);
}

static inline bool dw_serial_before(uint32_t a, uint32_t b)
{
    return dw_serial_diff(a, b) < 0;
}
