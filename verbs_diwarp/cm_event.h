/* SPDX-License-Identifier: BSD-3-Clause */
/* Event channels. What an id can be told is bounded by its states, but for the addresses that the
 * program has resolved; a listening one, by its backlog. */
#pragma once

#include "verbs_diwarp/cm.h"

/* With the lock held: an event of an id, with what a message says (NULL: nothing). */
void dv_cm_tell(struct dv_cm_id *id, enum rdma_cm_event_type type, int status,
                const struct dv_cm_message *message);
/* With the lock held: an event as it is, into the id's channel. -ENOMEM. */
int dv_cm_push(const struct rdma_cm_event *what, struct dv_cm_id *owner);
/* The listener's event: somebody calls, and has a place of the backlog until the event is taken.
 * -ENOMEM. */
int dv_cm_tell_request(struct dv_cm_id *listener, struct dv_cm_id *caller);
/* With the lock held: drops an id's events that nobody took, each caller's id into `drop`. */
void dv_cm_forget(struct dv_cm_id *id, void (*drop)(struct dv_cm_id *caller));
/* With the lock held: waits until each event that was taken has been acknowledged. */
void dv_cm_wait_for_acks(struct dv_cm_id *id);
/* With the lock held: what nobody took goes to another channel. */
void dv_cm_move_events(struct dv_cm_id *id, struct rdma_event_channel *to);
/* Of an id whose calls wait: takes the event that ends one into id->event. 0 or -1 with errno. */
int dv_cm_complete(struct dv_cm_id *id);

/* Where a queue pair at that GID is reached from. */
struct ibv_ah_attr dv_cm_ah_attr(const struct dv_cm_id *id);
