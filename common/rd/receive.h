/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams from the LLP: checked and split into segments (receive.c), placed (place.c). */
#ifndef DW_RECEIVE_H
#define DW_RECEIVE_H

#include "common/rd/peer.h"
#include "common/wire/ddp.h"
#include "common/wire/llp_header.h"

/* Of the receive arena. */
#define DW_ARENA_BYTES (1u << 20)

struct dw_sink; /* rdma.h */

struct dw_segment {
    struct dw_ddp_header ddp;
    const uint8_t *payload;
    uint32_t bytes;
};

/* One receive call; true when it brought datagrams. */
bool dw_receive(struct diwarp_qp *qp, uint64_t now_ns);
/* All that was handed out is used: the arena is free again. */
void dw_receive_recycle(struct diwarp_qp *qp);
/* Gives back what of it was not used since the last time; true: there may be more. */
bool dw_receive_trim(struct diwarp_qp *qp);
/* Next segment at *offset. 1; 0 at the end; negative: malformed, counted. */
int dw_next_segment(struct diwarp_qp *qp, const uint8_t *buf, uint32_t len, uint32_t *offset,
                    struct dw_segment *segment);

/* The one segment that fills a datagram behind `lead` bytes; false: there are others, or none. */
bool dw_only_segment(const uint8_t *buf, uint32_t len, uint32_t lead, struct dw_segment *segment);

/* A segment is verified and in its place at `offset`: all else that its RECORD datagram brings. */
void dw_receive_record(struct dw_sink *sink, const struct dw_llp_header *header, uint32_t offset,
                       uint32_t length, uint64_t now_ns);
/* The same for the one segment of a DATA datagram of `bytes` between header and trailer. */
void dw_receive_send(struct dw_peer *peer, const struct dw_llp_header *header,
                     const struct dw_segment *segment, uint32_t bytes, uint64_t now_ns);

/* Places what a datagram carries, before it is verified, in one pass with that. false: it is not
 * one that can be, and nothing was touched; else all is done, or the drop is counted. */
bool dw_place(struct diwarp_qp *qp, const struct dw_llp_header *header, const uint8_t *buf,
              uint32_t len, uint64_t now_ns);

#endif
