/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles: verbs' lead to a host, diwarp's to a queue pair there. */
#pragma once

#include "verbs_diwarp/front.h"

/* With the GID of the host that a LID names: its address begins as our first GID's does. One that
 * has a GID, or no LID, is returned as it is. */
struct ibv_ah_attr dv_ah_global(struct ibv_context *context, const struct ibv_ah_attr *attr);
/* It leads to a host from one of ours. */
bool dv_ah_is_good(struct ibv_context *context, const struct ibv_ah_attr *attr);
/* The handle for one queue pair behind an address, made when it is first asked for; with the
 * context's lock held. rd: of ours, that sends there; NULL: one of UD does. NULL with errno set: no
 * memory, or nothing leads there. */
struct diwarp_ah *dv_ah_find(struct ibv_ah *ah, uint32_t qpn, struct diwarp_qp *rd);
