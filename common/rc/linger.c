/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams that linger after their QP, so that the other side can read what was sent last. */
#include "common/rc/linger.h"

#include <errno.h>
#include <stdlib.h>

/* How long the other side has to read what was sent last. */
#define LINGER_NS 1000000000

/* Lingering streams; beyond that one closes at once, which may cost its other side the reason. */
#define LINGERS_MAX 256

/* ---- lingering ---- */

struct lingering {
    struct dw_rc_watch watch;
    struct dw_list link; /* in rc.lingers */
    struct dw_rc *rc;
    struct dw_stream *stream;
    struct dw_timer timer;
    uint8_t *rest; /* NULL: all is sent */
    uint32_t bytes, sent;
    bool ended; /* the other side's sending; it may read on */
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

/* False: the stream is broken, or nothing more will come from either side. */
static bool send_rest(struct lingering *linger)
{
    const unsigned in = linger->ended ? 0 : DW_STREAM_IN;
    if (linger->rest) {
        struct iovec left = {linger->rest + linger->sent, linger->bytes - linger->sent};
        ssize_t n = linger->stream->ops->send(linger->stream, &left, 1);
        if (n < 0)
            return false;
        linger->sent += (uint32_t)n;
        if (linger->sent < linger->bytes) {
            linger->stream->ops->watch(linger->stream, in | DW_STREAM_OUT);
            return true;
        }
        free(linger->rest);
        linger->rest = NULL;
    }
    linger->stream->ops->shutdown(linger->stream);
    linger->stream->ops->watch(linger->stream, in);
    return !linger->ended;
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
        linger->ended = n == -ENODATA && linger->rest;
        good = n >= 0 || linger->ended;
    }
    if (good && linger->rest && (linger->ended || what & DW_STREAM_OUT))
        good = send_rest(linger);
    if (!good)
        end_linger(linger);
}

void dw_rc_linger(struct dw_rc *rc, struct dw_stream *stream, uint8_t *rest, uint32_t bytes)
{
    struct lingering *linger = rc->linger_count < LINGERS_MAX ? calloc(1, sizeof *linger) : NULL;
    stream->ops->watch(stream, 0);
    if (!linger) {
        struct iovec all = {rest, bytes};
        if (rest)
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
    (void)dw_heap_set(&rc->timers, &linger->timer, dw_device_now_ns(rc->device) + LINGER_NS);
    if (!send_rest(linger))
        end_linger(linger);
}

void dw_rc_lingers_free(struct dw_rc *rc)
{
    dw_list_foreach (it, &rc->lingers)
        end_linger(dw_container(it, struct lingering, link));
}
