/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of more elements than diwarp's RD keeps go by way of memory in one piece. */
#pragma once

#include "verbs_diwarp/front.h"

struct dv_gathered;

/* Has the request begin or end in one element, `sge`, without a key: a copy of its elements or, of
 * a read, room for them. -EACCES: one is not registered, or may not be written; -ENOMEM. */
int dv_gather(struct ibv_send_wr *wr, const struct ibv_pd *pd, struct ibv_sge *sge,
              struct dv_gathered **gathered);
/* The request has ended; `well`: what a read has brought is copied to its elements. False: they may
 * not be written any more. */
bool dv_gathered_end(struct dv_gathered *gathered, const struct ibv_pd *pd, bool well);

/* Copies bytes to elements, `skip` bytes into them, which have room. at: where each is. */
void dv_scatter(const struct ibv_sge *sge, void *const *at, uint32_t skip, const void *data,
                uint32_t bytes);
