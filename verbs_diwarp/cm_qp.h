/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs of ids. With the lock held. */
#pragma once

#include "verbs_diwarp/cm_id.h"

/* The id's RC queue pair may receive and send: connects with id->other. 0 or a positive errno;
 * there is nothing to do where the program has made the queue pair by itself. */
int dv_cm_qp_connect(struct dv_cm_id *id);
/* The id's queue pair, of either type, is in error: all that was posted is flushed. */
void dv_cm_qp_fail(struct dv_cm_id *id);
/* What the program asks for, or else as much as there is, into the request or the answer. -EINVAL:
 * more private data than there is room for. */
int dv_cm_qp_fill(struct dv_cm_id *id, enum dv_cm_type type, const struct rdma_conn_param *param);
