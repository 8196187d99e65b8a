/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "verbs_diwarp/front.h"

/* The header that leads a receive. */
void dv_make_grh(const struct dv_context *context, const struct diwarp_wc *done,
                 struct ibv_grh *grh);
