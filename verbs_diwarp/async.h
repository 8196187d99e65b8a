/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events, in a queue; context.async_fd, an eventfd(2), counts them like a semaphore.
 */
#pragma once

#include "verbs_diwarp/front.h"

/* With the context's lock held. A program that never takes its events gets no more of them. */
void dv_async_push(struct dv_context *context, const struct ibv_async_event *event);
/* With the context's lock held: the queue pair is in error, and takes nothing of its SRQ any more.
 * Nothing to do where it has none. */
void dv_async_push_last(struct dv_qp *qp);
/* An object is about to be destroyed, as this event of it says: drops its events, and waits, as
 * libibverbs does, until those that were taken have been acknowledged. */
void dv_async_leave(struct dv_context *context, const struct ibv_async_event *last);
/* Drops all. */
void dv_async_close(struct dv_context *context);
