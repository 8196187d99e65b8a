/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/async.h"

#include <stdlib.h>
#include <sys/eventfd.h>

#include "verbs_diwarp/channel.h"

/* More than one for each object: a program that has so many takes none. */
#define MAX_EVENTS 4096

struct dv_event {
    struct ibv_async_event event;
    struct dv_event *next;
};

void dv_async_push(struct dv_context *context, const struct ibv_async_event *event)
{
    struct dv_event **last = &context->events;
    unsigned count = 0;
    for (; *last; last = &(*last)->next)
        count++;
    struct dv_event *added = count < MAX_EVENTS ? malloc(sizeof *added) : NULL;
    if (!added)
        return;
    *added = (struct dv_event){.event = *event};
    *last = added;
    (void)!eventfd_write(context->verbs.context.async_fd, 1);
}

void dv_async_push_last(struct dv_qp *qp)
{
    const struct ibv_async_event event = {.element.qp = dv_ibv_qp(qp),
                                          .event_type = IBV_EVENT_QP_LAST_WQE_REACHED};
    if (event.element.qp->srq)
        dv_async_push(dv_context_of(event.element.qp->context), &event);
}

/* *at, out of the queue. */
static void drop(struct dv_event **at)
{
    struct dv_event *event = *at;
    *at = event->next;
    free(event);
}

/* What an object keeps of its events, as libibverbs does; none: they concern the device. */
struct account {
    pthread_mutex_t *mutex;
    pthread_cond_t *acknowledged;
    uint32_t *completed, *taken;
};

static struct account account_of(const struct ibv_async_event *event)
{
    struct ibv_cq *cq = event->element.cq;
    struct ibv_qp *qp = event->element.qp;
    struct ibv_srq *srq = event->element.srq;
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        return (struct account){&cq->mutex, &cq->cond, &cq->async_events_completed,
                                &dv_cq_of(cq)->async_events};
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_SQ_DRAINED:
        return (struct account){&qp->mutex, &qp->cond, &qp->events_completed,
                                &dv_qp_of(qp)->async_events};
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return (struct account){&srq->mutex, &srq->cond, &srq->events_completed,
                                &((struct dv_srq *)srq)->async_events};
    default:
        return (struct account){0};
    }
}

/* Objects' addresses differ, whatever they are. */
static bool is_same(const struct ibv_async_event *a, const struct ibv_async_event *b)
{
    return a->element.cq == b->element.cq;
}

void dv_async_leave(struct dv_context *context, const struct ibv_async_event *last)
{
    const struct account account = account_of(last);
    dv_lock(context);
    for (struct dv_event **at = &context->events; *at;) {
        if (!is_same(&(*at)->event, last)) {
            at = &(*at)->next;
            continue;
        }
        (void)dv_take_count(context->verbs.context.async_fd);
        drop(at);
    }
    dv_unlock(context);
    pthread_mutex_lock(account.mutex);
    while (*account.completed != *account.taken)
        pthread_cond_wait(account.acknowledged, account.mutex);
    pthread_mutex_unlock(account.mutex);
}

void dv_async_close(struct dv_context *context)
{
    dv_lock(context);
    while (context->events)
        drop(&context->events);
    dv_unlock(context);
}

static void count_taken(const struct account *account)
{
    pthread_mutex_lock(account->mutex);
    ++*account->taken;
    pthread_mutex_unlock(account->mutex);
}

/* False: the event that was counted has gone meanwhile, with its object. */
static bool take(struct dv_context *context, struct ibv_async_event *event)
{
    dv_lock(context);
    const bool taken = context->events;
    if (taken) {
        *event = context->events->event;
        drop(&context->events);
    }
    const struct account account = taken ? account_of(event) : (struct account){0};
    if (account.mutex)
        count_taken(&account);
    dv_unlock(context);
    return taken;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    if (!dv_is_ours(context))
        return DV_REAL(ibv_get_async_event)(context, event);
    const int was = dv_cancel_disable();
    int rc = dv_wait_for_count(context->async_fd, was);
    while (!rc && !take(dv_context_of(context), event))
        rc = dv_wait_again(context->async_fd, was);
    dv_cancel_restore(was);
    return rc;
}

/* Whose it is. NULL: nobody's of ours. */
static struct ibv_context *context_of(const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        return event->element.cq->context;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_SQ_DRAINED:
        return event->element.qp->context;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return event->element.srq->context;
    default:
        return NULL;
    }
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    const struct ibv_context *context = context_of(event);
    if (!context || !dv_is_ours(context)) {
        DV_REAL(ibv_ack_async_event)(event);
        return;
    }
    const struct account account = account_of(event);
    pthread_mutex_lock(account.mutex);
    ++*account.completed;
    pthread_cond_signal(account.acknowledged);
    pthread_mutex_unlock(account.mutex);
}
