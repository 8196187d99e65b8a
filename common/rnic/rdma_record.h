/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ends of a record on an RD QP: their life, grants and timers (see rel/record.h). */
#ifndef DW_RNIC_RECORD_H
#define DW_RNIC_RECORD_H

#include "common/rnic/rdma.h"

/* A sink for `total` bytes; the caller fills where they go. NULL: no memory. */
struct dw_sink *dw_sink_create(struct dw_peer *peer, uint32_t id, uint32_t total, uint64_t now_ns);
/* Sees that it is asked for what does not come. Lazy, like the peer's: a timer that is set earlier
 * looks again when it fires. */
void dw_sink_arm(struct dw_sink *sink);
/* A verified segment: copies it to its place (data NULL: it is there) and does what follows. */
void dw_sink_place(struct dw_sink *sink, uint32_t offset, const uint8_t *data, uint32_t length,
                   uint64_t now_ns);
void dw_sink_send_status(struct dw_sink *sink, const struct dw_range *missing, unsigned count);
/* Record-complete, with the application's release in it; the sink is no more. -ENOMEM: the
 * peer is gone then: it would wait for ever. */
int dw_sink_send_complete(struct dw_sink *sink, const void *release, uint32_t bytes,
                          uint64_t now_ns);

struct dw_source *dw_source_create(struct dw_peer *peer, uint32_t id, uint32_t total,
                                   uint32_t granted);
/* Lets it send if it has something to send. */
void dw_source_look(struct dw_source *source);

#endif
