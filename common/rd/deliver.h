/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends that come: handed up in place, or put together first. */
#ifndef DW_DELIVER_H
#define DW_DELIVER_H

#include "common/rel/record.h"
#include "common/rd/peer.h"
#include "common/rd/receive.h"

/* Reassembly of a Send of more than one segment. */
struct dw_assembly {
    struct dw_list link;
    uint32_t msn;
    uint32_t total; /* 0: the last segment has not come */
    struct dw_ranges map;
    uint8_t buf[];
};

/* A Send segment of a sequenced datagram; in_order: all before it have come. false: no buffer, as
 * if it had not come. */
bool dw_deliver_send(struct dw_peer *peer, const struct dw_segment *segment, bool in_order);
/* Where the payload of such a segment will be put together with others that came before, if none of
 * its bytes is there yet; else NULL. Changes nothing: dw_deliver_send() does, with the payload in
 * that place. */
uint8_t *dw_deliver_place(struct dw_peer *peer, const struct dw_segment *segment);
/* What was put together leaves no room before it is taken. */
bool dw_deliver_is_full(const struct diwarp_qp *qp);
/* Frees what the last run delivered. */
void dw_deliver_recycle(struct diwarp_qp *qp);
/* Gives back what was not needed since the last time; true: there may be more. */
bool dw_deliver_trim(struct diwarp_qp *qp);
void dw_deliver_forget(struct dw_peer *peer);
/* The one assembly there is in any case; -ENOMEM. */
int dw_deliver_init(struct diwarp_qp *qp);
void dw_deliver_fini(struct diwarp_qp *qp);

#endif
