/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: completion queues, and events. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "test/verbs/end.h"

/* More than it takes. */
static void overrun(struct end *end)
{
    struct ibv_wc wc;
    make_ready(end);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    for (unsigned i = 0; i < 4; i++)
        (void)take(end->send_cq);
    assert_int_equal(ibv_poll_cq(end->send_cq, 1, &wc), -EIO);
}

/* After its queue pair and send CQ have been destroyed. */
static void close_with_new_queues(struct end *end)
{
    end->send_cq = ibv_create_cq(end->context, 4, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = attr_of(end);
    end->qp = ibv_create_qp(end->pd, &attr);
    assert_non_null(end->qp);
    close_end(end);
}

static bool has_async_event(const struct end *end, int wait_ms)
{
    struct pollfd readable = {.fd = end->context->async_fd, .events = POLLIN};
    return poll(&readable, 1, wait_ms) == 1;
}

static void cq__overrun(void **state)
{
    (void)state;
    struct end *end = open_end(4);
    struct ibv_async_event event;
    assert_false(has_async_event(end, 0));
    overrun(end);
    assert_true(has_async_event(end, 2000));
    assert_int_equal(ibv_get_async_event(end->context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
    assert_ptr_equal(event.element.cq, end->send_cq);
    assert_false(has_async_event(end, 0)); /* once */
    ibv_ack_async_event(&event);
    close_end(end);
}

/* An event that nobody took goes with its CQ. */
static void cq__overrun_and_destroyed(void **state)
{
    (void)state;
    struct end *end = open_end(4);
    overrun(end);
    assert_true(has_async_event(end, 2000));
    assert_int_equal(ibv_destroy_qp(end->qp), 0);
    assert_int_equal(ibv_destroy_cq(end->send_cq), 0);
    assert_false(has_async_event(end, 0));
    close_with_new_queues(end);
}

static atomic_bool destroyed;

static void *destroy(void *cq)
{
    const int rc = ibv_destroy_cq(cq);
    destroyed = true;
    return rc ? cq : NULL;
}

/* A CQ stays until the event that was taken is acknowledged. */
static void cq__destroyed_amid_its_event(void **state)
{
    (void)state;
    struct end *end = open_end(4);
    struct ibv_async_event event;
    pthread_t thread;
    void *failed;
    overrun(end);
    assert_int_equal(ibv_get_async_event(end->context, &event), 0);
    assert_int_equal(ibv_destroy_qp(end->qp), 0);
    assert_int_equal(pthread_create(&thread, NULL, destroy, end->send_cq), 0);
    poll(NULL, 0, 50);
    assert_false(destroyed);
    ibv_ack_async_event(&event);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    close_with_new_queues(end);
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

/* A program that takes one completion for each event, and asks before it does. */
static void event__of_what_is_there_already(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct pollfd readable = {.fd = end->channel->fd, .events = POLLIN};
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *context;
    make_ready(end);
    assert_int_equal(ibv_req_notify_cq(end->recv_cq, 0), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(post_recv(end, 1 + i, 1024, 40 + BYTES), 0);
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
        (void)take(end->send_cq);
    }
    poll(NULL, 0, 20);
    (void)ibv_poll_cq(end->send_cq, 1, &wc);
    alarm(20);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ibv_get_cq_event(end->channel, &cq, &context), 0);
        ibv_ack_cq_events(cq, 1);
        assert_int_equal(ibv_req_notify_cq(end->recv_cq, 0), 0);
        assert_int_equal(take(end->recv_cq).wr_id, 1 + i);
    }
    alarm(0);
    assert_int_equal(poll(&readable, 1, 20), 0); /* nor in vain */
    close_end(end);
}

static void *take_completion_event(void *channel)
{
    struct ibv_cq *cq;
    void *context;
    (void)ibv_get_cq_event(channel, &cq, &context);
    return NULL;
}

/* It does not wait any more: an event that was asked for too late is told to nobody unasked. */
static void event__its_thread_was_cancelled(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    pthread_t taker;
    make_ready(end);
    assert_int_equal(pthread_create(&taker, NULL, take_completion_event, end->channel), 0);
    usleep(20000);
    assert_int_equal(pthread_cancel(taker), 0);
    assert_int_equal(pthread_join(taker, NULL), 0);
    assert_int_equal(post_recv(end, 1, 1024, 1024), 0);
    assert_int_equal(post_recv(end, 2, 2048, 1024), 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
        (void)take(end->send_cq);
    }
    (void)take(end->recv_cq);
    usleep(20000); /* the second has come, too */
    assert_int_equal(ibv_req_notify_cq(end->recv_cq, 0), 0);
    struct pollfd readable = {.fd = end->channel->fd, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, 50), 0);
    (void)take(end->recv_cq);
    close_end(end);
}

/* As with an adapter, of which such a thread holds nothing. */
static void *take_until_cancelled(void *argument)
{
    struct ibv_context *context = argument;
    struct ibv_async_event event;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    while (!ibv_get_async_event(context, &event))
        ;
    return NULL;
}

static atomic_bool polling;

static void *poll_on(void *argument)
{
    struct ibv_wc wc;
    while (polling)
        (void)ibv_poll_cq(argument, 1, &wc);
    return NULL;
}

/* Two threads that poll contend for the lock with it: neither is to sleep for ever. */
static void async_event__its_thread_is_cancelled_at_any_time(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(end->pd, &init);
    assert_non_null(srq);
    for (unsigned i = 0; i < 200; i++) {
        struct ibv_srq_attr limit = {.srq_limit = 1};
        pthread_t taker, pollers[2];
        polling = true;
        assert_int_equal(pthread_create(&taker, NULL, take_until_cancelled, end->context), 0);
        for (unsigned k = 0; k < 2; k++)
            assert_int_equal(pthread_create(&pollers[k], NULL, poll_on, end->recv_cq), 0);
        alarm(20);
        for (unsigned told = 0; told < 50; told++)
            assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
        assert_int_equal(pthread_cancel(taker), 0);
        assert_int_equal(pthread_join(taker, NULL), 0);
        polling = false;
        for (unsigned k = 0; k < 2; k++)
            assert_int_equal(pthread_join(pollers[k], NULL), 0);
    }
    alarm(0);
    /* The SRQ, whose events nobody acknowledges, goes with the process. */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cq__overrun),
        cmocka_unit_test(cq__overrun_and_destroyed),
        cmocka_unit_test(cq__destroyed_amid_its_event),
        cmocka_unit_test(cq__resized),
        cmocka_unit_test(event__comes_once_for_each_request),
        cmocka_unit_test(event__of_what_is_there_already),
        cmocka_unit_test(event__its_thread_was_cancelled),
        cmocka_unit_test(async_event__its_thread_is_cancelled_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
