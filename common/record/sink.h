/* SPDX-License-Identifier: BSD-3-Clause */
/* Records at the sink: their life. */
#ifndef DW_SINK_H
#define DW_SINK_H

#include "common/record/record.h"

/* A sink for `total` bytes of the QP; the caller fills where they go. asked: the region that the
 * peer writes to, or NULL, of a read of our own. NULL: no memory, or too many. */
struct dw_sink *dw_sink_create(const struct dw_ends *ends, struct dw_record_peer *peer, uint32_t id,
                               uint32_t total, struct dw_region *asked, uint64_t now_ns);
/* The request of a read of ours is in the datagram that goes as `psn`. */
void dw_sink_on_requested(struct dw_record_peer *peer, uint32_t id, uint32_t psn);
/* A verified segment: copies it to its place (data NULL: it is there) and does what follows. */
void dw_sink_place(struct dw_sink *sink, uint32_t offset, const uint8_t *data, uint32_t length,
                   uint64_t now_ns);
/* All that a peer had sent when it got the probe of that time has come, or is lost. */
void dw_sinks_on_probe_reply(struct dw_record_peer *peer, uint64_t sent_ns, uint64_t now_ns);
/* Record-complete, with the application's release in it; the sink is no more. As
 * dw_record_ops.send_answer(). */
int dw_sink_send_complete(struct dw_sink *sink, const void *release, uint32_t bytes,
                          uint64_t now_ns);
/* Of a read of ours, whose QP goes: no more of it is placed. It ends, and the source is told, once
 * the source is known to have the request: what tells it might come first. */
void dw_sink_abandon(struct dw_sink *sink, uint64_t now_ns);
/* Ends it without a completion. */
void dw_sink_destroy(struct dw_sink *sink);
/* ... with one that says why, if it is our own. */
void dw_sink_fail(struct dw_sink *sink, enum ibv_wc_status status);

#endif
