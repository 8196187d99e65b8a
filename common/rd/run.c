/* SPDX-License-Identifier: BSD-3-Clause */
/* One run of the RNIC over a queue pair, and runs until it owes nothing. */
#include <errno.h>
#include <poll.h>

#include "common/rd/deliver.h"
#include "common/rnic/lock.h"
#include "common/rd/path.h"
#include "common/rnic/qp.h"
#include "common/record/grant.h"
#include "common/rd/receive.h"
#include "common/rd/send.h"
#include "common/rd/transmit.h"

/* Timers run at the latest after this, though the socket has not been read empty; when nobody ran
 * us for as long, it begins anew, but no more often than that. */
#define TIMERS_WAIT_MAX_NS 20000000
#define ABSENCES_MAX       4
/* Between two runs, longer than anybody sleeps who waits for us: the process was stopped, and maybe
 * all others with it. */
#define STOPPED_NS 2000000000
/* Then the socket is read again: what many time-outs would ask for may have come meanwhile. */
#define TIMERS_PER_RUN 64
/* Silence after which a drained QP may go. A peer that missed our last acknowledgement, be it the
 * first that it waits for, has asked again by then, unless round trips to it take long. */
#define LINGER_NS (DW_RTO_INITIAL_NS + DW_RTO_INITIAL_NS / 4)
/* A message that waits for a buffer gets one when another is acknowledged, or its peer given up. It
 * is tried again this often in any case. */
#define STARVED_RETRY_NS 1000000
/* Acknowledgements and grants that wait for a full socket. */
#define FULL_RETRY_NS 100000
/* Within a ping-pong nothing takes longer. */
#define PING_PONG_NS 1000000
/* Of what comes back for datagrams, in one run: each walks the handles. */
#define ICMP_PER_RUN 8
/* Receive calls in one run that may bring nothing but acknowledgements. */
#define RECEIVES_PER_RUN 4

static void flush_all(struct diwarp_qp *qp, uint64_t now_ns)
{
    /* A peer that comes back to the list meanwhile has to wait for the next run. */
    for (struct dw_list *last = qp->flush.prev, *it = NULL; last != &qp->flush && it != last;) {
        it = qp->flush.next;
        dw_list_remove(it);
        dw_send_flush(dw_container(it, struct dw_peer, flush_link), now_ns);
    }
}

/* The application is about to be handed what came, and answered the peer right away the last time:
 * that would acknowledge it, too. */
static bool may_answer(const struct dw_peer *peer, uint64_t now_ns)
{
    return peer->ping_pong && !peer->ack_now && now_ns - peer->asked_ns < PING_PONG_NS &&
           peer->qp->cq->count && !peer->qp->refuses_data && dw_list_empty(&peer->pending);
}

static void acknowledge(struct diwarp_qp *qp, uint64_t now_ns)
{
    /* Whatever went out to a peer meanwhile has acknowledged already, and it left the list. One
     * that is refused, or waits for an answer, is its last again. */
    unsigned refusals = 0;
    for (struct dw_list *last = qp->ack.prev, *it = NULL;
         last != &qp->ack && it != last && refusals < DW_REFUSALS_PER_RUN;) {
        it = qp->ack.next;
        struct dw_peer *peer = dw_container(it, struct dw_peer, ack_link);
        if (may_answer(peer, now_ns)) {
            peer->ack_now = true; /* the next run does not wait */
            dw_list_remove(it);
            dw_list_append(&qp->ack, it);
        } else {
            refusals += !dw_transmit_ack(peer);
        }
    }
}

static void take_icmp(struct diwarp_qp *qp, uint64_t now_ns)
{
    struct dw_llp_icmp icmp;
    for (unsigned i = 0; i < ICMP_PER_RUN && qp->llp->ops->icmp(qp->llp, &icmp); i++) {
        if (icmp.mtu_bytes)
            dw_path_on_mtu(qp, &icmp.to, icmp.mtu_bytes);
        else
            dw_peer_on_unreachable(qp, &icmp.to, now_ns);
    }
}

void dw_qp_recycle(struct diwarp_qp *qp)
{
    dw_deliver_recycle(qp);
    dw_receive_recycle(qp);
}

/* Whoever ran it last was away for so long. */
static void on_absence(struct diwarp_qp *qp, uint64_t away_ns, uint64_t now_ns)
{
    struct dw_peer *peer;
    if (qp->absences < ABSENCES_MAX) {
        qp->absences++;
        qp->timers_ran_ns = now_ns;
    }
    if (away_ns > STOPPED_NS)
        for (size_t slot = 0; (peer = dw_peer_next(qp, &slot));)
            peer->silent_since += dw_silence_clock(away_ns - STOPPED_NS);
}

static void run_timers(struct diwarp_qp *qp, uint64_t now_ns)
{
    qp->absences = 0;
    qp->timers_ran_ns = now_ns;
    dw_heap_run(&qp->timers, now_ns, TIMERS_PER_RUN);
}

int dw_qp_progress(struct diwarp_qp *qp, uint64_t now_ns)
{
    if (now_ns - qp->ran_ns > TIMERS_WAIT_MAX_NS)
        on_absence(qp, now_ns - qp->ran_ns, now_ns);
    qp->ran_ns = now_ns;
    const uint64_t tried = qp->counters.tx_syscalls;
    int received = 0;
    bool drained = false;
    while (received < RECEIVES_PER_RUN && !(received && qp->cq->count)) {
        drained = !dw_receive(qp, now_ns);
        if (drained)
            break;
        received++;
    }
    dw_transmit_held(qp);
    flush_all(qp, now_ns);
    dw_rdma_grant(qp, now_ns);
    dw_transmit_records(qp, now_ns);
    acknowledge(qp, now_ns);
    qp->starved = qp->counters.tx_syscalls == tried;
    /* What a time-out would ask for may lie in the socket: it is read first, within reason. */
    if (drained || now_ns - qp->timers_ran_ns > TIMERS_WAIT_MAX_NS)
        run_timers(qp, now_ns);
    take_icmp(qp, now_ns);
    return received;
}

bool dw_qp_has_more(const struct diwarp_qp *qp)
{
    return !dw_list_empty(&qp->flush) || !dw_list_empty(&qp->ready) || !dw_list_empty(&qp->ack) ||
           qp->held_count || dw_rdma_may_grant(qp);
}

uint64_t dw_qp_next_deadline_ns(const struct diwarp_qp *qp)
{
    uint64_t next_ns = dw_heap_next_ns(&qp->timers);
    if (!dw_qp_has_more(qp))
        return next_ns;
    const bool control_only = dw_list_empty(&qp->flush);
    if (!dw_list_empty(&qp->ready) || dw_rdma_may_grant(qp) || (!control_only && !qp->starved))
        return 0;
    uint64_t retry_ns = qp->ran_ns + (control_only ? FULL_RETRY_NS : STARVED_RETRY_NS);
    return retry_ns < next_ns ? retry_ns : next_ns;
}

/* ---- draining ---- */

/* Something that was posted here, or an answer of ours, has not reached its end. */
static bool owed_by(const struct dw_peer *peer)
{
    if (peer->sendwin.count || peer->open || !dw_list_empty(&peer->pending) ||
        !dw_list_empty(&peer->awaiting) || !dw_list_empty(&peer->atomics))
        return true;
    /* Those of a region are the peer's own: it has to see them through. */
    dw_list_foreach (a, &peer->sources)
        if (!dw_container(a, struct dw_source, peer_link)->region)
            return true;
    dw_list_foreach (b, &peer->sinks) {
        const struct dw_sink *sink = dw_container(b, struct dw_sink, peer_link);
        if (!sink->region && !sink->held)
            return true;
    }
    return false;
}

static bool owes_any(const struct diwarp_qp *qp)
{
    const struct dw_peer *peer;
    for (size_t slot = 0; (peer = dw_peer_next(qp, &slot));)
        if (!peer->ah->gone && owed_by(peer))
            return true;
    return false;
}

int diwarp_drain_qp(struct diwarp_qp *qp, uint64_t timeout_ns)
{
    dw_lock(qp->device);
    uint64_t start_ns = dw_device_now_ns(qp->device), now_ns = start_ns;
    qp->draining = true;
    struct dw_peer *peer;
    for (size_t slot = 0; (peer = dw_peer_next(qp, &slot));)
        if (peer->ack_owed_datagrams && !dw_list_linked(&peer->ack_link))
            dw_list_append(&qp->ack, &peer->ack_link);
    for (uint64_t heard_ns = start_ns; now_ns - start_ns < timeout_ns;
         now_ns = dw_device_now_ns(qp->device)) {
        struct pollfd fd = {.fd = qp->llp->fd, .events = POLLIN};
        qp->cq->count = 0;
        dw_qp_recycle(qp);
        if (dw_qp_progress(qp, now_ns)) {
            heard_ns = now_ns;
            continue;
        }
        if (!owes_any(qp) && dw_list_empty(&qp->ack) && !qp->held_count &&
            (fd.fd < 0 || now_ns - heard_ns >= LINGER_NS))
            break;
        dw_unlock(qp->device);
        if (fd.fd >= 0)
            (void)poll(&fd, 1, 1);
        dw_lock(qp->device);
    }
    int rc = owes_any(qp) ? -ETIMEDOUT : 0;
    qp->draining = false;
    dw_unlock(qp->device);
    return rc;
}
