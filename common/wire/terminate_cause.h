/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a stream ends: the error codes of RDMAP (RFC 5040 4.8), DDP (RFC 5041 8), and MPA (RFC 5044
 * 8, RFC 6581 9). */
#ifndef DW_TERMINATE_CAUSE_H
#define DW_TERMINATE_CAUSE_H

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

#endif
