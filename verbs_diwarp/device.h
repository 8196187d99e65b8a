/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "verbs_diwarp/front.h"

/* Lets the other sides of connections that were closed read what was sent last, within 5 s. */
void dv_linger(struct dv_context *context);
