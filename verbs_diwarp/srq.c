/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/srq.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs_diwarp/async.h"
#include "verbs_diwarp/graves.h"
#include "verbs_diwarp/recvs.h"

static struct dv_srq *srq_of(struct ibv_srq *srq)
{
    return (struct dv_srq *)srq;
}

/* Also where it is so when the limit is set (InfiniBand 10.2.9.2). */
static void look_at_limit(struct dv_srq *srq)
{
    if (srq->posted >= srq->limit)
        return;
    srq->limit = 0; /* told once */
    dv_async_push(dv_context_of(srq->srq.context),
                  &(struct ibv_async_event){.element.srq = &srq->srq,
                                            .event_type = IBV_EVENT_SRQ_LIMIT_REACHED});
}

static void change(struct dv_srq *srq, int32_t by)
{
    srq->posted += (uint32_t)by;
    if (srq->on_change)
        srq->on_change(srq, by);
}

uint64_t dv_srq_release(struct dv_srq *srq, uint64_t place)
{
    struct dv_recv *recv = &srq->recvs.places[place];
    dv_recvs_release(&srq->recvs, recv);
    change(srq, -1);
    look_at_limit(srq);
    return recv->wr_id;
}

bool dv_srq_take(struct dv_srq *srq, struct ibv_recv_wr *wr)
{
    if (diwarp_take_srq_recv(srq->core, wr))
        return false;
    wr->wr_id = dv_srq_release(srq, wr->wr_id);
    return true;
}

/* 0 or a positive errno. */
static int post_one(struct dv_srq *srq, const struct ibv_recv_wr *wr)
{
    struct ibv_sge sges[DV_MAX_SGE];
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > srq->max_sge)
        return EINVAL;
    struct dv_recv *recv = dv_recvs_next(&srq->recvs);
    if (!recv)
        return ENOMEM;
    const struct ibv_recv_wr out = {.wr_id = dv_recvs_place(&srq->recvs, recv),
                                    .sg_list = dv_recvs_keyed(wr, sges),
                                    .num_sge = wr->num_sge};
    const int rc = diwarp_post_srq_recv(srq->core, &out);
    if (rc)
        return rc == -ENOMEM ? ENOMEM : EINVAL;
    dv_recvs_post(&srq->recvs, recv, wr);
    change(srq, 1);
    return 0;
}

int dv_post_srq_recv(struct ibv_srq *ibv_srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    int rc = 0;
    dv_lock(dv_context_of(ibv_srq->context));
    while (wr && !(rc = post_one(srq_of(ibv_srq), wr)))
        wr = wr->next;
    dv_unlock(dv_context_of(ibv_srq->context));
    if (rc)
        *bad = wr;
    return rc;
}

/* ---- libibverbs' ---- */

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    if (!dv_is_ours(pd->context))
        return DV_REAL(ibv_create_srq)(pd, attr);
    if (dv_is_gone(pd->context))
        return dv_fail(EINVAL);
    if (!attr->attr.max_wr || attr->attr.max_wr > DV_MAX_WR || attr->attr.max_sge > DV_MAX_SGE)
        return dv_fail(EINVAL);
    struct dv_srq *srq = calloc(1, sizeof *srq);
    if (!srq || dv_recvs_init(&srq->recvs, attr->attr.max_wr, attr->attr.max_sge)) {
        free(srq);
        return dv_fail(ENOMEM);
    }
    srq->core =
        diwarp_create_srq(((struct dv_pd *)pd)->core, attr->attr.max_wr, attr->attr.max_sge);
    if (!srq->core) {
        dv_recvs_fini(&srq->recvs);
        free(srq);
        return dv_fail(ENOMEM);
    }
    srq->srq = (struct ibv_srq){.context = pd->context, .srq_context = attr->srq_context, .pd = pd};
    srq->max_wr = attr->attr.max_wr;
    srq->max_sge = attr->attr.max_sge;
    pthread_mutex_init(&srq->srq.mutex, NULL);
    pthread_cond_init(&srq->srq.cond, NULL);
    dv_lock(dv_context_of(pd->context));
    ((struct dv_pd *)pd)->users++;
    dv_unlock(dv_context_of(pd->context));
    return &srq->srq;
}

int ibv_modify_srq(struct ibv_srq *ibv_srq, struct ibv_srq_attr *attr, int mask)
{
    if (!dv_is_ours(ibv_srq->context))
        return DV_REAL(ibv_modify_srq)(ibv_srq, attr, mask);
    if (dv_is_gone(ibv_srq->context))
        return EINVAL;
    struct dv_srq *srq = srq_of(ibv_srq);
    if (mask & ~(IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR) ||
        (mask & IBV_SRQ_LIMIT && attr->srq_limit > srq->max_wr))
        return EINVAL;
    if (mask & IBV_SRQ_MAX_WR)
        return EOPNOTSUPP;
    dv_lock(dv_context_of(ibv_srq->context));
    if (mask & IBV_SRQ_LIMIT) {
        srq->limit = attr->srq_limit;
        look_at_limit(srq);
    }
    dv_unlock(dv_context_of(ibv_srq->context));
    return 0;
}

int ibv_query_srq(struct ibv_srq *ibv_srq, struct ibv_srq_attr *attr)
{
    if (!dv_is_ours(ibv_srq->context))
        return DV_REAL(ibv_query_srq)(ibv_srq, attr);
    if (dv_is_gone(ibv_srq->context))
        return EINVAL;
    const struct dv_srq *srq = srq_of(ibv_srq);
    dv_lock(dv_context_of(ibv_srq->context));
    *attr = (struct ibv_srq_attr){
        .max_wr = srq->max_wr, .max_sge = srq->max_sge, .srq_limit = srq->limit};
    dv_unlock(dv_context_of(ibv_srq->context));
    return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibv_srq)
{
    if (!dv_is_ours(ibv_srq->context))
        return DV_REAL(ibv_destroy_srq)(ibv_srq);
    if (dv_is_gone(ibv_srq->context))
        return EINVAL;
    struct dv_srq *srq = srq_of(ibv_srq);
    struct dv_context *context = dv_context_of(ibv_srq->context);
    dv_lock(context);
    const bool busy = srq->users;
    if (!busy)
        ((struct dv_pd *)ibv_srq->pd)->users--;
    dv_unlock(context);
    if (busy)
        return EBUSY;
    dv_async_leave(context, &(struct ibv_async_event){.element.srq = ibv_srq,
                                                      .event_type = IBV_EVENT_SRQ_LIMIT_REACHED});
    diwarp_destroy_srq(srq->core);
    dv_recvs_fini(&srq->recvs);
    pthread_mutex_destroy(&ibv_srq->mutex);
    pthread_cond_destroy(&ibv_srq->cond);
    dv_bury(srq, &ibv_srq->context);
    return 0;
}
