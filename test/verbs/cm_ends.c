/* SPDX-License-Identifier: BSD-3-Clause */
#include "test/verbs/cm_ends.h"

#include <poll.h>
#include <string.h>

struct listener start_listening_at(struct in_addr address, enum rdma_port_space ps, int backlog)
{
    struct listener listener = {.channel = rdma_create_event_channel(),
                                .address = {.sin_family = AF_INET, .sin_addr = address}};
    assert_non_null(listener.channel);
    assert_int_equal(rdma_create_id(listener.channel, &listener.id, listener.channel, ps), 0);
    assert_int_equal(rdma_bind_addr(listener.id, (struct sockaddr *)&listener.address), 0);
    assert_int_equal(rdma_listen(listener.id, backlog), 0);
    listener.address.sin_port = rdma_get_src_port(listener.id);
    assert_int_not_equal(listener.address.sin_port, 0);
    return listener;
}

void stop_listening(struct listener *listener)
{
    assert_int_equal(rdma_destroy_id(listener->id), 0);
    rdma_destroy_event_channel(listener->channel);
}

bool is_readable(int fd, int wait_ms)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    return poll(&readable, 1, wait_ms) == 1;
}

union ibv_gid own_gid(void)
{
    int count;
    struct ibv_context **devices = rdma_get_devices(&count);
    union ibv_gid gid;
    assert_int_equal(count, 1);
    assert_int_equal(ibv_query_gid(devices[0], 1, 0, &gid), 0);
    rdma_free_devices(devices);
    return gid;
}

struct in_addr own_address(void)
{
    const union ibv_gid gid = own_gid();
    struct in_addr address;
    memcpy(&address, gid.raw + 12, sizeof address);
    return address;
}

struct rdma_cm_event *take_event(const struct listener *listener, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;
    assert_true(is_readable(listener->channel->fd, 5000));
    assert_int_equal(rdma_get_cm_event(listener->channel, &event), 0);
    assert_int_equal(event->event, type);
    return event;
}

void ack(const struct listener *end, enum rdma_cm_event_type type)
{
    rdma_ack_cm_event(take_event(end, type));
}

struct rdma_cm_id *take_caller(const struct listener *listener)
{
    struct rdma_cm_event *event = take_event(listener, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *caller = event->id;
    rdma_ack_cm_event(event);
    return caller;
}

struct listener route_to(struct sockaddr_in address, enum rdma_port_space ps)
{
    struct listener caller = {.channel = rdma_create_event_channel(), .address = address};
    assert_int_equal(rdma_create_id(caller.channel, &caller.id, NULL, ps), 0);
    assert_int_equal(rdma_resolve_addr(caller.id, NULL, (struct sockaddr *)&address, 2000), 0);
    ack(&caller, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(caller.id, 2000), 0);
    ack(&caller, RDMA_CM_EVENT_ROUTE_RESOLVED);
    return caller;
}

void make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = id->qp_type};
    assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

struct connection connect_ids(void)
{
    struct connection c = {.listener = start_listening_at(own_address(), RDMA_PS_TCP, 0)};
    struct rdma_conn_param param = {.initiator_depth = 1, .responder_resources = 1};
    c.caller = route_to(c.listener.address, RDMA_PS_TCP);
    make_qp(c.caller.id);
    assert_int_equal(rdma_connect(c.caller.id, &param), 0);
    c.called = take_caller(&c.listener);
    make_qp(c.called);
    assert_int_equal(rdma_accept(c.called, &param), 0);
    ack(&c.caller, RDMA_CM_EVENT_ESTABLISHED);
    ack(&c.listener, RDMA_CM_EVENT_ESTABLISHED);
    return c;
}

void destroy_ids(struct connection *c)
{
    rdma_destroy_qp(c->caller.id);
    rdma_destroy_qp(c->called);
    assert_int_equal(rdma_destroy_id(c->called), 0);
    stop_listening(&c->caller);
    stop_listening(&c->listener);
}
