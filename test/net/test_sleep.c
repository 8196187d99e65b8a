/* SPDX-License-Identifier: BSD-3-Clause */
/* Who sleeps until the RNIC has work: woken by sockets, however many, and by what other threads
 * post. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/include/diwarp_helper.h"
#include "test/net/node.h"

#define BYTES 8

/* The best of so many tells what a wake takes, on a busy machine, too. */
#define TRIES 20
/* Two schedulings take a fraction of this. Without a wake a sleep lasted 5 ms. */
#define WAKE_MOST_NS (2 * MS)

static uint8_t payload[BYTES];

static void open_threaded(struct node *node, uint32_t rank, enum diwarp_qp_type type)
{
    struct diwarp_device_attr attr = loopback_attr(rank);
    struct diwarp_qp_attr qp_attr = qp_attr_of(type);

    attr.threaded = true;
    node_open(node, &attr, &qp_attr);
}

static void pause_ns(uint64_t ns)
{
    const struct timespec pause = {.tv_nsec = (long)ns};

    nanosleep(&pause, NULL);
}

#define POSTS 100000
/* Two schedulings take a hundredth of this for each, also on a busy machine; sleeps of 5 ms, which
 * no post ends, five times as much. */
#define POSTS_MOST_NS (POSTS * MS)

/* A thread that posts, for each turn that it is given, a Send that completes at once. */
struct poster {
    struct node *node;
    struct diwarp_ah *ah;
    sem_t turns;
    bool stop; /* atomic */
};

static void *post_in_turn(void *arg)
{
    struct poster *poster = arg;

    for (unsigned i = 0;; i++) {
        while (sem_wait(&poster->turns))
            ;
        if (__atomic_load_n(&poster->stop, __ATOMIC_ACQUIRE))
            return NULL;
        assert_int_equal(post(poster->node, poster->ah, IBV_WR_SEND, payload, BYTES,
                              IBV_SEND_SIGNALED, i, NULL, 0),
                         0);
    }
}

/* Sleeps until the completion of each post is there; returns the longest of these. */
static uint64_t sleep_through(struct poster *poster)
{
    const uint64_t end_ns = clock_ns() + POSTS_MOST_NS;
    struct diwarp_wc wc;
    pthread_t thread;
    uint64_t longest_ns = 0;

    sem_init(&poster->turns, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, post_in_turn, poster), 0);
    for (unsigned i = 0; i < POSTS; i++) {
        uint64_t began_ns = clock_ns();
        if (began_ns > end_ns)
            fail_msg("%u posts, and not %u, in %llu ms", i, POSTS,
                     (unsigned long long)(POSTS_MOST_NS / MS));
        sem_post(&poster->turns);
        assert_int_equal(diwarp_wait_cq(poster->node->cq, 1, &wc, WAIT_NS), 1);
        assert_int_equal(wc.wc.wr_id, i);
        if (clock_ns() - began_ns > longest_ns)
            longest_ns = clock_ns() - began_ns;
    }
    __atomic_store_n(&poster->stop, true, __ATOMIC_RELEASE);
    sem_post(&poster->turns);
    pthread_join(thread, NULL);
    sem_destroy(&poster->turns);
    return longest_ns;
}

/* The post may come before the sleep, in it, and between what is looked at and the sleep. A wake
 * that is lost costs the longest sleep, a second; one that comes late, all of them. */
static void wait_cq__each_post_of_another_thread_wakes(void **state)
{
    (void)state;
    struct node a, b;

    open_threaded(&a, 1, DIWARP_QPT_UD);
    node_open_default(&b, 2, DIWARP_QPT_UD);
    struct poster poster = {.node = &a, .ah = node_ah(&a, &b)};
    assert_true(sleep_through(&poster) < 900 * MS);
    diwarp_destroy_ah(poster.ah);
    node_close(&a);
    node_close(&b);
}

/* More sockets than fit on the stack; what comes at the last one wakes, too. */
static void wait_cq__woken_by_any_of_many_sockets(void **state)
{
    (void)state;
    enum { QPS = 40 };
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);
    struct diwarp_qp *qps[QPS];
    struct diwarp_address address;
    struct diwarp_ah *ah = NULL;
    struct diwarp_wc wc;
    struct node a, b;
    uint64_t best_ns = UINT64_MAX;

    node_open_default(&a, 1, DIWARP_QPT_RD);
    node_open_default(&b, 2, DIWARP_QPT_RD);
    qp_attr.cq = b.cq;
    for (unsigned i = 0; i < QPS; i++)
        assert_int_equal(diwarp_create_qp(b.pd, &qp_attr, &qps[i], NULL), 0);
    diwarp_query_address(qps[QPS - 1], &address);
    assert_int_equal(diwarp_create_ah(a.qp, &address, &ah), 0);
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t began_ns = clock_ns();
        assert_int_equal(diwarp_wait_cq(b.cq, 1, &wc, 20 * MS), 0);
        assert_true(clock_ns() - began_ns >= 20 * MS);
        assert_int_equal(post(&a, ah, IBV_WR_SEND, payload, BYTES, 0, 0, NULL, 0), 0);
        node_poll(&a);
        began_ns = clock_ns();
        assert_int_equal(diwarp_wait_cq(b.cq, 1, &wc, WAIT_NS), 1);
        if (clock_ns() - began_ns < best_ns)
            best_ns = clock_ns() - began_ns;
    }
    assert_true(best_ns < WAKE_MOST_NS);
    diwarp_destroy_ah(ah);
    for (unsigned i = 0; i < QPS; i++)
        diwarp_destroy_qp(qps[i]);
    node_close(&a);
    node_close(&b);
}

struct late_opener {
    struct node *node;
    struct diwarp_qp *qp;
    struct node *from;
    struct diwarp_ah *ah;
};

static void *open_and_send(void *arg)
{
    struct late_opener *late = arg;
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);
    struct diwarp_address address;

    pause_ns(20 * MS);
    qp_attr.cq = late->node->cq;
    assert_int_equal(diwarp_create_qp(late->node->pd, &qp_attr, &late->qp, NULL), 0);
    diwarp_query_address(late->qp, &address);
    assert_int_equal(diwarp_create_ah(late->from->qp, &address, &late->ah), 0);
    assert_int_equal(post(late->from, late->ah, IBV_WR_SEND, payload, BYTES, 0, 0, NULL, 0), 0);
    node_poll(late->from);
    return NULL;
}

/* Who sleeps when a socket is added looks at that, too. */
static void wait_cq__sees_a_qp_that_is_created_meanwhile(void **state)
{
    (void)state;
    struct diwarp_wc wc;
    struct node a, b;
    pthread_t thread;

    node_open_default(&a, 1, DIWARP_QPT_RD);
    open_threaded(&b, 2, DIWARP_QPT_RD);
    struct late_opener late = {.node = &b, .from = &a};
    assert_int_equal(pthread_create(&thread, NULL, open_and_send, &late), 0);
    uint64_t began_ns = clock_ns();
    assert_int_equal(diwarp_wait_cq(b.cq, 1, &wc, WAIT_NS), 1);
    assert_true(clock_ns() - began_ns < 900 * MS);
    pthread_join(thread, NULL);
    diwarp_destroy_ah(late.ah);
    diwarp_destroy_qp(late.qp);
    node_close(&a);
    node_close(&b);
}

/* What waits to be polled lets nobody sleep; nor does time that has passed. */
static void block_cq__not_while_a_completion_waits(void **state)
{
    (void)state;
    struct diwarp_wc wc;
    struct node a, b;

    open_threaded(&a, 1, DIWARP_QPT_UD);
    node_open_default(&b, 2, DIWARP_QPT_UD);
    struct diwarp_ah *ah = node_ah(&a, &b);
    assert_int_equal(post(&a, ah, IBV_WR_SEND, payload, BYTES, IBV_SEND_SIGNALED, 1, NULL, 0), 0);
    uint64_t began_ns = clock_ns();
    assert_int_equal(diwarp_block_cq(a.cq, UINT64_MAX), 0);
    assert_int_equal(diwarp_block_cq(a.cq, UINT64_MAX), 0);
    assert_int_equal(diwarp_poll_cq(a.cq, 1, &wc), 1);
    assert_int_equal(diwarp_block_cq(a.cq, 0), 0);
    assert_true(clock_ns() - began_ns < 900 * MS);
    diwarp_destroy_ah(ah);
    node_close(&a);
    node_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wait_cq__each_post_of_another_thread_wakes),
        cmocka_unit_test(wait_cq__woken_by_any_of_many_sockets),
        cmocka_unit_test(wait_cq__sees_a_qp_that_is_created_meanwhile),
        cmocka_unit_test(block_cq__not_while_a_completion_waits),
    };

    return cmocka_run_group_tests_name("sleep", tests, NULL, NULL);
}
