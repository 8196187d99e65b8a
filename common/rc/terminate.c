/* SPDX-License-Identifier: BSD-3-Clause */
/* Terminate (RFC 5040 4.8, 5.5), and streams that linger so that the other side can read it. */
#include <errno.h>
#include <stdlib.h>

#include "common/rc/qp.h"

/* ---- lingering ---- */

struct lingering {
    struct dw_rc_watch watch;
    struct dw_list link; /* in rc.lingers */
    struct dw_rc *rc;
    struct dw_stream *stream;
    struct dw_timer timer;
    struct dw_rc_tail tail;
    bool ended; /* the other side's sending; it may read on */
};

static void end_linger(struct lingering *linger)
{
    struct dw_rc *rc = linger->rc;
    linger->stream->ops->close(linger->stream);
    (void)dw_heap_set(&rc->timers, &linger->timer, DW_NEVER);
    dw_list_remove(&linger->link);
    rc->linger_count--;
    rc->send_bytes -= sizeof *linger + linger->tail.bytes;
    free(linger->tail.buf);
    free(linger);
}

static void on_linger_timer(struct dw_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    end_linger(dw_container(timer, struct lingering, timer));
}

static bool unsent(const struct lingering *linger)
{
    return linger->tail.sent < linger->tail.bytes;
}

/* What still comes is read and forgotten: closing with unread bytes would reset the connection, and
 * with it what the other side has not read yet. False: the stream is broken, or nothing more will
 * come from either side. */
static bool go_on(struct lingering *linger, unsigned what)
{
    struct dw_stream *stream = linger->stream;
    struct dw_rc_tail *tail = &linger->tail;
    if (what & DW_STREAM_IN && !linger->ended) {
        struct iovec stage = {linger->rc->stage, DW_RC_STAGE_BYTES};
        ssize_t n = stream->ops->recv(stream, &stage, 1);
        linger->ended = n == -ENODATA;
        if (n < 0 && !linger->ended)
            return false;
    }
    if (unsent(linger)) {
        struct iovec rest = {tail->buf + tail->sent, tail->bytes - tail->sent};
        ssize_t n = stream->ops->send(stream, &rest, 1);
        if (n < 0)
            return false;
        tail->sent += (uint32_t)n;
        if (!unsent(linger))
            stream->ops->shutdown(stream);
    }
    stream->ops->watch(stream,
                       (linger->ended ? 0u : DW_STREAM_IN) | (unsent(linger) ? DW_STREAM_OUT : 0u));
    return unsent(linger) || !linger->ended;
}

static void on_linger_ready(struct dw_rc_watch *watch, unsigned what, uint64_t now_ns)
{
    struct lingering *linger = dw_container(watch, struct lingering, watch);
    (void)now_ns;
    if (!go_on(linger, what))
        end_linger(linger);
}

void dw_rc_linger(struct dw_rc *rc, struct dw_stream *stream, struct dw_rc_tail tail)
{
    struct lingering *linger =
        rc->linger_count < DW_RC_STRAYS_MAX ? calloc(1, sizeof *linger) : NULL;
    stream->ops->watch(stream, 0);
    if (!linger) {
        struct iovec rest = {tail.buf + tail.sent, tail.bytes - tail.sent};
        (void)stream->ops->send(stream, &rest, 1);
        stream->ops->close(stream);
        free(tail.buf);
        return;
    }
    *linger = (struct lingering){.watch = {.ready = on_linger_ready},
                                 .rc = rc,
                                 .stream = stream,
                                 .timer = {.fire = on_linger_timer},
                                 .tail = tail};
    stream->owner = &linger->watch;
    dw_list_append(&rc->lingers, &linger->link);
    rc->linger_count++;
    rc->send_bytes += sizeof *linger + tail.bytes;
    (void)dw_heap_set(&rc->timers, &linger->timer, dw_device_now_ns(rc->device) + DW_RC_STRAY_NS);
    if (!go_on(linger, 0))
        end_linger(linger);
}

void dw_rc_lingers_free(struct dw_rc *rc)
{
    dw_foreach (linger, struct lingering, link, &rc->lingers)
        end_linger(linger);
}

/* ---- Terminate ---- */

static void count(struct diwarp_rc_counters *counters, uint16_t cause)
{
    /* Local catastrophes are not counted. */
    const struct {
        uint16_t first, last;
        uint64_t *counter;
    } kinds[] = {
        {DW_TERM_RDMAP_STAG, DW_TERM_RDMAP_PROTECT_INVALIDATE, &counters->rc_bad_stag},
        {DW_TERM_RDMAP_VERSION, DW_TERM_RDMAP_UNSPECIFIED, &counters->rc_bad_header},
        {DW_TERM_DDP_STAG, DW_TERM_DDP_TO_WRAP, &counters->rc_bad_stag},
        {DW_TERM_DDP_TAGGED_VERSION, DW_TERM_DDP_QN, &counters->rc_bad_header},
        {DW_TERM_DDP_NO_BUFFER, DW_TERM_DDP_TOO_LONG, &counters->rc_bad_message},
        {DW_TERM_DDP_UNTAGGED_VERSION, DW_TERM_DDP_UNTAGGED_VERSION, &counters->rc_bad_header},
        {DW_TERM_MPA_CRC, DW_TERM_MPA_MARKER, &counters->rc_bad_crc},
        {DW_TERM_MPA_IRD, DW_TERM_MPA_RTR, &counters->rc_rejects}, /* they do not suit each other */
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        *kinds[i].counter += cause >= kinds[i].first && cause <= kinds[i].last;
}

/* Its FPDU follows the rest of the one that TCP took in part. */
static bool add_terminate(struct diwarp_rc_qp *qp, uint16_t cause, const uint8_t *ulpdu,
                          uint32_t bytes)
{
    uint8_t segment[DW_DDP_UNTAGGED_BYTES + DW_TERMINATE_MAX_BYTES];
    const struct dw_ddp_header ddp = {
        .last = true, .opcode = DW_RDMAP_TERMINATE, .qn = DW_QN_TERMINATE, .msn = 1};
    size_t head = dw_ddp_put(segment, &ddp);
    head += dw_terminate_put(segment + head, cause, ulpdu, bytes);
    return dw_rc_tail_add_fpdu(qp, segment, head);
}

void dw_rc_terminate(struct diwarp_rc_qp *qp, uint16_t cause, const uint8_t *ulpdu, uint32_t bytes)
{
    struct dw_rc *rc = qp->rc;
    count(&rc->counters, cause);
    /* The called side sends no FPDU before it had a good one (RFC 5044 7.1.2). */
    bool silent = qp->shut || (!qp->may_send && qp->state != DW_RC_REQUESTED);
    if (!silent && add_terminate(qp, cause, ulpdu, bytes)) {
        rc->counters.rc_tx_terminates++;
        dw_rc_linger(rc, qp->stream, qp->tail);
        qp->tail = (struct dw_rc_tail){0};
        dw_rc_detach(qp);
    }
    dw_rc_close(qp, IBV_WC_REM_OP_ERR, cause);
}
