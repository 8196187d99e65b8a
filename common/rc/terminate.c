/* SPDX-License-Identifier: BSD-3-Clause */
/* Terminate (RFC 5040 4.8, 5.5), and streams that linger so that the other side can read what was
 * sent last. */
#include <errno.h>
#include <stdlib.h>

#include "common/rc/qp.h"

struct lingering {
    struct dw_list link; /* in rc.lingers */
    struct dw_rc *rc;
    struct dw_stream *stream;
    struct dw_timer timer;
    struct dw_rc_tail tail; /* sent first; then what still comes is read */
};

static struct iovec rest_of(const struct dw_rc_tail *tail)
{
    return tail->buf ? (struct iovec){tail->buf + tail->sent, tail->bytes - tail->sent}
                     : (struct iovec){0};
}

static void end_linger(struct lingering *linger)
{
    struct dw_rc *rc = linger->rc;
    linger->stream->ops->close(linger->stream);
    (void)dw_heap_set(&rc->timers, &linger->timer, DW_NEVER);
    dw_list_remove(&linger->link);
    rc->counters.rc_lingering = --rc->linger_count;
    rc->send_bytes -= sizeof *linger + linger->tail.bytes;
    free(linger->tail.buf);
    free(linger);
}

static void on_linger_timer(struct dw_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    end_linger(dw_container(timer, struct lingering, timer));
}

/* What still comes is read and forgotten: closing with unread bytes would reset the connection, and
 * with it what the other side has not read yet. */
static void on_linger_ready(void *owner, unsigned what, uint64_t now_ns)
{
    struct lingering *linger = owner;
    struct dw_stream *stream = linger->stream;
    struct dw_rc_tail *tail = &linger->tail;
    struct iovec rest = rest_of(tail);
    struct iovec stage = {linger->rc->stage, DW_RC_STAGE_BYTES};
    (void)now_ns;
    /* Other stacks may read nothing while what they send waits for us. */
    ssize_t came = what & DW_STREAM_IN ? stream->ops->recv(stream, &stage, 1) : 0;
    ssize_t went = rest.iov_len ? stream->ops->send(stream, &rest, 1) : 0;
    if (went < 0 || (came < 0 && !rest.iov_len)) {
        end_linger(linger);
        return;
    }
    tail->sent += (uint32_t)went;
    const bool all = tail->sent == tail->bytes;
    if (all && rest.iov_len)
        stream->ops->shutdown(stream);
    /* The end of what comes does not end what is still to be sent. */
    stream->ops->watch(stream, (all ? 0 : DW_STREAM_OUT) | (came < 0 ? 0 : DW_STREAM_IN));
}

void dw_rc_linger(struct dw_rc *rc, struct dw_stream *stream, struct dw_rc_tail tail)
{
    struct lingering *linger = rc->linger_count < DW_RC_STRAYS_MAX ? malloc(sizeof *linger) : NULL;
    struct iovec rest = rest_of(&tail);
    if (!linger) {
        if (rest.iov_len)
            (void)stream->ops->send(stream, &rest, 1);
        stream->ops->close(stream);
        free(tail.buf);
        return;
    }
    *linger = (struct lingering){
        .rc = rc, .stream = stream, .timer = {.fire = on_linger_timer}, .tail = tail};
    stream->owner = linger;
    stream->ready = on_linger_ready;
    dw_list_append(&rc->lingers, &linger->link);
    rc->counters.rc_lingering = ++rc->linger_count;
    rc->send_bytes += sizeof *linger + tail.bytes;
    (void)dw_heap_set(&rc->timers, &linger->timer, dw_device_now_ns(rc->device) + DW_RC_LINGER_NS);
    if (!rest.iov_len)
        stream->ops->shutdown(stream);
    on_linger_ready(linger, DW_STREAM_OUT, 0);
}

void dw_rc_lingers_free(struct dw_rc *rc)
{
    dw_foreach (linger, struct lingering, link, &rc->lingers)
        end_linger(linger);
}

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

void dw_rc_terminate(struct diwarp_rc_qp *qp, uint16_t cause, const uint8_t *ulpdu, uint32_t bytes)
{
    uint8_t segment[DW_DDP_UNTAGGED_BYTES + DW_TERMINATE_MAX_BYTES];
    const struct dw_ddp_header ddp = {
        .last = true, .opcode = DW_RDMAP_TERMINATE, .qn = DW_QN_TERMINATE, .msn = 1};
    size_t length = dw_ddp_put(segment, &ddp);
    struct dw_rc *rc = qp->rc;
    length += dw_terminate_put(segment + length, cause, ulpdu, bytes);
    count(&rc->counters, cause);
    /* The called side sends no FPDU before it had a good one (RFC 5044 7.1.2). */
    bool silent = qp->shut || (!qp->may_send && qp->state != DW_RC_CONNECTING);
    if (!silent && dw_rc_tail_add_fpdu(qp, segment, length)) {
        rc->counters.rc_tx_terminates++;
        dw_rc_linger(rc, qp->stream, qp->tail);
        qp->tail = (struct dw_rc_tail){0};
        dw_rc_detach(qp);
    }
    qp->terminated = true;
    dw_rc_close(qp, IBV_WC_REM_OP_ERR, cause);
}
