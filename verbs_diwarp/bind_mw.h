/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "verbs_diwarp/front.h"

/* As ibv_bind_mw(3), of windows of type 1. */
int dv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
