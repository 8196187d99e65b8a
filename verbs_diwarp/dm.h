/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory: memory of the process that a program fills by ibv_memcpy_to_dm(3), and whose
 * regions begin at address 0. */
#pragma once

#include "verbs_diwarp/front.h"

/* NULL with errno. EINVAL: malformed, or longer than DV_DM_BYTES; ENOMEM: with all that there is of
 * the context. */
struct ibv_dm *dv_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
/* EBUSY: regions are left. */
int dv_free_dm(struct ibv_dm *dm);
/* Of `length` bytes from `offset` on. NULL with errno. */
struct ibv_mr *dv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
                            unsigned access);
