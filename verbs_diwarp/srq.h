/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. With the context's lock held, but for dv_post_srq_recv() and libibverbs'
 * functions. */
#pragma once

#include "verbs_diwarp/front.h"

/* Frees the place of a receive that diwarp has filled; gives the wr_id of who posted it. */
uint64_t dv_srq_release(struct dv_srq *srq, uint64_t place);
/* Takes the oldest for a message that is placed here; wr->sg_list has room for DV_MAX_SGE. False:
 * none is posted. */
bool dv_srq_take(struct dv_srq *srq, struct ibv_recv_wr *wr);

int dv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
