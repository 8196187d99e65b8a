/* SPDX-License-Identifier: BSD-3-Clause */
/* The LLP header that leads each datagram, the intro block, the CRC trailer. See WIRE.md. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DW_WIRE_VERSION 2

/* 4 more than a multiple of 8: payload, behind the 20 or 28 bytes that lead a segment, is aligned.
 */
#define DW_LLP_HEADER_BYTES  60
#define DW_LLP_TOKEN_AT      8
#define DW_INTRO_BYTES       32
#define DW_CRC_BYTES         4
#define DW_TAG_BYTES         16 /* instead, with SEALED */
#define DW_RESET_BYTES       16
#define DW_PROOF_BYTES       8
#define DW_SEGMENT_LEN_BYTES 2
#define DW_QPN_MAX           0xffffffu
/* As a destination: all queue pairs that are attached to the group (InfiniBand 9.6.1.1.3); of none.
 */
#define DW_QPN_GROUP       DW_QPN_MAX
#define DW_TIMESTAMP_SHIFT 10 /* of nanoseconds */

/* Of an interface that peers are told of: what every IPv4 host takes (RFC 791 section 3.1). */
#define DW_MTU_MIN_BYTES 576u

enum dw_llp_type {
    DW_LLP_UD = 0,          /* unreliable: psn is a Q_Key; ack, sack, credit, REFUSING are 0 */
    DW_LLP_DATA = 1,        /* RD, takes a PSN */
    DW_LLP_RECORD = 2,      /* RD, no PSN: segments that a validity map or a timer covers */
    DW_LLP_ACK = 3,         /* RD, no segments */
    DW_LLP_PROBE = 4,       /* RD, no segments: psn is a serial number to be echoed */
    DW_LLP_PROBE_REPLY = 5, /* RD, no segments: psn echoes the probe's */
    DW_LLP_RESET = 6,       /* RD, no segments: the number of what it answers (64), a cookie (64) */
    DW_LLP_PROOF = 7,       /* RD, no segments: the cookie (64) */
    DW_LLP_TYPES
};

enum {
    DW_LLP_ACK_REQUEST = 0x01, /* acknowledge at once */
    DW_LLP_INTRO = 0x02,       /* an intro block follows the header */
    DW_LLP_NO_CRC = 0x04,      /* the trailer is 0 and not checked */
    DW_LLP_REFUSING = 0x08,    /* RD: an ABORT of a small write has not been acknowledged */
    DW_LLP_GOES_ON = 0x10,     /* with INTRO: the source has spoken with the destination before */
    DW_LLP_SOURCE_KEY = 0x20,  /* with SEALED: by the secret of the source */
    DW_LLP_SEALED = 0x40,      /* the trailer is a tag */
    DW_LLP_FLAGS = 0x7f        /* every defined bit; others are malformed */
};

/* A queue pair of ours, and the one of the peer's process that it speaks with. */
struct dw_qpns {
    uint32_t here, there;
};

/*
 *  0                   1                   2                   3
 *  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
 * +-------+-------+---------------+-------------------------------+
 * |version| type  |     flags     |        credit (KiB)           |
 * +-------+-------+---------------+-------------------------------+
 * |                    incarnation of the source                  |
 * +---------------------------------------------------------------+
 * |                 token of the destination (64)                 |
 * |                                                               |
 * +---------------------------------------------------------------+
 * |                          source job                           |
 * +---------------------------------------------------------------+
 * |                          source rank                          |
 * +---------------------------------------------------------------+
 * |                   number of the datagram (64)                 |
 * |                                                               |
 * +---------------+-----------------------------------------------+
 * |     path      |              destination QPN                  |
 * +---------------+-----------------------------------------------+
 * |   ECN echo    |                source QPN                     |
 * +---------------+-----------------------------------------------+
 * |                              PSN                              |
 * +---------------------------------------------------------------+
 * |                 ack: next PSN expected in order               |
 * +---------------------------------------------------------------+
 * |        SACK (64): bit i, PSN ack + 1 + i has arrived          |
 * |                                                               |
 * +-------------------------------+-------------------------------+
 * |           timestamp           |        timestamp echo         |
 * +-------------------------------+-------------------------------+
 */
struct dw_llp_header {
    uint8_t type; /* enum dw_llp_type */
    uint8_t flags;
    uint16_t credit_kib; /* unacknowledged truesize the destination may have on its way to us */
    uint32_t incarnation;
    uint64_t token;
    uint32_t job, rank;
    uint64_t number;           /* counts datagrams to this peer, resent ones anew */
    uint8_t path;              /* 0: the only one */
    uint8_t ecn_echo;          /* datagrams of the destination that came CE-marked, modulo 256 */
    uint32_t dst_qpn, src_qpn; /* up to DW_QPN_MAX; 0 where there are no segments */
    uint32_t psn;
    uint32_t ack;
    uint64_t sack;
    uint16_t timestamp;      /* of the source, in units of 1024 ns */
    uint16_t timestamp_echo; /* that of the destination's datagram that came last; 0: none */
};

/* Tells a peer that has not been given our address how to answer: until it has acknowledged us. */
struct dw_intro {
    uint64_t token; /* ours */
    uint8_t family; /* AF_INET or AF_INET6, as 4 or 6 on the wire */
    uint8_t flow;   /* by which the datagram left, to be answered by: less than DIWARP_MAX_FLOWS */
    uint16_t port;
    uint16_t mtu_bytes; /* of our interface, or less for a small buffer; saturates at 65535 */
    uint8_t ip[16];     /* IPv4: first 4 bytes, the rest 0 */
};

/* Exactly DW_LLP_HEADER_BYTES. get, of a datagram of len bytes: -EBADMSG: shorter than header and
 * trailer; -EPROTONOSUPPORT: another version; -EPROTO: unknown type or flag, or a field or flag
 * that its type does not have is not 0. */
void dw_llp_header_put(uint8_t *buf, const struct dw_llp_header *header);
int dw_llp_header_get(struct dw_llp_header *header, const uint8_t *buf, size_t len);

/* Exactly DW_INTRO_BYTES. get: -EBADMSG (short), -EPROTO (unknown family or flow, port 0, a
 * small MTU, unused bytes that are not 0). */
void dw_intro_put(uint8_t *buf, const struct dw_intro *intro);
int dw_intro_get(struct dw_intro *intro, const uint8_t *buf, size_t len);

/* Zeros between what is in a datagram, up to `at`, and its next segment: each begins 8-byte aligned
 * with the first one. None follow the last. */
static inline uint32_t dw_segment_padding(uint32_t at)
{
    return (DW_LLP_HEADER_BYTES - at) % 8;
}
