/* SPDX-License-Identifier: BSD-3-Clause */
/* How much an FPDU takes at most. */
#ifndef DW_TEST_MPA_BOUNDS_H
#define DW_TEST_MPA_BOUNDS_H

#include "common/wire/mpa.h"

/* The most markers that fall into it: they are 508 bytes apart. */
#define DW_MPA_MARKERS_MAX(n) (DW_MPA_FPDU_BYTES(n) / 508 + 1)
/* The largest there can be on the wire, markers counted. */
#define DW_MPA_FPDU_MAX_BYTES                    \
    (DW_MPA_FPDU_BYTES(DW_MPA_ULPDU_MAX_BYTES) + \
     DW_MPA_MARKERS_MAX(DW_MPA_ULPDU_MAX_BYTES) * DW_MPA_MARKER_BYTES)

/* Bounds of one FPDU: of `room` (with n_copied of the n bytes copied), of pieces. */
#define DW_MPA_ROOM_BYTES(n, n_copied, markers)                        \
    (DW_MPA_LENGTH_BYTES + (size_t)(n_copied) + 3 + DW_MPA_CRC_BYTES + \
     ((markers) ? DW_MPA_MARKERS_MAX(n) * DW_MPA_MARKER_BYTES : 0))
#define DW_MPA_PIECES(n, n_pieces, markers) \
    (2 + (size_t)(n_pieces) + ((markers) ? 2 * DW_MPA_MARKERS_MAX(n) : 0))

#endif
