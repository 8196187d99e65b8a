/* SPDX-License-Identifier: BSD-3-Clause */
/* The other way to post: ibv_wr_start(3) and its like. */
#pragma once

#include "verbs_diwarp/front.h"

/* enum ibv_qp_create_send_ops_flags that queue pairs of the type have. */
uint64_t dv_wr_ops(enum ibv_qp_type type);
/* Makes a queue pair ready for it. -ENOMEM. */
int dv_wr_init(struct dv_qp *qp);
