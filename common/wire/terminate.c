/* SPDX-License-Identifier: BSD-3-Clause */
/* Codec of RDMAP Terminate. Knows the table of causes; not what a stream does about them. */
#include "common/wire/terminate.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/wire/bytes.h"
#include "common/wire/rdmap.h"

#define HEADER_LENGTH 0x80 /* M, D and R, in byte 2 */
#define HEADER_DDP    0x40
#define HEADER_RDMAP  0x20

#define LENGTH_BYTES 2

static_assert(DW_TERMINATE_MAX_BYTES == DW_TERMINATE_BYTES + LENGTH_BYTES + DW_DDP_UNTAGGED_BYTES +
                                            DW_READ_REQUEST_STREAM_BYTES,
              "the largest Terminate has an untagged header and a Read Request");

static size_t ddp_bytes(const uint8_t *ddp)
{
    return ddp[0] & 0x80 ? DW_DDP_TAGGED_BYTES : DW_DDP_UNTAGGED_BYTES; /* T */
}

void dw_terminate_fill(struct dw_terminate *terminate, uint16_t cause, const uint8_t *segment,
                       size_t len)
{
    const unsigned layer = cause >> 12, type = (cause >> 8) & 0xf;
    *terminate = (struct dw_terminate){.cause = cause};
    if (!segment || layer >= DW_LAYER_LLP || type == 0 || len == 0 || len < ddp_bytes(segment))
        return;
    terminate->has_length = true;
    terminate->segment_bytes = (uint16_t)len;
    terminate->ddp = segment;
    /* A Read Request, with all of its message. */
    if (layer == DW_LAYER_RDMAP && ddp_bytes(segment) == DW_DDP_UNTAGGED_BYTES &&
        (segment[1] & 0x0f) == DW_RDMAP_READ_REQUEST &&
        len >= DW_DDP_UNTAGGED_BYTES + DW_READ_REQUEST_STREAM_BYTES)
        terminate->rdmap = segment + DW_DDP_UNTAGGED_BYTES;
}

size_t dw_terminate_put(uint8_t *buf, const struct dw_terminate *terminate)
{
    uint8_t *p = buf + DW_TERMINATE_BYTES;
    assert(terminate->has_length || (!terminate->ddp && !terminate->rdmap));
    dw_put_be16(buf, terminate->cause);
    buf[2] = (uint8_t)((terminate->has_length ? HEADER_LENGTH : 0) |
                       (terminate->ddp ? HEADER_DDP : 0) | (terminate->rdmap ? HEADER_RDMAP : 0));
    buf[3] = 0;
    if (terminate->has_length) {
        dw_put_be16(p, terminate->segment_bytes);
        p += LENGTH_BYTES;
    }
    if (terminate->ddp) {
        memcpy(p, terminate->ddp, ddp_bytes(terminate->ddp));
        p += ddp_bytes(terminate->ddp);
    }
    if (terminate->rdmap) {
        memcpy(p, terminate->rdmap, DW_READ_REQUEST_STREAM_BYTES);
        p += DW_READ_REQUEST_STREAM_BYTES;
    }
    return (size_t)(p - buf);
}

int dw_terminate_get(struct dw_terminate *terminate, const uint8_t *buf, size_t len)
{
    size_t at = DW_TERMINATE_BYTES;
    if (len < at)
        return -EBADMSG;
    *terminate = (struct dw_terminate){.cause = dw_get_be16(buf)};
    if (buf[2] & (HEADER_LENGTH | HEADER_DDP)) { /* there with D, too: M says that it is valid */
        if (len < at + LENGTH_BYTES)
            return -EBADMSG;
        terminate->has_length = buf[2] & HEADER_LENGTH;
        terminate->segment_bytes = terminate->has_length ? dw_get_be16(buf + at) : 0;
        at += LENGTH_BYTES;
    }
    if (buf[2] & HEADER_DDP) {
        if (len == at || len < at + ddp_bytes(buf + at))
            return -EBADMSG;
        terminate->ddp = buf + at;
        at += ddp_bytes(buf + at);
    }
    if (buf[2] & HEADER_RDMAP) {
        if (len < at + DW_READ_REQUEST_STREAM_BYTES)
            return -EBADMSG;
        terminate->rdmap = buf + at;
    }
    return 0;
}
