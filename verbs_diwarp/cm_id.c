/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/cm_id.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs_diwarp/cm_device.h"
#include "verbs_diwarp/cm_mcast.h"
#include "verbs_diwarp/cm_route.h"

/* ---- states ---- */

#define TO(state) (1u << DV_CM_##state)

static const uint32_t allowed[DV_CM_STATES] = {
    [DV_CM_IDLE] = TO(BOUND) | TO(ADDR_RESOLVED) | TO(LISTENING) | TO(REQUESTED),
    [DV_CM_BOUND] = TO(ADDR_RESOLVED) | TO(LISTENING),
    [DV_CM_ADDR_RESOLVED] = TO(ADDR_RESOLVED) | TO(ROUTE_RESOLVED),
    [DV_CM_ROUTE_RESOLVED] = TO(CALLING),
    [DV_CM_CALLING] = TO(ANSWERED) | TO(ESTABLISHED) | TO(ENDED),
    [DV_CM_ANSWERED] = TO(ESTABLISHED) | TO(ENDED),
    [DV_CM_REQUESTED] = TO(ACCEPTED) | TO(ENDED),
    [DV_CM_ACCEPTED] = TO(ESTABLISHED) | TO(LEAVING) | TO(ENDED),
    [DV_CM_ESTABLISHED] = TO(CLOSING) | TO(LEAVING),
    [DV_CM_CLOSING] = TO(DISCONNECTED),
    [DV_CM_LEAVING] = TO(DISCONNECTED),
};

bool dv_cm_may(const struct dv_cm_id *id, enum dv_cm_state to)
{
    return allowed[id->state] >> to & 1;
}

void dv_cm_set_state(struct dv_cm_id *id, enum dv_cm_state to)
{
    assert(dv_cm_may(id, to));
    id->state = to;
}

/* ---- life ---- */

/* 4.096 us * 2^14. */
#define DEFAULT_ACK_TIMEOUT 14

struct dv_cm_id *dv_cm_id_new(struct rdma_event_channel *channel, enum rdma_port_space ps)
{
    struct dv_cm_id *id = calloc(1, sizeof *id);
    if (!id)
        return NULL;
    id->id.channel = channel;
    id->id.ps = ps;
    id->id.qp_type = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
    id->fd = -1;
    id->ack_timeout = DEFAULT_ACK_TIMEOUT;
    LIST_INIT(&id->callers);
    LIST_INIT(&id->groups);
    return id;
}

void dv_cm_leave_listener(struct dv_cm_id *caller)
{
    if (!caller->listener)
        return;
    caller->listener->caller_count--;
    caller->listener = NULL;
    LIST_REMOVE(caller, among_callers);
}

void dv_cm_close_link(struct dv_cm_id *id)
{
    if (id->link)
        dv_cm_link_close(id->link);
    id->link = NULL;
    if (id->fd >= 0)
        close(id->fd);
    id->fd = -1;
}

static void release(struct dv_cm_id *id)
{
    dv_cm_mcast_forget(id);
    free(id->ep_attr);
    free(id);
}

void dv_cm_id_drop(struct dv_cm_id *id)
{
    dv_cm_close_link(id);
    dv_cm_leave_listener(id);
    release(id);
}

/* The channel of an id whose calls wait is its own. */
static int new_id(struct rdma_event_channel *channel, struct rdma_cm_id **result,
                  enum rdma_port_space ps)
{
    struct rdma_event_channel *own = channel ? NULL : rdma_create_event_channel();
    if (!channel && !own)
        return -1;
    struct dv_cm_id *id = dv_cm_id_new(channel ? channel : own, ps);
    if (!id) {
        if (own)
            rdma_destroy_event_channel(own);
        return dv_cm_fail(ENOMEM);
    }
    id->sync = own;
    *result = &id->id;
    return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space ps)
{
    if (ps != RDMA_PS_TCP && ps != RDMA_PS_UDP)
        return dv_cm_fail(EPROTONOSUPPORT);
    if (!dv_cm_context() || new_id(channel, id, ps)) /* without a device, librdmacm fails here */
        return -1;
    (*id)->context = context;
    return 0;
}

int rdma_destroy_id(struct rdma_cm_id *ibv_id)
{
    struct dv_cm_id *id = dv_cm_id_of(ibv_id);
    const struct dv_cm_message unanswered = {.type = DV_CM_REJECT,
                                             .qp_type = (uint8_t)dv_cm_type_of(id),
                                             .status = DV_CM_CONSUMER_DEFINED};
    if (ibv_id->event)
        rdma_ack_cm_event(ibv_id->event);
    dv_cm_lock();
    if (id->state == DV_CM_REQUESTED && id->link)
        (void)dv_cm_link_send(id->link, &unanswered);
    dv_cm_close_link(id);
    dv_cm_link_close_silent(id);
    dv_cm_forget(id, dv_cm_id_drop);
    while (!LIST_EMPTY(&id->callers))
        dv_cm_leave_listener(LIST_FIRST(&id->callers));
    dv_cm_leave_listener(id);
    dv_cm_wait_for_acks(id);
    dv_cm_unlock();
    if (id->sync)
        rdma_destroy_event_channel(ibv_id->channel);
    release(id);
    return 0;
}

int rdma_migrate_id(struct rdma_cm_id *ibv_id, struct rdma_event_channel *channel)
{
    struct dv_cm_id *id = dv_cm_id_of(ibv_id);
    struct rdma_event_channel *before = ibv_id->channel;
    const bool was_sync = id->sync;
    struct rdma_event_channel *to = channel ? channel : rdma_create_event_channel();
    if (!to || (was_sync && !channel)) {
        if (to)
            rdma_destroy_event_channel(to);
        return dv_cm_fail(to ? EINVAL : ENOMEM);
    }
    if (was_sync && ibv_id->event) {
        rdma_ack_cm_event(ibv_id->event);
        ibv_id->event = NULL;
    }
    dv_cm_lock();
    dv_cm_move_events(id, to);
    ibv_id->channel = to;
    id->sync = !channel;
    dv_cm_wait_for_acks(id);
    dv_cm_unlock();
    if (was_sync)
        rdma_destroy_event_channel(before);
    return 0;
}

/* ---- what belongs to it ---- */

int dv_cm_use_address(struct dv_cm_id *id, const struct sockaddr *address)
{
    const int index = dv_cm_gid_index(address);
    if (index < 0)
        return ENODEV;
    id->sgid_index = (uint32_t)index;
    id->id.verbs = dv_cm_context();
    id->id.pd = dv_cm_pd(); /* librdmacm's own, until the program gives another */
    id->id.port_num = 1;
    dv_cm_put_gid(id->own.gid, id->sgid_index);
    dv_cm_route_from(id);
    return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    return id->route.addr.src_sin.sin_port;
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
    return id->route.addr.dst_sin.sin_port;
}

/* It becomes the timeout of queue pairs that are made for it. */
static int set_ack_timeout(struct rdma_cm_id *id, uint8_t timeout)
{
    if (timeout > 31)
        return dv_cm_fail(EINVAL);
    dv_cm_lock();
    dv_cm_id_of(id)->ack_timeout = timeout;
    dv_cm_unlock();
    return 0;
}

/* Of the socket that is bound next; *option is one of the id's. */
static int set_before_bind(struct rdma_cm_id *id, bool *option, int on)
{
    dv_cm_lock();
    const bool may = dv_cm_id_of(id)->state == DV_CM_IDLE;
    if (may)
        *option = on;
    dv_cm_unlock();
    return may ? 0 : dv_cm_fail(EINVAL);
}

/* The type of service is diwarp's own to set. */
int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t bytes)
{
    if (level != RDMA_OPTION_ID)
        return dv_cm_fail(ENOSYS);
    switch (name) {
    case RDMA_OPTION_ID_TOS:
        return bytes == sizeof(uint8_t) ? 0 : dv_cm_fail(EINVAL);
    case RDMA_OPTION_ID_ACK_TIMEOUT:
        return bytes == sizeof(uint8_t) ? set_ack_timeout(id, *(uint8_t *)value)
                                        : dv_cm_fail(EINVAL);
    case RDMA_OPTION_ID_REUSEADDR:
        return bytes == sizeof(int) ? set_before_bind(id, &dv_cm_id_of(id)->shares, *(int *)value)
                                    : dv_cm_fail(EINVAL);
    case RDMA_OPTION_ID_AFONLY:
        return bytes == sizeof(int)
                   ? set_before_bind(id, &dv_cm_id_of(id)->is_of_one_family, *(int *)value)
                   : dv_cm_fail(EINVAL);
    default:
        return dv_cm_fail(ENOSYS);
    }
}
