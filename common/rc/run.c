/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One run of all RC QPs of a CQ, and what is known of them together. The stream that data came on
 * last is read without asking first: then a ping-pong takes one call to send and one to receive.
 * The others are asked all at once, the less often the more the first one brings.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "common/rc/qp.h"

/* Runs without asking the streams that are not hot: while the hot one brings something, or there is
 * no other; while it does not. Twice as many make others wait twice as long, half as many ask the
 * system twice as often. After a pause, or when TCP takes nothing on the hot one, each run asks. */
#define WAIT_EVERY_BUSY 16
#define WAIT_EVERY_IDLE 2

static struct dw_rc *rc_of(const struct dw_runner *runner)
{
    return dw_container(runner, struct dw_rc, runner);
}

static void flush_lazy(struct dw_runner *runner)
{
    struct dw_rc *rc = rc_of(runner);
    while (!dw_list_empty(&rc->lazy))
        dw_rc_flush(dw_container(rc->lazy.next, struct diwarp_rc_qp, lazy_link));
}

/* The first QP that stands still though there is a receive for it; NULL: there is none. They are
 * looked at once after each receive that is posted: none begins to stand while it has one. */
static struct diwarp_rc_qp *next_resumed(struct dw_rc *rc)
{
    if (rc->looked_at_recvs == rc->device->recvs_posted)
        return NULL;
    dw_foreach (qp, struct diwarp_rc_qp, standing_link, &rc->standing)
        if (qp->recvs->count)
            return qp;
    rc->looked_at_recvs = rc->device->recvs_posted;
    return NULL;
}

static unsigned wait_every(const struct dw_rc *rc)
{
    const bool alone = rc->qps.next == rc->qps.prev;
    if (!rc->hot || rc->hot->blocked)
        return 1;
    return rc->hot_brings || alone ? WAIT_EVERY_BUSY : WAIT_EVERY_IDLE;
}

/* It has no stream that could bring anything. */
static bool is_idle(const struct dw_rc *rc)
{
    return dw_list_empty(&rc->qps) && dw_list_empty(&rc->listeners) && dw_list_empty(&rc->lingers);
}

static int run(struct dw_runner *runner, uint64_t now_ns)
{
    struct dw_rc *rc = rc_of(runner);
    struct diwarp_rc_qp *qp;
    if (is_idle(rc))
        return 0;
    uint64_t before = rc->receives;
    flush_lazy(runner);
    for (unsigned i = 0; i < DW_RC_TURNS && (qp = next_resumed(rc)); i++)
        dw_rc_resume(qp, now_ns); /* before the timers: the receive was there in time */
    rc->hot_brings = rc->hot && dw_rc_may_receive(rc->hot) && dw_rc_receive(rc->hot, now_ns);
    bool due = dw_heap_next_ns(&rc->timers) <= now_ns, all = false;
    if (++rc->runs_since_wait >= wait_every(rc) || due || now_ns - rc->ran_ns >= DW_AWAY_NS) {
        struct dw_stream_event events[DW_RC_TURNS];
        const unsigned n = rc->streams->ops->wait(rc->streams, events, DW_RC_TURNS);
        rc->runs_since_wait = 0;
        rc->counters.rc_rx_empty_syscalls += !n;
        for (unsigned i = 0; i < n; i++) {
            struct dw_stream *stream = events[i].stream;
            stream->ready(stream->owner, events[i].what, now_ns);
        }
        all = n < DW_RC_TURNS; /* that are ready had their turn */
    }
    /* After the streams, within reason: what came in time may lie there. */
    if (due && (all || ++rc->timers_put_off > DW_RC_TURNS)) {
        rc->timers_put_off = 0;
        dw_heap_run(&rc->timers, now_ns, SIZE_MAX);
    }
    rc->ran_ns = now_ns;
    return (int)(rc->receives - before);
}

static uint64_t next_deadline_ns(const struct dw_runner *runner)
{
    struct dw_rc *rc = rc_of(runner);
    bool due = !dw_list_empty(&rc->lazy) || next_resumed(rc);
    return due ? 0 : dw_heap_next_ns(&rc->timers);
}

/* ---- what it holds ---- */

static void add_stream(const struct dw_stream *stream, struct diwarp_memory *memory)
{
    if (stream && stream->ops->add_memory)
        stream->ops->add_memory(stream, memory);
}

/* QPs that share receives have been made one after the other, if not with a single SRQ. */
static void add_memory(const struct dw_runner *runner, struct diwarp_memory *memory)
{
    const struct dw_rc *rc = rc_of(runner);
    const struct diwarp_srq *counted = NULL;
    memory->peer_bytes += sizeof *rc - sizeof rc->stage - sizeof rc->train;
    memory->peer_bytes += dw_heap_bytes(&rc->timers);
    memory->receive_bytes += rc->receive_bytes + sizeof rc->stage;
    memory->send_pool_bytes += rc->send_bytes + sizeof rc->train;
    dw_foreach (qp, const struct diwarp_rc_qp, link, &rc->qps) {
        const struct diwarp_srq *srq = qp->attr.srq;
        memory->peers++;
        memory->peer_bytes +=
            sizeof *qp + qp->recv_bytes + (qp->startup ? sizeof *qp->startup : 0) +
            (qp->works.capacity + qp->reads.capacity) * dw_rc_work_bytes(qp->attr.max_sge) +
            qp->responses.capacity * sizeof(struct dw_rc_response) +
            qp->own.capacity * qp->recv_bytes;
        memory->receive_bytes += qp->held.bytes;
        memory->send_pool_bytes += qp->tail.bytes;
        add_stream(qp->stream, memory);
        if (srq && srq != counted)
            memory->receive_bytes += sizeof *srq + srq->recvs.capacity * qp->recv_bytes;
        counted = srq;
    }
    dw_foreach (listener, const struct diwarp_listener, link, &rc->listeners) {
        memory->base_bytes += sizeof *listener;
        add_stream(listener->stream, memory);
    }
}

/* ---- the RC side of a CQ ---- */

static void destroy(struct dw_runner *runner)
{
    struct dw_rc *rc = rc_of(runner);
    dw_rc_lingers_free(rc);
    rc->streams->ops->close(rc->streams);
    dw_heap_fini(&rc->timers);
    free(rc);
}

static const struct dw_runner_ops ops = {
    .run = run,
    .flush = flush_lazy,
    .next_deadline_ns = next_deadline_ns,
    .add_memory = add_memory,
    .destroy = destroy,
};

/* NULL: there is none yet. From any thread, with the lock or without. */
static struct dw_rc *find(const struct diwarp_cq *cq)
{
    struct dw_runner *runner = __atomic_load_n(&cq->rc, __ATOMIC_ACQUIRE);
    return runner ? rc_of(runner) : NULL;
}

int dw_rc_get(struct diwarp_cq *cq, struct dw_rc **out)
{
    *out = find(cq);
    if (*out)
        return 0;
    struct diwarp_device *device = cq->device;
    if (device->attr.auth != DIWARP_AUTH_OFF)
        return -EOPNOTSUPP;
    const uint64_t silence_ns = device->attr.peer_timeout_ns;
    struct dw_rc *rc = calloc(1, sizeof *rc);
    if (!rc)
        return -ENOMEM;
    int error = device->env.open_streams
                    ? device->env.open_streams(device->env.arg, silence_ns, &rc->streams)
                    : dw_tcp_open(silence_ns, &rc->streams);
    if (error) {
        free(rc);
        return error;
    }
    rc->runner = (struct dw_runner){.ops = &ops, .fds = {rc->streams->fd, -1}};
    rc->cq = cq;
    rc->device = device;
    struct dw_list *heads[] = {&rc->qps, &rc->listeners, &rc->lingers, &rc->standing, &rc->lazy};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        dw_list_init(heads[i]);
    dw_list_append(&device->runners, &rc->runner.link);
    __atomic_store_n(&cq->rc, &rc->runner, __ATOMIC_RELEASE);
    *out = rc;
    return 0;
}

/* ---- calls of the application ---- */

void diwarp_rc_flush(struct diwarp_cq *cq)
{
    struct dw_rc *rc = find(cq);
    dw_lock(cq->device);
    if (rc)
        flush_lazy(&rc->runner);
    dw_unlock(cq->device);
}

/* What TCP has of the other side's messages is not done for that. Without memory it is not told. */
static void tell_taken(struct diwarp_rc_qp *qp)
{
    uint8_t ulpdu[DW_DDP_TAGGED_BYTES];
    const struct dw_ddp_header ddp = {
        .tagged = true,
        .last = true,
        .opcode = DW_RDMAP_WRITE,
        .to = DW_RC_TAKEN_TO + (uint32_t)(qp->recv_msn + qp->request_msn + qp->writes - 2)};
    const bool open =
        qp->state == DW_RC_RTS || (qp->state == DW_RC_CLOSING && !qp->shut && !qp->ended);
    if (qp->stream && qp->may_send && open)
        (void)dw_rc_tail_add_fpdu(qp, ulpdu, dw_ddp_put(ulpdu, &ddp));
}

void diwarp_destroy_rc_qp(struct diwarp_rc_qp *qp)
{
    struct diwarp_device *device = qp->rc->device;
    dw_lock(device);
    dw_rc_flush(qp); /* that what was read has come is known to its sender then */
    tell_taken(qp);
    if (qp->stream && (qp->state == DW_RC_RTS || qp->state == DW_RC_CLOSING) && !qp->ended) {
        dw_rc_linger(qp->rc, qp->stream, qp->tail);
        qp->tail = (struct dw_rc_tail){0};
        dw_rc_detach(qp);
    }
    dw_rc_qp_free(qp);
    dw_unlock(device);
}

void diwarp_rc_set_access(struct diwarp_rc_qp *qp, int access)
{
    dw_lock(qp->rc->device);
    qp->attr.access = access;
    dw_unlock(qp->rc->device);
}

int diwarp_rc_set_rnr(struct diwarp_rc_qp *qp, unsigned retries, uint64_t rnr_timer_ns)
{
    const struct ibv_send_wr wr = {.wr_id = UINT64_MAX,
                                   .opcode = IBV_WR_RDMA_WRITE,
                                   .wr.rdma.remote_addr = DW_RC_RNR_TO + retries};
    if (retries > DW_RC_RNR_FOREVER)
        return -EINVAL;
    dw_lock(qp->rc->device);
    qp->attr.rnr_timer_ns = rnr_timer_ns;
    dw_unlock(qp->rc->device);
    return retries < DW_RC_RNR_FOREVER ? diwarp_rc_post_send(qp, &wr) : 0;
}

int diwarp_rc_fd(const struct diwarp_cq *cq)
{
    const struct dw_rc *rc = find(cq);
    return rc ? rc->streams->fd : -1;
}

const struct diwarp_rc_counters *diwarp_query_rc_counters(const struct diwarp_cq *cq)
{
    const struct dw_rc *rc = find(cq);
    return rc ? &rc->counters : NULL;
}

void diwarp_query_rc_memory(const struct diwarp_cq *cq, struct diwarp_rc_memory *memory)
{
    struct diwarp_memory all = {0};
    dw_lock(cq->device);
    const struct dw_rc *rc = find(cq);
    if (rc)
        add_memory(&rc->runner, &all);
    dw_unlock(cq->device);
    *memory = (struct diwarp_rc_memory){all.peer_bytes, all.receive_bytes, all.send_pool_bytes};
}

static bool all_sent(const struct dw_rc *rc)
{
    dw_foreach (qp, struct diwarp_rc_qp, link, &rc->qps)
        if (!qp->shut && (qp->state == DW_RC_CONNECTING ? qp->works.count > 0 : !dw_rc_idle(qp)))
            return false;
    return true;
}

int diwarp_drain_rc_qps(struct diwarp_cq *cq, uint64_t timeout_ns)
{
    struct dw_rc *rc = find(cq);
    const uint64_t until_ns = dw_deadline_ns(dw_device_now_ns(cq->device), timeout_ns);
    while (rc) {
        dw_lock(cq->device);
        const uint64_t now_ns = dw_device_now_ns(cq->device);
        (void)run(&rc->runner, now_ns);
        dw_cq_drop(cq);
        const bool sent = all_sent(rc);
        dw_unlock(cq->device);
        if (sent || now_ns >= until_ns)
            return sent ? 0 : -ETIMEDOUT;
        struct pollfd pollfd = {.fd = rc->streams->fd, .events = POLLIN};
        (void)poll(&pollfd, 1, 1);
    }
    return 0;
}
