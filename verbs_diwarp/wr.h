/* SPDX-License-Identifier: BSD-3-Clause */
/* The other way to post: ibv_wr_start(3) and its like. */
#pragma once

#include "verbs_diwarp/front.h"

/* Makes a queue pair ready for it. -ENOMEM. */
int dv_wr_init(struct dv_qp *qp);
