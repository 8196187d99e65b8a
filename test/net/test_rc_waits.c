/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting on RC queue pairs over real TCP on 127.0.0.1: for receives, for completions, until all is
 * drained, and several threads at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>

#include "test/net/rc_traffic.h"

/* ---- receives ------------------------------------------------------------------------------- */

/* The device's time for silence is for a peer that is gone, not for one that does not read. */
static void rc__a_standing_receiver_is_waited_for(void **state)
{
    (void)state;
    struct rc_pair pair;
    unsigned posted = 0;

    rc_pair_init(&pair);
    diwarp_destroy_listener(pair.a.listener);
    pair.a.listener = NULL;
    diwarp_destroy_cq(pair.a.cq);
    pair.a.device->attr.peer_timeout_ns = 100 * MS;
    pair.a.cq = pair.a.attr.cq = diwarp_create_cq(pair.a.device, 64);
    pair.b.attr.rnr_timeout_ns = UINT64_MAX;
    rc_pair_connect(&pair);
    while (posted < 100 && !rc_post(&pair.a, IBV_WR_SEND, buf_a, 1 << 20, 0, 1, NULL, 0))
        posted++;
    uint64_t until_ns = clock_ns() + 1500 * MS; /* TCP asks the first time after 200 ms, then 400 */
    RC_UNTIL(pair.a.disconnects || clock_ns() > until_ns, &pair.a, &pair.b);
    assert_int_equal(pair.a.disconnects, 0);
    for (unsigned i = 0; i < posted; i++) {
        assert_int_equal(rc_post_recv(&pair.b, buf_b, 1 << 20, i), 0);
        RC_UNTIL(pair.b.recvs == i + 1, &pair.a, &pair.b);
    }
    rc_pair_close(&pair);
}

static void check_standing(struct rc_pair *pair)
{
    const struct diwarp_rc_counters *counters = diwarp_query_rc_counters(pair->b.cq);
    unsigned posted = 0;

    /* More than TCP holds: the sender is held back. */
    while (posted < 100 &&
           !rc_post(&pair->a, IBV_WR_SEND, buf_a, 1 << 20, IBV_SEND_SIGNALED, 1, NULL, 0))
        posted++;
    RC_UNTIL(counters->rc_rx_waits == 1, &pair->a, &pair->b);
    for (unsigned i = 0; i < 1000; i++) {
        rc_end_poll(&pair->a);
        rc_end_poll(&pair->b);
    }
    assert_int_equal(pair->b.recvs, 0);
    assert_true(pair->a.sends < posted);
    for (unsigned i = 0; i < posted; i++) {
        memset(buf_b, 0, 1 << 20);
        assert_int_equal(rc_post_recv(&pair->b, buf_b, 1 << 20, i), 0);
        RC_UNTIL(pair->b.recvs == i + 1, &pair->a, &pair->b);
        assert_memory_equal(buf_b, buf_a, 1 << 20);
    }
    RC_UNTIL(pair->a.sends == posted, &pair->a, &pair->b);
}

static void rc__stands_still_without_receives(void **state)
{
    (void)state;
    for (unsigned shared = 0; shared < 2; shared++) {
        struct rc_pair pair;

        rc_pair_init(&pair);
        struct diwarp_srq *srq = shared ? diwarp_create_srq(pair.b.pd, 10, 4) : NULL;

        fill(buf_a, 1 << 20, 5);
        pair.b.attr.srq = srq;
        pair.b.attr.rnr_timeout_ns = UINT64_MAX;
        rc_pair_connect(&pair);
        check_standing(&pair);
        check_orderly_close(&pair);
        rc_end_destroy_qp(&pair.b);
        if (srq)
            diwarp_destroy_srq(srq);
        rc_pair_close(&pair);
    }
}

static void *post_recv_later(void *arg)
{
    const struct timespec later = {.tv_nsec = 50 * (long)MS};

    nanosleep(&later, NULL);
    assert_int_equal(rc_post_recv(arg, buf_b, 10, 1), 0);
    return NULL;
}

/* Who sleeps until something completes; nothing comes from the stream, nor can it be sent to. */
static void rc__a_receive_wakes_who_sleeps(void **state)
{
    (void)state;
    struct rc_pair pair;
    struct diwarp_wc wc;
    pthread_t thread;

    rc_pair_init(&pair);
    pair.b.device->attr.threaded = true;
    pair.b.attr.rnr_timeout_ns = UINT64_MAX;
    pair.a.attr.rnr_timeout_ns = UINT64_MAX;
    rc_pair_connect(&pair);
    const struct diwarp_rc_counters *counters = diwarp_query_rc_counters(pair.b.cq);
    assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, buf_a, 10, IBV_SEND_INLINE, 1, NULL, 0), 0);
    RC_UNTIL(counters->rc_rx_waits == 1, &pair.b, &pair.b);
    for (unsigned i = 0; i < 100; i++)
        if (rc_post(&pair.b, IBV_WR_SEND, buf_b, 1 << 20, 0, 1, NULL, 0))
            break;
    uint64_t settled_ns = clock_ns() + 300 * MS; /* its own end does not read any more */
    RC_UNTIL(clock_ns() > settled_ns, &pair.b, &pair.b);
    assert_int_equal(pthread_create(&thread, NULL, post_recv_later, &pair.b), 0);
    uint64_t start_ns = clock_ns();
    int count = diwarp_wait_cq(pair.b.cq, 1, &wc, 900 * MS);
    uint64_t end_ns = clock_ns();
    pthread_join(thread, NULL);
    assert_int_equal(count, 1);
    assert_int_equal(wc.wc.opcode, IBV_WC_RECV);
    assert_in_range(end_ns - start_ns, 40 * MS, 600 * MS);
    rc_pair_close(&pair);
}

/* ---- waiting, memory ------------------------------------------------------------------------ */

static void rc__waits_and_drains(void **state)
{
    (void)state;
    struct rc_pair pair;
    struct diwarp_wc wc;
    struct diwarp_memory memory;
    struct diwarp_rc_memory rc_memory;
    unsigned posted = 0;

    rc_pair_init(&pair);
    assert_int_equal(diwarp_drain_rc_qps(pair.a.cq, 0), 0);
    rc_pair_connect(&pair);
    assert_true(diwarp_rc_fd(pair.a.cq) >= 0);
    uint64_t start_ns = clock_ns();
    assert_int_equal(diwarp_wait_cq(pair.b.cq, 1, &wc, 20 * MS), 0);
    assert_true(clock_ns() - start_ns >= 20 * MS);
    assert_int_equal(rc_post_recv(&pair.b, buf_b, 100, 3), 0);
    assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, buf_a, 100, IBV_SEND_SIGNALED, 1, NULL, 0), 0);
    assert_int_equal(diwarp_wait_cq(pair.b.cq, 1, &wc, 10000 * MS), 1);
    assert_int_equal(wc.wc.opcode, IBV_WC_RECV);
    assert_int_equal(diwarp_drain_rc_qps(pair.a.cq, 1000 * MS), 0);
    rc_end_poll(&pair.a);
    assert_int_equal(pair.a.sends, 0); /* dropped */
    while (posted < 100 && !rc_post(&pair.a, IBV_WR_SEND, buf_a, 1 << 20, 0, 1, NULL, 0))
        posted++;
    assert_int_equal(diwarp_drain_rc_qps(pair.a.cq, 20 * MS), -ETIMEDOUT);
    diwarp_query_memory(pair.a.cq, pair.a.pd, &memory);
    assert_in_range(memory.peer_bytes, 1000, 30000);
    assert_in_range(memory.receive_bytes, 256 << 10, 257 << 10);
    assert_in_range(memory.send_pool_bytes, 100 << 10, 400 << 10);
    diwarp_query_rc_memory(pair.a.cq, &rc_memory);
    assert_int_equal(rc_memory.qp_bytes, memory.peer_bytes);
    assert_int_equal(rc_memory.receive_bytes, memory.receive_bytes);
    assert_int_equal(rc_memory.send_bytes, memory.send_pool_bytes);
    rc_pair_close(&pair);
}

/* ---- threads -------------------------------------------------------------------------------- */

#define THREAD_MESSAGES 2000

static void *post_many(void *arg)
{
    struct rc_end *end = arg;

    for (unsigned posted = 0; posted < THREAD_MESSAGES;)
        posted += rc_post(end, IBV_WR_SEND, buf_a, 700, IBV_SEND_SIGNALED, 1, NULL, 0) == 0;
    return NULL;
}

static void rc__threads_post_while_another_polls(void **state)
{
    (void)state;
    struct rc_pair pair;
    pthread_t threads[2];
    unsigned posted = 0;

    rc_pair_init(&pair);
    pair.a.device->attr.threaded = true;
    rc_pair_connect(&pair);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, &pair.a), 0);
    while (pair.b.recvs < 2 * THREAD_MESSAGES) {
        while (posted < pair.b.recvs + 64 && !rc_post_recv(&pair.b, buf_b, 1000, posted))
            posted++;
        unsigned before = pair.b.recvs;
        RC_UNTIL(pair.b.recvs > before, &pair.a, &pair.b);
    }
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    RC_UNTIL(pair.a.sends == 2 * THREAD_MESSAGES, &pair.a, &pair.b);
    rc_pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc__a_standing_receiver_is_waited_for),
        cmocka_unit_test(rc__stands_still_without_receives),
        cmocka_unit_test(rc__a_receive_wakes_who_sleeps),
        cmocka_unit_test(rc__waits_and_drains),
        cmocka_unit_test(rc__threads_post_while_another_polls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
