/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMAP Terminate (RFC 5040 4.8): the payload of untagged messages on queue 2. */
#ifndef DW_TERMINATE_H
#define DW_TERMINATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/ddp.h"

/*
 *  0                   1                   2                   3
 *  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
 * +-------+-------+---------------+-+-+-+-------------------------+
 * | layer | type  |     code      |M|D|R|            0            |
 * +-------+-------+---------------+-+-+-+-------------------------+
 * |  M: DDP segment length (16)   |  D: DDP header (14 or 18 bytes)
 * +-------------------------------+  R: RDMAP header (28 bytes: of a Read Request)
 */
#define DW_TERMINATE_BYTES     4
#define DW_TERMINATE_MAX_BYTES (DW_TERMINATE_BYTES + 2 + 18 + 28)
struct dw_terminate {
    uint16_t cause;         /* enum dw_terminate_cause, or one not known here */
    bool has_length;        /* M */
    uint16_t segment_bytes; /* of the DDP segment in error; 0 without M */
    const uint8_t *ddp;     /* its header, 14 or 18 bytes by its T bit; NULL without D */
    const uint8_t *rdmap;   /* Read Request, 28 bytes; NULL without R */
};

/* For the cause and the segment (ULPDU) that it was found in, into which it points; NULL: none. The
 * headers go along where RFC 5040 4.8 wants them: with errors of RDMAP or DDP that are not
 * catastrophic, if the segment is long enough. */
void dw_terminate_fill(struct dw_terminate *terminate, uint16_t cause, const uint8_t *segment,
                       size_t len);

/* Writes at most DW_TERMINATE_MAX_BYTES; returns how many. */
size_t dw_terminate_put(uint8_t *buf, const struct dw_terminate *terminate);

/* Points into buf. 0, or -EBADMSG (short; from DW_TERMINATE_BYTES on the cause is set all the
 * same). Reserved bits and bytes left over are not looked at. */
int dw_terminate_get(struct dw_terminate *terminate, const uint8_t *buf, size_t len);

#endif
