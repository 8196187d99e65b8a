/* SPDX-License-Identifier: BSD-3-Clause */
/* Terminate (RFC 5040 4.8, 5.5), and streams that linger so that the other side can read it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rc/qp.h"

/* ---- lingering ---- */

struct lingering {
    struct dw_rc_watch watch;
    struct dw_list link; /* in rc.lingers */
    struct dw_rc *rc;
    struct dw_stream *stream;
    struct dw_timer timer;
    uint8_t *rest;
    uint32_t bytes, sent; /* of rest */
    bool ended;           /* the other side's sending; it may read on */
};

static void end_linger(struct lingering *linger)
{
    struct dw_rc *rc = linger->rc;
    linger->stream->ops->close(linger->stream);
    (void)dw_heap_set(&rc->timers, &linger->timer, DW_NEVER);
    dw_list_remove(&linger->link);
    rc->linger_count--;
    rc->send_bytes -= sizeof *linger + linger->bytes;
    free(linger->rest);
    free(linger);
}

static void on_linger_timer(struct dw_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    end_linger(dw_container(timer, struct lingering, timer));
}

static bool unsent(const struct lingering *linger)
{
    return linger->sent < linger->bytes;
}

/* False: the stream is broken, or nothing more will come from either side. */
static bool send_rest(struct lingering *linger)
{
    struct dw_stream *stream = linger->stream;
    struct iovec left = {linger->rest + linger->sent, linger->bytes - linger->sent};
    ssize_t n = stream->ops->send(stream, &left, 1);
    if (n < 0)
        return false;
    linger->sent += (uint32_t)n;
    if (!unsent(linger))
        stream->ops->shutdown(stream);
    stream->ops->watch(stream,
                       (linger->ended ? 0u : DW_STREAM_IN) | (unsent(linger) ? DW_STREAM_OUT : 0u));
    return unsent(linger) || !linger->ended;
}

/* What still comes is read and forgotten: closing with unread bytes would reset the connection, and
 * with it what the other side has not read yet. */
static void on_linger_ready(struct dw_rc_watch *watch, unsigned what, uint64_t now_ns)
{
    struct lingering *linger = dw_container(watch, struct lingering, watch);
    (void)now_ns;
    bool good = true;
    if (what & DW_STREAM_IN && !linger->ended) {
        struct iovec stage = {linger->rc->stage, DW_RC_STAGE_BYTES};
        ssize_t n = linger->stream->ops->recv(linger->stream, &stage, 1);
        linger->ended = n == -ENODATA && unsent(linger);
        good = n >= 0 || linger->ended;
    }
    if (good && unsent(linger) && (linger->ended || what & DW_STREAM_OUT))
        good = send_rest(linger);
    if (!good)
        end_linger(linger);
}

void dw_rc_linger(struct dw_rc *rc, struct dw_stream *stream, uint8_t *rest, uint32_t bytes)
{
    struct lingering *linger =
        rc->linger_count < DW_RC_STRAYS_MAX ? calloc(1, sizeof *linger) : NULL;
    stream->ops->watch(stream, 0);
    if (!linger) {
        struct iovec all = {rest, bytes};
        (void)stream->ops->send(stream, &all, 1);
        stream->ops->close(stream);
        free(rest);
        return;
    }
    *linger = (struct lingering){.watch = {.ready = on_linger_ready},
                                 .rc = rc,
                                 .stream = stream,
                                 .timer = {.fire = on_linger_timer},
                                 .rest = rest,
                                 .bytes = bytes};
    stream->owner = &linger->watch;
    dw_list_append(&rc->lingers, &linger->link);
    rc->linger_count++;
    rc->send_bytes += sizeof *linger + bytes;
    (void)dw_heap_set(&rc->timers, &linger->timer, dw_device_now_ns(rc->device) + DW_RC_STRAY_NS);
    if (!send_rest(linger))
        end_linger(linger);
}

void dw_rc_lingers_free(struct dw_rc *rc)
{
    dw_list_foreach (it, &rc->lingers)
        end_linger(dw_container(it, struct lingering, link));
}

/* ---- Terminate ---- */

static void count(struct diwarp_rc_counters *counters, uint16_t cause)
{
    switch (cause) {
    case DW_TERM_MPA_CRC:
    case DW_TERM_MPA_MARKER:
        counters->rc_bad_crc++;
        break;
    case DW_TERM_DDP_STAG:
    case DW_TERM_DDP_BOUNDS:
    case DW_TERM_DDP_TO_WRAP:
    case DW_TERM_RDMAP_STAG:
    case DW_TERM_RDMAP_BOUNDS:
    case DW_TERM_RDMAP_RIGHTS:
    case DW_TERM_RDMAP_TO_WRAP:
    case DW_TERM_RDMAP_PROTECT_INVALIDATE:
        counters->rc_bad_stag++;
        break;
    case DW_TERM_DDP_NO_BUFFER:
    case DW_TERM_DDP_MSN:
    case DW_TERM_DDP_MO:
    case DW_TERM_DDP_TOO_LONG:
        counters->rc_bad_message++;
        break;
    case DW_TERM_MPA_IRD:
    case DW_TERM_MPA_RTR:
        counters->rc_rejects++; /* given up: the two do not suit each other */
        break;
    case DW_TERM_RDMAP_CATASTROPHIC:
    case DW_TERM_MPA_CATASTROPHIC:
        break; /* ours */
    default:
        counters->rc_bad_header++;
    }
}

/* The FPDU of a Terminate, behind the rest of the one that TCP took in part. */
static uint8_t *put_terminate(struct diwarp_rc_qp *qp, uint16_t cause, const uint8_t *ulpdu,
                              uint32_t ulpdu_bytes, uint32_t *bytes)
{
    struct dw_terminate terminate;
    uint8_t segment[DW_DDP_UNTAGGED_BYTES + DW_TERMINATE_MAX_BYTES];
    const struct dw_ddp_header ddp = {
        .last = true, .opcode = DW_RDMAP_TERMINATE, .qn = DW_QN_TERMINATE, .msn = 1};
    dw_terminate_fill(&terminate, cause, ulpdu, ulpdu_bytes);
    size_t head = dw_ddp_put(segment, &ddp);
    struct iovec whole = {segment, head + dw_terminate_put(segment + head, &terminate)};

    uint8_t room[DW_MPA_ROOM_BYTES(sizeof segment, sizeof segment, true)];
    struct iovec pieces[DW_MPA_PIECES(sizeof segment, 1, true)];
    struct dw_mpa_gather gather = {.pieces = pieces,
                                   .max = sizeof pieces / sizeof *pieces,
                                   .room = room,
                                   .room_bytes = sizeof room};
    if (dw_mpa_gather_fpdu(&qp->cursor.tx, &gather, &whole, 1, 1))
        return NULL;
    uint32_t rest = qp->tail_bytes - qp->tail_sent;
    *bytes = rest + (uint32_t)gather.bytes;
    uint8_t *buf = malloc(*bytes);
    if (!buf)
        return NULL;
    if (rest)
        memcpy(buf, qp->tail + qp->tail_sent, rest);
    dw_rc_gather(buf + rest, pieces, 0, (uint32_t)gather.bytes);
    return buf;
}

enum dw_rc_verdict dw_rc_terminate(struct diwarp_rc_qp *qp, uint16_t cause, const uint8_t *ulpdu,
                                   uint32_t bytes)
{
    struct dw_rc *rc = qp->rc;
    uint32_t put = 0;
    count(&rc->counters, cause);
    /* The called side sends no FPDU before it had a good one (RFC 5044 7.1.2). */
    bool silent = qp->shut || (!qp->may_send && qp->state != DW_RC_REQUESTED);
    uint8_t *buf = silent ? NULL : put_terminate(qp, cause, ulpdu, bytes, &put);
    if (buf) {
        rc->counters.rc_tx_terminates++;
        dw_rc_linger(rc, qp->stream, buf, put);
        dw_rc_detach(qp);
    }
    dw_rc_close(qp, IBV_WC_REM_OP_ERR, cause);
    return DW_RC_DEAD;
}

enum dw_rc_verdict dw_rc_fail(struct diwarp_rc_qp *qp, const struct dw_rc_segment *segment,
                              uint16_t cause)
{
    return dw_rc_terminate(qp, cause, segment->ulpdu, segment->bytes);
}

enum dw_rc_verdict dw_rc_on_terminate(struct diwarp_rc_qp *qp, const struct dw_rc_segment *segment)
{
    struct dw_terminate terminate;
    uint32_t bytes = segment->bytes - segment->head_bytes;
    /* The headers behind the cause are of no use here, also where they are cut off. */
    (void)dw_terminate_get(&terminate, segment->ulpdu + segment->head_bytes, bytes);
    if (bytes < DW_TERMINATE_BYTES)
        terminate.cause = DW_TERM_RDMAP_UNSPECIFIED;
    qp->rc->counters.rc_rx_terminates++;
    dw_rc_close(qp, IBV_WC_REM_OP_ERR, terminate.cause);
    return DW_RC_DEAD;
}
