/* SPDX-License-Identifier: BSD-3-Clause */
/* Codec of DDP segment headers with the RDMAP control byte. Knows which opcode belongs to which
 * kind of segment and queue; nothing of STags, buffers or message order. */
#include "common/wire/ddp.h"

#include <assert.h>
#include <errno.h>

#include "common/wire/bytes.h"

#define DDP_TAGGED       0x80
#define DDP_LAST         0x40
#define DDP_RESERVED     0x3c
#define DDP_VERSION_MASK 0x03
#define DDP_VERSION      0x01

#define RDMAP_VERSION_MASK 0xc0
#define RDMAP_VERSION      0x40
#define RDMAP_RESERVED     0x30
#define RDMAP_OPCODE_MASK  0x0f

#define TAGGED_FIELDS(X)   X(32, 2, stag) X(64, 6, to)
#define UNTAGGED_FIELDS(X) X(32, 2, ulp) X(32, 6, qn) X(32, 10, msn) X(32, 14, mo)

struct opcode_rule {
    enum { UNASSIGNED, TAGGED, UNTAGGED } kind;
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
    [DW_RDMAP_SEND_SE_IMM] = {UNTAGGED, DW_QN_SEND, true},
};

size_t dw_ddp_put(uint8_t *buf, const struct dw_ddp_header *h)
{
    assert(h->opcode <= RDMAP_OPCODE_MASK);
    buf[0] = (uint8_t)((h->tagged ? DDP_TAGGED : 0) | (h->last ? DDP_LAST : 0) | DDP_VERSION);
    buf[1] = (uint8_t)(RDMAP_VERSION | (h->opcode & RDMAP_OPCODE_MASK));
    if (h->tagged) {
        TAGGED_FIELDS(DW_PUT_FIELD)
        return DW_DDP_TAGGED_BYTES;
    }
    UNTAGGED_FIELDS(DW_PUT_FIELD)
    return DW_DDP_UNTAGGED_BYTES;
}

/* Whatever it says; the length of the header, or -EBADMSG: short. */
static inline int parse(struct dw_ddp_header *h, const uint8_t *buf, size_t len)
{
    const bool tagged = len > 0 && (buf[0] & DDP_TAGGED);
    if (len < (tagged ? DW_DDP_TAGGED_BYTES : DW_DDP_UNTAGGED_BYTES))
        return -EBADMSG;
    *h = (struct dw_ddp_header){
        .tagged = tagged, .last = (buf[0] & DDP_LAST) != 0, .opcode = buf[1] & RDMAP_OPCODE_MASK};
    if (tagged) {
        TAGGED_FIELDS(DW_GET_FIELD)
        return DW_DDP_TAGGED_BYTES;
    }
    UNTAGGED_FIELDS(DW_GET_FIELD)
    return DW_DDP_UNTAGGED_BYTES;
}

int dw_ddp_get(struct dw_ddp_header *header, const uint8_t *buf, size_t len)
{
    const int bytes = parse(header, buf, len);
    if (bytes < 0)
        return bytes;
    const struct opcode_rule *rule = &rules[header->opcode];
    if ((buf[0] & (DDP_RESERVED | DDP_VERSION_MASK)) != DDP_VERSION ||
        (buf[1] & (RDMAP_VERSION_MASK | RDMAP_RESERVED)) != RDMAP_VERSION ||
        rule->kind != (header->tagged ? TAGGED : UNTAGGED))
        return -EPROTO;
    if (!header->tagged && (header->qn != rule->qn || (header->ulp && !rule->uses_ulp)))
        return -EPROTO;
    return bytes;
}

/* 0: nothing is wrong with it. DDP first, as its receiver does before it hands the segment up. */
static enum dw_terminate_cause check_stream(const struct dw_ddp_header *header, const uint8_t *buf)
{
    const struct opcode_rule *rule = &rules[header->opcode];
    if ((buf[0] & DDP_VERSION_MASK) != DDP_VERSION)
        return header->tagged ? DW_TERM_DDP_TAGGED_VERSION : DW_TERM_DDP_UNTAGGED_VERSION;
    if (header->qn > DW_QN_ATOMIC_RESPONSE)
        return DW_TERM_DDP_QN;
    if ((buf[1] & RDMAP_VERSION_MASK) != RDMAP_VERSION)
        return DW_TERM_RDMAP_VERSION;
    if (header->opcode == DW_RDMAP_WRITE_RECORD || header->qn != rule->qn ||
        rule->kind != (header->tagged ? TAGGED : UNTAGGED))
        return DW_TERM_RDMAP_OPCODE;
    return 0;
}

int dw_ddp_get_stream(struct dw_ddp_header *header, const uint8_t *buf, size_t len, uint16_t *cause)
{
    const int bytes = parse(header, buf, len);
    *cause = bytes < 0 ? DW_TERM_RDMAP_UNSPECIFIED : (uint16_t)check_stream(header, buf);
    if (bytes < 0 || *cause)
        return bytes < 0 ? bytes : -EPROTO;
    if (!rules[header->opcode].uses_ulp)
        header->ulp = 0;
    return bytes;
}
