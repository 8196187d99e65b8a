/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting, as a context's table has it. */
#pragma once

#include "verbs_diwarp/front.h"

int dv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int dv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
