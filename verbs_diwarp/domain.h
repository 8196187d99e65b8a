/* SPDX-License-Identifier: BSD-3-Clause */
/* Parent domains and thread domains (ibv_alloc_parent_domain(3), ibv_alloc_td(3)): a parent domain
 * is its protection domain by another name. What its allocators could give is buffers that a device
 * reads; ours has none, and calls no allocator. All of a context share one lock, so that a thread
 * domain has none to spare. */
#pragma once

#include "verbs_diwarp/front.h"

struct ibv_td *dv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int dv_dealloc_td(struct ibv_td *td);
struct ibv_pd *dv_alloc_parent_domain(struct ibv_context *context,
                                      struct ibv_parent_domain_init_attr *attr);
/* Of a parent domain: EBUSY while something uses it. */
int dv_dealloc_parent_domain(struct dv_pd *domain);
