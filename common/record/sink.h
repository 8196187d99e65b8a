/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ends of a record on an RD QP: their life, grants and timers (see rel/record.h). */
#ifndef DW_RNIC_RECORD_H
#define DW_RNIC_RECORD_H

#include "common/record/rdma.h"

/* A sink for `total` bytes; the caller fills where they go. asked: the region that the peer writes
 * to, or NULL, of a read of our own. NULL: no memory, or too many. */
struct dw_sink *dw_sink_create(struct dw_peer *peer, uint32_t id, uint32_t total,
                               struct dw_region *asked, uint64_t now_ns);
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

/* asked: the region that the peer reads, or NULL, of a write of our own. */
struct dw_source *dw_source_create(struct dw_peer *peer, uint32_t id, const uint8_t *addr,
                                   uint32_t total, uint32_t granted, struct dw_region *asked);
/* Lets it send if it has something to send. */
void dw_source_look(struct dw_source *source);

#endif
