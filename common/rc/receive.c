/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the stream to whole FPDUs. All QPs of a CQ read into one stage. What remains of an FPDU at
 * the end of a read gets memory of its own, of the FPDU's size, and the next read fills it first:
 * no byte is moved more than once, however TCP cuts the stream.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/base/copy.h"
#include "common/rc/qp.h"

struct bytes {
    uint8_t *at;
    size_t count;
};

/* False, without memory: the QP is closed. */
static bool make_held(struct diwarp_rc_qp *qp, size_t capacity)
{
    assert(!qp->held.buf);
    qp->held.buf = malloc(capacity);
    if (!qp->held.buf) {
        dw_rc_terminate(qp, DW_TERM_MPA_CATASTROPHIC, NULL, 0);
        return false;
    }
    qp->held.capacity = (uint32_t)capacity;
    return true;
}

static void keep(struct dw_rc_held *held, const uint8_t *from, size_t bytes)
{
    if (bytes)
        dw_copy(held->buf + held->bytes, from, bytes);
    held->bytes += (uint32_t)bytes;
}

/* The beginning of an FPDU, kept until the rest comes, or until it tells its length. False: the QP
 * is closed. */
static bool keep_part(struct diwarp_rc_qp *qp, struct bytes in, size_t fpdu_bytes)
{
    if (!make_held(qp, fpdu_bytes ? fpdu_bytes : DW_MPA_FPDU_BYTES(0)))
        return false;
    keep(&qp->held, in.at, in.count);
    return true;
}

/* A ULPDU that no receive is posted for, and what came behind it. */
static void stand_still(struct diwarp_rc_qp *qp, const struct dw_mpa_fpdu *fpdu,
                        const struct bytes *rest, const struct bytes *more, uint64_t now_ns)
{
    if (!qp->attr.rnr_timeout_ns) {
        dw_rc_terminate(qp, DW_TERM_DDP_NO_BUFFER, fpdu->ulpdu, (uint32_t)fpdu->ulpdu_bytes);
        return;
    }
    if (!make_held(qp, fpdu->ulpdu_bytes + rest->count + more->count))
        return;
    keep(&qp->held, fpdu->ulpdu, fpdu->ulpdu_bytes);
    keep(&qp->held, rest->at, rest->count);
    keep(&qp->held, more->at, more->count);
    qp->held.ulpdu_bytes = (uint32_t)fpdu->ulpdu_bytes;
    dw_list_append(&qp->rc->standing, &qp->standing_link);
    qp->rc->counters.rc_rx_waits++;
    dw_rc_limit(qp, now_ns);
    dw_rc_rewatch(qp);
}

/* Delivers all whole FPDUs, then keeps the rest; `more` follows it in the stream. False: the QP
 * stands still or is closed. */
static bool parse(struct diwarp_rc_qp *qp, struct bytes in, struct bytes more, uint64_t now_ns)
{
    while (in.count) {
        struct dw_mpa_fpdu fpdu;
        int rc = dw_mpa_fpdu_get(&qp->rx, &fpdu, in.at, in.count);
        if (rc == -EAGAIN)
            return keep_part(qp, in, fpdu.bytes);
        if (rc) {
            uint16_t cause = rc == -EBADMSG ? DW_TERM_MPA_CRC : DW_TERM_MPA_MARKER;
            dw_rc_terminate(qp, cause, NULL, 0);
            return false;
        }
        qp->rc->counters.rc_rx_fpdus++;
        in.at += fpdu.bytes;
        in.count -= fpdu.bytes;
        rc = dw_rc_deliver(qp, fpdu.ulpdu, (uint32_t)fpdu.ulpdu_bytes);
        if (rc == -EAGAIN)
            stand_still(qp, &fpdu, &in, &more, now_ns);
        if (rc)
            return false;
    }
    return true;
}

/* Responses to what came, requests that may now be sent. */
static void answer(struct diwarp_rc_qp *qp)
{
    if (qp->stream && !dw_rc_idle(qp))
        dw_rc_flush(qp);
}

/* ---- reading ---- */

/* What came behind the bytes that are held. */
static void on_bytes(struct diwarp_rc_qp *qp, struct bytes in, uint64_t now_ns)
{
    while (qp->held.buf) {
        uint32_t missing = qp->held.capacity - qp->held.bytes;
        size_t n = in.count < missing ? in.count : missing;
        keep(&qp->held, in.at, n);
        in.at += n;
        in.count -= n;
        if (n < missing)
            return;
        /* Taken out of the QP, which may have to keep something else. */
        struct dw_rc_held held = qp->held;
        qp->held = (struct dw_rc_held){0};
        bool goes_on = parse(qp, (struct bytes){held.buf, held.capacity}, in, now_ns);
        free(held.buf);
        if (!goes_on)
            return;
    }
    (void)parse(qp, in, (struct bytes){0}, now_ns);
}

/* Has the other side begun an FPDU or message that it did not end? */
static bool in_the_middle(const struct diwarp_rc_qp *qp)
{
    const struct dw_rc_work *read =
        qp->reads.count ? dw_ring_at(&qp->reads, sizeof *read, 0) : NULL;
    return qp->held.bytes || qp->receiving || qp->writing || (read && read->placed);
}

/* The other side has sent its last. */
static void on_end(struct diwarp_rc_qp *qp)
{
    if (in_the_middle(qp) || !qp->may_send || qp->broken) {
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_TCP_LOST);
        return;
    }
    qp->ended = true;
    dw_rc_flush_works(qp, &qp->reads); /* nor does anything answer those that wait for their turn */
    if (qp->state != DW_RC_CLOSING)
        dw_rc_set_state(qp, DW_RC_CLOSING);
    dw_rc_flush(qp);
    if (qp->state != DW_RC_CLOSED) {
        dw_rc_rewatch(qp);
        dw_rc_end_if_idle(qp);
    }
}

bool dw_rc_receive(struct diwarp_rc_qp *qp, uint64_t now_ns)
{
    struct diwarp_rc_counters *counters = &qp->rc->counters;
    uint32_t missing = qp->held.capacity - qp->held.bytes;
    /* While no receive is posted only a part: what cannot be delivered has to be kept. */
    uint32_t most = qp->recvs->count ? DW_RC_STAGE_BYTES : DW_RC_STAGE_BYTES / 4;
    struct iovec iov[] = {{NULL, missing}, {qp->rc->stage, most}};
    unsigned skip = !missing;
    if (missing)
        iov[0].iov_base = qp->held.buf + qp->held.bytes;
    ssize_t n = qp->stream->ops->recv(qp->stream, iov + skip, 2 - skip);
    if (n == 0) {
        counters->rc_rx_empty_syscalls++;
        return false;
    }
    if (n == -ENODATA) {
        on_end(qp);
        return true;
    }
    if (n < 0) {
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_TCP_LOST);
        return true;
    }
    qp->rc->receives++;
    counters->rc_rx_syscalls++;
    counters->rc_rx_bytes += (uint64_t)n;
    uint32_t direct = n < missing ? (uint32_t)n : missing;
    qp->held.bytes += direct;
    on_bytes(qp, (struct bytes){qp->rc->stage, (size_t)n - direct}, now_ns);
    answer(qp);
    return true;
}

void dw_rc_resume(struct diwarp_rc_qp *qp, uint64_t now_ns)
{
    struct dw_rc_held held = qp->held;
    struct bytes rest = {held.buf + held.ulpdu_bytes, held.bytes - held.ulpdu_bytes};
    qp->held = (struct dw_rc_held){0};
    dw_list_remove(&qp->standing_link);
    dw_rc_limit(qp, now_ns);
    if (!dw_rc_deliver(qp, held.buf, held.ulpdu_bytes)) {
        if (parse(qp, rest, (struct bytes){0}, now_ns))
            dw_rc_rewatch(qp);
        answer(qp);
    }
    free(held.buf);
}
