/* SPDX-License-Identifier: BSD-3-Clause */
/* What leads our private data in MPA request and reply frames: who calls, and that it may. */
#ifndef DW_RC_HELLO_H
#define DW_RC_HELLO_H

#include <stddef.h>
#include <stdint.h>

#include "common/include/diwarp.h"

/*
 *  0                   1                   2                   3
 *  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
 * +---------------+---------------+---------------+---------------+
 * |      'd'      |      'w'      |  version 1    |       0       |
 * +---------------+---------------+---------------+---------------+
 * |  job                          |  rank                         |  32 bits each
 * +---------------------------------------------------------------+
 * |  token of the listener (64), in the request and in the reply  |
 * +-------------------------------+-------------------------------+
 * |  IRD of the sender (16)       |  0 (16)                       |
 * +-------------------------------+-------------------------------+
 */
#define DW_RC_HELLO_BYTES 24
struct dw_rc_hello {
    struct diwarp_name name;
    uint64_t token;
    uint16_t ird; /* RDMA reads it answers at once; revision 1 has no other place for it */
};

/* Exactly DW_RC_HELLO_BYTES. */
void dw_rc_hello_put(uint8_t *buf, const struct dw_rc_hello *hello);
/* 0; -EBADMSG: short; -EPROTO: none of this version. */
int dw_rc_hello_get(struct dw_rc_hello *hello, const uint8_t *buf, size_t len);

#endif
