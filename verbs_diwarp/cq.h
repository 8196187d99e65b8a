/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: rings that the completions of diwarp's one queue are sorted into. */
#pragma once

#include "verbs_diwarp/front.h"

/* Both with the context's lock held. */

/* Appends a completion; arms off and an event where one was asked for. solicited: of a receive,
 * whose sender asked for an event. */
void dv_cq_push(struct ibv_cq *cq, const struct ibv_wc *wc, bool solicited);
/* Drops completions of a queue pair that goes. */
void dv_cq_forget(struct ibv_cq *cq, uint32_t qp_num);
