/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMAP Terminate (RFC 5040 4.8): the payload of untagged messages on queue 2, and why a stream
 * ends: the error codes of RDMAP, DDP (RFC 5041 8), and MPA (RFC 5044 8, RFC 6581 9).
 */
#ifndef DW_TERMINATE_H
#define DW_TERMINATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dw_terminate_layer { DW_LAYER_RDMAP = 0, DW_LAYER_DDP = 1, DW_LAYER_LLP = 2 };

/* X(name, value, text): layer << 12 | error type << 8 | error code. */
#define DW_TERMINATE_CAUSES(X)                                                 \
    X(RDMAP_CATASTROPHIC, 0x0000, "RDMAP: local catastrophic error")           \
    X(RDMAP_STAG, 0x0100, "RDMAP: invalid STag")                               \
    X(RDMAP_BOUNDS, 0x0101, "RDMAP: base or bounds violation")                 \
    X(RDMAP_RIGHTS, 0x0102, "RDMAP: access rights violation")                  \
    X(RDMAP_STAG_STREAM, 0x0103, "RDMAP: STag not associated with the stream") \
    X(RDMAP_TO_WRAP, 0x0104, "RDMAP: TO wraps")                                \
    X(RDMAP_PROTECT_INVALIDATE, 0x0109, "RDMAP: STag cannot be invalidated")   \
    X(RDMAP_PROTECT_UNSPECIFIED, 0x01ff, "RDMAP: remote protection error")     \
    X(RDMAP_VERSION, 0x0205, "RDMAP: invalid RDMAP version")                   \
    X(RDMAP_OPCODE, 0x0206, "RDMAP: unexpected opcode")                        \
    X(RDMAP_STREAM_ERROR, 0x0207, "RDMAP: catastrophic error of the stream")   \
    X(RDMAP_GLOBAL_ERROR, 0x0208, "RDMAP: catastrophic error, global")         \
    X(RDMAP_INVALIDATE, 0x0209, "RDMAP: STag cannot be invalidated")           \
    X(RDMAP_UNSPECIFIED, 0x02ff, "RDMAP: remote operation error")              \
    X(DDP_CATASTROPHIC, 0x1000, "DDP: local catastrophic error")               \
    X(DDP_STAG, 0x1100, "DDP: invalid STag")                                   \
    X(DDP_BOUNDS, 0x1101, "DDP: base or bounds violation")                     \
    X(DDP_STAG_STREAM, 0x1102, "DDP: STag not associated with the stream")     \
    X(DDP_TO_WRAP, 0x1103, "DDP: TO wraps")                                    \
    X(DDP_TAGGED_VERSION, 0x1104, "DDP: invalid DDP version, tagged")          \
    X(DDP_QN, 0x1201, "DDP: invalid QN")                                       \
    X(DDP_NO_BUFFER, 0x1202, "DDP: invalid MSN, no buffer available")          \
    X(DDP_MSN, 0x1203, "DDP: invalid MSN, range is not valid")                 \
    X(DDP_MO, 0x1204, "DDP: invalid MO")                                       \
    X(DDP_TOO_LONG, 0x1205, "DDP: message too long for the buffer")            \
    X(DDP_UNTAGGED_VERSION, 0x1206, "DDP: invalid DDP version, untagged")      \
    X(MPA_TCP_LOST, 0x2001, "MPA: TCP connection closed, terminated, or lost") \
    X(MPA_CRC, 0x2002, "MPA: CRC of an FPDU wrong")                            \
    X(MPA_MARKER, 0x2003, "MPA: marker and ULPDU length disagree")             \
    X(MPA_STARTUP, 0x2004, "MPA: invalid request or reply frame")              \
    X(MPA_CATASTROPHIC, 0x2005, "MPA: local catastrophic error")               \
    X(MPA_IRD, 0x2006, "MPA: insufficient IRD resources")                      \
    X(MPA_RTR, 0x2007, "MPA: no matching RTR option")

enum dw_terminate_cause {
#define X(name, value, text) DW_TERM_##name = (value),
    DW_TERMINATE_CAUSES(X)
#undef X
};

/*
 *  0                   1                   2                   3
 *  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
 * +-------+-------+---------------+-+-+-+-------------------------+
 * | layer | type  |     code      |M|D|R|            0            |
 * +-------+-------+---------------+-+-+-+-------------------------+
 * |  M: DDP segment length (16)   |  D: DDP header (14 or 18 bytes)
 * +-------------------------------+  R: RDMAP header (28 bytes: of a Read Request)
 */
#define DW_TERMINATE_BYTES     4
#define DW_TERMINATE_MAX_BYTES (DW_TERMINATE_BYTES + 2 + 18 + 28)
struct dw_terminate {
    uint16_t cause;         /* enum dw_terminate_cause, or one not known here */
    bool has_length;        /* M */
    uint16_t segment_bytes; /* of the DDP segment in error; 0 without M */
    const uint8_t *ddp;     /* its header, 14 or 18 bytes by its T bit; NULL without D */
    const uint8_t *rdmap;   /* Read Request, 28 bytes; NULL without R */
};

/* For the cause and the segment (ULPDU) that it was found in; NULL: none. Points into the segment.
 * The headers go along where RFC 5040 4.8 wants them: with errors of a segment, whose cause is of
 * RDMAP or DDP and not catastrophic, if the segment is long enough. */
void dw_terminate_fill(struct dw_terminate *terminate, uint16_t cause, const uint8_t *segment,
                       size_t len);

/* Writes at most DW_TERMINATE_MAX_BYTES; returns how many. */
size_t dw_terminate_put(uint8_t *buf, const struct dw_terminate *terminate);

/* Points into buf. 0, or -EBADMSG (short; from DW_TERMINATE_BYTES on the cause is set all the
 * same). With D there is a length without M, too, which is skipped (RFC 5040 4.8). Reserved bits and
 * bytes left over are not looked at. */
int dw_terminate_get(struct dw_terminate *terminate, const uint8_t *buf, size_t len);

/* "DDP: invalid STag"; "unknown error" for a cause that is not in the table. Static. */
const char *dw_terminate_text(uint16_t cause);

#endif
