/* SPDX-License-Identifier: BSD-3-Clause */
/* When a peer is asked: the policy of its one timer, by what happens to it. */
#ifndef DW_RD_TIMERS_H
#define DW_RD_TIMERS_H

#include "common/rd/rd.h"

/* Something is to come from it: an answer, or the rest of what it began. */
bool dw_timers_peer_owes(const struct dw_peer *peer);
/* When it is probed, unless it is heard or asked before. */
uint64_t dw_timers_probe_due_ns(const struct dw_peer *peer);
/* Makes the timer run at deadline_ns or before. */
void dw_timers_wake(struct dw_peer *peer, uint64_t deadline_ns);
/* We gave it something to answer: sees that it is probed. */
void dw_timers_on_asked(struct dw_peer *peer, uint64_t now_ns);
/* The same for a record, but while data is unacknowledged: many records do not put off its probe.
 */
void dw_timers_on_record(struct dw_peer *peer, uint64_t now_ns);
/* It began something that it has to go on with, unasked: sees that it is probed when silent. */
void dw_timers_watch(struct dw_peer *peer);
/* It has been both probed and silent for so long. */
bool dw_timers_silent_for(const struct dw_peer *peer, uint64_t limit_ns, uint64_t now_ns);

#endif
