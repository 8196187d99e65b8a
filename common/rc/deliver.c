/* SPDX-License-Identifier: BSD-3-Clause */
/* ULPDUs to their place: Sends into receives, Writes into regions, each checked first (RFC
 * 5041 7.1, RFC 5040 4.8). An error ends the stream with Terminate. */
#include <errno.h>
#include <string.h>

#include "common/base/copy.h"
#include "common/rc/qp.h"

static enum dw_rc_verdict fail(struct diwarp_rc_qp *qp, const struct dw_rc_segment *segment,
                               uint16_t cause)
{
    return dw_rc_terminate(qp, cause, segment->ulpdu, segment->bytes);
}

void dw_rc_scatter(const struct iovec *iov, uint32_t offset, const uint8_t *from, uint32_t bytes)
{
    for (; bytes; iov++) {
        if (offset >= iov->iov_len) {
            offset -= (uint32_t)iov->iov_len;
            continue;
        }
        size_t here = iov->iov_len - offset;
        if (here > bytes)
            here = bytes;
        dw_copy((uint8_t *)iov->iov_base + offset, from, here);
        from += here;
        bytes -= (uint32_t)here;
        offset = 0;
    }
}

#define REMOTE_RIGHTS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* The region of an STag that peers may know. One without any right for them, that was invalidated
 * or is for local use, is none to them (RFC 5040 5.3). */
static struct dw_region *remote_region(const struct diwarp_rc_qp *qp, uint32_t stag)
{
    struct dw_region *region = dw_map_get(&qp->pd->mrs.by_stag, stag);
    return region && region->mr.access & REMOTE_RIGHTS ? region : NULL;
}

uint16_t dw_rc_check_access(const struct diwarp_rc_qp *qp, uint32_t stag, uint64_t to,
                            uint64_t bytes, int access)
{
    struct dw_region *region;
    bool ddp = access != IBV_ACCESS_REMOTE_READ; /* DDP places; RDMAP reads the source */
    if (to + bytes < to)
        return ddp ? DW_TERM_DDP_TO_WRAP : DW_TERM_RDMAP_TO_WRAP;
    int rc = dw_mr_check(&qp->pd->mrs, stag, to, bytes, access, &region);
    if (!rc)
        return 0;
    if (rc == -ERANGE)
        return ddp ? DW_TERM_DDP_BOUNDS : DW_TERM_RDMAP_BOUNDS;
    if (!remote_region(qp, stag))
        return ddp ? DW_TERM_DDP_STAG : DW_TERM_RDMAP_STAG;
    return DW_TERM_RDMAP_RIGHTS;
}

/* ---- RDMA Write ---- */

static enum dw_rc_verdict on_write(struct diwarp_rc_qp *qp, const struct dw_rc_segment *segment)
{
    const struct dw_ddp_header *ddp = &segment->ddp;
    uint32_t payload = segment->bytes - segment->head_bytes;
    qp->writing = !ddp->last;
    if (!payload)
        return DW_RC_DONE; /* names nothing (RFC 5040 5.1) */
    uint16_t cause = dw_rc_check_access(qp, ddp->stag, ddp->to, payload, IBV_ACCESS_REMOTE_WRITE);
    if (cause)
        return fail(qp, segment, cause);
    dw_copy((void *)(uintptr_t)ddp->to, segment->ulpdu + segment->head_bytes, payload);
    qp->rc->cq->served++;
    return DW_RC_DONE;
}

/* ---- Send ---- */

/* The peer's rights end; the application's own use of the region does not. */
static bool invalidate(struct diwarp_rc_qp *qp, uint32_t stag)
{
    struct dw_region *region = remote_region(qp, stag);
    if (!region)
        return false;
    region->mr.access &= ~REMOTE_RIGHTS;
    return true;
}

static enum dw_rc_verdict on_last(struct diwarp_rc_qp *qp, const struct dw_rc_segment *segment)
{
    const struct dw_ddp_header *ddp = &segment->ddp;
    bool invalidates =
        ddp->opcode == DW_RDMAP_SEND_INVALIDATE || ddp->opcode == DW_RDMAP_SEND_SE_INVALIDATE;
    if (invalidates && !invalidate(qp, ddp->ulp))
        return fail(qp, segment, DW_TERM_RDMAP_PROTECT_INVALIDATE);
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
        return fail(qp, segment, DW_TERM_DDP_MSN);
    if (ddp->mo != (qp->receiving ? qp->received_bytes : 0))
        return fail(qp, segment, DW_TERM_DDP_MO);
    if (!qp->receiving) {
        if (!dw_rc_take_recv(qp, &qp->current))
            return DW_RC_WAIT;
        qp->receiving = true;
        qp->received_bytes = 0;
    }
    if (payload > qp->current.bytes - qp->received_bytes)
        return fail(qp, segment, DW_TERM_DDP_TOO_LONG);
    const uint8_t *from = segment->ulpdu + segment->head_bytes;
    if (qp->current.sge_count == 1 && payload)
        dw_copy((uint8_t *)qp->current.addr + qp->received_bytes, from, payload);
    else
        dw_rc_scatter(qp->current.more, qp->received_bytes, from, payload);
    qp->received_bytes += payload;
    return ddp->last ? on_last(qp, segment) : DW_RC_DONE;
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
        return fail(qp, &segment, cause);
    segment.head_bytes = (uint32_t)head;
    switch (segment.ddp.opcode) {
    case DW_RDMAP_WRITE:
        return on_write(qp, &segment);
    case DW_RDMAP_READ_REQUEST:
        return dw_rc_on_read_request(qp, &segment);
    case DW_RDMAP_READ_RESPONSE:
        return dw_rc_on_read_response(qp, &segment);
    case DW_RDMAP_TERMINATE:
        return dw_rc_on_terminate(qp, &segment);
    default:
        return on_send(qp, &segment);
    }
}
