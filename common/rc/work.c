/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of an RC QP, as they are queued. */
#include "common/rc/work.h"

#include <stdlib.h>

void dw_rc_work_free(struct dw_rc_work *work)
{
    free(work->own);
    work->own = NULL;
}

int dw_rc_wc_opcode(const struct dw_rc_work *work)
{
    switch (work->opcode) {
    case DW_RDMAP_WRITE:
        return IBV_WC_RDMA_WRITE;
    case DW_RDMAP_READ_REQUEST:
        return IBV_WC_RDMA_READ;
    default:
        return IBV_WC_SEND;
    }
}
