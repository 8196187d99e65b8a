/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the stream to whole FPDUs. All QPs of a CQ read into one stage. What remains of an FPDU at
 * the end of a read is kept until the next, which puts it back before what comes then: FPDUs begin
 * TCP segments, so it is little, if anything.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/copy.h"
#include "common/rc/qp.h"

/* Keeps the bytes up to `end`. False, without memory: the QP is closed. */
static bool keep(struct diwarp_rc_qp *qp, const uint8_t *from, const uint8_t *end)
{
    const size_t bytes = (size_t)(end - from);
    uint8_t *buf = malloc(bytes);
    if (!buf) {
        dw_rc_terminate(qp, DW_TERM_MPA_CATASTROPHIC, NULL, 0);
        return false;
    }
    dw_copy(buf, from, bytes);
    qp->held = (struct dw_rc_held){.buf = buf, .bytes = (uint32_t)bytes};
    return true;
}

/* The QP waits for a receive, with a ULPDU for that and what came behind it, from `rest` on. */
static void stand_still(struct diwarp_rc_qp *qp, const struct dw_mpa_fpdu *fpdu,
                        const uint8_t *rest, const uint8_t *end, uint64_t now_ns)
{
    if (!qp->attr.rnr_timeout_ns) {
        dw_rc_terminate(qp, DW_TERM_DDP_NO_BUFFER, fpdu->ulpdu, (uint32_t)fpdu->ulpdu_bytes);
        return;
    }
    if (!keep(qp, fpdu->ulpdu, end))
        return;
    qp->held.ulpdu_bytes = (uint32_t)fpdu->ulpdu_bytes;
    qp->held.rest_at = (uint32_t)(rest - fpdu->ulpdu);
    dw_list_append(&qp->rc->standing, &qp->standing_link);
    qp->rc->counters.rc_rx_waits++;
    dw_rc_limit(qp, now_ns);
    dw_rc_rewatch(qp);
}

/* Delivers all whole FPDUs, then keeps the rest. False: the QP stands still or is closed. */
static bool parse(struct diwarp_rc_qp *qp, uint8_t *at, const uint8_t *end, uint64_t now_ns)
{
    while (at < end) {
        struct dw_mpa_fpdu fpdu;
        int rc = dw_mpa_fpdu_get(&qp->rx, &fpdu, at, (size_t)(end - at));
        if (rc == -EAGAIN)
            return keep(qp, at, end);
        if (rc) {
            uint16_t cause = rc == -EBADMSG ? DW_TERM_MPA_CRC : DW_TERM_MPA_MARKER;
            dw_rc_terminate(qp, cause, NULL, 0);
            return false;
        }
        qp->rc->counters.rc_rx_fpdus++;
        at += fpdu.bytes;
        rc = dw_rc_deliver(qp, fpdu.ulpdu, (uint32_t)fpdu.ulpdu_bytes);
        if (rc == -EAGAIN)
            stand_still(qp, &fpdu, at, end, now_ns);
        if (rc)
            return false;
    }
    return true;
}

/* Has the other side begun an FPDU or message that it did not end? */
static bool in_the_middle(const struct diwarp_rc_qp *qp)
{
    const struct dw_rc_work *read =
        qp->reads.count ? dw_ring_at(&qp->reads, sizeof *read, 0) : NULL;
    return qp->held.bytes || qp->receiving || qp->writing || (read && read->placed);
}

/* Nothing comes any more. */
static void on_end(struct diwarp_rc_qp *qp, bool orderly)
{
    if (!orderly || in_the_middle(qp) || !qp->may_send || qp->broken) {
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_TCP_LOST);
        return;
    }
    qp->ended = true;
    dw_rc_flush_works(qp, &qp->reads); /* nor does anything answer those that wait for their turn */
    if (qp->state != DW_RC_CLOSING)
        dw_rc_begin_close(qp);
    dw_rc_flush(qp);
    if (qp->state != DW_RC_CLOSED) {
        dw_rc_rewatch(qp);
        dw_rc_end_if_idle(qp);
    }
}

bool dw_rc_receive(struct diwarp_rc_qp *qp, uint64_t now_ns)
{
    struct diwarp_rc_counters *counters = &qp->rc->counters;
    struct dw_rc_held held = qp->held;
    uint8_t *stage = qp->rc->stage;
    /* While no receive is posted only a part: what cannot be delivered has to be kept. */
    const size_t most = qp->recvs->count ? DW_RC_STAGE_BYTES - held.bytes : DW_RC_STAGE_BYTES / 4;
    struct iovec iov = {stage + held.bytes, most};
    ssize_t n = qp->stream->ops->recv(qp->stream, &iov, 1);
    if (n == 0) {
        counters->rc_rx_empty_syscalls++;
        return false;
    }
    if (n < 0) {
        on_end(qp, n == -ENODATA);
        return true;
    }
    qp->rc->receives++;
    counters->rc_rx_syscalls++;
    counters->rc_rx_bytes += (uint64_t)n;
    dw_copy(stage, held.buf, held.bytes);
    free(held.buf);
    qp->held = (struct dw_rc_held){0};
    (void)parse(qp, stage, stage + held.bytes + n, now_ns);
    dw_rc_flush(qp); /* responses to what came, requests that may now be sent */
    return true;
}

void dw_rc_resume(struct diwarp_rc_qp *qp, uint64_t now_ns)
{
    struct dw_rc_held held = qp->held;
    qp->held = (struct dw_rc_held){0};
    dw_list_remove(&qp->standing_link);
    dw_rc_limit(qp, now_ns);
    if (!dw_rc_deliver(qp, held.buf, held.ulpdu_bytes)) {
        if (parse(qp, held.buf + held.rest_at, held.buf + held.bytes, now_ns))
            dw_rc_rewatch(qp);
        dw_rc_flush(qp);
    }
    free(held.buf);
}
