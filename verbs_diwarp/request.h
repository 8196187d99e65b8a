/* SPDX-License-Identifier: BSD-3-Clause */
/* What a send request is. */
#pragma once

#include "verbs_diwarp/front.h"

static inline uint64_t dv_total_bytes(const struct ibv_send_wr *wr)
{
    uint64_t total = 0;
    for (int i = 0; i < wr->num_sge; i++)
        total += wr->sg_list[i].length;
    return total;
}

static inline bool dv_is_rdma(const struct ibv_send_wr *wr)
{
    return wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
           wr->opcode == IBV_WR_RDMA_READ;
}

static inline enum ibv_wc_opcode dv_wc_opcode_of(const struct ibv_send_wr *wr)
{
    return wr->opcode == IBV_WR_RDMA_WRITE             ? IBV_WC_RDMA_WRITE
           : wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM  ? IBV_WC_RDMA_WRITE
           : wr->opcode == IBV_WR_RDMA_READ            ? IBV_WC_RDMA_READ
           : wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP   ? IBV_WC_COMP_SWAP
           : wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? IBV_WC_FETCH_ADD
                                                       : IBV_WC_SEND;
}
