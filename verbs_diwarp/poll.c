/* SPDX-License-Identifier: BSD-3-Clause */
/* Who runs the RNIC, and what it completed: from diwarp's one queue into the program's. */
#include "verbs_diwarp/poll.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sched.h>
#include <string.h>

#include "verbs_diwarp/async.h"
#include "verbs_diwarp/channel.h"
#include "verbs_diwarp/cq.h"
#include "verbs_diwarp/graves.h"
#include "verbs_diwarp/grh.h"
#include "verbs_diwarp/memory.h"
#include "verbs_diwarp/query.h"
#include "verbs_diwarp/rc.h"
#include "verbs_diwarp/rd.h"
#include "verbs_diwarp/rdma.h"
#include "verbs_diwarp/recvs.h"
#include "verbs_diwarp/sqd.h"
#include "verbs_diwarp/srq.h"

/* False: its memory is not registered any more. */
static bool put_grh(const struct ibv_pd *pd, const struct dv_recv *recv,
                    const struct diwarp_wc *done)
{
    struct ibv_grh grh;
    dv_make_grh(dv_context_of(pd->context), done, &grh);
    const uint8_t *from = (const uint8_t *)&grh;
    for (unsigned i = 0; i < recv->lead_count; i++) {
        void *to = dv_memory_at(pd, &recv->lead[i]);
        if (!to && recv->lead[i].length)
            return false;
        if (to)
            memcpy(to, from, recv->lead[i].length);
        from += recv->lead[i].length;
    }
    return true;
}

static uint32_t lead_bytes(const struct dv_recv *recv)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < recv->lead_count; i++)
        bytes += recv->lead[i].length;
    return (uint32_t)bytes;
}

/* Its receives name memory that is no longer registered; none is filled from now on. */
static void fail(struct dv_qp *qp)
{
    const bool was = qp->attr.qp_state == IBV_QPS_ERR;
    diwarp_set_qkey(qp->core, dv_random_qkey());
    qp->attr.qp_state = IBV_QPS_ERR;
    dv_flush_recvs(qp);
    dv_sqd_flush(qp);
    if (!was)
        dv_async_push_last(qp);
}

static void deliver(struct dv_context *context, const struct diwarp_wc *done)
{
    if ((unsigned)done->wc.opcode == DIWARP_WC_CONNECT_REQUEST) {
        dv_rc_called(context, done);
        return;
    }
    if (done->rc_qp) {
        struct dv_qp *rc = diwarp_rc_qp_context(done->rc_qp);
        dv_rc_deliver(rc, done);
        dv_sqd_look(rc);
        return;
    }
    struct dv_qp *qp = context->qps[done->wc.qp_num & DV_INDEX_MASK];
    if (qp && dv_ibv_qp(qp)->qp_num != done->wc.qp_num)
        qp = NULL;
    if (qp && qp->rd) {
        dv_rd_deliver(qp, done);
        dv_sqd_look(qp);
        return;
    }
    const bool rdma = dv_rdma_deliver(qp, done);
    if (rdma && qp)
        dv_sqd_look(qp);
    if (rdma || !qp || done->wc.opcode != IBV_WC_RECV)
        return;
    struct ibv_wc wc = done->wc;
    struct dv_srq *srq = (struct dv_srq *)dv_ibv_qp(qp)->srq;
    struct dv_recvs *recvs = srq ? &srq->recvs : &qp->recvs;
    struct dv_recv *recv = &recvs->places[wc.wr_id];
    if (!recv->posted) /* flushed meanwhile */
        return;
    if (!wc.status && lead_bytes(recv) < DV_GRH_BYTES)
        wc.status = IBV_WC_LOC_LEN_ERR;
    if (!wc.status && !put_grh(srq ? srq->srq.pd : dv_ibv_qp(qp)->pd, recv, done))
        wc.status = IBV_WC_LOC_PROT_ERR;
    wc.byte_len += DV_GRH_BYTES;
    wc.wc_flags = IBV_WC_GRH | (wc.wc_flags & ~(unsigned)DIWARP_WC_SOLICITED);
    wc.imm_data = htonl(done->wc.imm_data);
    wc.slid = dv_lid_of_source(context, done->src);
    wc.wr_id = recv->wr_id;
    if (srq)
        (void)dv_srq_release(srq, done->wc.wr_id);
    else
        dv_recvs_release(recvs, recv);
    dv_cq_push(dv_ibv_qp(qp)->recv_cq, &wc, done->wc.wc_flags & DIWARP_WC_SOLICITED);
    if (wc.status == IBV_WC_LOC_PROT_ERR)
        fail(qp);
}

int dv_progress(struct dv_context *context)
{
    struct diwarp_wc *done = context->done;
    int n, all = 0;
    if (!context->core) /* closed */
        return 0;
    context->posts = 0;
    do {
        n = diwarp_poll_cq(context->core, DV_BATCH, done);
        context->done_count = n;
        for (int i = 0; i < n; i++) {
            const struct diwarp_wc one = done[i];
            done[i] = (struct diwarp_wc){0}; /* not told again where its queue pair goes */
            deliver(context, &one);
        }
        context->done_count = 0;
        all += n > 0 ? n : 0;
    } while (n == DV_BATCH);
    dv_rd_receive_held(context);
    /* What came in time may lie in a socket: it is read first. */
    if (!LIST_EMPTY(&context->waiting))
        dv_rc_expire(context, all);
    return n < 0 ? n : all;
}

void dv_flush_recvs(struct dv_qp *qp)
{
    struct ibv_wc wc = {
        .status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV, .qp_num = dv_ibv_qp(qp)->qp_num};
    while (qp->recvs.oldest) {
        wc.wr_id = qp->recvs.oldest->wr_id;
        dv_recvs_release(&qp->recvs, qp->recvs.oldest);
        dv_cq_push(dv_ibv_qp(qp)->recv_cq, &wc, false);
    }
}

/* Programs that poll without end may share a core with those that they wait for, as ranks of MPICH
 * do. That many polls take some 100 us, longer than a round trip: half as many would leave the core
 * to strangers while an answer is under way, twice as many let ranks that share a core wait longer
 * for each other. */
#define YIELD_POLLS 256

/* Whether this poll, which found so many, is to yield. */
static bool is_vain(struct dv_context *context, int found)
{
    context->empty_polls = found ? 0 : context->empty_polls + 1;
    return context->empty_polls % YIELD_POLLS == YIELD_POLLS - 1;
}

int dv_take_entry(struct dv_cq *cq)
{
    struct dv_context *context = dv_context_of(cq->cq.context);
    dv_lock(context);
    if (!cq->count && dv_progress(context) < 0)
        cq->overrun = true;
    const bool found = cq->count;
    if (found) {
        cq->current = cq->entries[cq->head];
        dv_drop_oldest(cq);
    }
    const int rc = found ? 0 : cq->overrun ? EIO : ENOENT;
    const bool yield = is_vain(context, found);
    dv_unlock(context);
    if (yield)
        (void)sched_yield();
    return rc;
}

int dv_poll_cq(struct ibv_cq *ibv_cq, int n, struct ibv_wc *wc)
{
    struct dv_cq *cq = dv_cq_of(ibv_cq);
    struct dv_context *context = dv_context_of(ibv_cq->context);
    int taken = 0;
    dv_lock(context);
    if (!cq->count && dv_progress(context) < 0)
        cq->overrun = true;
    for (; taken < n && cq->count; taken++) {
        wc[taken] = cq->entries[cq->head].wc;
        dv_drop_oldest(cq);
    }
    const bool overrun = cq->overrun && !taken;
    const bool yield = is_vain(context, taken);
    dv_unlock(context);
    if (yield)
        (void)sched_yield();
    return overrun ? -EIO : taken;
}

/* In the helper's thread, while the program neither polls nor posts. */
static int run_for_sleepers(void *arg)
{
    struct dv_context *context = arg;
    if (pthread_mutex_trylock(&context->lock))
        return -EBUSY;
    const int n = dv_progress(context);
    dv_unlock(context);
    return n;
}

/* How often the helper looks whether the program is away: what an event may come late by. */
#define LOOK_NS 50000

int dv_start_helper(struct dv_context *context)
{
    const struct diwarp_helper_attr attr = {.cq = context->core,
                                            .run = run_for_sleepers,
                                            .arg = context,
                                            .all = true,
                                            .look_ns = LOOK_NS};
    return context->helper ? 0 : diwarp_start_helper(&attr, &context->helper);
}

int dv_req_notify_cq(struct ibv_cq *ibv_cq, int solicited_only)
{
    struct dv_context *context = dv_context_of(ibv_cq->context);
    struct dv_cq *cq = dv_cq_of(ibv_cq);
    dv_lock(context);
    const int rc = -dv_start_helper(context);
    if (!rc)
        dv_channel_arm(cq, solicited_only ? DV_ARMED_SOLICITED : DV_ARMED);
    if (!rc && context->posts) /* what waits for more leaves before the program sleeps */
        (void)dv_progress(context);
    dv_unlock(context);
    return rc;
}

int ibv_resize_cq(struct ibv_cq *ibv_cq, int cqe)
{
    if (!dv_is_ours(ibv_cq->context))
        return DV_REAL(ibv_resize_cq)(ibv_cq, cqe);
    if (dv_is_gone(ibv_cq->context))
        return EINVAL;
    struct dv_context *context = dv_context_of(ibv_cq->context);
    struct dv_cq *cq = dv_cq_of(ibv_cq);
    if (cqe < 1 || cqe > DV_MAX_CQE)
        return EINVAL;
    struct dv_entry *entries = calloc((size_t)cqe, sizeof *entries);
    if (!entries)
        return ENOMEM;
    dv_lock(context);
    while (dv_progress(context) > 0) /* what has completed counts */
        ;
    if ((uint32_t)cqe < cq->count) {
        dv_unlock(context);
        free(entries);
        return EINVAL;
    }
    for (uint32_t i = 0; i < cq->count; i++)
        entries[i] = cq->entries[(cq->head + i) % cq->size];
    free(cq->entries);
    cq->entries = entries;
    cq->size = (uint32_t)cqe;
    cq->head = 0;
    ibv_cq->cqe = cqe;
    dv_unlock(context);
    return 0;
}
