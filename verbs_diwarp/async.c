/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/async.h"

#include <stdlib.h>
#include <sys/eventfd.h>

#include "verbs_diwarp/channel.h"

/* A CQ has one event at most: a program with more CQs in error than that has taken none of them. */
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

/* *at, out of the queue. */
static void drop(struct dv_event **at)
{
    struct dv_event *event = *at;
    *at = event->next;
    free(event);
}

static bool is_of(const struct dv_event *event, const struct dv_cq *cq)
{
    return event->event.event_type == IBV_EVENT_CQ_ERR && event->event.element.cq == &cq->cq;
}

void dv_async_leave(struct dv_cq *cq)
{
    struct dv_context *context = dv_context_of(cq->cq.context);
    dv_lock(context);
    for (struct dv_event **at = &context->events; *at;) {
        if (!is_of(*at, cq)) {
            at = &(*at)->next;
            continue;
        }
        (void)dv_take_count(context->verbs.context.async_fd);
        drop(at);
    }
    dv_unlock(context);
    pthread_mutex_lock(&cq->cq.mutex);
    while (cq->cq.async_events_completed != cq->async_events)
        pthread_cond_wait(&cq->cq.cond, &cq->cq.mutex);
    pthread_mutex_unlock(&cq->cq.mutex);
}

void dv_async_close(struct dv_context *context)
{
    while (context->events)
        drop(&context->events);
}

static void count_taken(struct dv_cq *cq)
{
    pthread_mutex_lock(&cq->cq.mutex);
    cq->async_events++;
    pthread_mutex_unlock(&cq->cq.mutex);
}

/* False: the event that was counted has gone meanwhile, with its CQ. */
static bool take(struct dv_context *context, struct ibv_async_event *event)
{
    dv_lock(context);
    const bool taken = context->events;
    if (taken) {
        *event = context->events->event;
        drop(&context->events);
    }
    if (taken && event->event_type == IBV_EVENT_CQ_ERR)
        count_taken(dv_cq_of(event->element.cq));
    dv_unlock(context);
    return taken;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    if (!dv_is_ours(context))
        return DV_REAL(ibv_get_async_event)(context, event);
    do {
        eventfd_t one;
        if (eventfd_read(context->async_fd, &one))
            return -1;
    } while (!take(dv_context_of(context), event));
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    struct ibv_cq *cq = event->event_type == IBV_EVENT_CQ_ERR ? event->element.cq : NULL;
    if (!cq || !dv_is_ours(cq->context)) {
        DV_REAL(ibv_ack_async_event)(event);
        return;
    }
    pthread_mutex_lock(&cq->mutex);
    cq->async_events_completed++;
    pthread_cond_signal(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}
