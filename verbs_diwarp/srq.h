/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. With the context's lock held, but for libibverbs' own. */
#pragma once

#include "verbs_diwarp/front.h"

/* What diwarp has filled at that place for a queue pair: its wr_id; the place is free. */
uint64_t dv_srq_taken(struct dv_srq *srq, uint64_t place);
/* A queue pair of RC may have given back what it had begun to fill. */
void dv_srq_given_back(struct dv_srq *srq);
/* Takes the oldest for a message that is placed here; wr->sg_list has room for DV_MAX_SGE. False:
 * none is posted. */
bool dv_srq_take(struct dv_srq *srq, struct ibv_recv_wr *wr);

int dv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
