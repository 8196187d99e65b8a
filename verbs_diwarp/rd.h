/* SPDX-License-Identifier: BSD-3-Clause */
/* RD queue pairs: requests go to diwarp's RD at once; Sends that come are copied into receives.
 * Every function runs with the context's lock held. */
#pragma once

#include "verbs_diwarp/front.h"

/* Of a new queue pair; sets qp->rd. -ENOMEM. */
int dv_rd_init(struct dv_qp *qp);
void dv_rd_fini(struct dv_qp *qp);
/* Begins, or begins anew, with nothing posted; 0 or a negative errno value. */
int dv_rd_open(struct dv_qp *qp);
/* From now on it takes receives of its SRQ, if it has one. */
void dv_rd_begin(struct dv_qp *qp);
void dv_rd_close(struct dv_qp *qp);
/* It is in error: what was posted is flushed. */
void dv_rd_fail(struct dv_qp *qp);
/* diwarp's; NULL: it is closed. */
struct diwarp_qp *dv_rd_core(const struct dv_qp *qp);

/* Whether it is a request of RD. */
bool dv_rd_takes(const struct ibv_send_wr *wr);
/* Requests that there is room for. */
uint32_t dv_rd_room(const struct dv_qp *qp);
/* One that is good. */
void dv_rd_post_send(struct dv_qp *qp, const struct ibv_send_wr *wr, struct diwarp_ah *ah);
/* 0 or a positive errno. */
int dv_rd_post_recv(struct dv_qp *qp, const struct ibv_recv_wr *wr);
/* Hands over Sends that waited for a receive, where there is one now: posted, or given back to an
 * SRQ by another queue pair, whose message did not come whole. */
void dv_rd_receive_held(struct dv_context *context);
/* What diwarp completed. */
void dv_rd_deliver(struct dv_qp *qp, const struct diwarp_wc *done);
