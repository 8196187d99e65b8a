/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/cm_event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "verbs_diwarp/channel.h"
#include "verbs_diwarp/graves.h"

struct event {
    struct rdma_cm_event event;
    struct dv_cm_id *owner; /* whose count it is in: of a request, the listener's */
    TAILQ_ENTRY(event) entry;
    /* Programs of InfiniBand read the whole field whatever was sent. */
    uint8_t private_data[256];
};

/* Its fd, an eventfd(2), counts the events like a semaphore. */
struct channel {
    struct rdma_event_channel channel;
    TAILQ_HEAD(, event) events;
};

pthread_mutex_t dv_cm_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t acknowledged = PTHREAD_COND_INITIALIZER;

static struct channel *channel_of(struct rdma_event_channel *channel)
{
    return (struct channel *)channel;
}

/* ---- telling ---- */

struct ibv_ah_attr dv_cm_ah_attr(const struct dv_cm_id *id)
{
    struct ibv_ah_attr attr = {
        .is_global = 1,
        .port_num = 1,
        .grh = {.sgid_index = (uint8_t)id->sgid_index, .hop_limit = DV_CM_HOP_LIMIT}};
    memcpy(&attr.grh.dgid, id->other.gid, sizeof attr.grh.dgid);
    return attr;
}

/* The other side's responder resources are what we may initiate, and the other way round. */
static void fill(struct event *event, const struct dv_cm_message *message)
{
    const struct dv_cm_id *id = dv_cm_id_of(event->event.id);
    memcpy(event->private_data, message->private_data, message->private_bytes);
    if (message->qp_type == DV_CM_UD)
        event->event.param.ud = (struct rdma_ud_param){.private_data = event->private_data,
                                                       .private_data_len = message->private_bytes,
                                                       .ah_attr = dv_cm_ah_attr(id),
                                                       .qp_num = message->qpn,
                                                       .qkey = message->qkey};
    else
        event->event.param.conn =
            (struct rdma_conn_param){.private_data = event->private_data,
                                     .private_data_len = message->private_bytes,
                                     .responder_resources = message->initiator_depth,
                                     .initiator_depth = message->responder_resources,
                                     .flow_control = message->flow_control,
                                     .retry_count = message->retry_count,
                                     .rnr_retry_count = message->rnr_retry_count,
                                     .srq = message->srq,
                                     .qp_num = message->qpn};
}

static int push(const struct rdma_cm_event *what, struct dv_cm_id *owner,
                const struct dv_cm_message *message)
{
    if (owner->id.channel->fd < 0)
        return -EBADF; /* destroyed before its id */
    struct event *event = calloc(1, sizeof *event);
    if (!event)
        return -ENOMEM;
    event->event = *what;
    event->owner = owner;
    if (message)
        fill(event, message);
    TAILQ_INSERT_TAIL(&channel_of(owner->id.channel)->events, event, entry);
    (void)!eventfd_write(owner->id.channel->fd, 1);
    return 0;
}

int dv_cm_push(const struct rdma_cm_event *what, struct dv_cm_id *owner)
{
    return push(what, owner, NULL);
}

void dv_cm_tell(struct dv_cm_id *id, enum rdma_cm_event_type type, int status,
                const struct dv_cm_message *message)
{
    const struct rdma_cm_event what = {.id = &id->id, .event = type, .status = status};
    (void)push(&what, id, message); /* without memory, the program waits until its own time-out */
}

int dv_cm_tell_request(struct dv_cm_id *listener, struct dv_cm_id *caller)
{
    const struct rdma_cm_event what = {
        .id = &caller->id, .listen_id = &listener->id, .event = RDMA_CM_EVENT_CONNECT_REQUEST};
    const int rc = push(&what, listener, &caller->other);
    listener->untaken_count += !rc;
    return rc;
}

/* ---- the end of an id ---- */

void dv_cm_forget(struct dv_cm_id *id, void (*drop)(struct dv_cm_id *caller))
{
    struct channel *channel = channel_of(id->id.channel);
    struct event *next;
    for (struct event *event = TAILQ_FIRST(&channel->events); event; event = next) {
        next = TAILQ_NEXT(event, entry);
        if (event->owner != id)
            continue;
        TAILQ_REMOVE(&channel->events, event, entry);
        (void)dv_take_count(channel->channel.fd);
        if (event->event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
            drop(dv_cm_id_of(event->event.id));
        free(event);
    }
}

void dv_cm_wait_for_acks(struct dv_cm_id *id)
{
    while (id->taken != id->acked)
        pthread_cond_wait(&acknowledged, &dv_cm_mutex);
}

void dv_cm_move_events(struct dv_cm_id *id, struct rdma_event_channel *to)
{
    struct channel *from = channel_of(id->id.channel);
    struct event *next;
    for (struct event *event = TAILQ_FIRST(&from->events); event; event = next) {
        next = TAILQ_NEXT(event, entry);
        if (event->owner != id)
            continue;
        TAILQ_REMOVE(&from->events, event, entry);
        (void)dv_take_count(from->channel.fd);
        if (event->event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
            event->event.id->channel = to; /* the caller's, as its listener's */
        TAILQ_INSERT_TAIL(&channel_of(to)->events, event, entry);
        (void)!eventfd_write(to->fd, 1);
    }
}

/* ---- librdmacm's ---- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
    const int fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    struct channel *channel = fd < 0 ? NULL : calloc(1, sizeof *channel);
    if (!channel) {
        if (fd >= 0)
            close(fd);
        return dv_fail(fd < 0 ? errno : ENOMEM);
    }
    channel->channel.fd = fd;
    TAILQ_INIT(&channel->events);
    return &channel->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    dv_cm_lock();
    if (channel->fd >= 0) { /* else it was destroyed before */
        dv_close_count(&channel->fd);
        dv_bury(channel, NULL);
    }
    dv_cm_unlock();
}

/* NULL: its id has gone meanwhile. */
static struct event *take(struct channel *channel)
{
    dv_cm_lock();
    struct event *event = TAILQ_FIRST(&channel->events);
    if (event) {
        TAILQ_REMOVE(&channel->events, event, entry);
        event->owner->taken++;
        if (event->event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
            event->owner->untaken_count--;
    }
    dv_cm_unlock();
    return event;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    struct event *taken = NULL;
    if (!channel || !event)
        return dv_cm_fail(EINVAL);
    const int was = dv_cancel_disable();
    int rc = dv_wait_for_count(channel->fd, was);
    while (!rc && !(taken = take(channel_of(channel))))
        rc = dv_wait_again(channel->fd, was);
    dv_cancel_restore(was);
    if (rc)
        return -1;
    *event = &taken->event;
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    if (!event)
        return dv_cm_fail(EINVAL);
    struct event *taken = (struct event *)event;
    dv_cm_lock();
    taken->owner->acked++;
    pthread_cond_broadcast(&acknowledged);
    dv_cm_unlock();
    free(taken);
    return 0;
}

int dv_cm_complete(struct dv_cm_id *id)
{
    if (!id->sync)
        return 0;
    if (id->id.event)
        rdma_ack_cm_event(id->id.event);
    id->id.event = NULL;
    if (rdma_get_cm_event(id->id.channel, &id->id.event))
        return -1;
    const struct rdma_cm_event *event = id->id.event;
    if (event->event == RDMA_CM_EVENT_REJECTED)
        return dv_cm_fail(ECONNREFUSED);
    return event->status ? dv_cm_fail(abs(event->status)) : 0;
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
    static const char *const names[] = {
        "RDMA_CM_EVENT_ADDR_RESOLVED",   "RDMA_CM_EVENT_ADDR_ERROR",
        "RDMA_CM_EVENT_ROUTE_RESOLVED",  "RDMA_CM_EVENT_ROUTE_ERROR",
        "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
        "RDMA_CM_EVENT_CONNECT_ERROR",   "RDMA_CM_EVENT_UNREACHABLE",
        "RDMA_CM_EVENT_REJECTED",        "RDMA_CM_EVENT_ESTABLISHED",
        "RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
        "RDMA_CM_EVENT_MULTICAST_JOIN",  "RDMA_CM_EVENT_MULTICAST_ERROR",
        "RDMA_CM_EVENT_ADDR_CHANGE",     "RDMA_CM_EVENT_TIMEWAIT_EXIT"};
    return (unsigned)event < sizeof names / sizeof *names ? names[event] : "UNKNOWN EVENT";
}
