/* SPDX-License-Identifier: BSD-3-Clause */
/* Extended completion queues (ibv_create_cq_ex(3)), and the clock that their completions tell. */
#pragma once

#include "verbs_diwarp/front.h"

struct ibv_cq_ex *dv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int dv_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);
