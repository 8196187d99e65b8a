/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads Terminate messages (RFC 5040 4.8), of which the product itself needs but the cause. */
#ifndef DW_TEST_TERMINATE_H
#define DW_TEST_TERMINATE_H

#include <errno.h>

#include "common/wire/bytes.h"
#include "common/wire/rdmap.h"

struct terminate {
    uint16_t cause;
    bool has_length;        /* M */
    uint16_t segment_bytes; /* of the DDP segment in error; 0 without M */
    const uint8_t *ddp;     /* its header, 14 or 18 bytes by its T bit; NULL without D */
    const uint8_t *rdmap;   /* Read Request, 28 bytes; NULL without R */
};

/* Points into buf. 0, or -EBADMSG: short. */
static inline int terminate_get(struct terminate *terminate, const uint8_t *buf, size_t len)
{
    size_t at = DW_TERMINATE_BYTES;
    *terminate = (struct terminate){0};
    if (len < at)
        return -EBADMSG;
    terminate->cause = dw_get_be16(buf);
    if (buf[2] & (DW_TERMINATE_LENGTH | DW_TERMINATE_DDP)) { /* there with D, too */
        if (len < at + 2)
            return -EBADMSG;
        terminate->has_length = buf[2] & DW_TERMINATE_LENGTH;
        terminate->segment_bytes = terminate->has_length ? dw_get_be16(buf + at) : 0;
        at += 2;
    }
    if (buf[2] & DW_TERMINATE_DDP) {
        size_t bytes = len > at && buf[at] & 0x80 ? DW_DDP_TAGGED_BYTES : DW_DDP_UNTAGGED_BYTES;
        if (len < at + bytes)
            return -EBADMSG;
        terminate->ddp = buf + at;
        at += bytes;
    }
    if (buf[2] & DW_TERMINATE_RDMAP) {
        if (len < at + DW_READ_REQUEST_STREAM_BYTES)
            return -EBADMSG;
        terminate->rdmap = buf + at;
    }
    return 0;
}

#endif
