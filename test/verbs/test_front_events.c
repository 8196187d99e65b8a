/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: completion queues, and events. */
#include <errno.h>
#include <poll.h>

#include "test/verbs/end.h"

static void cq__overrun(void **state)
{
    (void)state;
    struct end *end = open_end(4);
    struct ibv_async_event event;
    struct ibv_wc wc;
    make_ready(end);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    for (unsigned i = 0; i < 4; i++)
        (void)take(end->send_cq);
    assert_int_equal(ibv_poll_cq(end->send_cq, 1, &wc), -EIO);
    struct pollfd readable = {.fd = end->context->async_fd, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, 2000), 1);
    assert_int_equal(ibv_get_async_event(end->context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
    assert_ptr_equal(event.element.cq, end->send_cq);
    ibv_ack_async_event(&event);
    close_end(end);
}

static void cq__resized(void **state)
{
    (void)state;
    struct end *end = open_end(4);
    make_ready(end);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    poll(NULL, 0, 10);
    assert_int_equal(take(end->send_cq).wr_id, 7);
    assert_int_equal(ibv_resize_cq(end->send_cq, 1), EINVAL);
    assert_int_equal(ibv_resize_cq(end->send_cq, 100), 0);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    for (unsigned i = 0; i < 52; i++)
        assert_int_equal(take(end->send_cq).wr_id, 7);
    close_end(end);
}

static void event__comes_once_for_each_request(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct pollfd readable = {.fd = end->channel->fd, .events = POLLIN};
    struct ibv_cq *cq;
    void *context;
    make_ready(end);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(post_recv(end, 1, 1024, 40 + BYTES), 0);
        assert_int_equal(ibv_req_notify_cq(end->recv_cq, 0), 0);
        assert_int_equal(poll(&readable, 1, 0), 0);
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
        assert_int_equal(ibv_get_cq_event(end->channel, &cq, &context), 0);
        assert_ptr_equal(cq, end->recv_cq);
        assert_ptr_equal(context, end);
        ibv_ack_cq_events(cq, 1);
        assert_int_equal(take(end->recv_cq).status, IBV_WC_SUCCESS);
        (void)take(end->send_cq);
    }
    /* None that was not asked for; one that nobody takes does not hold up the end. */
    assert_int_equal(post_recv(end, 1, 1024, 40 + BYTES), 0);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    (void)take(end->recv_cq);
    assert_int_equal(poll(&readable, 1, 20), 0);
    assert_int_equal(ibv_req_notify_cq(end->recv_cq, 0), 0);
    assert_int_equal(post_recv(end, 1, 1024, 40 + BYTES), 0);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    assert_int_equal(poll(&readable, 1, 2000), 1);
    close_end(end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cq__overrun),
        cmocka_unit_test(cq__resized),
        cmocka_unit_test(event__comes_once_for_each_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
