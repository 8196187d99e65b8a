/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs of RC, which are iWARP's over TCP, and of UC, which are carried likewise: between two
 * that have been told of each other. */
#pragma once

#include "verbs_diwarp/front.h"

/* Every function runs with the context's lock held. */

/* Of a new queue pair; sets qp->rc. 0 or a positive errno. */
int dv_rc_init(struct dv_qp *qp, const struct ibv_qp_init_attr_ex *attr);
void dv_rc_fini(struct dv_qp *qp);

/* It may receive from now on: calls the other side, or answers its call. 0 or a positive errno. */
int dv_rc_connect(struct dv_qp *qp);
/* It has a connection, as far as we have seen. */
bool dv_rc_is_connected(const struct dv_context *context, uint32_t qpn);
/* It has completions that the program has not polled. */
bool dv_rc_is_unpolled(const struct dv_context *context, uint32_t qpn);
/* Tells the other side rnr_retry, and what a retry of its own takes here: min_rnr_timer. */
void dv_rc_set_rnr(struct dv_qp *qp);
/* Sets what the other side may do, as in attr.qp_access_flags. */
void dv_rc_set_access(struct dv_qp *qp);
/* Closes; what was posted vanishes. */
void dv_rc_reset(struct dv_qp *qp);
/* Closes, for the process ends: the other side is told which messages had come. */
void dv_rc_leave(struct dv_qp *qp);
/* It is in error: the oldest send ends with that status, all else that was posted is flushed. */
void dv_rc_fail(struct dv_qp *qp, enum ibv_wc_status status);

/* One that dv_rc_check_send() has found good. */
void dv_rc_post_send(struct dv_qp *qp, const struct ibv_send_wr *wr);
/* It is in SQD now. */
void dv_rc_drain(struct dv_qp *qp);
/* It is in RTS again, after SQD. */
void dv_rc_resume(struct dv_qp *qp);
/* Gives up on those whose other side has been silent for too long. traffic: something has just
 * come. */
void dv_rc_expire(struct dv_context *context, bool traffic);
/* What diwarp completed, of this queue pair; or a call for one of the context. */
void dv_rc_deliver(struct dv_qp *qp, const struct diwarp_wc *done);
void dv_rc_called(struct dv_context *context, const struct diwarp_wc *call);
