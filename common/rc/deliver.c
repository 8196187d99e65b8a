/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ULPDUs to their place: Sends into receives, Writes into regions, responses into the buffers of
 * our reads; requests of the other side's reads wait for send.c. Each is checked first (RFC
 * 5041 7.1, RFC 5040 4.8): an error ends the stream with Terminate.
 */
#include <errno.h>

#include "common/base/copy.h"
#include "common/rc/qp.h"

static enum dw_rc_verdict on_write(struct diwarp_rc_qp *qp, const struct dw_rc_segment *segment)
{
    const struct dw_ddp_header *ddp = &segment->ddp;
    uint32_t payload = segment->bytes - segment->head_bytes;
    qp->writing = !ddp->last;
    if (!payload)
        return DW_RC_DONE; /* names nothing (RFC 5040 5.1) */
    uint16_t cause = dw_rc_check_access(qp, ddp->stag, ddp->to, payload, IBV_ACCESS_REMOTE_WRITE);
    if (cause)
        return dw_rc_fail(qp, segment, cause);
    dw_copy((void *)(uintptr_t)ddp->to, segment->ulpdu + segment->head_bytes, payload);
    qp->rc->device->served++;
    return DW_RC_DONE;
}

static enum dw_rc_verdict on_last(struct diwarp_rc_qp *qp, const struct dw_rc_segment *segment)
{
    const struct dw_ddp_header *ddp = &segment->ddp;
    bool invalidates =
        ddp->opcode == DW_RDMAP_SEND_INVALIDATE || ddp->opcode == DW_RDMAP_SEND_SE_INVALIDATE;
    if (invalidates && !dw_rc_invalidate(qp, ddp->ulp))
        return dw_rc_fail(qp, segment, DW_TERM_RDMAP_PROTECT_INVALIDATE);
    struct diwarp_wc wc = {
        .wc = {.wr_id = qp->current.wr_id,
               .opcode = IBV_WC_RECV,
               .byte_len = qp->received_bytes,
               .wc_flags = invalidates ? IBV_WC_WITH_INV : 0},
        .rc_qp = qp,
    };
    if (invalidates)
        wc.wc.invalidated_rkey = ddp->ulp;
    dw_cq_push(qp->rc->cq, &wc);
    qp->rc->counters.rc_rx_send_msgs++;
    dw_rc_recv_free(&qp->current);
    qp->receiving = false;
    qp->recv_msn++;
    return DW_RC_DONE;
}

static enum dw_rc_verdict on_send(struct diwarp_rc_qp *qp, const struct dw_rc_segment *segment)
{
    const struct dw_ddp_header *ddp = &segment->ddp;
    uint32_t payload = segment->bytes - segment->head_bytes;
    if (ddp->msn != qp->recv_msn)
        return dw_rc_fail(qp, segment, DW_TERM_DDP_MSN);
    if (ddp->mo != (qp->receiving ? qp->received_bytes : 0))
        return dw_rc_fail(qp, segment, DW_TERM_DDP_MO);
    if (!qp->receiving) {
        struct dw_ring *ring = &qp->recvs->ring;
        if (!ring->count)
            return DW_RC_WAIT;
        qp->current = *(struct dw_rc_recv *)dw_ring_at(ring, sizeof qp->current, 0);
        dw_ring_pop(ring, 1);
        qp->receiving = true;
        qp->received_bytes = 0;
    }
    if (payload > qp->current.bytes - qp->received_bytes)
        return dw_rc_fail(qp, segment, DW_TERM_DDP_TOO_LONG);
    const uint8_t *from = segment->ulpdu + segment->head_bytes;
    if (qp->current.sge_count == 1 && payload)
        dw_copy((uint8_t *)qp->current.addr + qp->received_bytes, from, payload);
    else
        dw_rc_scatter(qp->current.more, qp->received_bytes, from, payload);
    qp->received_bytes += payload;
    return ddp->last ? on_last(qp, segment) : DW_RC_DONE;
}

static enum dw_rc_verdict on_read_request(struct diwarp_rc_qp *qp,
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
static enum dw_rc_verdict on_read_response(struct diwarp_rc_qp *qp,
                                           const struct dw_rc_segment *segment)
{
    const struct dw_ddp_header *ddp = &segment->ddp;
    uint32_t payload = segment->bytes - segment->head_bytes;
    if (!qp->reads.count)
        return dw_rc_fail(qp, segment, DW_TERM_RDMAP_OPCODE);
    struct dw_rc_work *read = dw_ring_at(&qp->reads, sizeof *read, 0);
    if (ddp->stag != read->sink_stag)
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

/* ---- any ---- */

static void on_first(struct diwarp_rc_qp *qp)
{
    qp->may_send = true;
    if (qp->state != DW_RC_RESPONDED)
        return;
    dw_rc_set_state(qp, DW_RC_RTS);
    dw_rc_set_timer(qp, DW_NEVER);
}

enum dw_rc_verdict dw_rc_deliver(struct diwarp_rc_qp *qp, const uint8_t *ulpdu, uint32_t bytes)
{
    struct dw_rc_segment segment = {.ulpdu = ulpdu, .bytes = bytes};
    uint16_t cause = 0;
    if (!qp->may_send)
        on_first(qp);
    if (!bytes)
        return DW_RC_DONE; /* says only that the stream is up (RFC 6581 5) */
    int head = dw_ddp_get_stream(&segment.ddp, ulpdu, bytes, &cause);
    if (head < 0)
        return dw_rc_fail(qp, &segment, cause);
    segment.head_bytes = (uint32_t)head;
    switch (segment.ddp.opcode) {
    case DW_RDMAP_WRITE:
        return on_write(qp, &segment);
    case DW_RDMAP_READ_REQUEST:
        return on_read_request(qp, &segment);
    case DW_RDMAP_READ_RESPONSE:
        return on_read_response(qp, &segment);
    case DW_RDMAP_TERMINATE:
        return dw_rc_on_terminate(qp, &segment);
    default:
        return on_send(qp, &segment);
    }
}
