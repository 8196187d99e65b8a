/* SPDX-License-Identifier: BSD-3-Clause */
/* DDP segments in datagrams. */
#include "common/datagram/segments.h"

#include <errno.h>

#include "common/wire/bytes.h"

uint8_t *dw_segment_put(uint8_t *at, const struct dw_ddp_header *ddp,
                        const struct dw_write_record *record, uint32_t payload)
{
    uint32_t head = dw_segment_header_bytes(ddp);
    dw_put_be16(at, (uint16_t)(head - DW_SEGMENT_LEN_BYTES + payload));
    size_t n = DW_SEGMENT_LEN_BYTES + dw_ddp_put(at + DW_SEGMENT_LEN_BYTES, ddp);
    if (ddp->tagged)
        dw_write_record_put(at + n, record);
    return at + head;
}

/* The segment of `bytes` at `start`; 0, or as dw_ddp_get(). */
static inline int parse(struct dw_segment *segment, const uint8_t *start, uint32_t bytes)
{
    int head = dw_ddp_get(&segment->ddp, start, bytes);
    if (head < 0)
        return head;
    segment->payload = start + head;
    segment->bytes = bytes - (uint32_t)head;
    return 0;
}

int dw_segment_next(struct diwarp_counters *counters, const uint8_t *buf, uint32_t len,
                    uint32_t *offset, struct dw_segment *segment)
{
    if (*offset == len)
        return 0;
    /* `buf` is where the first segment may begin. */
    for (uint32_t pad = dw_segment_padding(DW_LLP_HEADER_BYTES + *offset); pad; pad--)
        if (buf[(*offset)++] || *offset == len)
            goto bad_length;
    const uint32_t left = len - *offset;
    const uint32_t bytes = left < DW_SEGMENT_LEN_BYTES ? left : dw_get_be16(buf + *offset);
    if (left < DW_SEGMENT_LEN_BYTES || bytes > left - DW_SEGMENT_LEN_BYTES)
        goto bad_length;
    int rc = parse(segment, buf + *offset + DW_SEGMENT_LEN_BYTES, bytes);
    if (rc) {
        counters->drop_header++;
        return rc;
    }
    *offset += DW_SEGMENT_LEN_BYTES + bytes;
    return 1;

bad_length:
    counters->drop_short++;
    return -EBADMSG;
}

bool dw_segment_only(const uint8_t *buf, uint32_t len, struct dw_segment *segment)
{
    return len >= DW_SEGMENT_LEN_BYTES && dw_get_be16(buf) == len - DW_SEGMENT_LEN_BYTES &&
           !parse(segment, buf + DW_SEGMENT_LEN_BYTES, len - DW_SEGMENT_LEN_BYTES);
}

bool dw_segment_write_record(const struct dw_segment *segment, struct dw_write_record *wr,
                             const uint8_t **data, uint32_t *length)
{
    if (dw_write_record_get(wr, segment->payload, segment->bytes))
        return false;
    *data = segment->payload + DW_WRITE_RECORD_BYTES;
    *length = segment->bytes - DW_WRITE_RECORD_BYTES;
    return *length && *length <= wr->total - wr->offset;
}
