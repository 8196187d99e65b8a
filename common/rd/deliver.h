/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends that come: handed up in place, or put together first. */
#ifndef DW_DELIVER_H
#define DW_DELIVER_H

#include "common/rd/rd.h"

/* A Send segment of a sequenced datagram to the QP; in_order: all before it have come. false: no
 * buffer, as if it had not come. */
bool dw_deliver_send(struct dw_peer *peer, const struct dw_ends *ends,
                     const struct dw_segment *segment, bool in_order);
/* Where the payload of such a segment will be put together with others that came before, if none of
 * its bytes is there yet, and the QP they are for; else NULL. Changes nothing: dw_deliver_send()
 * does, with the payload in that place. */
uint8_t *dw_deliver_place(struct dw_peer *peer, const struct dw_segment *segment,
                          struct diwarp_qp **qp);
/* What was put together leaves no room before it is taken. */
bool dw_deliver_is_full(const void *state);
/* Frees what was delivered. */
void dw_deliver_recycle(void *state);
/* Gives back what was not needed since the last time; true: there may be more. */
bool dw_deliver_trim(struct dw_rd *rd);
/* Drops what has not been put together: of a peer; for a QP, or for all (NULL). */
void dw_deliver_forget(struct dw_peer *peer, const struct diwarp_qp *qp);
/* A QP takes messages of up to that: the one assembly there is in any case. -ENOMEM. */
int dw_deliver_make_room(struct dw_rd *rd, uint32_t message_bytes);
void dw_deliver_fini(struct dw_rd *rd);
void dw_deliver_add_memory(const struct dw_rd *rd, struct diwarp_memory *memory);

#endif
