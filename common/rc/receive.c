/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the stream to whole FPDUs. All QPs of a CQ read into one stage. What remains of an FPDU at
 * the end of a read gets memory of its own, of the FPDU's size, and the next read fills it first:
 * no byte is moved more than once, however TCP cuts the stream.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/copy.h"
#include "common/rc/qp.h"

struct bytes {
    uint8_t *at;
    size_t count;
};

/* Keeps these bytes behind those that are held, with room for so many in all. False, without
 * memory: the QP is closed. */
static bool keep(struct diwarp_rc_qp *qp, struct bytes in, size_t capacity)
{
    struct dw_rc_held *held = &qp->held;
    if (capacity > held->capacity) {
        uint8_t *buf = realloc(held->buf, capacity);
        if (!buf) {
            dw_rc_terminate(qp, DW_TERM_MPA_CATASTROPHIC, NULL, 0);
            return false;
        }
        held->buf = buf;
        held->capacity = (uint32_t)capacity;
    }
    if (in.count)
        dw_copy(held->buf + held->bytes, in.at, in.count);
    held->bytes += (uint32_t)in.count;
    return true;
}

/* The QP waits for a receive, with a ULPDU for that and what came behind it. */
static void stand_still(struct diwarp_rc_qp *qp, const struct dw_mpa_fpdu *fpdu, struct bytes rest,
                        uint64_t now_ns)
{
    const struct bytes ulpdu = {fpdu->ulpdu, fpdu->ulpdu_bytes};
    if (!qp->attr.rnr_timeout_ns) {
        dw_rc_terminate(qp, DW_TERM_DDP_NO_BUFFER, ulpdu.at, (uint32_t)ulpdu.count);
        return;
    }
    if (!keep(qp, ulpdu, ulpdu.count + rest.count))
        return;
    (void)keep(qp, rest, 0);
    qp->held.ulpdu_bytes = (uint32_t)ulpdu.count;
    dw_list_append(&qp->rc->standing, &qp->standing_link);
    qp->rc->counters.rc_rx_waits++;
    dw_rc_limit(qp, now_ns);
    dw_rc_rewatch(qp);
}

/* Delivers all whole FPDUs, then keeps the beginning of one until the rest comes, or until it tells
 * its length. False: the QP stands still or is closed. */
static bool parse(struct diwarp_rc_qp *qp, struct bytes in, uint64_t now_ns)
{
    while (in.count) {
        struct dw_mpa_fpdu fpdu;
        int rc = dw_mpa_fpdu_get(&qp->rx, &fpdu, in.at, in.count);
        if (rc == -EAGAIN)
            return keep(qp, in, fpdu.bytes ? fpdu.bytes : DW_MPA_FPDU_BYTES(0));
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
            stand_still(qp, &fpdu, in, now_ns);
        if (rc)
            return false;
    }
    return true;
}

/* What came behind the bytes that are held. */
static void on_bytes(struct diwarp_rc_qp *qp, struct bytes in, uint64_t now_ns)
{
    bool goes_on = true;
    while (goes_on && qp->held.buf) {
        const uint32_t missing = qp->held.capacity - qp->held.bytes;
        const struct bytes part = {in.at, in.count < missing ? in.count : missing};
        (void)keep(qp, part, 0);
        in.at += part.count;
        in.count -= part.count;
        if (part.count < missing)
            return;
        /* Taken out of the QP, which may have to keep something else. */
        struct dw_rc_held held = qp->held;
        qp->held = (struct dw_rc_held){0};
        goes_on = parse(qp, (struct bytes){held.buf, held.bytes}, now_ns);
        free(held.buf);
    }
    if (goes_on)
        (void)parse(qp, in, now_ns);
    else if (dw_rc_is_standing(qp))
        (void)keep(qp, in, qp->held.bytes + in.count);
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
    uint32_t missing = qp->held.capacity - qp->held.bytes;
    /* While no receive is posted only a part: what cannot be delivered has to be kept. */
    uint32_t most = qp->recvs->count ? DW_RC_STAGE_BYTES : DW_RC_STAGE_BYTES / 4;
    struct iovec iov[2];
    unsigned count = 0;
    if (missing)
        iov[count++] = (struct iovec){qp->held.buf + qp->held.bytes, missing};
    iov[count++] = (struct iovec){qp->rc->stage, most};
    ssize_t n = qp->stream->ops->recv(qp->stream, iov, count);
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
    uint32_t direct = n < missing ? (uint32_t)n : missing;
    qp->held.bytes += direct;
    on_bytes(qp, (struct bytes){qp->rc->stage, (size_t)n - direct}, now_ns);
    dw_rc_flush(qp); /* responses to what came, requests that may now be sent */
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
        if (parse(qp, rest, now_ns))
            dw_rc_rewatch(qp);
        dw_rc_flush(qp);
    }
    free(held.buf);
}
