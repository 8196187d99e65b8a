/* SPDX-License-Identifier: BSD-3-Clause */
/* Works into sequenced datagrams: segments, their payload, and long messages sent at once. */
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
/* The same, and the datagram goes, all in one pass with its seal. */
void dw_segment_send(struct dw_peer *peer, struct dw_work *work, struct dw_datagram *datagram,
                     uint32_t payload, uint64_t now_ns);

/* As much of the rest of a work as one train of small datagrams takes. False: nothing can go now.
 */
bool dw_send_train(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns);

/* A work that needs more than one datagram, all of it now. Small ones go as trains; large ones from
 * where the data lies, and are copied, for when one is lost, after that. 0; or, nothing was done:
 * -EAGAIN (window, credit or pool do not allow it), -EMSGSIZE (more than they will ever allow, or
 * than is worth it). */
int dw_send_several(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns);

#endif
