/* SPDX-License-Identifier: BSD-3-Clause */
/* RD over real sockets on 127.0.0.1: who sleeps until something comes, and threads that post. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/net/rd_pair.h"

struct late_sender {
    struct pair *pair;
    uint64_t at_ns;
};

static void *send_late(void *arg)
{
    struct late_sender *late = arg;
    struct timespec pause = {.tv_nsec = (long)(100 * MS)};

    nanosleep(&pause, NULL);
    late->at_ns = clock_ns();
    assert_int_equal(post(&late->pair->a, late->pair->ab, IBV_WR_SEND, source, 10, 0, 0, NULL, 0),
                     0);
    return NULL;
}

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void wait_cq__sleeps_until_something_comes(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    struct late_sender late = {.pair = &pair};
    struct diwarp_wc wc;
    pthread_t thread;
    pair_open(&pair);
    uint64_t start_ns = clock_ns();

    assert_int_equal(diwarp_wait_cq(pair.b->cq, 1, &wc, 30 * MS), 0);
    assert_true(clock_ns() - start_ns >= 30 * MS);
    uint64_t cpu_start_ns = cpu_ns();
    assert_int_equal(pthread_create(&thread, NULL, send_late, &late), 0);
    assert_int_equal(diwarp_wait_cq(pair.b->cq, 1, &wc, WAIT_NS), 1);
    uint64_t woke_ns = clock_ns(), used_ns = cpu_ns() - cpu_start_ns;
    pthread_join(thread, NULL);
    assert_int_equal(wc.wc.opcode, IBV_WC_RECV);
    assert_true(woke_ns >= late.at_ns);
    assert_true(used_ns < 50 * MS);
    pair_close(&pair);
}

#define THREADS        3
#define PER_THREAD     4000
#define THREADED_BYTES 64

struct poster {
    struct pair *pair;
    uint32_t index;
};

static void *post_many(void *arg)
{
    struct poster *poster = arg;
    struct pair *pair = poster->pair;

    for (uint32_t i = 0; i < PER_THREAD;) {
        uint32_t id = poster->index * PER_THREAD + i;
        uint8_t buf[THREADED_BYTES];
        memset(buf, (int)(id & 0xff), sizeof buf);
        memcpy(buf, &id, sizeof id);
        uint8_t *room = i % 2 ? diwarp_send_reserve(pair->a.qp, pair->ab, sizeof buf) : NULL;
        if (room) {
            memcpy(room, buf, sizeof buf);
            diwarp_send_commit(pair->a.qp, pair->ab, 0);
            i++;
        } else {
            i += post(&pair->a, pair->ab, IBV_WR_SEND, buf, sizeof buf, IBV_SEND_INLINE, 0, NULL,
                      0) == 0;
        }
    }
    return NULL;
}

static void check_threaded(struct node *node, const struct diwarp_wc *wc)
{
    uint8_t *seen = node->arg;
    const uint8_t *data = wc->data;
    uint32_t id;

    if (wc->wc.opcode != IBV_WC_RECV)
        return;
    assert_int_equal(wc->wc.byte_len, THREADED_BYTES);
    memcpy(&id, data, sizeof id);
    assert_true(id < THREADS * PER_THREAD);
    assert_int_equal(seen[id]++, 0);
    for (unsigned i = sizeof id; i < THREADED_BYTES; i++)
        assert_int_equal(data[i], id & 0xff);
}

static void threaded__three_post_while_one_polls(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    struct poster posters[THREADS];
    pthread_t threads[THREADS];
    uint8_t *seen = calloc(THREADS, PER_THREAD);
    pair.attr.threaded = true;
    pair_open(&pair);

    pair.b->on_wc = check_threaded;
    pair.b->arg = seen;
    for (uint32_t i = 0; i < THREADS; i++) {
        posters[i] = (struct poster){&pair, i};
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
    }
    RUN_UNTIL(pair.b->recvs == THREADS * PER_THREAD, &pair.a, pair.b);
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pair_close(&pair);
    free(seen);
}

enum { HANDLES = 4000 };

static void *destroy_handles(void *arg)
{
    struct diwarp_ah **ahs = arg;
    char text[64];
    for (unsigned i = 0; i < HANDLES; i++) {
        diwarp_format_ah(ahs[i], text, sizeof text);
        diwarp_destroy_ah(ahs[i]);
    }
    return NULL;
}

/* Handles may go after the last QP, and so while it goes. */
static void threaded__handles_go_while_the_port_does(void **state)
{
    (void)state;
    static struct diwarp_ah *ahs[HANDLES];
    struct diwarp_device_attr attr = loopback_attr(1);
    const struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);
    struct node node;
    pthread_t thread;
    attr.threaded = true;
    for (unsigned round = 0; round < 20; round++) {
        node_open(&node, &attr, &qp_attr);
        struct diwarp_address to = node.address;
        for (unsigned i = 0; i < HANDLES; i++) {
            to.name.rank++;
            assert_int_equal(diwarp_create_ah(node.qp, &to, &ahs[i]), 0);
        }
        assert_int_equal(pthread_create(&thread, NULL, destroy_handles, ahs), 0);
        RUN_FOR(round * 10000, &node);
        node_destroy_qp(&node);
        pthread_join(thread, NULL);
        node_close(&node);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threaded__handles_go_while_the_port_does),
        cmocka_unit_test(wait_cq__sleeps_until_something_comes),
        cmocka_unit_test(threaded__three_post_while_one_polls),
    };

    return cmocka_run_group_tests_name("loopback_threads", tests, NULL, NULL);
}
