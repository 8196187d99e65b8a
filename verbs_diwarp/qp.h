/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: making, changing and ending them. */
#pragma once

#include "verbs_diwarp/front.h"

/* As a context's table has it. */
struct ibv_qp *dv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

/* What ibv_create_qp() asks for, as the extended call has it. */
static inline struct ibv_qp_init_attr_ex dv_extended_attr(struct ibv_pd *pd,
                                                          const struct ibv_qp_init_attr *attr)
{
    return (struct ibv_qp_init_attr_ex){.qp_context = attr->qp_context,
                                        .send_cq = attr->send_cq,
                                        .recv_cq = attr->recv_cq,
                                        .srq = attr->srq,
                                        .cap = attr->cap,
                                        .qp_type = attr->qp_type,
                                        .sq_sig_all = attr->sq_sig_all,
                                        .comp_mask = IBV_QP_INIT_ATTR_PD,
                                        .pd = pd};
}
/* As dv_create_qp_ex(), and of IBV_QPT_DRIVER, which is RD. */
struct ibv_qp *dv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
/* The process ends; with the context's lock held: reads what has come, and closes connections of RC
 * as ibv_destroy_qp() does. Nobody polls for what completes by that. */
void dv_leave_qps(struct dv_context *context);
