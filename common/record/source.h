/* SPDX-License-Identifier: BSD-3-Clause */
/* Records at the source. */
#ifndef DW_SOURCE_H
#define DW_SOURCE_H

#include "common/record/record.h"

/* asked: the region that the peer reads, or NULL, of a write of our own. NULL: no memory, or too
 * many. */
struct dw_source *dw_source_create(const struct dw_ends *ends, struct dw_record_peer *peer,
                                   uint32_t id, const uint8_t *addr, uint32_t total,
                                   uint32_t granted, struct dw_region *asked);
/* Lets it send if it has something to send. */
void dw_source_look(struct dw_source *source);
/* Sends what grants allow of the records that are ready, a bounded amount. */
void dw_sources_run(struct dw_records *records, uint64_t now_ns);
/* Of a write of ours, whose QP goes: nothing of it is sent any more. It ends, and the sink is told,
 * once the sink is known to have opened it: what tells it might come first. */
void dw_source_abandon(struct dw_source *source, uint64_t now_ns);
/* The sink has opened one that was abandoned. */
void dw_source_withdraw(struct dw_source *source, uint64_t now_ns);
/* Ends it without a completion. */
void dw_source_destroy(struct dw_source *source);
/* ... with one that says why, if it is our own. */
void dw_source_fail(struct dw_source *source, enum ibv_wc_status status);

#endif
