/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of queue pairs of RC, and of UC, which are carried like them. Verbs programs tell
 * each other GID and QPN, and both sides go to RTR: then the one with the lower GID and QPN calls,
 * by TCP, the port that the other's QPN names; a call that comes before its queue pair is RTR
 * waits. */
#include "verbs_diwarp/rc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_diwarp/async.h"
#include "verbs_diwarp/cq.h"
#include "verbs_diwarp/query.h"
#include "verbs_diwarp/rc_queues.h"
#include "verbs_diwarp/sqd.h"

/* ---- who calls whom ---- */

/* With this bit in both QPNs a call is of UC: RC and UC do not meet. */
#define UC_CALL (1u << 24)

static struct dv_rc_caller caller_of(const struct dv_qp *qp, const union ibv_gid *gid, uint32_t qpn)
{
    struct dv_rc_caller caller = {.qpn = htonl(qpn | (dv_is_uc(qp) ? UC_CALL : 0))};
    memcpy(caller.gid, gid, sizeof caller.gid);
    return caller;
}

static struct dv_rc_caller own_side(const struct dv_qp *qp)
{
    const struct dv_context *context = dv_context_of(qp->ex.qp_base.context);
    const union ibv_gid gid = dv_gid_of(&context->gids[qp->attr.ah_attr.grh.sgid_index]);
    return caller_of(qp, &gid, qp->ex.qp_base.qp_num);
}

static struct dv_rc_caller other_side(const struct dv_qp *qp)
{
    return caller_of(qp, &qp->attr.ah_attr.grh.dgid, qp->attr.dest_qp_num);
}

/* Of min_rnr_timer (InfiniBand 9.7.5.2.8, table 45). */
static uint64_t rnr_timer_ns(const struct dv_qp *qp)
{
    static const uint32_t units_of_10_us[32] = {
        65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
        48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
        2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
    return units_of_10_us[qp->attr.min_rnr_timer & 31] * UINT64_C(10000);
}

static struct diwarp_rc_qp_attr attr_of(struct dv_qp *qp)
{
    const struct dv_srq *srq = (const struct dv_srq *)qp->ex.qp_base.srq;
    struct diwarp_rc_qp_attr attr;
    diwarp_rc_qp_attr_init(&attr);
    attr.cq = dv_context_of(qp->ex.qp_base.context)->core;
    attr.srq = srq ? srq->core : qp->rc->recvs;
    attr.context = qp;
    attr.max_send_wr = 3 * dv_rc_room(qp) + 1; /* each may be two, and be asked for; and retries */
    attr.max_sge = qp->cap.max_send_sge ? qp->cap.max_send_sge : 1;
    attr.max_rd_atomic = DV_RC_MAX_READS;
    attr.access = (int)qp->attr.qp_access_flags;
    /* The other side may be RTR much later, and TCP holds back who finds no receive; until it says
     * how often it would try again. */
    attr.connect_timeout_ns = attr.rnr_timeout_ns = UINT64_MAX;
    attr.rnr_timer_ns = rnr_timer_ns(qp);
    return attr;
}

static struct diwarp_pd *pd_of(const struct dv_qp *qp)
{
    return ((const struct dv_pd *)qp->ex.qp_base.pd)->core;
}

static int call(struct dv_qp *qp, const struct dv_rc_caller *me)
{
    const struct dv_context *context = dv_context_of(qp->ex.qp_base.context);
    const struct diwarp_rc_qp_attr attr = attr_of(qp);
    const struct diwarp_address address =
        dv_address_of(context, &qp->attr.ah_attr.grh.dgid, qp->attr.dest_qp_num);
    const struct dv_rc_call to = {.caller = *me, .called = other_side(qp)};
    return -diwarp_connect(pd_of(qp), &attr, &address, &to, sizeof to, &qp->rc->core, NULL);
}

/* Before a queue pair is RTS it sends nothing. Without memory the other side lets us wait on. */
void dv_rc_set_rnr(struct dv_qp *qp)
{
    const bool tells = qp->attr.qp_state >= IBV_QPS_RTS && !dv_is_uc(qp);
    const unsigned retries = tells ? qp->attr.rnr_retry : DV_RNR_FOREVER;
    if (qp->rc->core)
        (void)diwarp_rc_set_rnr(qp->rc->core, retries, rnr_timer_ns(qp));
    if (qp->rc->loop)
        (void)diwarp_rc_set_rnr(qp->rc->loop, DV_RNR_FOREVER, rnr_timer_ns(qp));
}

/* The call that waits is the other side's, and becomes *core; or of somebody else, who is refused.
 */
static void answer(struct dv_qp *qp, struct diwarp_rc_qp **core)
{
    struct dv_rc *rc = qp->rc;
    struct diwarp_connect_request *request = rc->request;
    const struct diwarp_rc_qp_attr attr = attr_of(qp);
    const struct dv_rc_caller wanted = other_side(qp);
    rc->request = NULL;
    if (memcmp(&rc->caller, &wanted, sizeof wanted) != 0)
        diwarp_reject(request, NULL, 0);
    else if (diwarp_accept(request, pd_of(qp), &attr, NULL, 0, core))
        rc->lost = true;
    else
        dv_rc_set_rnr(qp);
}

static void reject_waiting(struct dv_rc *rc)
{
    if (rc->request)
        diwarp_reject(rc->request, NULL, 0);
    rc->request = NULL;
}

int dv_rc_connect(struct dv_qp *qp)
{
    const struct dv_rc_caller me = own_side(qp), other = other_side(qp);
    if (memcmp(&me, &other, sizeof me) <= 0) {
        reject_waiting(qp->rc);
        return call(qp, &me);
    }
    if (qp->rc->request)
        answer(qp, &qp->rc->core);
    return 0;
}

static bool knows_other_side(const struct dv_qp *qp)
{
    return qp->attr.qp_state >= IBV_QPS_RTR && qp->attr.qp_state <= IBV_QPS_SQD;
}

/* Not of the other side, where that is known. */
static bool is_other_call(const struct dv_qp *qp, const struct dv_rc_caller *caller)
{
    const struct dv_rc_caller wanted = other_side(qp);
    return knows_other_side(qp) && memcmp(caller, &wanted, sizeof wanted) != 0;
}

void dv_rc_called(struct dv_context *context, const struct diwarp_wc *wc)
{
    struct dv_rc_call to;
    struct dv_qp *qp = NULL;
    if (wc->wc.byte_len == sizeof to) {
        memcpy(&to, wc->data, sizeof to);
        qp = context->qps[ntohl(to.called.qpn) & DV_INDEX_MASK];
    }
    if (!qp || !qp->rc || own_side(qp).qpn != to.called.qpn || is_other_call(qp, &to.caller)) {
        diwarp_reject(wc->request, NULL, 0);
        return;
    }
    struct dv_rc *rc = qp->rc;
    struct diwarp_rc_qp **core =
        memcmp(&to.caller, &to.called, sizeof to.caller) ? &rc->core : &rc->loop;
    /* Who calls again has given up the last one. Of two callers the newer wins until the queue pair
     * knows whom it waits for: the older one may have died, which nobody sees while its call waits.
     */
    reject_waiting(rc);
    rc->request = wc->request;
    rc->caller = to.caller;
    if (knows_other_side(qp) && !*core && !rc->lost && !rc->closed_there)
        answer(qp, core);
}

/* ---- the other side is silent ---- */

/* Whatever the time-out, for a queue pair that was not ready yet: its process may wait for a core,
 * or for the news of us. With half, perftest's sides on a busy host miss each other; with twice, a
 * user waits as long to hear of a mistake. */
#define CONNECT_LEAST_NS UINT64_C(3000000000)
/* How often those that wait are looked at, by whoever polls: half and twice differ in nothing one
 * sees. Beside traffic, in which what comes in time may be behind other things, ten times as late.
 */
#define LOOK_NS UINT64_C(10000000)

/* As often as a Send is tried again, so long each (InfiniBand 9.7.6.1.3, 9.7.5.2.8): for ever,
 * where that time is 0. UC, which tries once, has no such time. */
static void limit_wait(struct dv_qp *qp)
{
    struct dv_context *context = dv_context_of(qp->ex.qp_base.context);
    struct dv_rc *rc = qp->rc;
    const uint64_t wait_ns = (UINT64_C(4096) << qp->attr.timeout) * (qp->attr.retry_cnt + 1u);
    const bool at_least = !rc->closed_there && wait_ns < CONNECT_LEAST_NS;
    if (rc->connected || rc->fail_at_ns || !dv_rc_begun(qp) || (!qp->attr.timeout && !dv_is_uc(qp)))
        return;
    rc->fail_at_ns = dv_clock_ns() + (at_least ? CONNECT_LEAST_NS : wait_ns);
    LIST_INSERT_HEAD(&context->waiting, rc, link);
}

static void end_wait(struct dv_rc *rc)
{
    if (rc->fail_at_ns)
        LIST_REMOVE(rc, link);
    rc->fail_at_ns = 0;
}

/* ---- the end ---- */

/* Why a side has sent Terminate: a message is longer than its receive (RFC 5041 8). */
#define TOO_LONG 0x1205
/* Or nobody receives it, as often as it would have been tried again: the fault is the sender's. */
#define NO_RECEIVE 0x1202

/* Of what a connection that goes has completed, receives alone are told. */
static void deliver_recv(struct diwarp_rc_qp *core, const struct diwarp_wc *done)
{
    if (done->wc.opcode & IBV_WC_RECV)
        (void)dv_rc_queues_deliver(diwarp_rc_qp_context(core), done);
}

/* With what it has completed: first what is just being sorted, then what was not polled yet. */
static void destroy(struct dv_context *context, struct diwarp_rc_qp *core)
{
    struct diwarp_wc left[8]; /* fewer: all that others completed is walked more often for them */
    const unsigned room = sizeof left / sizeof *left;
    unsigned n = room;
    if (!core)
        return;
    for (int i = 0; i < context->done_count; i++)
        if (context->done[i].rc_qp == core) {
            left[0] = context->done[i];
            context->done[i] = (struct diwarp_wc){0};
            deliver_recv(core, &left[0]);
        }
    while (n == room) {
        n = diwarp_rc_take_completions(core, room, left);
        for (unsigned i = 0; i < n; i++)
            deliver_recv(core, &left[i]);
    }
    diwarp_destroy_rc_qp(core);
}

static void close_core(struct dv_qp *qp)
{
    struct dv_context *context = dv_context_of(qp->ex.qp_base.context);
    destroy(context, qp->rc->core);
    destroy(context, qp->rc->loop);
    qp->rc->core = qp->rc->loop = NULL;
    qp->rc->connected = false;
    end_wait(qp->rc);
}

static const struct dv_qp *find(const struct dv_context *context, uint32_t qpn)
{
    const struct dv_qp *qp = context->qps[qpn & DV_INDEX_MASK];
    return qp && qp->ex.qp_base.qp_num == qpn && qp->rc ? qp : NULL;
}

bool dv_rc_is_connected(const struct dv_context *context, uint32_t qpn)
{
    const struct dv_qp *qp = find(context, qpn);
    return qp && qp->rc->core;
}

bool dv_rc_is_unpolled(const struct dv_context *context, uint32_t qpn)
{
    const struct dv_qp *qp = find(context, qpn);
    return qp && qp->unpolled_all;
}

void dv_rc_set_access(struct dv_qp *qp)
{
    if (qp->rc->core)
        diwarp_rc_set_access(qp->rc->core, (int)qp->attr.qp_access_flags);
    if (qp->rc->loop)
        diwarp_rc_set_access(qp->rc->loop, (int)qp->attr.qp_access_flags);
}

void dv_rc_reset(struct dv_qp *qp)
{
    close_core(qp);
    qp->rc->lost = qp->rc->closed_there = false;
    dv_rc_queues_forget(qp);
}

void dv_rc_leave(struct dv_qp *qp)
{
    close_core(qp);
    qp->rc->lost = true; /* nobody calls it again */
}

static void fail(struct dv_qp *qp, enum ibv_wc_status status, enum ibv_wc_status recv_status)
{
    const bool was = qp->attr.qp_state == IBV_QPS_ERR;
    close_core(qp);
    qp->attr.qp_state = IBV_QPS_ERR;
    dv_rc_queues_flush(qp, status, recv_status);
    if (!was)
        dv_async_push_last(qp);
}

/* A call that waits goes on waiting: the queue pair may be made ready for it anew. */
void dv_rc_fail(struct dv_qp *qp, enum ibv_wc_status status)
{
    fail(qp, status, IBV_WC_WR_FLUSH_ERR);
}

/* The other side does not answer: what UC has sent is lost, of which its sender is not told. */
static void give_up(struct dv_qp *qp)
{
    end_wait(qp->rc);
    const enum ibv_wc_status fault = dv_is_uc(qp) ? dv_rc_queues_drop(qp) : IBV_WC_RETRY_EXC_ERR;
    if (fault)
        dv_rc_fail(qp, fault);
    dv_sqd_look(qp);
}

void dv_rc_expire(struct dv_context *context, bool traffic)
{
    const uint64_t now_ns = dv_clock_ns();
    struct dv_rc *rc = LIST_FIRST(&context->waiting), *next;
    if (now_ns < context->look_ns + (traffic ? 10 * LOOK_NS : 0))
        return;
    context->look_ns = now_ns + LOOK_NS;
    for (; rc; rc = next) {
        next = LIST_NEXT(rc, link);
        if (now_ns >= rc->fail_at_ns)
            give_up(rc->qp);
    }
}

/* What the other side's Terminate says of a request of ours (RFC 5040 4.8: layer, type, code). */
static enum ibv_wc_status status_of(uint32_t cause)
{
    switch (cause >> 8) {
    case 0x01: /* RDMAP, remote protection */
    case 0x11: /* DDP, tagged buffer */
        return IBV_WC_REM_ACCESS_ERR;
    case 0x12: /* DDP, untagged buffer */
        return cause == NO_RECEIVE ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_REM_INV_REQ_ERR;
    default:
        return IBV_WC_REM_OP_ERR;
    }
}

/* The fault of the other side's request that this side has ended the connection for, which no
 * completion tells a program that only lets others write and read. Causes beyond these are of the
 * stream, or our own. */
static void tell_fault(struct dv_qp *qp, const struct ibv_wc *wc)
{
    const unsigned kind = wc->vendor_err >> 8; /* as in status_of() */
    const bool access = kind == 0x01 || kind == 0x11;
    const bool malformed = kind == 0x02 || (kind == 0x12 && wc->vendor_err != NO_RECEIVE);
    if (wc->status == IBV_WC_REM_OP_ERR && wc->wc_flags & DIWARP_WC_TERMINATED_HERE &&
        (access || malformed))
        dv_async_push(dv_context_of(qp->ex.qp_base.context),
                      &(struct ibv_async_event){.element.qp = &qp->ex.qp_base,
                                                .event_type = access ? IBV_EVENT_QP_ACCESS_ERR
                                                                     : IBV_EVENT_QP_REQ_ERR});
}

/* Without a request the program is told when it sends, as over InfiniBand. */
static void lose(struct dv_qp *qp)
{
    qp->rc->lost = true;
    if (dv_rc_begun(qp))
        give_up(qp);
}

static void disconnected(struct dv_qp *qp, const struct diwarp_wc *done)
{
    struct dv_rc *rc = qp->rc;
    const struct ibv_wc wc = done->wc; /* it goes with what follows */
    close_core(qp);
    enum ibv_wc_status unsendable = IBV_WC_SUCCESS;
    rc->closed_there = wc.status == IBV_WC_SUCCESS && wc.wr_id <= UINT32_MAX;
    if (rc->closed_there)
        unsendable = dv_rc_queues_closed(qp, (uint32_t)wc.wr_id);
    tell_fault(qp, &wc);
    if (wc.status == IBV_WC_REM_OP_ERR && wc.wc_flags & DIWARP_WC_TERMINATED_HERE &&
        wc.vendor_err != NO_RECEIVE)
        fail(qp, IBV_WC_WR_FLUSH_ERR,
             wc.vendor_err == TOO_LONG ? IBV_WC_LOC_LEN_ERR : IBV_WC_WR_FLUSH_ERR);
    else if (wc.status == IBV_WC_REM_OP_ERR && !(wc.wc_flags & DIWARP_WC_TERMINATED_HERE))
        dv_rc_fail(qp, status_of(wc.vendor_err));
    else if (unsendable)
        dv_rc_fail(qp, unsendable);
    else if (rc->closed_there)
        limit_wait(qp); /* over InfiniBand the other side would be silent from now on */
    else if (dv_rc_begun(qp) &&
             (wc.status == IBV_WC_LOC_PROT_ERR || wc.status == IBV_WC_LOC_QP_OP_ERR))
        dv_rc_fail(qp, wc.status);
    else
        lose(qp);
}

static void fail_if(struct dv_qp *qp, enum ibv_wc_status status)
{
    if (status == IBV_WC_RETRY_EXC_ERR)
        give_up(qp);
    else if (status != IBV_WC_SUCCESS)
        dv_rc_fail(qp, status);
}

void dv_rc_deliver(struct dv_qp *qp, const struct diwarp_wc *done)
{
    if ((unsigned)done->wc.opcode == DIWARP_WC_CONNECTED) {
        qp->rc->connected = true;
        end_wait(qp->rc);
    }
    if ((unsigned)done->wc.opcode == DIWARP_WC_DISCONNECTED)
        disconnected(qp, done);
    else
        fail_if(qp, dv_rc_queues_deliver(qp, done));
}

void dv_rc_post_send(struct dv_qp *qp, const struct ibv_send_wr *wr)
{
    fail_if(qp, dv_rc_queues_send(qp, wr));
    limit_wait(qp);
}

void dv_rc_drain(struct dv_qp *qp)
{
    fail_if(qp, dv_rc_queues_drain(qp));
    if (!dv_rc_begun(qp))
        end_wait(qp->rc);
}

void dv_rc_resume(struct dv_qp *qp)
{
    fail_if(qp, dv_rc_queues_resume(qp));
    limit_wait(qp);
}

/* ---- making ---- */

/* Only while there is somebody to call: each poll of the RNIC asks for what calls. */
static int get_listener(struct dv_context *context)
{
    const int rc = context->rc_qps
                       ? 0
                       : diwarp_listen(context->port_pd, context->core, &context->listener, NULL);
    context->rc_qps += !rc;
    return rc;
}

static void put_listener(struct dv_context *context)
{
    if (--context->rc_qps)
        return;
    diwarp_destroy_listener(context->listener);
    context->listener = NULL;
}

int dv_rc_init(struct dv_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
    struct dv_context *context = dv_context_of(qp->ex.qp_base.context);
    int rc = -get_listener(context);
    if (rc)
        return rc;
    rc = dv_rc_queues_init(qp, attr);
    if (rc)
        put_listener(context);
    return rc;
}

void dv_rc_fini(struct dv_qp *qp)
{
    if (!qp->rc)
        return;
    close_core(qp);
    reject_waiting(qp->rc);
    dv_rc_queues_fini(qp);
    put_listener(dv_context_of(qp->ex.qp_base.context));
}
