/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA start-up (RFC 5044 7.1, RFC 6581): the calling side's part. */
#include "common/rc/startup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rc/close.h"
#include "common/rc/frame.h"
#include "common/rc/send.h"
#include "common/rc/terminate.h"

static void on_tcp_connected(struct diwarp_rc_qp *qp)
{
    int rc = qp->stream->ops->finish_connect(qp->stream);
    if (!rc)
        rc = dw_rc_send_bytes(qp, qp->startup->buf, qp->startup->bytes);
    if (rc) {
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_TCP_LOST);
        return;
    }
    qp->startup->bytes = 0;
    dw_rc_set_state(qp, DW_RC_REQUESTED);
    dw_rc_rewatch(qp);
}

static int keep_answer(struct diwarp_rc_qp *qp, const uint8_t *data, uint32_t bytes)
{
    if (!bytes)
        return 0;
    qp->answer = malloc(bytes);
    if (!qp->answer)
        return -ENOMEM;
    memcpy(qp->answer, data, bytes);
    qp->answer_bytes = bytes;
    return 0;
}

static void refuse(struct diwarp_rc_qp *qp)
{
    qp->rc->counters.rc_bad_startup++;
    dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_STARTUP);
}

static bool has_reads(const struct diwarp_rc_qp *qp)
{
    for (uint32_t i = 0; i < qp->works.count; i++) {
        const struct dw_rc_work *work = dw_ring_at(&qp->works, sizeof *work, i);
        if (work->opcode == DW_RDMAP_READ_REQUEST)
            return true;
    }
    return false;
}

/* 0, or why the two do not suit each other (RFC 6581 9). */
static uint16_t disagreement(const struct diwarp_rc_qp *qp, const struct dw_mpa_enhanced *theirs)
{
    if (theirs->peer_to_peer && !theirs->rtr_write)
        return DW_TERM_MPA_RTR;
    if (theirs->ord > qp->ird && theirs->ord != DW_MPA_DEPTH_MAX)
        return DW_TERM_MPA_IRD;
    /* It answers no reads: one that was posted already would wait for ever, and with it all that is
     * behind it. */
    return !qp->ord && has_reads(qp) ? DW_TERM_MPA_IRD : 0;
}

static void on_reply(struct diwarp_rc_qp *qp, const struct dw_mpa_frame *frame)
{
    struct dw_mpa_enhanced theirs;
    struct dw_rc_hello hello;
    const uint8_t *data;
    uint32_t bytes;
    if (frame->revision != qp->attr.mpa_revision ||
        dw_rc_frame_get(frame, &theirs, &hello, &data, &bytes) || hello.token != qp->token) {
        refuse(qp);
        return;
    }
    if (keep_answer(qp, data, bytes)) {
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, 0);
        return;
    }
    if (frame->flags & DW_MPA_REJECT) {
        qp->rc->counters.rc_rejects++;
        dw_rc_close(qp, IBV_WC_REM_INV_REQ_ERR, 0);
        return;
    }
    dw_rc_begin_fpdus(qp, frame, theirs.ird);
    uint16_t cause = disagreement(qp, &theirs);
    if (cause) {
        (void)dw_rc_terminate(qp, cause, NULL, 0);
        return;
    }
    free(qp->startup);
    qp->startup = NULL;
    dw_rc_set_state(qp, DW_RC_RTS);
    dw_rc_set_timer(qp, DW_NEVER);
    qp->may_send = qp->cursor.rtr = true;
    struct diwarp_wc wc = {
        .wc = {.opcode = (enum ibv_wc_opcode)DIWARP_WC_CONNECTED, .byte_len = qp->answer_bytes},
        .src = hello.name,
        .rc_qp = qp,
        .data = qp->answer,
    };
    dw_cq_push(qp->rc->cq, &wc);
    dw_rc_heat(qp);
    dw_rc_flush(qp);
}

void dw_rc_startup_ready(struct diwarp_rc_qp *qp, unsigned what, uint64_t now_ns)
{
    (void)now_ns;
    if (qp->state == DW_RC_CONNECTING) {
        on_tcp_connected(qp);
        return;
    }
    if (what & DW_STREAM_OUT) {
        dw_rc_set_blocked(qp, false);
        if (dw_rc_send_bytes(qp, NULL, 0)) {
            dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_TCP_LOST);
            return;
        }
        dw_rc_rewatch(qp);
    }
    if (!(what & DW_STREAM_IN))
        return;
    struct dw_mpa_frame frame;
    int rc = dw_rc_frame_read(qp->stream, qp->startup, DW_MPA_REPLY, &frame);
    if (rc == -EBADMSG || rc == -EPROTO || rc == -EPROTONOSUPPORT)
        refuse(qp);
    else if (rc && rc != -EAGAIN)
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_TCP_LOST);
    else if (!rc)
        on_reply(qp, &frame);
}
