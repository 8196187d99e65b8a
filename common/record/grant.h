/* SPDX-License-Identifier: BSD-3-Clause */
/* What may be under way to the sinks of a port, as their life changes it. */
#ifndef DW_GRANT_H
#define DW_GRANT_H

#include "common/record/record.h"

/* Reads up to this are answered in the sequenced stream, where answers share datagrams: a record
 * needs one of its own, and often one more for its grant. With half as much, fewer reads gain;
 * twice as much makes every work that waits 128 bytes longer, for the answer is copied into it. */
#define DW_SHORT_READ_BYTES 128

/* What is due of the sink comes in the sequenced stream, whose window and credit cover it: it takes
 * nothing of the budget or the record window. */
static inline bool dw_grant_is_free(const struct dw_sink *sink)
{
    return !sink->region && sink->record.total <= DW_SHORT_READ_BYTES;
}

/* Hands grant to the sinks that wait, oldest first. */
void dw_grant_run(struct dw_records *records, uint64_t now_ns);
/* The next run would. */
bool dw_grant_is_due(const struct dw_records *records);
/* Grants what the budget has left now, and all to a short read; the rest follows as others
 * complete. Returns the bytes. */
uint32_t dw_grant_first(struct dw_sink *sink, uint64_t now_ns);
/* Of a peer's records, what may be under way to us. */
uint32_t dw_grant_window_bytes(const struct dw_record_peer *peer);
/* Each grant holds a whole datagram, unless it ends its record. */
bool dw_grants_are_whole(const struct dw_record_peer *peer);
/* So much of what was due of the sink's source has come, or will not. */
void dw_grant_on_came(struct dw_sink *sink, uint32_t bytes);
/* What is due of a silent peer, or one that sends nothing of it, is not on its way: others may have
 * it meanwhile. */
void dw_grant_set_aside(struct dw_sink *sink);
/* It comes after all, be it beyond the budget: then the next grants wait the longer. */
void dw_grant_take_back(struct dw_sink *sink);

#endif
