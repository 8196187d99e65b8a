/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs of type UD, and posting to them. */
#pragma once

#include "verbs_diwarp/front.h"

struct ibv_qp *dv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
int dv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int dv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
