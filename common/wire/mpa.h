/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA: request and reply frames (RFC 5044 7.1, RFC 6581), and FPDUs with or without markers (RFC
 * 5044 4). No sockets: bytes come and go in the caller's buffers.
 *
 * Verdicts of get functions on a peer's bytes: -EAGAIN, these are the beginning of a good one, more
 * are needed; -EBADMSG, -EPROTO, -EPROTONOSUPPORT, as said there: the stream is dead. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/include/diwarp.h"

/* ---- request and reply frames ---- */

#define DW_MPA_FRAME_BYTES       20 /* without private data */
#define DW_MPA_PRIVATE_MAX_BYTES 512
#define DW_MPA_ENHANCED_BYTES    4      /* what leads the private data of a frame with S */
#define DW_MPA_DEPTH_MAX         0x3fff /* as IRD or ORD: not negotiated here, the ULPs agree */

enum {
    DW_MPA_MARKERS = 0x80,  /* M: send markers to me */
    DW_MPA_CRC = 0x40,      /* C: CRC in both directions, when either frame has it */
    DW_MPA_REJECT = 0x20,   /* R: reply only */
    DW_MPA_ENHANCED = 0x10, /* S: revision 2 only */
    DW_MPA_FLAGS = 0xf0
};

enum {
    DW_MPA_PEER_TO_PEER = 8, /* A: the initiator sends a ready-to-receive indication (RTR) first */
    DW_MPA_RTR_EMPTY = 4,    /* B: RTR as an FPDU of length 0 */
    DW_MPA_RTR_WRITE = 2,    /* C: RTR as RDMA Write of length 0 */
    DW_MPA_RTR_READ = 1      /* D: RTR as RDMA Read of length 0 */
};

enum dw_mpa_kind { DW_MPA_REQUEST, DW_MPA_REPLY };

/* Key (16 bytes: "MPA ID Req Frame" or "MPA ID Rep Frame"), flags M C R S and 4 reserved bits,
 * revision 8, private data length 16; private data, which with S (RFC 6581 9) begins with A B
 * IRD(14) C D ORD(14). */
struct dw_mpa_frame {
    enum dw_mpa_kind kind;
    uint8_t flags;
    uint8_t revision;            /* 1 or 2 */
    uint8_t control;             /* with S: A B C D */
    uint16_t ird, ord;           /* with S: of the sender; <= DW_MPA_DEPTH_MAX */
    size_t private_bytes;        /* those of S not counted */
    const uint8_t *private_data; /* get: into the buffer that was read */
};

/* Returns the bytes written, DW_MPA_FRAME_BYTES + DW_MPA_PRIVATE_MAX_BYTES at most. */
size_t dw_mpa_frame_put(uint8_t *buf, const struct dw_mpa_frame *frame);

/* Reads a frame of that kind from the first len bytes of a stream; returns its length. -EBADMSG:
 * another key, which its first bytes tell; -EPROTO: private data too long, or too short for S;
 * -EPROTONOSUPPORT: revision. Flags that are reserved in that kind and revision (R of a request, S
 * of revision 1) are cleared. */
int dw_mpa_frame_get(struct dw_mpa_frame *frame, enum dw_mpa_kind kind, const uint8_t *buf,
                     size_t len);

/* ---- FPDUs ---- */

#define DW_MPA_LENGTH_BYTES    2
#define DW_MPA_CRC_BYTES       4
#define DW_MPA_MARKER_BYTES    4
#define DW_MPA_MARKER_INTERVAL 512
#define DW_MPA_ULPDU_MAX_BYTES 65535
/* Of the FPDU of a ULPDU of n bytes, with length, pad and CRC, markers not counted. */
#define DW_MPA_FPDU_BYTES(n) (((size_t)(n) + DW_MPA_LENGTH_BYTES + 3) / 4 * 4 + DW_MPA_CRC_BYTES)

/* One direction of a connection; begins with the first byte behind the request or reply frame. */
struct dw_mpa_stream {
    bool markers; /* the receiver asked for them */
    bool crc;     /* otherwise the field is sent as 0 and not looked at */
    uint64_t at;  /* position of the next FPDU: bytes before it, markers counted */
};

/* The largest ULPDU whose FPDU fits into one TCP segment of emss bytes, wherever the markers fall,
 * or 128, which RFC 5044 5.1 asks for at least. */
#define DW_MPA_MULPDU_MIN_BYTES 128
size_t dw_mpa_mulpdu(size_t emss, bool markers);

/* Of the FPDU of a ULPDU of that size if it is next, markers counted. */
size_t dw_mpa_fpdu_bytes(const struct dw_mpa_stream *stream, size_t ulpdu_bytes);

/* FPDUs as a list of pieces for sendmsg: the payload stays where it is; what framing adds is
 * written to `room` and must stay there, with the payload, until TCP has taken it. Adjacent pieces
 * become one. The caller sets it up; the counts grow. */
struct dw_mpa_gather {
    struct iovec *pieces;
    size_t count, max;
    uint8_t *room;
    size_t room_used, room_bytes;
    size_t bytes; /* of all pieces */
};

/* Appends the FPDU of the ULPDU that `ulpdu` lists, of DW_MPA_ULPDU_MAX_BYTES or, with markers,
 * dw_mpa_mulpdu() of 65535 at most, and moves the stream on. The first `copied` of its pieces are
 * copied to room in one pass with their CRC. -ENOSPC: pieces or room may not suffice, nothing has
 * changed. */
int dw_mpa_gather_fpdu(struct dw_mpa_stream *tx, struct dw_mpa_gather *gather,
                       const struct iovec *ulpdu, size_t pieces, size_t copied);

/* Which FPDU begins a stream's bytes. */
struct dw_mpa_fpdu {
    size_t bytes;       /* on the wire; 0 while that is not known */
    uint8_t *ulpdu;     /* contiguous, in the buffer that was read */
    size_t ulpdu_bytes; /* may be 0 */
};

/* Reads the FPDU that begins at buf, moves its ULPDU together over the markers, and the stream on.
 * -EAGAIN: not whole yet, `bytes` is set if known; -EBADMSG: CRC wrong; -EPROTO: a marker does not
 * point to this FPDU's length (RFC 5044 8, code 3). In an error the bytes are as they were. */
int dw_mpa_fpdu_get(struct dw_mpa_stream *rx, struct dw_mpa_fpdu *fpdu, uint8_t *buf, size_t len);

/* ---- what leads our private data: who calls, and that it may ---- */

/* Leads the private data of our requests and replies (drawn in WIRE.md section 12): 'd', 'w',
 * version 1, 0; job 32, rank 32, token 64, IRD 16, 0 16. */
#define DW_RC_HELLO_BYTES 24
struct dw_rc_hello {
    struct diwarp_name name;
    uint64_t token; /* of the listener, in the request and in the reply */
    uint16_t ird;   /* RDMA reads it answers at once; revision 1 has no other place for it */
};

/* Exactly DW_RC_HELLO_BYTES. */
void dw_rc_hello_put(uint8_t *buf, const struct dw_rc_hello *hello);
/* 0; -EBADMSG: short; -EPROTO: none of this version. */
int dw_rc_hello_get(struct dw_rc_hello *hello, const uint8_t *buf, size_t len);
