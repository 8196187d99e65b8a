/* SPDX-License-Identifier: BSD-3-Clause */
/* DDP segment headers (RFC 5041 section 4) with the RDMAP control byte (RFC 5040 section 4.1). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DW_DDP_TAGGED_BYTES   14
#define DW_DDP_UNTAGGED_BYTES 18

/* RFC 5040 4.2, RFC 7306 4; the last four are ours, from the unassigned range. */
enum dw_rdmap_opcode {
    DW_RDMAP_WRITE = 0x0,
    DW_RDMAP_READ_REQUEST = 0x1,
    DW_RDMAP_READ_RESPONSE = 0x2,
    DW_RDMAP_SEND = 0x3,
    DW_RDMAP_SEND_INVALIDATE = 0x4,
    DW_RDMAP_SEND_SE = 0x5,
    DW_RDMAP_SEND_SE_INVALIDATE = 0x6,
    DW_RDMAP_TERMINATE = 0x7,
    DW_RDMAP_IMMEDIATE = 0x8,
    DW_RDMAP_IMMEDIATE_SE = 0x9,
    DW_RDMAP_ATOMIC_REQUEST = 0xA,
    DW_RDMAP_ATOMIC_RESPONSE = 0xB,
    DW_RDMAP_WRITE_RECORD = 0xC,   /* tagged, led by dw_write_record */
    DW_RDMAP_SEND_IMM = 0xD,       /* Send whose ulp field holds 32-bit immediate data */
    DW_RDMAP_RECORD_CONTROL = 0xE, /* untagged, queue 4: open, status, complete, abort */
    DW_RDMAP_SEND_SE_IMM = 0xF,    /* SEND_IMM with Solicited Event */
};

static inline bool dw_rdmap_has_immediate(uint8_t opcode)
{
    return opcode == DW_RDMAP_SEND_IMM || opcode == DW_RDMAP_SEND_SE_IMM;
}

static inline bool dw_rdmap_invalidates(uint8_t opcode)
{
    return opcode == DW_RDMAP_SEND_INVALIDATE || opcode == DW_RDMAP_SEND_SE_INVALIDATE;
}

/* The Sends that UD takes: none invalidates. */
static inline bool dw_rdmap_is_send(uint8_t opcode)
{
    return opcode == DW_RDMAP_SEND || opcode == DW_RDMAP_SEND_SE || dw_rdmap_has_immediate(opcode);
}

static inline bool dw_rdmap_is_immediate(uint8_t opcode)
{
    return opcode == DW_RDMAP_IMMEDIATE || opcode == DW_RDMAP_IMMEDIATE_SE;
}

/* Takes a receive. */
static inline bool dw_rdmap_takes_receive(uint8_t opcode)
{
    return dw_rdmap_is_send(opcode) || dw_rdmap_invalidates(opcode) ||
           dw_rdmap_is_immediate(opcode);
}

/* Asks for an event at the other side (RFC 5040 5.3). */
static inline bool dw_rdmap_is_solicited(uint8_t opcode)
{
    return opcode == DW_RDMAP_SEND_SE || opcode == DW_RDMAP_SEND_SE_INVALIDATE ||
           opcode == DW_RDMAP_SEND_SE_IMM || opcode == DW_RDMAP_IMMEDIATE_SE;
}

/* Untagged queues: RFC 5040 4.2, RFC 7306 (3), ours (4). */
enum dw_ddp_queue {
    DW_QN_SEND = 0,
    DW_QN_REQUEST = 1, /* RDMA Read Request, Atomic Request */
    DW_QN_TERMINATE = 2,
    DW_QN_ATOMIC_RESPONSE = 3,
    DW_QN_RECORD = 4,
    DW_QN_COUNT
};

/*
 * Tagged (14 bytes):                       Untagged (18 bytes):
 *   byte 0: T=1 L rsvd(4) DV=01              byte 0: T=0 L rsvd(4) DV=01
 *   byte 1: RV=01 rsvd(2) opcode(4)          byte 1: RV=01 rsvd(2) opcode(4)
 *   2-5   : STag                             2-5   : ulp (Invalidate STag, or immediate data)
 *   6-13  : TO                               6-9   : QN, 10-13: MSN, 14-17: MO
 */
struct dw_ddp_header {
    bool tagged;
    bool last;
    uint8_t opcode;
    uint32_t stag; /* tagged */
    uint64_t to;
    uint32_t ulp; /* untagged */
    uint32_t qn, msn, mo;
};

/* Writes DW_DDP_TAGGED_BYTES or DW_DDP_UNTAGGED_BYTES; returns which. */
size_t dw_ddp_put(uint8_t *buf, const struct dw_ddp_header *header);

/* Of a segment of len bytes; returns its length, -EBADMSG (short) or -EPROTO (version, reserved
 * bits, an opcode that is not of that kind or queue). */
int dw_ddp_get(struct dw_ddp_header *header, const uint8_t *buf, size_t len);

/* The same for an RC stream, which may be another stack's: reserved bits are not looked at (ulp is
 * 0 where it is one of them), and of the opcodes that are ours only Sends with immediate data are
 * taken. In an error `cause` says with which cause to terminate. */
int dw_ddp_get_stream(struct dw_ddp_header *header, const uint8_t *buf, size_t len,
                      uint16_t *cause);

/* Why a stream ends: the error codes of RDMAP (RFC 5040 4.8), DDP (RFC 5041 8), and MPA (RFC 5044
 * 8, RFC 6581 9). */
enum dw_terminate_layer { DW_LAYER_RDMAP = 0, DW_LAYER_DDP = 1, DW_LAYER_LLP = 2 };

/* Layer << 12 | error type << 8 | error code; those that are sent, or told apart. */
enum dw_terminate_cause {
    DW_TERM_RDMAP_CATASTROPHIC = 0x0000,       /* local catastrophic error */
    DW_TERM_RDMAP_STAG = 0x0100,               /* invalid STag */
    DW_TERM_RDMAP_BOUNDS = 0x0101,             /* base or bounds violation */
    DW_TERM_RDMAP_RIGHTS = 0x0102,             /* access rights violation */
    DW_TERM_RDMAP_TO_WRAP = 0x0104,            /* TO wraps */
    DW_TERM_RDMAP_PROTECT_INVALIDATE = 0x0109, /* STag cannot be invalidated */
    DW_TERM_RDMAP_VERSION = 0x0205,            /* invalid RDMAP version */
    DW_TERM_RDMAP_OPCODE = 0x0206,             /* unexpected opcode */
    DW_TERM_RDMAP_UNSPECIFIED = 0x02ff,        /* remote operation error */
    DW_TERM_DDP_CATASTROPHIC = 0x1000,         /* local catastrophic error */
    DW_TERM_DDP_STAG = 0x1100,                 /* invalid STag */
    DW_TERM_DDP_BOUNDS = 0x1101,               /* base or bounds violation */
    DW_TERM_DDP_TO_WRAP = 0x1103,              /* TO wraps */
    DW_TERM_DDP_TAGGED_VERSION = 0x1104,       /* invalid DDP version, tagged */
    DW_TERM_DDP_QN = 0x1201,                   /* invalid QN */
    DW_TERM_DDP_NO_BUFFER = 0x1202,            /* invalid MSN, no buffer available */
    DW_TERM_DDP_MSN = 0x1203,                  /* invalid MSN, range is not valid */
    DW_TERM_DDP_MO = 0x1204,                   /* invalid MO */
    DW_TERM_DDP_TOO_LONG = 0x1205,             /* message too long for the buffer */
    DW_TERM_DDP_UNTAGGED_VERSION = 0x1206,     /* invalid DDP version, untagged */
    DW_TERM_MPA_TCP_LOST = 0x2001,             /* TCP connection closed, terminated, or lost */
    DW_TERM_MPA_CRC = 0x2002,                  /* CRC of an FPDU wrong */
    DW_TERM_MPA_MARKER = 0x2003,               /* marker and ULPDU length disagree */
    DW_TERM_MPA_STARTUP = 0x2004,              /* invalid request or reply frame */
    DW_TERM_MPA_CATASTROPHIC = 0x2005,         /* local catastrophic error */
    DW_TERM_MPA_IRD = 0x2006,                  /* insufficient IRD resources */
    DW_TERM_MPA_RTR = 0x2007,                  /* no matching RTR option */
};
