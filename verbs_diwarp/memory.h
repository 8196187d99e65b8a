/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "verbs_diwarp/front.h"

/* Each that is not empty is of memory of a region of the PD that has its key; with the context's
 * lock held. */
bool dv_are_registered(const struct ibv_pd *pd, const struct ibv_sge *sges, int count);
/* Each that is not empty is, and of a region with IBV_ACCESS_LOCAL_WRITE. at: where each is; NULL:
 * not asked for. */
bool dv_may_write(const struct ibv_pd *pd, const struct ibv_sge *sges, int count, void **at);
/* Where the memory of an element is that diwarp found registered; NULL: it is not any more. */
void *dv_memory_at(const struct ibv_pd *pd, const struct ibv_sge *sge);

/* A region of device memory, whose bounds have been checked. NULL with errno. */
struct ibv_mr *dv_reg_dm(struct ibv_pd *pd, struct dv_dm *dm, uint64_t offset, size_t length,
                         unsigned access);

int dv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                 struct ibv_sge *sges, uint32_t count);
