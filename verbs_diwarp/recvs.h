/* SPDX-License-Identifier: BSD-3-Clause */
/* Posted receives, of a UD queue pair or an SRQ: diwarp is given their places as wr_id. With the
 * context's lock held. */
#pragma once

#include "verbs_diwarp/front.h"

/* 0 or ENOMEM. */
int dv_recvs_init(struct dv_recvs *recvs, uint32_t max_wr, uint32_t max_sge);
void dv_recvs_fini(struct dv_recvs *recvs);
/* None is posted any more. */
void dv_recvs_clear(struct dv_recvs *recvs);
/* A place for the next one, which dv_recvs_post() takes; NULL: all are posted. */
struct dv_recv *dv_recvs_next(const struct dv_recvs *recvs);
void dv_recvs_post(struct dv_recvs *recvs, struct dv_recv *recv, const struct ibv_recv_wr *wr);
void dv_recvs_release(struct dv_recvs *recvs, struct dv_recv *recv);

/* The elements that diwarp is given of a receive of RC or an SRQ: where one has no key, which would
 * be any memory to diwarp, an element of no region instead, which fails when a message comes for
 * it. `room` is for DV_MAX_SGE of them. */
struct ibv_sge *dv_recvs_keyed(const struct ibv_recv_wr *wr, struct ibv_sge *room);

static inline uint32_t dv_recvs_place(const struct dv_recvs *recvs, const struct dv_recv *recv)
{
    return (uint32_t)(recv - recvs->places);
}
