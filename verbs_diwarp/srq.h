/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues, of RC queue pairs. */
#pragma once

#include "verbs_diwarp/front.h"

/* With the context's lock held: a queue pair has taken a receive. */
void dv_srq_taken(struct dv_srq *srq);

int dv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
