/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting, as a context's table has it, and for ibv_wr_complete(). */
#pragma once

#include "verbs_diwarp/front.h"

int dv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* All of the list or none. 0 or a positive errno. */
int dv_post_all_sends(struct dv_qp *qp, const struct dv_send_wr *list);
/* What waited in state SQD; of UD and RD. */
void dv_post_kept(struct dv_qp *qp);
int dv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
