/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: rings that the completions of diwarp's one queue are sorted into. */
#pragma once

#include "verbs_diwarp/front.h"

/* With the context's lock held. */

/* Appends a completion; arms off and an event where one was asked for. solicited: of a receive,
 * whose sender asked for an event. */
void dv_cq_push(struct ibv_cq *cq, const struct ibv_wc *wc, bool solicited);
/* A request of UD, or one that was not handed to diwarp, has ended. It has its place in the send
 * queue until its completion is polled. */
void dv_cq_push_send(struct dv_qp *qp, const struct ibv_send_wr *wr, enum ibv_wc_status status);
/* The oldest one of a CQ that is not empty has been taken, or is lost. */
void dv_drop_oldest(struct dv_cq *cq);
/* Nanoseconds of CLOCK_MONOTONIC: what completion timestamps count. */
uint64_t dv_clock_ns(void);
/* Drops completions of a queue pair that goes. */
void dv_cq_forget(struct ibv_cq *cq, uint32_t qp_num);
