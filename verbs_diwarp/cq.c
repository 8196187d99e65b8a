/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/cq.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "verbs_diwarp/async.h"
#include "verbs_diwarp/graves.h"
#include "verbs_diwarp/channel.h"
#include "verbs_diwarp/request.h"

static bool is_failed_recv(const struct ibv_wc *wc)
{
    return wc->opcode & IBV_WC_RECV && wc->status != IBV_WC_SUCCESS;
}

/* A Send, and a receive in error, has its place in its queue until its completion is polled. */
static void take_place(struct dv_context *context, const struct ibv_wc *wc)
{
    struct dv_qp *qp = context->qps[wc->qp_num & DV_INDEX_MASK];
    if (qp)
        qp->unpolled_all++;
    if (qp && is_failed_recv(wc))
        qp->failed_recvs++; /* Sends are counted by who completes them */
}

static void give_place(struct dv_context *context, const struct ibv_wc *wc)
{
    struct dv_qp *qp = context->qps[wc->qp_num & DV_INDEX_MASK];
    if (qp && qp->unpolled && !(wc->opcode & IBV_WC_RECV))
        qp->unpolled--;
    if (qp && qp->failed_recvs && is_failed_recv(wc))
        qp->failed_recvs--;
    if (qp && qp->unpolled_all)
        qp->unpolled_all--;
}

void dv_drop_oldest(struct dv_cq *cq)
{
    give_place(dv_context_of(cq->cq.context), &cq->entries[cq->head].wc);
    cq->head = cq->head + 1 == cq->size ? 0 : cq->head + 1;
    cq->count--;
}

uint64_t dv_clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void dv_cq_push(struct ibv_cq *ibv_cq, const struct ibv_wc *wc, bool solicited)
{
    struct dv_cq *cq = dv_cq_of(ibv_cq);
    if (cq->count == cq->size && cq->ignores_overrun)
        dv_drop_oldest(cq);
    if (cq->count == cq->size) {
        if (!cq->overrun)
            dv_async_push(
                dv_context_of(ibv_cq->context),
                &(struct ibv_async_event){.element.cq = ibv_cq, .event_type = IBV_EVENT_CQ_ERR});
        cq->overrun = true;
        return;
    }
    struct dv_entry *entry = &cq->entries[(cq->head + cq->count++) % cq->size];
    *entry = (struct dv_entry){*wc, cq->stamps ? dv_clock_ns() : 0, solicited};
    take_place(dv_context_of(ibv_cq->context), wc);
    if (dv_channel_wants(cq, entry))
        dv_channel_push(cq);
}

void dv_cq_push_send(struct dv_qp *qp, const struct ibv_send_wr *wr, enum ibv_wc_status status)
{
    const struct ibv_wc wc = {.wr_id = wr->wr_id,
                              .status = status,
                              .opcode = dv_wc_opcode_of(wr),
                              .qp_num = dv_ibv_qp(qp)->qp_num};
    qp->unpolled++;
    dv_cq_push(dv_ibv_qp(qp)->send_cq, &wc, false);
}

void dv_cq_forget(struct ibv_cq *ibv_cq, uint32_t qp_num)
{
    struct dv_cq *cq = dv_cq_of(ibv_cq);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < cq->count; i++) {
        const struct dv_entry *entry = &cq->entries[(cq->head + i) % cq->size];
        if (entry->wc.qp_num != qp_num)
            cq->entries[(cq->head + kept++) % cq->size] = *entry;
    }
    cq->count = kept;
}

/* ---- libibverbs' ---- */

struct ibv_cq *ibv_create_cq(struct ibv_context *ibv_context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int comp_vector)
{
    if (!dv_is_ours(ibv_context))
        return DV_REAL(ibv_create_cq)(ibv_context, cqe, cq_context, channel, comp_vector);
    if (cqe < 1 || cqe > DV_MAX_CQE || comp_vector < 0 ||
        comp_vector >= ibv_context->num_comp_vectors ||
        (channel && channel->context != ibv_context))
        return dv_fail(EINVAL);
    struct dv_cq *cq = calloc(1, sizeof *cq);
    if (!cq || !(cq->entries = calloc((size_t)cqe, sizeof *cq->entries))) {
        free(cq);
        return dv_fail(ENOMEM);
    }
    cq->size = (uint32_t)cqe;
    cq->cq = (struct ibv_cq){
        .context = ibv_context, .channel = channel, .cq_context = cq_context, .cqe = cqe};
    pthread_mutex_init(&cq->cq.mutex, NULL);
    pthread_cond_init(&cq->cq.cond, NULL);
    dv_lock(dv_context_of(ibv_context));
    dv_context_of(ibv_context)->kept++;
    if (channel)
        channel->refcnt++;
    dv_unlock(dv_context_of(ibv_context));
    return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *ibv_cq)
{
    if (!dv_is_ours(ibv_cq->context))
        return DV_REAL(ibv_destroy_cq)(ibv_cq);
    if (dv_is_gone(ibv_cq->context))
        return EINVAL;
    struct dv_cq *cq = dv_cq_of(ibv_cq);
    struct dv_context *context = dv_context_of(ibv_cq->context);
    dv_lock(context);
    const bool busy = cq->users;
    if (!busy)
        context->kept--;
    if (!busy && cq->domain)
        cq->domain->users--;
    dv_unlock(context);
    if (busy)
        return EBUSY;
    dv_channel_leave(cq);
    dv_async_leave(context,
                   &(struct ibv_async_event){.element.cq = ibv_cq, .event_type = IBV_EVENT_CQ_ERR});
    if (cq->is_extended)
        pthread_mutex_destroy(&cq->polling);
    pthread_mutex_destroy(&ibv_cq->mutex);
    pthread_cond_destroy(&ibv_cq->cond);
    free(cq->entries);
    cq->entries = NULL;
    cq->count = 0;
    dv_bury(cq, &ibv_cq->context);
    return 0;
}
