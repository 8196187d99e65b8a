/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs front: a channel is destroyed while another thread is about to take an event from it,
 * as programs do whose threads nobody joins: that thread waits on, as it does with the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "test/verbs/cm_ends.h"

static sem_t has_count, may_go_on;
static _Thread_local bool is_held;

/* Replaces libc's for the front, too. A held thread stops after it has read a count and before it
 * takes the event. */
__attribute__((visibility("default"))) int eventfd_read(int fd, eventfd_t *value)
{
    const int rc = read(fd, value, sizeof *value) == sizeof *value ? 0 : -1;
    if (is_held && !rc) {
        is_held = false;
        sem_post(&has_count);
        sem_wait(&may_go_on);
    }
    return rc;
}

struct taker {
    pthread_t thread;
    void *channel;
    int rc, error; /* of an event channel */
    atomic_bool has_returned;
};

static void *take_cm_event(void *arg)
{
    struct taker *taker = arg;
    struct rdma_cm_event *event;
    is_held = true;
    taker->rc = rdma_get_cm_event(taker->channel, &event);
    taker->error = errno;
    taker->has_returned = true;
    return NULL;
}

static void *take_cq_event(void *arg)
{
    struct taker *taker = arg;
    struct ibv_cq *cq;
    void *context;
    is_held = true;
    (void)ibv_get_cq_event(taker->channel, &cq, &context);
    taker->has_returned = true;
    return NULL;
}

static void *take_async_event(void *arg)
{
    struct taker *taker = arg;
    struct ibv_async_event event;
    is_held = true;
    (void)ibv_get_async_event(taker->channel, &event);
    taker->has_returned = true;
    return NULL;
}

static void hold(struct taker *taker, void *(*run)(void *), void *channel)
{
    sem_init(&has_count, 0, 0);
    sem_init(&may_go_on, 0, 0);
    taker->channel = channel;
    assert_int_equal(pthread_create(&taker->thread, NULL, run, taker), 0);
    sem_wait(&has_count);
}

static void let_go(struct taker *taker)
{
    sem_post(&may_go_on);
    poll(NULL, 0, 50);
    assert_false(taker->has_returned);
}

static void assert_waits(struct taker *taker)
{
    let_go(taker);
    assert_int_equal(pthread_cancel(taker->thread), 0);
    assert_int_equal(pthread_join(taker->thread, NULL), 0);
}

static void assert_fails(struct taker *taker, int error)
{
    assert_int_equal(pthread_join(taker->thread, NULL), 0);
    assert_int_equal(taker->rc, -1);
    assert_int_equal(taker->error, error);
}

/* With an event of an id. */
static struct rdma_event_channel *open_channel(struct rdma_cm_id **id)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = own_address(), .sin_port = 1};
    assert_non_null(channel);
    assert_int_equal(rdma_create_id(channel, id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(*id, NULL, (struct sockaddr *)&address, 2000), 0);
    return channel;
}

static void hold_and_destroy(struct taker *taker, int flags)
{
    struct rdma_cm_id *id;
    struct rdma_event_channel *channel = open_channel(&id);
    assert_int_equal(fcntl(channel->fd, F_SETFL, flags), 0);
    hold(taker, take_cm_event, channel);
    assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(channel);
}

static void event_channel__destroyed_amid_a_take(void **state)
{
    (void)state;
    struct taker taker = {0};
    hold_and_destroy(&taker, 0);
    assert_waits(&taker);
}

static void event_channel__destroyed_amid_a_take_that_does_not_wait(void **state)
{
    (void)state;
    struct taker taker = {0};
    hold_and_destroy(&taker, O_NONBLOCK);
    sem_post(&may_go_on);
    assert_fails(&taker, EBADF);
}

static void on_signal(int number)
{
    (void)number;
}

static void event_channel__destroyed_amid_a_take__signal(void **state)
{
    (void)state;
    const struct sigaction action = {.sa_handler = on_signal};
    struct taker taker = {0};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    hold_and_destroy(&taker, 0);
    let_go(&taker);
    while (!taker.has_returned) { /* it may not wait yet */
        assert_int_equal(pthread_kill(taker.thread, SIGUSR1), 0);
        poll(NULL, 0, 10);
    }
    assert_fails(&taker, EINTR);
}

/* Also once others have been destroyed, and the memory of the first ones is used again. */
static void event_channel__destroyed_twice(void **state)
{
    (void)state;
    enum { MORE = 600 };
    struct rdma_event_channel *channel = rdma_create_event_channel();
    rdma_destroy_event_channel(channel);
    rdma_destroy_event_channel(channel);
    for (int i = 0; i < MORE; i++) {
        channel = rdma_create_event_channel();
        assert_non_null(channel);
        rdma_destroy_event_channel(channel);
    }
}

static void comp_channel__destroyed_amid_a_take(void **state)
{
    (void)state;
    struct end *end = open_end(8);
    struct taker taker = {0};
    make_ready(end);
    assert_int_equal(ibv_req_notify_cq(end->recv_cq, 0), 0);
    assert_int_equal(post_recv(end, 1, 1024, 40 + BYTES), 0);
    assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    hold(&taker, take_cq_event, end->channel);
    close_end(end);
    assert_waits(&taker);
}

static void device__closed_amid_a_take(void **state)
{
    (void)state;
    struct end *end = open_end(4);
    struct taker taker = {0};
    make_ready(end);
    for (unsigned i = 0; i < 5; i++) /* more than the CQ takes */
        assert_int_equal(post_send(end, end->ah, QKEY, end->mr->lkey), 0);
    hold(&taker, take_async_event, end->context);
    close_end(end);
    assert_waits(&taker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(event_channel__destroyed_amid_a_take),
        cmocka_unit_test(event_channel__destroyed_amid_a_take_that_does_not_wait),
        cmocka_unit_test(event_channel__destroyed_amid_a_take__signal),
        cmocka_unit_test(event_channel__destroyed_twice),
        cmocka_unit_test(comp_channel__destroyed_amid_a_take),
        cmocka_unit_test(device__closed_amid_a_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
