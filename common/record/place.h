/* SPDX-License-Identifier: BSD-3-Clause */
/* Placement of Write-Record segments. */
#ifndef DW_PLACE_H
#define DW_PLACE_H

#include "common/record/record.h"

/* The sink that a segment of a RECORD datagram goes to, checked in full; NULL: dropped, counted. */
struct dw_sink *dw_place_find(struct dw_record_peer *peer, const struct dw_segment *segment,
                              uint32_t *offset, const uint8_t **data, uint32_t *length);

enum dw_placed {
    DW_PLACED_NOT,   /* it is not one that can be, and nothing was touched */
    DW_PLACED_RIGHT, /* it is right, and its data in place */
    DW_PLACED_WRONG, /* it is damaged: to be dropped */
};
/* Opens a datagram that has this one segment, its data copied to its place in the same pass. What
 * turns out to be damaged has then been written to a hole of the record, whose bytes mean nothing
 * before the map says so. */
enum dw_placed dw_place_open(struct dw_record_peer *peer, const struct dw_arrival *arrival,
                             const struct dw_segment *segment, struct dw_sink **sink,
                             uint32_t *offset, uint32_t *length);

#endif
