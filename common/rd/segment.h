/* SPDX-License-Identifier: BSD-3-Clause */
/* Works into sequenced datagrams: segments, their payload, trains. */
#ifndef DW_SEGMENT_H
#define DW_SEGMENT_H

#include "common/rd/rd.h"

/* Payload of a message that one datagram to the peer holds. */
uint32_t dw_segment_max_payload(const struct dw_peer *peer, const struct dw_ddp_header *ddp);

/* Writes a segment's headers behind what is in the datagram, which must have the room; returns
 * where its payload goes. `record`: of a tagged one. */
uint8_t *dw_segment_append(struct dw_datagram *datagram, const struct dw_ddp_header *ddp,
                           const struct dw_write_record *record, uint32_t payload);
/* What has not been copied of a work, to its place in a buffer of the whole. */
void dw_segment_copy_rest(const struct dw_work *work, uint8_t *buf);
/* The next `payload` bytes of a work as a segment of the datagram. */
void dw_segment_copy(struct dw_work *work, struct dw_datagram *datagram, uint32_t payload);
/* As much of the rest of a work as one train takes, which leaves. False: nothing can go now. */
bool dw_send_train(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns);
/* Window and credit let all of the rest go. */
bool dw_segment_all_may_go(const struct dw_peer *peer, const struct dw_work *work);

#endif
