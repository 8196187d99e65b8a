/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion channels, and asynchronous events. */
#pragma once

#include "verbs_diwarp/front.h"

/* Both with the context's lock held. An event of a CQ for its channel; an asynchronous one. */
void dv_channel_push(struct dv_cq *cq);
void dv_async_push(struct dv_context *context, const struct ibv_async_event *event);
/* The CQ is about to be destroyed: waits, as libibverbs does, until each event that was taken has
 * been acknowledged, and drops the others. */
void dv_channel_leave(struct dv_cq *cq);
