/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "verbs_diwarp/graves.h"

/* Instead of a descriptor that was closed, and of one that did not block. */
enum { GONE = -1, GONE_NONBLOCKING = -2 };

static struct dv_channel *channel_of(const struct dv_cq *cq)
{
    return (struct dv_channel *)cq->cq.channel;
}

bool dv_channel_wants(const struct dv_cq *cq, const struct dv_entry *entry)
{
    return cq->cq.channel &&
           (cq->armed == DV_ARMED || (cq->armed == DV_ARMED_SOLICITED &&
                                      (entry->solicited || entry->wc.status != IBV_WC_SUCCESS)));
}

void dv_channel_push(struct dv_cq *cq)
{
    struct dv_channel *channel = channel_of(cq);
    cq->armed = DV_NOT_ARMED;
    dv_context_of(cq->cq.context)->armed_count--;
    if (!cq->waiting++) {
        struct dv_cq **last = &channel->first;
        while (*last)
            last = &(*last)->next;
        cq->next = NULL;
        *last = cq;
    }
    (void)!eventfd_write(channel->channel.fd, 1);
}

/* If there is what the CQ was armed for. */
static void push_if_wanted(struct dv_cq *cq)
{
    for (uint32_t i = 0; cq->armed && i < cq->count; i++)
        if (dv_channel_wants(cq, &cq->entries[(cq->head + i) % cq->size]))
            dv_channel_push(cq);
}

/* What is there already is told to a thread that waits; else see tell_of_left(). */
void dv_channel_arm(struct dv_cq *cq, enum dv_arming arming)
{
    struct dv_channel *channel = channel_of(cq);
    if (!cq->armed)
        dv_context_of(cq->cq.context)->armed_count++;
    if (cq->armed != DV_ARMED)
        cq->armed = arming;
    if (channel && channel->waiters)
        push_if_wanted(cq);
    if (!channel || !cq->armed || !cq->count || cq->left)
        return;
    cq->left = true;
    cq->next_left = channel->left;
    channel->left = cq;
}

static void take_out(struct dv_cq *cq)
{
    struct dv_cq **at = &channel_of(cq)->first;
    while (*at != cq)
        at = &(*at)->next;
    *at = cq->next;
}

static void forget_left(struct dv_cq *cq)
{
    struct dv_cq **at = &channel_of(cq)->left;
    while (*at != cq)
        at = &(*at)->next_left;
    *at = cq->next_left;
    cq->left = false;
}

/* What was in a CQ when an event was asked for, and has not been taken since, is told only when the
 * program is about to wait here: cards raise that event at once, and programs that take one
 * completion for each event rely on it; programs that empty the CQ would get a useless event for
 * each time that they ask. */
static void tell_of_left(struct dv_channel *channel)
{
    dv_lock(dv_context_of(channel->channel.context));
    channel->waiters++;
    for (struct dv_cq *cq; !channel->first && (cq = channel->left);) {
        forget_left(cq);
        push_if_wanted(cq);
    }
    dv_unlock(dv_context_of(channel->channel.context));
}

/* Without waiting, for its place: whoever reads it first holds no event yet, and finds none. */
bool dv_take_count(int fd)
{
    eventfd_t one;
    const struct iovec to = {&one, sizeof one};
    return preadv2(fd, &to, 1, -1, RWF_NOWAIT) == sizeof one;
}

int dv_cancel_disable(void)
{
    int was;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
    return was;
}

void dv_cancel_restore(int was)
{
    pthread_setcancelstate(was, NULL);
}

int dv_wait_for_count(int fd, int was)
{
    eventfd_t one;
    dv_cancel_restore(was);
    const int rc = eventfd_read(fd, &one);
    (void)dv_cancel_disable();
    return rc;
}

/* With the kernel, a thread that waits for an event is not woken when the channel or the device is
 * destroyed. An error would look like a failure to programs that do not join such threads. */
int dv_wait_again(int fd, int was)
{
    if (fd != GONE)
        return dv_wait_for_count(fd, was);
    dv_cancel_restore(was);
    pause();
    (void)dv_cancel_disable();
    return -1;
}

/* First the field: another object may get the number. */
void dv_close_count(int *fd)
{
    const int closed = *fd;
    *fd = fcntl(closed, F_GETFL) & O_NONBLOCK ? GONE_NONBLOCKING : GONE;
    close(closed);
}

void dv_channel_leave(struct dv_cq *cq)
{
    struct dv_context *context = dv_context_of(cq->cq.context);
    dv_lock(context);
    if (cq->waiting)
        take_out(cq);
    while (cq->waiting && dv_take_count(cq->cq.channel->fd))
        cq->waiting--;
    cq->waiting = 0;
    if (cq->left)
        forget_left(cq);
    if (cq->armed)
        context->armed_count--;
    cq->armed = DV_NOT_ARMED;
    if (cq->cq.channel)
        cq->cq.channel->refcnt--;
    dv_unlock(context);
    pthread_mutex_lock(&cq->cq.mutex);
    while (cq->cq.comp_events_completed != cq->events)
        pthread_cond_wait(&cq->cq.cond, &cq->cq.mutex);
    pthread_mutex_unlock(&cq->cq.mutex);
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    if (!dv_is_ours(context))
        return DV_REAL(ibv_create_comp_channel)(context);
    const int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    struct dv_channel *channel = fd < 0 ? NULL : calloc(1, sizeof *channel);
    if (!channel) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    channel->channel = (struct ibv_comp_channel){.context = context, .fd = fd};
    dv_lock(dv_context_of(context));
    dv_context_of(context)->kept++;
    dv_unlock(dv_context_of(context));
    return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    if (!dv_is_ours(channel->context))
        return DV_REAL(ibv_destroy_comp_channel)(channel);
    if (dv_is_gone(channel->context))
        return EINVAL;
    struct dv_context *context = dv_context_of(channel->context);
    dv_lock(context);
    const bool busy = channel->refcnt;
    if (!busy)
        context->kept--;
    dv_unlock(context);
    if (busy)
        return EBUSY;
    dv_close_count(&channel->fd);
    dv_bury(channel, &channel->context);
    return 0;
}

/* One that is left to be taken; NULL: its CQ has gone meanwhile. */
static struct dv_cq *take_event(struct dv_channel *channel)
{
    struct dv_context *context = dv_context_of(channel->channel.context);
    dv_lock(context);
    struct dv_cq *cq = channel->first;
    if (cq) {
        if (!--cq->waiting)
            take_out(cq);
        pthread_mutex_lock(&cq->cq.mutex);
        cq->events++;
        pthread_mutex_unlock(&cq->cq.mutex);
    }
    dv_unlock(context);
    return cq;
}

static void stop_waiting(void *argument)
{
    struct dv_channel *channel = argument;
    dv_lock(dv_context_of(channel->channel.context));
    channel->waiters--;
    dv_unlock(dv_context_of(channel->channel.context));
}

/* NULL: errno tells why. */
static struct dv_cq *wait_for_event(struct dv_channel *channel, int was)
{
    struct dv_cq *taken = NULL;
    int rc = dv_wait_for_count(channel->channel.fd, was);
    while (!rc && !(taken = take_event(channel)))
        rc = dv_wait_again(channel->channel.fd, was);
    return taken;
}

int ibv_get_cq_event(struct ibv_comp_channel *ibv_channel, struct ibv_cq **cq, void **cq_context)
{
    if (!dv_is_ours(ibv_channel->context))
        return DV_REAL(ibv_get_cq_event)(ibv_channel, cq, cq_context);
    struct dv_channel *channel = (struct dv_channel *)ibv_channel;
    struct dv_cq *taken;
    const int was = dv_cancel_disable();
    tell_of_left(channel);
    pthread_cleanup_push(stop_waiting, channel);
    taken = wait_for_event(channel, was);
    pthread_cleanup_pop(1);
    dv_cancel_restore(was);
    if (!taken)
        return -1;
    *cq = &taken->cq;
    *cq_context = taken->cq.cq_context;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
    if (!dv_is_ours(cq->context)) {
        DV_REAL(ibv_ack_cq_events)(cq, n);
        return;
    }
    pthread_mutex_lock(&cq->mutex);
    cq->comp_events_completed += n;
    pthread_cond_signal(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}
