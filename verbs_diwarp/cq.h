/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: rings that the completions of diwarp's one queue are sorted into. */
#pragma once

#include "verbs_diwarp/front.h"

/* Every function runs with the context's lock held, unless it is one of libibverbs'. */

/* Appends a completion; arms off and an event where one was asked for. solicited: of a receive. */
void dv_cq_push(struct ibv_cq *cq, const struct ibv_wc *wc, bool solicited);
/* The thread that runs the RNIC while the program neither polls nor posts; 0 or negative errno. */
int dv_start_helper(struct dv_context *context);
/* Runs the RNIC and sorts what completed. */
int dv_progress(struct dv_context *context);
/* Completes all posted receives as flushed, in their order. */
void dv_flush_recvs(struct dv_qp *qp);
/* Drops completions of a queue pair that goes. */
void dv_cq_forget(struct ibv_cq *cq, uint32_t qp_num);

int dv_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int dv_req_notify_cq(struct ibv_cq *cq, int solicited_only);
