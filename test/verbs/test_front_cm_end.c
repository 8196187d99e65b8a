/* SPDX-License-Identifier: BSD-3-Clause */
/* The front for librdmacm: how a connection ends, or does not begin. */
#include <errno.h>
#include <poll.h>

#include "test/verbs/cm_ends.h"

static void id__leaves_its_time_of_waiting(void **state)
{
    (void)state;
    struct connection c = connect_ids();
    assert_int_equal(rdma_disconnect(c.caller.id), 0);
    ack(&c.listener, RDMA_CM_EVENT_DISCONNECTED);
    assert_false(
        is_readable(c.listener.channel->fd, 50)); /* not before programs have destroyed it */
    ack(&c.listener, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    assert_int_equal(rdma_disconnect(c.called), 0);
    ack(&c.caller, RDMA_CM_EVENT_DISCONNECTED);
    struct rdma_cm_event *event = take_event(&c.caller, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    assert_ptr_equal(event->id, c.caller.id);
    assert_int_equal(event->status, 0);
    rdma_ack_cm_event(event);
    assert_false(is_readable(c.listener.channel->fd, 50)); /* once each */
    assert_false(is_readable(c.caller.channel->fd, 0));
    destroy_ids(&c);
}

/* As programs do that end with DISCONNECTED. */
static void id__goes_with_events_that_nobody_takes(void **state)
{
    (void)state;
    struct connection c = connect_ids();
    assert_int_equal(rdma_disconnect(c.caller.id), 0);
    ack(&c.listener, RDMA_CM_EVENT_DISCONNECTED);
    assert_true(is_readable(c.listener.channel->fd, 2000));
    rdma_destroy_qp(c.called);
    assert_int_equal(rdma_destroy_id(c.called), 0);
    assert_false(is_readable(c.listener.channel->fd, 0));
    assert_true(is_readable(c.caller.channel->fd, 2000));
    rdma_destroy_qp(c.caller.id);
    stop_listening(&c.caller);
    stop_listening(&c.listener);
}

/* ---- what came before the end ---- */

/* Longer than the event takes where nothing holds it. */
#define SOON_MS 20

static void receive_nothing(struct rdma_cm_id *id)
{
    struct ibv_recv_wr recv = {.wr_id = 1}, *bad;
    assert_int_equal(ibv_post_recv(id->qp, &recv, &bad), 0);
}

static void send_nothing(struct rdma_cm_id *from, struct rdma_cm_id *to)
{
    struct ibv_send_wr send = {.wr_id = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
                       *bad_send;
    receive_nothing(to);
    assert_int_equal(ibv_post_send(from->qp, &send, &bad_send), 0);
}

static void assert_taken(struct ibv_cq *cq, uint64_t id)
{
    const struct ibv_wc wc = take(cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.wr_id, id);
}

/* Programs that take events before completions drop those with the queue pair. */
static void end__waits_for_the_completion_of_a_send(void **state)
{
    (void)state;
    struct connection c = connect_ids();
    send_nothing(c.called, c.caller.id);
    assert_taken(c.caller.id->recv_cq, 1);
    assert_int_equal(rdma_disconnect(c.caller.id), 0);
    assert_false(is_readable(c.listener.channel->fd, SOON_MS));
    assert_taken(c.called->send_cq, 2);
    ack(&c.listener, RDMA_CM_EVENT_DISCONNECTED);
    destroy_ids(&c);
}

static void end__waits_for_a_message_to_be_taken(void **state)
{
    (void)state;
    struct connection c = connect_ids();
    send_nothing(c.caller.id, c.called);
    assert_taken(c.caller.id->send_cq, 2);
    assert_int_equal(rdma_disconnect(c.caller.id), 0);
    assert_false(is_readable(c.listener.channel->fd, SOON_MS));
    assert_taken(c.called->recv_cq, 1);
    ack(&c.listener, RDMA_CM_EVENT_DISCONNECTED);
    destroy_ids(&c);
}

static void end__does_not_wait_for_who_takes_nothing(void **state)
{
    (void)state;
    struct connection c = connect_ids();
    send_nothing(c.caller.id, c.called);
    assert_taken(c.caller.id->send_cq, 2);
    assert_int_equal(rdma_disconnect(c.caller.id), 0);
    ack(&c.listener, RDMA_CM_EVENT_DISCONNECTED);
    assert_taken(c.called->recv_cq, 1);
    destroy_ids(&c);
}

/* ---- receives of who gets no connection ---- */

static void assert_flushed(struct rdma_cm_id *id)
{
    const struct ibv_wc wc = take(id->recv_cq);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(wc.wr_id, 1);
    assert_int_equal(state_of(id->qp), IBV_QPS_ERR);
}

/* One that can receive, and has a receive posted. */
static struct listener route_and_receive(const struct listener *listener, enum rdma_port_space ps)
{
    struct listener caller = route_to(listener->address, ps);
    make_qp(caller.id);
    receive_nothing(caller.id);
    return caller;
}

static void stop_calling(struct listener *caller)
{
    rdma_destroy_qp(caller->id);
    stop_listening(caller);
}

static void disconnect__flushes_without_a_connection(void **state)
{
    (void)state;
    static const enum rdma_port_space spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP};
    struct listener listener = start_listening_at(own_address(), RDMA_PS_TCP, 0);
    for (size_t i = 0; i < 2; i++) {
        struct listener caller = route_and_receive(&listener, spaces[i]);
        errno = 0;
        assert_int_equal(rdma_disconnect(caller.id), -1);
        assert_int_equal(errno, EINVAL);
        assert_flushed(caller.id);
        stop_calling(&caller);
    }
    stop_listening(&listener);
}

/* Who calls, with a receive posted; *called: whom that makes at the listener. */
static struct listener call(const struct listener *listener, struct rdma_cm_id **called)
{
    struct rdma_conn_param param = {.initiator_depth = 1};
    struct listener caller = route_and_receive(listener, RDMA_PS_TCP);
    assert_int_equal(rdma_connect(caller.id, &param), 0);
    *called = take_caller(listener);
    return caller;
}

static void rejection__flushes(void **state)
{
    (void)state;
    struct listener listener = start_listening_at(own_address(), RDMA_PS_TCP, 0);
    struct rdma_conn_param param = {.initiator_depth = 1};
    struct rdma_cm_id *called;
    struct listener caller = call(&listener, &called);
    assert_int_equal(rdma_reject(called, NULL, 0), 0);
    ack(&caller, RDMA_CM_EVENT_REJECTED);
    assert_flushed(caller.id);
    assert_int_equal(rdma_destroy_id(called), 0);
    stop_calling(&caller);
    caller = route_and_receive(&listener, RDMA_PS_TCP);
    stop_listening(&listener);
    assert_int_equal(rdma_connect(caller.id, &param), 0);
    ack(&caller, RDMA_CM_EVENT_REJECTED); /* nobody listens */
    assert_flushed(caller.id);
    stop_calling(&caller);
}

static void accept__flushes_when_it_fails(void **state)
{
    (void)state;
    struct listener listener = start_listening_at(own_address(), RDMA_PS_TCP, 0);
    struct rdma_conn_param param = {.initiator_depth = 1};
    struct rdma_cm_id *called;
    struct listener caller = call(&listener, &called);
    make_qp(called);
    receive_nothing(called);
    stop_calling(&caller);
    poll(NULL, 0, 50);
    param.private_data_len = 255; /* more than there is room for: nothing has been tried */
    assert_int_equal(rdma_accept(called, &param), -1);
    assert_empty(called->recv_cq);
    param.private_data_len = 0;
    assert_int_equal(rdma_accept(called, &param), -1);
    assert_flushed(called);
    rdma_destroy_qp(called);
    assert_int_equal(rdma_destroy_id(called), 0);
    stop_listening(&listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(id__leaves_its_time_of_waiting),
        cmocka_unit_test(id__goes_with_events_that_nobody_takes),
        cmocka_unit_test(end__waits_for_the_completion_of_a_send),
        cmocka_unit_test(end__waits_for_a_message_to_be_taken),
        cmocka_unit_test(end__does_not_wait_for_who_takes_nothing),
        cmocka_unit_test(disconnect__flushes_without_a_connection),
        cmocka_unit_test(rejection__flushes),
        cmocka_unit_test(accept__flushes_when_it_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
