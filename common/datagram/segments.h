/* SPDX-License-Identifier: BSD-3-Clause */
/* The DDP segments of a datagram, read or written (WIRE.md sections 1 and 4). */
#pragma once

#include "common/include/diwarp.h"
#include "common/rel/ranges.h"
#include "common/wire/ddp.h"
#include "common/wire/llp_header.h"
#include "common/wire/rdmap.h"

/* Bytes of a segment before its payload, its length field included. */
#define DW_RECORD_SEGMENT_BYTES (DW_SEGMENT_LEN_BYTES + DW_DDP_TAGGED_BYTES + DW_WRITE_RECORD_BYTES)
#define DW_SEND_SEGMENT_BYTES   (DW_SEGMENT_LEN_BYTES + DW_DDP_UNTAGGED_BYTES)

struct dw_segment {
    struct dw_ddp_header ddp;
    const uint8_t *payload;
    uint32_t bytes;
};

static inline uint32_t dw_segment_header_bytes(const struct dw_ddp_header *ddp)
{
    return ddp->tagged ? DW_RECORD_SEGMENT_BYTES : DW_SEND_SEGMENT_BYTES;
}

/* Writes all that leads `payload` bytes; `record`: of a tagged one. Returns where these go. */
uint8_t *dw_segment_put(uint8_t *at, const struct dw_ddp_header *ddp,
                        const struct dw_write_record *record, uint32_t payload);

/* Next segment at *offset. False: at the end, or malformed, counted. */
bool dw_segment_next(struct diwarp_counters *counters, const uint8_t *buf, uint32_t len,
                     uint32_t *offset, struct dw_segment *segment);
/* The one segment that fills buf, of `len` bytes; false: there are others, or none. */
bool dw_segment_only(const uint8_t *buf, uint32_t len, struct dw_segment *segment);

/* Whether a segment may be of a message of which `map` has come and whose end, unless 0, is said to
 * be `total`: nothing of a message lies beyond its last segment. */
static inline bool dw_segment_agrees(const struct dw_segment *segment, uint32_t end,
                                     const struct dw_ranges *map, uint32_t total)
{
    if (total)
        return end <= total && (!segment->ddp.last || end == total);
    return !segment->ddp.last || end >= dw_ranges_end(map);
}

/* The Write-Record header of a segment, whose data must lie inside its record. False: malformed. */
bool dw_segment_write_record(const struct dw_segment *segment, struct dw_write_record *wr,
                             const uint8_t **data, uint32_t *length);
