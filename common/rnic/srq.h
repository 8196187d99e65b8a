/* SPDX-License-Identifier: BSD-3-Clause */
/* Posted receives in rings: a queue pair's own over RC, or of an SRQ, which RC and UD share. */
#pragma once

#include "common/rnic/qp.h"

#define DW_SRQ_MAX_SGE 16

struct dw_recv {
    uint64_t wr_id;
    uint64_t checked; /* deregistrations of the PD when the keys were right last; else NEVER */
    uint32_t bytes;   /* in all */
    uint32_t sge_count;
    struct dw_sge sge[];
};

struct diwarp_srq {
    struct diwarp_pd *pd;
    uint32_t max_wr, max_sge;
    struct dw_ring recvs; /* struct dw_recv */
};

/* A slot of a ring of them, with lists of so many elements. */
static inline size_t dw_recv_bytes(uint32_t max_sge)
{
    return sizeof(struct dw_recv) + max_sge * sizeof(struct dw_sge);
}

/* -ENOMEM: max are posted. -EINVAL, -EMSGSIZE: malformed. Keys that are wrong are told when a
 * message comes (dw_recv_is_registered()), as in verbs. */
int dw_recv_push(struct dw_ring *recvs, uint32_t max, uint32_t max_sge, struct diwarp_pd *pd,
                 const struct ibv_recv_wr *wr);
/* Whether its memory may be written; looks anew only where the PD has lost a region since. */
bool dw_recv_is_registered(const struct diwarp_pd *pd, struct dw_recv *recv);
/* Gives back a receive that no message has filled: its queue pair goes, or it has waited in vain.
 * Without memory for that it is lost. */
void dw_srq_return(struct diwarp_srq *srq, uint64_t wr_id, const struct dw_sge *list,
                   uint32_t count);
