/* SPDX-License-Identifier: BSD-3-Clause */
/* Posted receives: alone, or in rings, a queue pair's own over RC or an SRQ's, which RC, UD and who
 * places messages of RD share. */
#pragma once

#include "common/rnic/qp.h"

#define DW_SRQ_MAX_SGE 32

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

/* With a list of so many elements, or a slot of a ring for such lists. */
static inline size_t dw_recv_bytes(uint32_t sge_count)
{
    return sizeof(struct dw_recv) + sge_count * sizeof(struct dw_sge);
}

/* Of a list of so many bytes that dw_pd_gather() has just found at `iov`. */
void dw_recv_set(struct dw_recv *recv, const struct diwarp_pd *pd, uint64_t wr_id,
                 const struct ibv_sge *list, const struct iovec *iov, uint32_t sge_count,
                 uint32_t bytes);
/* Whose regions a queue pair's receives are of: its SRQ's, or without one its own. */
static inline const struct diwarp_pd *dw_recv_pd(const struct diwarp_srq *srq,
                                                 const struct diwarp_pd *own)
{
    return srq ? srq->pd : own;
}
/* Copies to its memory, `skip` bytes into it, as much as it has room for. IBV_WC_LOC_PROT_ERR: not
 * all that this touches is registered. */
enum ibv_wc_status dw_recv_place(const struct diwarp_pd *pd, struct dw_recv *recv, size_t skip,
                                 const uint8_t *data, size_t bytes);

/* -ENOMEM: max are posted. -EINVAL, -EMSGSIZE: malformed. Keys that are wrong are told when a
 * message comes (dw_recv_place()), as in verbs. */
int dw_recv_push(struct dw_ring *recvs, uint32_t max, uint32_t max_sge, struct diwarp_pd *pd,
                 const struct ibv_recv_wr *wr);
/* Gives back a receive that no message has filled: its queue pair goes, or it has waited in vain.
 * Without memory for that it is lost. */
void dw_srq_return(struct diwarp_srq *srq, const struct dw_recv *recv);
