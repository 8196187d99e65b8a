/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "verbs_diwarp/front.h"

/* As a context's table has it. */
struct ibv_qp *dv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
