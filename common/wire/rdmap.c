/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs of the RDMAP payloads that carry control: Write-Record, Read Request, atomics, record
 * control. Checks that a field lies in its domain; whether a record, STag or right exists is judged
 * by the caller. */
#include "common/wire/rdmap.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/include/diwarp.h"
#include "common/wire/bytes.h"

#define WRITE_RECORD(X) X(32, 0, id) X(32, 4, offset) X(32, 8, total)
#define READ_REQUEST_STREAM(X) \
    X(32, 0, sink_stag)        \
    X(64, 4, sink_to) X(32, 12, size) X(32, 16, source_stag) X(64, 20, source_to)
#define READ_REQUEST(X) READ_REQUEST_STREAM(X) X(32, 28, record_id) X(32, 32, granted)
#define ATOMIC_REQUEST(X) \
    X(32, 4, request_id)  \
    X(32, 8, stag)        \
    X(64, 12, to)         \
    X(64, 20, add_swap) X(64, 28, add_swap_mask) X(64, 36, compare) X(64, 44, compare_mask)
#define ATOMIC_RESPONSE_STREAM(X) X(32, 0, request_id) X(64, 4, original)
#define ATOMIC_RESPONSE(X)        ATOMIC_RESPONSE_STREAM(X) X(32, 12, status)
#define RECORD_CONTROL(X)         X(16, 2, range_count) X(32, 4, id)
#define RECORD_OPEN(X)            X(32, 8, stag) X(64, 12, to) X(32, 20, length)

void dw_write_record_put(uint8_t *buf, const struct dw_write_record *h)
{
    WRITE_RECORD(DW_PUT_FIELD)
}

int dw_write_record_get(struct dw_write_record *h, const uint8_t *buf, size_t len)
{
    if (len < DW_WRITE_RECORD_BYTES)
        return -EBADMSG;
    WRITE_RECORD(DW_GET_FIELD)
    return h->offset > h->total ? -EPROTO : 0;
}

/* The bodies are read whole: bytes left over are as wrong as bytes that are missing. */
static int check_length(size_t len, size_t expected)
{
    return len < expected ? -EBADMSG : len > expected ? -EPROTO : 0;
}

void dw_read_request_put_stream(uint8_t *buf, const struct dw_read_request *h)
{
    READ_REQUEST_STREAM(DW_PUT_FIELD)
}

int dw_read_request_get_stream(struct dw_read_request *h, const uint8_t *buf, size_t len)
{
    int verdict = check_length(len, DW_READ_REQUEST_STREAM_BYTES);
    if (verdict)
        return verdict;
    READ_REQUEST_STREAM(DW_GET_FIELD)
    h->record_id = h->granted = 0;
    return 0;
}

void dw_read_request_put(uint8_t *buf, const struct dw_read_request *h)
{
    READ_REQUEST(DW_PUT_FIELD)
}

int dw_read_request_get(struct dw_read_request *h, const uint8_t *buf, size_t len)
{
    if (len < DW_READ_REQUEST_BYTES)
        return -EBADMSG;
    READ_REQUEST(DW_GET_FIELD)
    /* The sink asks, so the id is the sink's. */
    return h->record_id & DW_RECORD_ID_FROM_SOURCE ? -EPROTO : 0;
}

void dw_atomic_request_put(uint8_t *buf, const struct dw_atomic_request *h)
{
    assert(h->opcode == DW_ATOMIC_FETCH_ADD || h->opcode == DW_ATOMIC_CMP_SWAP);
    dw_put_be32(buf, h->opcode);
    ATOMIC_REQUEST(DW_PUT_FIELD)
}

int dw_atomic_request_get(struct dw_atomic_request *h, const uint8_t *buf, size_t len)
{
    if (len < DW_ATOMIC_REQUEST_BYTES)
        return -EBADMSG;
    const uint32_t opcode = dw_get_be32(buf); /* the 28 reserved bits included, which must be 0 */
    if (opcode != DW_ATOMIC_FETCH_ADD && opcode != DW_ATOMIC_CMP_SWAP)
        return -EPROTO;
    h->opcode = (uint8_t)opcode;
    ATOMIC_REQUEST(DW_GET_FIELD)
    return 0;
}

void dw_atomic_response_put(uint8_t *buf, const struct dw_atomic_response *h)
{
    assert(h->status < DW_STATUS_COUNT);
    ATOMIC_RESPONSE(DW_PUT_FIELD)
}

int dw_atomic_response_get(struct dw_atomic_response *h, const uint8_t *buf, size_t len)
{
    if (len < DW_ATOMIC_RESPONSE_BYTES)
        return -EBADMSG;
    ATOMIC_RESPONSE(DW_GET_FIELD)
    return h->status < DW_STATUS_COUNT ? 0 : -EPROTO;
}

void dw_atomic_response_put_stream(uint8_t *buf, const struct dw_atomic_response *h)
{
    ATOMIC_RESPONSE_STREAM(DW_PUT_FIELD)
}

int dw_atomic_response_get_stream(struct dw_atomic_response *h, const uint8_t *buf, size_t len)
{
    if (len != DW_ATOMIC_RESPONSE_STREAM_BYTES)
        return len < DW_ATOMIC_RESPONSE_STREAM_BYTES ? -EBADMSG : -EPROTO;
    ATOMIC_RESPONSE_STREAM(DW_GET_FIELD)
    h->status = DW_STATUS_OK;
    return 0;
}

size_t dw_record_control_put(uint8_t *buf, const struct dw_record_control *h)
{
    uint8_t *body = buf + DW_RECORD_CONTROL_BYTES;
    assert(h->status < DW_STATUS_COUNT);
    assert(h->range_count == 0 || h->kind == DW_RECORD_STATUS);
    buf[0] = h->kind;
    buf[1] = h->status;
    RECORD_CONTROL(DW_PUT_FIELD)
    switch (h->kind) {
    case DW_RECORD_OPEN:
        RECORD_OPEN(DW_PUT_FIELD)
        return DW_RECORD_OPEN_BYTES;
    case DW_RECORD_STATUS:
        assert(h->range_count <= DW_RECORD_MAX_RANGES);
        dw_put_be32(body, h->granted);
        for (unsigned i = 0; i < h->range_count; i++) {
            dw_put_be32(body + 4 + 8 * i, h->ranges[i].start);
            dw_put_be32(body + 8 + 8 * i, h->ranges[i].end);
        }
        return DW_RECORD_STATUS_BYTES(h->range_count);
    case DW_RECORD_COMPLETE:
        assert(h->release_bytes <= DIWARP_RELEASE_MAX_BYTES);
        if (h->release_bytes > 0)
            memcpy(body, h->release, h->release_bytes);
        return DW_RECORD_CONTROL_BYTES + h->release_bytes;
    default:
        assert(h->kind == DW_RECORD_ABORT);
        return DW_RECORD_CONTROL_BYTES;
    }
}

static int get_status(struct dw_record_control *h, const uint8_t *buf, size_t len)
{
    const uint8_t *p = buf + DW_RECORD_CONTROL_BYTES + 4;
    uint32_t floor = 0;
    int verdict = h->range_count > DW_RECORD_MAX_RANGES
                      ? -EPROTO
                      : check_length(len, DW_RECORD_STATUS_BYTES(h->range_count));
    if (verdict)
        return verdict;
    h->granted = dw_get_be32(buf + DW_RECORD_CONTROL_BYTES);
    for (unsigned i = 0; i < h->range_count; i++, p += 8) {
        const struct dw_range range = {dw_get_be32(p), dw_get_be32(p + 4)};
        if (range.start < floor || range.end <= range.start)
            return -EPROTO;
        h->ranges[i] = range;
        floor = range.end;
    }
    return 0;
}

int dw_record_control_get(struct dw_record_control *h, const uint8_t *buf, size_t len)
{
    if (len < DW_RECORD_CONTROL_BYTES)
        return -EBADMSG;
    h->kind = buf[0];
    h->status = buf[1];
    RECORD_CONTROL(DW_GET_FIELD)
    h->stag = h->length = h->granted = h->release_bytes = 0;
    h->to = 0;
    h->release = NULL;
    if (h->status >= DW_STATUS_COUNT || (h->range_count != 0 && h->kind != DW_RECORD_STATUS))
        return -EPROTO;
    switch (h->kind) {
    case DW_RECORD_OPEN:
        if (len != DW_RECORD_OPEN_BYTES)
            return check_length(len, DW_RECORD_OPEN_BYTES);
        RECORD_OPEN(DW_GET_FIELD)
        /* The source asks, so the id is the source's. */
        return h->id & DW_RECORD_ID_FROM_SOURCE ? 0 : -EPROTO;
    case DW_RECORD_STATUS:
        return get_status(h, buf, len);
    case DW_RECORD_COMPLETE:
        h->release = buf + DW_RECORD_CONTROL_BYTES;
        h->release_bytes = (uint32_t)(len - DW_RECORD_CONTROL_BYTES);
        return h->release_bytes > DIWARP_RELEASE_MAX_BYTES ? -EPROTO : 0;
    case DW_RECORD_ABORT:
        return check_length(len, DW_RECORD_CONTROL_BYTES);
    default:
        return -EPROTO;
    }
}

/* ---- Terminate ---- */

size_t dw_terminate_put(uint8_t *buf, uint16_t cause, const uint8_t *segment, size_t len)
{
    const unsigned layer = cause >> 12, type = (cause >> 8) & 0xf;
    const bool tagged = len && segment[0] & 0x80; /* T */
    size_t headers = tagged ? DW_DDP_TAGGED_BYTES : DW_DDP_UNTAGGED_BYTES;
    dw_put_be32(buf, (uint32_t)cause << 16);
    if (layer >= DW_LAYER_LLP || type == 0 || len < headers)
        return DW_TERMINATE_BYTES;
    buf[2] = DW_TERMINATE_LENGTH | DW_TERMINATE_DDP;
    /* A Read Request, with all of its message. */
    if (layer == DW_LAYER_RDMAP && !tagged && (segment[1] & 0x0f) == DW_RDMAP_READ_REQUEST &&
        len >= headers + DW_READ_REQUEST_STREAM_BYTES) {
        buf[2] |= DW_TERMINATE_RDMAP;
        headers += DW_READ_REQUEST_STREAM_BYTES;
    }
    dw_put_be16(buf + DW_TERMINATE_BYTES, (uint16_t)len);
    memcpy(buf + DW_TERMINATE_BYTES + 2, segment, headers);
    return DW_TERMINATE_BYTES + 2 + headers;
}
