/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codec of DDP segment headers with the RDMAP control byte. Knows which opcode belongs to which
 * kind of segment and queue; nothing of STags, buffers or message order.
 */
#include "common/wire/ddp.h"

#include <assert.h>
#include <errno.h>

#include "common/wire/bytes.h"
#include "common/wire/terminate_cause.h"

#define DDP_TAGGED       0x80
#define DDP_LAST         0x40
#define DDP_RESERVED     0x3c
#define DDP_VERSION_MASK 0x03
#define DDP_VERSION      0x01

#define RDMAP_VERSION_MASK 0xc0
#define RDMAP_VERSION      0x40
#define RDMAP_RESERVED     0x30
#define RDMAP_OPCODE_MASK  0x0f

enum segment_kind { UNASSIGNED = 0, TAGGED, UNTAGGED };

struct opcode_rule {
    uint8_t kind;
    uint8_t qn;    /* UNTAGGED: the one queue it may use */
    bool uses_ulp; /* UNTAGGED: the ulp field means something; otherwise it is reserved, 0 */
};

static const struct opcode_rule rules[RDMAP_OPCODE_MASK + 1] = {
    [DW_RDMAP_WRITE] = {TAGGED, 0, false},
    [DW_RDMAP_READ_REQUEST] = {UNTAGGED, DW_QN_REQUEST, false},
    [DW_RDMAP_READ_RESPONSE] = {TAGGED, 0, false},
    [DW_RDMAP_SEND] = {UNTAGGED, DW_QN_SEND, false},
    [DW_RDMAP_SEND_INVALIDATE] = {UNTAGGED, DW_QN_SEND, true},
    [DW_RDMAP_SEND_SE] = {UNTAGGED, DW_QN_SEND, false},
    [DW_RDMAP_SEND_SE_INVALIDATE] = {UNTAGGED, DW_QN_SEND, true},
    [DW_RDMAP_TERMINATE] = {UNTAGGED, DW_QN_TERMINATE, false},
    [DW_RDMAP_IMMEDIATE] = {UNTAGGED, DW_QN_SEND, false},
    [DW_RDMAP_IMMEDIATE_SE] = {UNTAGGED, DW_QN_SEND, false},
    [DW_RDMAP_ATOMIC_REQUEST] = {UNTAGGED, DW_QN_REQUEST, false},
    [DW_RDMAP_ATOMIC_RESPONSE] = {UNTAGGED, DW_QN_ATOMIC_RESPONSE, false},
    [DW_RDMAP_WRITE_RECORD] = {TAGGED, 0, false},
    [DW_RDMAP_SEND_IMM] = {UNTAGGED, DW_QN_SEND, true},
    [DW_RDMAP_RECORD_CONTROL] = {UNTAGGED, DW_QN_RECORD, false},
};

size_t dw_ddp_put(uint8_t *buf, const struct dw_ddp_header *header)
{
    assert(header->opcode <= RDMAP_OPCODE_MASK);
    buf[0] =
        (uint8_t)((header->tagged ? DDP_TAGGED : 0) | (header->last ? DDP_LAST : 0) | DDP_VERSION);
    buf[1] = (uint8_t)(RDMAP_VERSION | (header->opcode & RDMAP_OPCODE_MASK));
    if (header->tagged) {
        dw_put_be32(buf + 2, header->stag);
        dw_put_be64(buf + 6, header->to);
        return DW_DDP_TAGGED_BYTES;
    }
    dw_put_be32(buf + 2, header->ulp);
    dw_put_be32(buf + 6, header->qn);
    dw_put_be32(buf + 10, header->msn);
    dw_put_be32(buf + 14, header->mo);
    return DW_DDP_UNTAGGED_BYTES;
}

static int get_tagged(struct dw_ddp_header *header, const uint8_t *buf, size_t len)
{
    if (len < DW_DDP_TAGGED_BYTES) {
        return -EBADMSG;
    }
    header->stag = dw_get_be32(buf + 2);
    header->to = dw_get_be64(buf + 6);
    return DW_DDP_TAGGED_BYTES;
}

static int get_untagged(struct dw_ddp_header *header, const uint8_t *buf, size_t len)
{
    const struct opcode_rule *rule = &rules[header->opcode];

    if (len < DW_DDP_UNTAGGED_BYTES) {
        return -EBADMSG;
    }
    header->ulp = dw_get_be32(buf + 2);
    header->qn = dw_get_be32(buf + 6);
    header->msn = dw_get_be32(buf + 10);
    header->mo = dw_get_be32(buf + 14);
    if (header->qn != rule->qn || (header->ulp != 0 && !rule->uses_ulp)) {
        return -EPROTO;
    }
    return DW_DDP_UNTAGGED_BYTES;
}

int dw_ddp_get(struct dw_ddp_header *header, const uint8_t *buf, size_t len)
{
    if (len < 2) {
        return -EBADMSG;
    }
    if ((buf[0] & (DDP_RESERVED | DDP_VERSION_MASK)) != DDP_VERSION ||
        (buf[1] & (RDMAP_VERSION_MASK | RDMAP_RESERVED)) != RDMAP_VERSION) {
        return -EPROTO;
    }
    *header = (struct dw_ddp_header){
        .tagged = (buf[0] & DDP_TAGGED) != 0,
        .last = (buf[0] & DDP_LAST) != 0,
        .opcode = buf[1] & RDMAP_OPCODE_MASK,
    };
    if (rules[header->opcode].kind != (header->tagged ? TAGGED : UNTAGGED)) {
        return -EPROTO;
    }
    return header->tagged ? get_tagged(header, buf, len) : get_untagged(header, buf, len);
}

/* Verdict and cause in one, so that each check is one line. */
static int refuse(uint16_t *cause, enum dw_terminate_cause why)
{
    *cause = (uint16_t)why;
    return -EPROTO;
}

static int get_stream_untagged(struct dw_ddp_header *header, const uint8_t *buf, uint16_t *cause)
{
    const struct opcode_rule *rule = &rules[header->opcode];

    if (rule->qn != header->qn) {
        return refuse(cause, DW_TERM_RDMAP_OPCODE);
    }
    header->ulp = rule->uses_ulp ? dw_get_be32(buf + 2) : 0;
    header->msn = dw_get_be32(buf + 10);
    header->mo = dw_get_be32(buf + 14);
    return DW_DDP_UNTAGGED_BYTES;
}

int dw_ddp_get_stream(struct dw_ddp_header *header, const uint8_t *buf, size_t len, uint16_t *cause)
{
    bool tagged = len > 0 && (buf[0] & DDP_TAGGED);

    if (len < (tagged ? DW_DDP_TAGGED_BYTES : DW_DDP_UNTAGGED_BYTES)) {
        *cause = DW_TERM_RDMAP_UNSPECIFIED;
        return -EBADMSG;
    }
    *header = (struct dw_ddp_header){
        .tagged = tagged,
        .last = (buf[0] & DDP_LAST) != 0,
        .opcode = buf[1] & RDMAP_OPCODE_MASK,
        .qn = tagged ? 0 : dw_get_be32(buf + 6),
    };
    /* DDP first, as its receiver does before it hands the segment up. */
    if ((buf[0] & DDP_VERSION_MASK) != DDP_VERSION) {
        return refuse(cause, tagged ? DW_TERM_DDP_TAGGED_VERSION : DW_TERM_DDP_UNTAGGED_VERSION);
    }
    if (header->qn > DW_QN_TERMINATE) {
        return refuse(cause, DW_TERM_DDP_QN);
    }
    if ((buf[1] & RDMAP_VERSION_MASK) != RDMAP_VERSION) {
        return refuse(cause, DW_TERM_RDMAP_VERSION);
    }
    if (header->opcode > DW_RDMAP_TERMINATE ||
        rules[header->opcode].kind != (tagged ? TAGGED : UNTAGGED)) {
        return refuse(cause, DW_TERM_RDMAP_OPCODE);
    }
    return tagged ? get_tagged(header, buf, len) : get_stream_untagged(header, buf, cause);
}
