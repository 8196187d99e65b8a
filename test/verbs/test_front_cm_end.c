/* SPDX-License-Identifier: BSD-3-Clause */
/* The front for librdmacm: how a connection ends. */
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

static void send_nothing(struct rdma_cm_id *from, struct rdma_cm_id *to)
{
    struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
    struct ibv_send_wr send = {.wr_id = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
                       *bad_send;
    assert_int_equal(ibv_post_recv(to->qp, &recv, &bad_recv), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(id__leaves_its_time_of_waiting),
        cmocka_unit_test(id__goes_with_events_that_nobody_takes),
        cmocka_unit_test(end__waits_for_the_completion_of_a_send),
        cmocka_unit_test(end__waits_for_a_message_to_be_taken),
        cmocka_unit_test(end__does_not_wait_for_who_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
