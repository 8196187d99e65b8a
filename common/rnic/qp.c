/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions of a datagram queue pair. */
#include "common/rnic/qp.h"

void dw_qp_complete(struct diwarp_qp *qp, uint64_t wr_id, bool signaled, enum ibv_wc_opcode opcode,
                    enum ibv_wc_status status, uint32_t bytes)
{
    if (status != IBV_WC_SUCCESS && opcode != IBV_WC_SEND)
        qp->port->datagrams.counters.rdma_errors++;
    if (!signaled && status == IBV_WC_SUCCESS)
        return;
    struct diwarp_wc wc = {.wc = {.wr_id = wr_id,
                                  .status = status,
                                  .opcode = opcode,
                                  .byte_len = bytes,
                                  .qp_num = qp->num}};
    dw_cq_push(qp->cq, &wc);
}

void dw_qp_push_held(struct diwarp_qp *qp, const struct diwarp_wc *wc)
{
    qp->port->datagrams.arena.held = true;
    dw_cq_push(qp->cq, wc);
    qp->cq->held++;
    qp->cq->device->held++;
}
