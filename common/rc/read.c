/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA Read: requests of the other side's, which wait for rc_send.c, and responses to ours, which
 * come in the order of our requests. */
#include "common/rc/read.h"

#include <errno.h>

#include "common/rc/access.h"

enum dw_rc_verdict dw_rc_on_read_request(struct diwarp_rc_qp *qp,
                                         const struct dw_rc_segment *segment)
{
    const struct dw_ddp_header *ddp = &segment->ddp;
    struct dw_read_request request;
    if (ddp->msn != qp->request_msn)
        return dw_rc_fail(qp, segment, DW_TERM_DDP_MSN);
    if (ddp->mo)
        return dw_rc_fail(qp, segment, DW_TERM_DDP_MO);
    /* The queue's buffers are of a request's size, and as many as the IRD says. */
    int rc = dw_read_request_get_stream(&request, segment->ulpdu + segment->head_bytes,
                                        segment->bytes - segment->head_bytes);
    if (rc || !ddp->last)
        return dw_rc_fail(qp, segment,
                          rc == -EBADMSG ? DW_TERM_RDMAP_UNSPECIFIED : DW_TERM_DDP_TOO_LONG);
    if (qp->responses.count == qp->ird)
        return dw_rc_fail(qp, segment, DW_TERM_DDP_NO_BUFFER);
    uint16_t cause = !request.size ? 0
                                   : dw_rc_check_access(qp, request.source_stag, request.source_to,
                                                        request.size, IBV_ACCESS_REMOTE_READ);
    if (!cause && request.sink_to + request.size < request.sink_to)
        cause = DW_TERM_RDMAP_TO_WRAP;
    if (cause)
        return dw_rc_fail(qp, segment, cause);
    struct dw_read_request *kept = dw_ring_push(&qp->responses, sizeof *kept, qp->ird);
    if (!kept)
        return dw_rc_fail(qp, segment, DW_TERM_RDMAP_CATASTROPHIC);
    *kept = request;
    qp->request_msn++;
    return DW_RC_DONE;
}

/* The sink's STag is made up for each read and names no region: only this response may use it. */
enum dw_rc_verdict dw_rc_on_read_response(struct diwarp_rc_qp *qp,
                                          const struct dw_rc_segment *segment)
{
    const struct dw_ddp_header *ddp = &segment->ddp;
    uint32_t payload = segment->bytes - segment->head_bytes;
    if (!qp->reads.count)
        return dw_rc_fail(qp, segment, DW_TERM_RDMAP_OPCODE);
    struct dw_rc_read *read = dw_ring_at(&qp->reads, sizeof *read, 0);
    if (ddp->stag != read->stag)
        return dw_rc_fail(qp, segment, DW_TERM_DDP_STAG);
    if (ddp->to != read->placed || payload > read->total - read->placed ||
        ddp->last != (read->placed + payload == read->total))
        return dw_rc_fail(qp, segment, DW_TERM_DDP_BOUNDS);
    dw_rc_scatter(read->sge, read->placed, segment->ulpdu + segment->head_bytes, payload);
    read->placed += payload;
    qp->rc->device->served++;
    if (!ddp->last)
        return DW_RC_DONE;
    if (read->signaled)
        dw_rc_complete(qp, read->wr_id, IBV_WC_RDMA_READ, IBV_WC_SUCCESS, read->total);
    dw_ring_pop(&qp->reads, 1);
    return DW_RC_DONE;
}
