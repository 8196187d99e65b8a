/* SPDX-License-Identifier: BSD-3-Clause */
/* Running the RNIC, and sorting what it completed. */
#pragma once

#include "verbs_diwarp/front.h"

/* Those above the blank line with the context's lock held. The thread that runs the RNIC while the
 * program neither polls nor posts; 0 or negative errno. */
int dv_start_helper(struct dv_context *context);
/* Runs the RNIC and sorts what completed; returns how much. */
int dv_progress(struct dv_context *context);
/* Completes all posted receives as flushed, in their order. */
void dv_flush_recvs(struct dv_qp *qp);

/* The oldest completion becomes cq->current: 0; ENOENT: there is none; EIO: the CQ is overrun. */
int dv_take_entry(struct dv_cq *cq);
int dv_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int dv_req_notify_cq(struct ibv_cq *cq, int solicited_only);
