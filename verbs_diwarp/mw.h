/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows, of type 1 (ibv_bind_mw(3)) and 2B (IBV_WR_BIND_MW). Nothing of them is on the
 * wire: a bind or invalidation is carried out when it is posted, and completes in its turn. */
#pragma once

#include "verbs_diwarp/front.h"

struct ibv_mw *dv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int dv_dealloc_mw(struct ibv_mw *mw);

/* The others with the context's lock held. */

static inline bool dv_mw_is_request(const struct ibv_send_wr *wr)
{
    return wr->opcode == IBV_WR_BIND_MW || wr->opcode == IBV_WR_LOCAL_INV;
}
/* Whether one may be posted: 0 or a positive errno. */
int dv_mw_check(const struct dv_qp *qp, const struct ibv_send_wr *wr);
/* Carries it out; what it completes with. */
enum ibv_wc_status dv_mw_execute(struct dv_qp *qp, const struct ibv_send_wr *wr);
/* Whether windows are bound to a region still; those that a peer has invalidated are not. */
bool dv_mr_has_windows(struct dv_mr *mr);
/* Those of type 2 that were bound by a queue pair which goes, or begins anew, are bound no more. */
void dv_mw_leave(struct dv_qp *qp);
