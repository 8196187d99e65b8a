/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codecs of the RDMAP payloads that carry control: Write-Record, Read Request, atomics, record
 * control. Checks that a field lies in its domain; whether a record, STag or right exists is judged
 * by the caller.
 */
#include "common/wire/rdmap.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/include/diwarp.h"
#include "common/wire/bytes.h"

#define ATOMIC_OPCODE_MASK 0x0000000fu

void dw_write_record_put(uint8_t *buf, const struct dw_write_record *wr)
{
    dw_put_be32(buf, wr->id);
    dw_put_be32(buf + 4, wr->offset);
    dw_put_be32(buf + 8, wr->total);
}

int dw_write_record_get(struct dw_write_record *wr, const uint8_t *buf, size_t len)
{
    if (len < DW_WRITE_RECORD_BYTES) {
        return -EBADMSG;
    }
    wr->id = dw_get_be32(buf);
    wr->offset = dw_get_be32(buf + 4);
    wr->total = dw_get_be32(buf + 8);
    return wr->offset > wr->total ? -EPROTO : 0;
}

void dw_read_request_put_stream(uint8_t *buf, const struct dw_read_request *rr)
{
    dw_put_be32(buf, rr->sink_stag);
    dw_put_be64(buf + 4, rr->sink_to);
    dw_put_be32(buf + 12, rr->size);
    dw_put_be32(buf + 16, rr->source_stag);
    dw_put_be64(buf + 20, rr->source_to);
}

static void read_request_get(struct dw_read_request *rr, const uint8_t *buf)
{
    *rr = (struct dw_read_request){
        .sink_stag = dw_get_be32(buf),
        .sink_to = dw_get_be64(buf + 4),
        .size = dw_get_be32(buf + 12),
        .source_stag = dw_get_be32(buf + 16),
        .source_to = dw_get_be64(buf + 20),
    };
}

int dw_read_request_get_stream(struct dw_read_request *rr, const uint8_t *buf, size_t len)
{
    if (len != DW_READ_REQUEST_STREAM_BYTES) {
        return len < DW_READ_REQUEST_STREAM_BYTES ? -EBADMSG : -EPROTO;
    }
    read_request_get(rr, buf);
    return 0;
}

void dw_read_request_put(uint8_t *buf, const struct dw_read_request *rr)
{
    dw_read_request_put_stream(buf, rr);
    dw_put_be32(buf + 28, rr->record_id);
    dw_put_be32(buf + 32, rr->granted);
}

int dw_read_request_get(struct dw_read_request *rr, const uint8_t *buf, size_t len)
{
    if (len < DW_READ_REQUEST_BYTES) {
        return -EBADMSG;
    }
    read_request_get(rr, buf);
    rr->record_id = dw_get_be32(buf + 28);
    rr->granted = dw_get_be32(buf + 32);
    /* The sink asks, so the id is the sink's. */
    return rr->record_id & DW_RECORD_ID_FROM_SOURCE ? -EPROTO : 0;
}

void dw_atomic_request_put(uint8_t *buf, const struct dw_atomic_request *ar)
{
    assert(ar->opcode == DW_ATOMIC_FETCH_ADD || ar->opcode == DW_ATOMIC_CMP_SWAP);
    dw_put_be32(buf, ar->opcode);
    dw_put_be32(buf + 4, ar->request_id);
    dw_put_be32(buf + 8, ar->stag);
    dw_put_be64(buf + 12, ar->to);
    dw_put_be64(buf + 20, ar->add_swap);
    dw_put_be64(buf + 28, ar->add_swap_mask);
    dw_put_be64(buf + 36, ar->compare);
    dw_put_be64(buf + 44, ar->compare_mask);
}

int dw_atomic_request_get(struct dw_atomic_request *ar, const uint8_t *buf, size_t len)
{
    uint32_t opcode;

    if (len < DW_ATOMIC_REQUEST_BYTES) {
        return -EBADMSG;
    }
    opcode = dw_get_be32(buf); /* the 28 reserved bits included, which must be 0 */
    if (opcode != DW_ATOMIC_FETCH_ADD && opcode != DW_ATOMIC_CMP_SWAP) {
        return -EPROTO;
    }
    ar->opcode = opcode & ATOMIC_OPCODE_MASK;
    ar->request_id = dw_get_be32(buf + 4);
    ar->stag = dw_get_be32(buf + 8);
    ar->to = dw_get_be64(buf + 12);
    ar->add_swap = dw_get_be64(buf + 20);
    ar->add_swap_mask = dw_get_be64(buf + 28);
    ar->compare = dw_get_be64(buf + 36);
    ar->compare_mask = dw_get_be64(buf + 44);
    return 0;
}

void dw_atomic_response_put(uint8_t *buf, const struct dw_atomic_response *ar)
{
    assert(ar->status < DW_STATUS_COUNT);
    dw_put_be32(buf, ar->request_id);
    dw_put_be64(buf + 4, ar->original);
    dw_put_be32(buf + 12, ar->status);
}

int dw_atomic_response_get(struct dw_atomic_response *ar, const uint8_t *buf, size_t len)
{
    if (len < DW_ATOMIC_RESPONSE_BYTES) {
        return -EBADMSG;
    }
    ar->request_id = dw_get_be32(buf);
    ar->original = dw_get_be64(buf + 4);
    ar->status = dw_get_be32(buf + 12);
    return ar->status < DW_STATUS_COUNT ? 0 : -EPROTO;
}

static size_t status_put(uint8_t *buf, const struct dw_record_control *rc)
{
    uint8_t *p = buf + DW_RECORD_CONTROL_BYTES + 4;

    assert(rc->range_count <= DW_RECORD_MAX_RANGES);
    dw_put_be32(buf + DW_RECORD_CONTROL_BYTES, rc->granted);
    for (unsigned i = 0; i < rc->range_count; i++, p += 8) {
        dw_put_be32(p, rc->ranges[i].start);
        dw_put_be32(p + 4, rc->ranges[i].end);
    }
    return DW_RECORD_STATUS_BYTES(rc->range_count);
}

static size_t complete_put(uint8_t *buf, const struct dw_record_control *rc)
{
    assert(rc->release_bytes <= DIWARP_RELEASE_MAX_BYTES);
    if (rc->release_bytes > 0) {
        memcpy(buf + DW_RECORD_CONTROL_BYTES, rc->release, rc->release_bytes);
    }
    return DW_RECORD_CONTROL_BYTES + rc->release_bytes;
}

size_t dw_record_control_put(uint8_t *buf, const struct dw_record_control *rc)
{
    assert(rc->status < DW_STATUS_COUNT);
    assert(rc->range_count == 0 || rc->kind == DW_RECORD_STATUS);
    buf[0] = rc->kind;
    buf[1] = rc->status;
    dw_put_be16(buf + 2, rc->range_count);
    dw_put_be32(buf + 4, rc->id);
    switch (rc->kind) {
    case DW_RECORD_OPEN:
        dw_put_be32(buf + 8, rc->stag);
        dw_put_be64(buf + 12, rc->to);
        dw_put_be32(buf + 20, rc->length);
        return DW_RECORD_OPEN_BYTES;
    case DW_RECORD_STATUS:
        return status_put(buf, rc);
    case DW_RECORD_COMPLETE:
        return complete_put(buf, rc);
    default:
        assert(rc->kind == DW_RECORD_ABORT);
        return DW_RECORD_CONTROL_BYTES;
    }
}

/* The bodies are read whole: bytes left over are as wrong as bytes that are missing. */
static int check_body(size_t len, size_t expected)
{
    return len < expected ? -EBADMSG : len > expected ? -EPROTO : 0;
}

static int open_get(struct dw_record_control *rc, const uint8_t *buf, size_t len)
{
    int verdict = check_body(len, DW_RECORD_OPEN_BYTES);

    if (verdict != 0) {
        return verdict;
    }
    rc->stag = dw_get_be32(buf + 8);
    rc->to = dw_get_be64(buf + 12);
    rc->length = dw_get_be32(buf + 20);
    /* The source asks, so the id is the source's. */
    return rc->id & DW_RECORD_ID_FROM_SOURCE ? 0 : -EPROTO;
}

static int status_get(struct dw_record_control *rc, const uint8_t *buf, size_t len)
{
    const uint8_t *p = buf + DW_RECORD_CONTROL_BYTES + 4;
    uint32_t floor = 0;
    int verdict;

    if (rc->range_count > DW_RECORD_MAX_RANGES) {
        return -EPROTO;
    }
    verdict = check_body(len, DW_RECORD_STATUS_BYTES(rc->range_count));
    if (verdict != 0) {
        return verdict;
    }
    rc->granted = dw_get_be32(buf + DW_RECORD_CONTROL_BYTES);
    for (unsigned i = 0; i < rc->range_count; i++, p += 8) {
        struct dw_record_range *range = &rc->ranges[i];

        range->start = dw_get_be32(p);
        range->end = dw_get_be32(p + 4);
        if (range->start < floor || range->end <= range->start) {
            return -EPROTO;
        }
        floor = range->end;
    }
    return 0;
}

static int complete_get(struct dw_record_control *rc, const uint8_t *buf, size_t len)
{
    if (len > DW_RECORD_CONTROL_BYTES + DIWARP_RELEASE_MAX_BYTES) {
        return -EPROTO;
    }
    rc->release = buf + DW_RECORD_CONTROL_BYTES;
    rc->release_bytes = (uint32_t)(len - DW_RECORD_CONTROL_BYTES);
    return 0;
}

int dw_record_control_get(struct dw_record_control *rc, const uint8_t *buf, size_t len)
{
    if (len < DW_RECORD_CONTROL_BYTES) {
        return -EBADMSG;
    }
    rc->kind = buf[0];
    rc->status = buf[1];
    rc->range_count = dw_get_be16(buf + 2);
    rc->id = dw_get_be32(buf + 4);
    rc->stag = rc->length = rc->granted = rc->release_bytes = 0;
    rc->to = 0;
    rc->release = NULL;
    if (rc->status >= DW_STATUS_COUNT || (rc->range_count != 0 && rc->kind != DW_RECORD_STATUS)) {
        return -EPROTO;
    }
    switch (rc->kind) {
    case DW_RECORD_OPEN:
        return open_get(rc, buf, len);
    case DW_RECORD_STATUS:
        return status_get(rc, buf, len);
    case DW_RECORD_COMPLETE:
        return complete_get(rc, buf, len);
    case DW_RECORD_ABORT:
        return check_body(len, DW_RECORD_CONTROL_BYTES);
    default:
        return -EPROTO;
    }
}
