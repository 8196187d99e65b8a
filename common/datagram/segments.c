/* SPDX-License-Identifier: BSD-3-Clause */
/* DDP segments in datagrams. */
#include "common/datagram/segments.h"

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

/* The segment that buf begins with. Its bytes, length field included; 0: these are out of bounds;
 * negative: its header is malformed. */
static inline int parse(struct dw_segment *segment, const uint8_t *buf, uint32_t len)
{
    const uint32_t bytes = len < DW_SEGMENT_LEN_BYTES ? len : dw_get_be16(buf);
    if (len < DW_SEGMENT_LEN_BYTES || bytes > len - DW_SEGMENT_LEN_BYTES)
        return 0;
    const int head = dw_ddp_get(&segment->ddp, buf + DW_SEGMENT_LEN_BYTES, bytes);
    if (head < 0)
        return head;
    segment->payload = buf + DW_SEGMENT_LEN_BYTES + head;
    segment->bytes = bytes - (uint32_t)head;
    return (int)(DW_SEGMENT_LEN_BYTES + bytes);
}

bool dw_segment_next(struct diwarp_counters *counters, const uint8_t *buf, uint32_t len,
                     uint32_t *offset, struct dw_segment *segment)
{
    if (*offset == len)
        return false;
    /* `buf` is where the first segment may begin: padding ends 8 bytes behind it, or later. */
    const uint32_t padding = dw_segment_padding(DW_LLP_HEADER_BYTES + *offset);
    const uint64_t mask = (UINT64_C(1) << 8 * padding) - 1;
    *offset += padding;
    const bool padded =
        !padding || (*offset < len && !(dw_get_be64(buf + *offset - sizeof(uint64_t)) & mask));
    const int bytes = padded ? parse(segment, buf + *offset, len - *offset) : 0;
    if (bytes <= 0)
        *(bytes ? &counters->drop_header : &counters->drop_short) += 1;
    else
        *offset += (uint32_t)bytes;
    return bytes > 0;
}

bool dw_segment_only(const uint8_t *buf, uint32_t len, struct dw_segment *segment)
{
    const int bytes = parse(segment, buf, len);
    return bytes > 0 && (uint32_t)bytes == len;
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
