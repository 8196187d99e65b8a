/* SPDX-License-Identifier: BSD-3-Clause */
/* RC queue pairs: making and ending them, their states, and what their stream is watched for. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/rnic/lock.h"
#include "common/rnic/rc_qp.h"

#define CONNECT_TIMEOUT_NS (10ull * 1000000000)
#define MAX_DEPTH          (1u << 20)

void diwarp_rc_qp_attr_init(struct diwarp_rc_qp_attr *attr)
{
    *attr = (struct diwarp_rc_qp_attr){
        .max_send_wr = 128,
        .max_recv_wr = 128,
        .max_rd_atomic = 16,
        .crc = true,
        .mpa_revision = 2,
        .connect_timeout_ns = CONNECT_TIMEOUT_NS,
        .rnr_timeout_ns = CONNECT_TIMEOUT_NS,
    };
}

/* ---- states ---- */

static const bool may_follow[DW_RC_STATE_COUNT][DW_RC_STATE_COUNT] = {
    [DW_RC_CONNECTING] =
        {[DW_RC_REQUESTED] = true, [DW_RC_RESPONDED] = true, [DW_RC_CLOSED] = true},
    [DW_RC_REQUESTED] = {[DW_RC_RTS] = true, [DW_RC_CLOSED] = true},
    [DW_RC_RESPONDED] = {[DW_RC_RTS] = true, [DW_RC_CLOSING] = true, [DW_RC_CLOSED] = true},
    [DW_RC_RTS] = {[DW_RC_CLOSING] = true, [DW_RC_CLOSED] = true},
    [DW_RC_CLOSING] = {[DW_RC_CLOSED] = true},
};

void dw_rc_set_state(struct diwarp_rc_qp *qp, enum dw_rc_state state)
{
    assert(may_follow[qp->state][state]);
    qp->state = state;
}

void dw_rc_set_blocked(struct diwarp_rc_qp *qp, bool blocked)
{
    if (qp->blocked == blocked)
        return;
    qp->blocked = blocked;
    qp->rc->blocked_count += blocked ? 1u : -1u;
}

void dw_rc_rewatch(struct diwarp_rc_qp *qp)
{
    if (!qp->stream)
        return;
    bool in = qp->state != DW_RC_CONNECTING && !qp->standing && !qp->ended;
    bool out = qp->state == DW_RC_CONNECTING || qp->blocked;
    unsigned what = (in ? DW_STREAM_IN : 0u) | (out ? DW_STREAM_OUT : 0u);
    if (what != qp->watched)
        qp->stream->ops->watch(qp->stream, what);
    qp->watched = (uint8_t)what;
}

static void on_timer(struct dw_timer *timer, uint64_t now_ns)
{
    struct diwarp_rc_qp *qp = dw_container(timer, struct diwarp_rc_qp, timer);
    (void)now_ns;
    if (qp->standing)
        (void)dw_rc_terminate(qp, DW_TERM_DDP_NO_BUFFER, qp->held.buf, qp->held.ulpdu_bytes);
    else
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, 0);
}

/* Without memory for a timer there is no time limit: TCP's own remain. */
void dw_rc_set_timer(struct diwarp_rc_qp *qp, uint64_t deadline_ns)
{
    (void)dw_heap_set(&qp->rc->timers, &qp->timer, deadline_ns);
}

void dw_rc_limit(struct diwarp_rc_qp *qp, uint64_t deadline_ns)
{
    if (!qp->timer.slot || deadline_ns < qp->timer.deadline_ns)
        dw_rc_set_timer(qp, deadline_ns);
}

static void on_ready(struct dw_rc_watch *watch, unsigned what, uint64_t now_ns)
{
    struct diwarp_rc_qp *qp = dw_container(watch, struct diwarp_rc_qp, watch);
    if (qp->state == DW_RC_CONNECTING || qp->state == DW_RC_REQUESTED) {
        dw_rc_startup_ready(qp, what, now_ns);
        return;
    }
    bool reads = what & DW_STREAM_IN && qp->stream && !qp->standing && !qp->ended;
    if (reads && dw_rc_receive(qp, now_ns) && qp->stream)
        dw_rc_heat(qp);
    if (what & DW_STREAM_OUT && qp->stream) {
        dw_rc_set_blocked(qp, false);
        dw_rc_flush(qp);
        dw_rc_rewatch(qp);
    }
}

/* ---- making ---- */

static bool attr_is_good(const struct dw_rc *rc, const struct diwarp_pd *pd,
                         const struct diwarp_rc_qp_attr *attr)
{
    return attr->cq == rc->cq && pd->device == rc->device && (!attr->srq || attr->srq->pd == pd) &&
           attr->max_send_wr && attr->max_send_wr <= MAX_DEPTH && attr->max_recv_wr <= MAX_DEPTH &&
           attr->max_rd_atomic <= DW_MPA_DEPTH_MAX && attr->mpa_revision >= 1 &&
           attr->mpa_revision <= 2;
}

int dw_rc_qp_create(struct dw_rc *rc, struct diwarp_pd *pd, const struct diwarp_rc_qp_attr *attr,
                    struct diwarp_rc_qp **qp_out)
{
    if (!attr_is_good(rc, pd, attr))
        return -EINVAL;
    struct diwarp_rc_qp *qp = calloc(1, sizeof *qp);
    if (!qp)
        return -ENOMEM;
    qp->watch.ready = on_ready;
    qp->timer.fire = on_timer;
    qp->rc = rc;
    qp->pd = pd;
    qp->attr = *attr;
    qp->ird = qp->ord = (uint16_t)attr->max_rd_atomic;
    qp->cursor.send_msn = qp->cursor.read_msn = 1;
    qp->recv_msn = qp->request_msn = 1;
    dw_list_init(&qp->resumed_link);
    dw_list_init(&qp->srq_link);
    dw_list_init(&qp->lazy_link);
    dw_list_append(&rc->qps, &qp->link);
    *qp_out = qp;
    return 0;
}

void dw_rc_qp_attach(struct diwarp_rc_qp *qp, struct dw_stream *stream)
{
    qp->stream = stream;
    stream->owner = &qp->watch;
    qp->rc->counters.rc_connections = ++qp->rc->connection_count;
}

void dw_rc_detach(struct diwarp_rc_qp *qp)
{
    qp->stream = NULL;
    qp->rc->counters.rc_connections = --qp->rc->connection_count;
}

void dw_rc_begin_fpdus(struct diwarp_rc_qp *qp, const struct dw_mpa_frame *theirs,
                       uint16_t their_ird)
{
    bool crc = qp->attr.crc || theirs->flags & DW_MPA_CRC;
    qp->cursor.tx = (struct dw_mpa_stream){.markers = theirs->flags & DW_MPA_MARKERS, .crc = crc};
    qp->rx = (struct dw_mpa_stream){.markers = qp->attr.markers, .crc = crc};
    if (their_ird < qp->ord)
        qp->ord = their_ird;
    uint32_t emss = qp->stream->ops->emss(qp->stream);
    if (emss > DW_MPA_ULPDU_MAX_BYTES)
        emss = DW_MPA_ULPDU_MAX_BYTES;
    qp->max_ulpdu_bytes = (uint32_t)dw_mpa_mulpdu(emss, qp->cursor.tx.markers);
    qp->rc->counters.rc_connects++;
}

/* ---- ending ---- */

void dw_rc_complete(struct diwarp_rc_qp *qp, uint64_t wr_id, int opcode, enum ibv_wc_status status,
                    uint32_t bytes)
{
    struct diwarp_wc wc = {
        .wc = {.wr_id = wr_id,
               .status = status,
               .opcode = (enum ibv_wc_opcode)opcode,
               .byte_len = bytes},
        .rc_qp = qp,
    };
    dw_cq_push(qp->rc->cq, &wc);
}

static void flush_reads(struct diwarp_rc_qp *qp, bool tell)
{
    for (; qp->reads.count; dw_ring_pop(&qp->reads, 1)) {
        const struct dw_rc_read *read = dw_ring_at(&qp->reads, sizeof *read, 0);
        if (tell)
            dw_rc_complete(qp, read->wr_id, IBV_WC_RDMA_READ, IBV_WC_WR_FLUSH_ERR, 0);
    }
}

static void flush_works(struct diwarp_rc_qp *qp, bool tell)
{
    for (; qp->works.count; dw_ring_pop(&qp->works, 1)) {
        struct dw_rc_work *work = dw_ring_at(&qp->works, sizeof *work, 0);
        if (tell)
            dw_rc_complete(qp, work->wr_id, dw_rc_wc_opcode(work), IBV_WC_WR_FLUSH_ERR, 0);
        dw_rc_work_free(work);
    }
}

static void flush_recvs(struct diwarp_rc_qp *qp, bool tell)
{
    if (qp->receiving) {
        if (tell)
            dw_rc_complete(qp, qp->current.wr_id, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR, 0);
        dw_rc_recv_free(&qp->current);
    }
    qp->receiving = false;
    for (; qp->recvs.count; dw_ring_pop(&qp->recvs, 1)) {
        struct dw_rc_recv *recv = dw_ring_at(&qp->recvs, sizeof *recv, 0);
        if (tell)
            dw_rc_complete(qp, recv->wr_id, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR, 0);
        dw_rc_recv_free(recv);
    }
}

/* All that belongs to the connection, the requests included. */
static void release(struct diwarp_rc_qp *qp, bool tell)
{
    struct dw_rc *rc = qp->rc;
    dw_rc_set_timer(qp, DW_NEVER);
    dw_rc_set_blocked(qp, false);
    dw_rc_cool(qp);
    dw_rc_unstand(qp);
    dw_list_remove(&qp->lazy_link);
    if (qp->stream) {
        qp->stream->ops->close(qp->stream);
        dw_rc_detach(qp);
    }
    flush_reads(qp, tell);
    flush_works(qp, tell);
    flush_recvs(qp, tell);
    dw_ring_fini(&qp->works);
    dw_ring_fini(&qp->reads);
    dw_ring_fini(&qp->responses);
    dw_ring_fini(&qp->recvs);
    dw_rc_held_free(qp);
    rc->send_bytes -= qp->tail_bytes;
    free(qp->tail);
    qp->tail = NULL;
    qp->tail_bytes = qp->tail_sent = 0;
    free(qp->startup);
    qp->startup = NULL;
    qp->cursor.rtr = false;
}

void dw_rc_close(struct diwarp_rc_qp *qp, enum ibv_wc_status status, uint32_t vendor_err)
{
    dw_rc_set_state(qp, DW_RC_CLOSED);
    release(qp, true);
    struct diwarp_wc wc = {
        .wc = {.status = status,
               .opcode = (enum ibv_wc_opcode)DIWARP_WC_DISCONNECTED,
               .vendor_err = vendor_err,
               .byte_len = status == IBV_WC_REM_INV_REQ_ERR ? qp->answer_bytes : 0},
        .rc_qp = qp,
        .data = status == IBV_WC_REM_INV_REQ_ERR ? qp->answer : NULL,
    };
    dw_cq_push(qp->rc->cq, &wc);
}

void dw_rc_qp_free(struct diwarp_rc_qp *qp)
{
    release(qp, false);
    dw_list_remove(&qp->link);
    free(qp->answer);
    free(qp);
}

void diwarp_destroy_rc_qp(struct diwarp_rc_qp *qp)
{
    struct diwarp_device *device = qp->rc->device;
    dw_lock(device);
    dw_cq_forget(qp->rc->cq, qp, NULL);
    dw_rc_qp_free(qp);
    dw_unlock(device);
}

/* ---- orderly close ---- */

void dw_rc_end_if_idle(struct diwarp_rc_qp *qp)
{
    if (qp->state != DW_RC_CLOSING || (!dw_rc_idle(qp) && !qp->shut))
        return; /* a read request that came after our end goes without response */
    if (qp->ended) {
        dw_rc_close(qp, IBV_WC_SUCCESS, 0);
        return;
    }
    if (!qp->shut)
        qp->stream->ops->shutdown(qp->stream);
    qp->shut = true;
}

void dw_rc_limit_close(struct diwarp_rc_qp *qp, uint64_t now_ns)
{
    bool closing = qp->state == DW_RC_CLOSING;
    dw_rc_set_timer(qp, closing ? dw_deadline_ns(now_ns, qp->attr.connect_timeout_ns) : DW_NEVER);
}

static void begin_close(struct diwarp_rc_qp *qp)
{
    uint64_t now_ns = dw_device_now_ns(qp->rc->device);
    dw_rc_set_state(qp, DW_RC_CLOSING);
    if (qp->standing)
        dw_rc_limit(qp, dw_deadline_ns(now_ns, qp->attr.connect_timeout_ns));
    else
        dw_rc_limit_close(qp, now_ns);
}

/* Has the other side begun an FPDU or message that it did not end? */
static bool in_the_middle(const struct diwarp_rc_qp *qp)
{
    const struct dw_rc_read *read =
        qp->reads.count ? dw_ring_at(&qp->reads, sizeof *read, 0) : NULL;
    return qp->held.bytes || qp->stub_bytes || qp->receiving || qp->writing ||
           (read && read->placed);
}

void dw_rc_on_end(struct diwarp_rc_qp *qp)
{
    if (in_the_middle(qp) || !qp->may_send || qp->broken) {
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_TCP_LOST);
        return;
    }
    qp->ended = true;
    flush_reads(qp, true); /* nothing answers them any more, nor those that wait for their turn */
    if (qp->state != DW_RC_CLOSING)
        begin_close(qp);
    dw_rc_flush(qp);
    if (qp->state != DW_RC_CLOSED) {
        dw_rc_rewatch(qp);
        dw_rc_end_if_idle(qp);
    }
}

void diwarp_disconnect(struct diwarp_rc_qp *qp)
{
    struct diwarp_device *device = qp->rc->device;
    dw_lock(device);
    if (qp->state == DW_RC_CONNECTING || qp->state == DW_RC_REQUESTED) {
        dw_rc_close(qp, IBV_WC_SUCCESS, 0);
    } else if (qp->state == DW_RC_RTS || qp->state == DW_RC_RESPONDED) {
        begin_close(qp);
        dw_rc_end_if_idle(qp);
    }
    dw_unlock(device);
}

/* ---- what it is ---- */

void *diwarp_rc_qp_context(const struct diwarp_rc_qp *qp)
{
    return qp->attr.context;
}

void diwarp_format_rc_qp(const struct diwarp_rc_qp *qp, char *buf, size_t len)
{
    char ip[INET6_ADDRSTRLEN] = "?";
    inet_ntop(qp->peer.family, qp->peer.ip, ip, sizeof ip);
    snprintf(buf, len, qp->peer.family == AF_INET6 ? "[%s]:%u" : "%s:%u", ip, qp->peer.port);
}
