/* SPDX-License-Identifier: BSD-3-Clause */
/* What may be under way to the sinks of a QP (rdma_grant.c), as their life changes it. */
#ifndef DW_RNIC_GRANT_H
#define DW_RNIC_GRANT_H

#include "common/record/rdma.h"

/* Hands grant to the sinks that wait, oldest first. */
void dw_rdma_grant(struct diwarp_qp *qp, uint64_t now_ns);
/* The next run would. */
bool dw_rdma_may_grant(const struct diwarp_qp *qp);
/* The request of our read `id` is in the datagram that goes as `psn`. */
void dw_rdma_on_requested(struct dw_peer *peer, uint32_t id, uint32_t psn);
/* Grants what the budget has left now; the rest follows as others complete. Returns the bytes. */
uint32_t dw_sink_first_grant(struct dw_sink *sink, uint64_t now_ns);
/* Of a peer's records, what may be under way to us. */
uint32_t dw_record_window_bytes(const struct dw_peer *peer);
/* Each grant holds a whole datagram, unless it ends its record. */
bool dw_grants_are_whole(const struct dw_peer *peer);
/* So much more is due of the sink's source; less, if it came or will not. */
void dw_sink_add_due(struct dw_sink *sink, int64_t bytes);
/* What is due of a silent peer, or one that sends nothing of it, is not on its way: others may have
 * it meanwhile. */
void dw_sink_set_aside(struct dw_sink *sink);
/* It comes after all, be it beyond the budget: then the next grants wait the longer. */
void dw_sink_take_back(struct dw_sink *sink);

#endif
