/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RD over real sockets on 127.0.0.1: posts that are refused or bounded, and what becomes of those
 * under way when a QP is drained or destroyed, or a region deregistered.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/rel/rtt.h"
#include "test/net/rd_pair.h"

static void rd__posts_are_checked(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pair_open(&pair);
    struct node *a = &pair.a;
    struct diwarp_mr *own = diwarp_reg_mr(a->pd, sink, 100, 0);
    struct ibv_sge sge = {.addr = (uintptr_t)sink, .length = 101, .lkey = own->stag};
    struct diwarp_send_wr wr = {.wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
                                .ah = pair.ab};

    assert_int_equal(diwarp_post_send(a->qp, &wr), -EACCES); /* beyond the region */
    sge.length = 100;
    assert_int_equal(diwarp_post_send(a->qp, &wr), 0);
    wr.wr.opcode = IBV_WR_RDMA_READ;
    wr.wr.send_flags = IBV_SEND_FENCE;
    assert_int_equal(diwarp_post_send(a->qp, &wr), -EINVAL);
    wr.wr.send_flags = 0;
    assert_int_equal(diwarp_post_send(a->qp, &wr), -EACCES); /* no LOCAL_WRITE */
    wr.wr.opcode = IBV_WR_SEND;
    wr.wr.num_sge = 5;
    assert_int_equal(diwarp_post_send(a->qp, &wr), -EINVAL);
    wr.wr.num_sge = 1;
    wr.ah = NULL;
    assert_int_equal(diwarp_post_send(a->qp, &wr), -EINVAL);
    assert_int_equal(post(a, pair.ab, IBV_WR_SEND, sink, 65537, 0, 0, NULL, 0), -EMSGSIZE);
    assert_int_equal(post(a, pair.ab, IBV_WR_RDMA_READ, sink, 0, 0, 0, pair.mr_source, 0), -EINVAL);
    assert_int_equal(post(a, pair.ab, IBV_WR_RDMA_WRITE, sink, 0, 0, 0, pair.mr_sink, 0), -EINVAL);
    assert_int_equal(post(a, pair.ab, IBV_WR_LOCAL_INV, sink, 1, 0, 0, NULL, 0), -EINVAL);
    assert_int_equal(post_recv(a, sink, 1, 0), -EOPNOTSUPP);
    assert_null(diwarp_send_reserve(a->qp, pair.ab, 70000));
    diwarp_dereg_mr(own);
    pair_close(&pair);
}

static void rd__send_queue_is_bounded(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pair_open(&pair);
    unsigned posted = 0;
    int rc;

    while ((rc = post(&pair.a, pair.ab, IBV_WR_SEND, source, 1000, IBV_SEND_SIGNALED, 0, NULL,
                      0)) == 0)
        posted++;
    assert_int_equal(rc, -ENOMEM);
    assert_int_equal(posted, 8192);
    RUN_UNTIL(pair.a.sends == posted && pair.b->recvs == posted, &pair.a, pair.b);
    assert_int_equal(post(&pair.a, pair.ab, IBV_WR_SEND, source, 1000, 0, 0, NULL, 0), 0);
    pair_close(&pair);
}

/* A write posted inline must not look at its memory again. */
static void rd__inline_writes_are_copied_or_refused(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pair.attr.datagram_max_bytes = 1472;
    pair.attr.send_window_datagrams = 1;
    pair_open(&pair);
    unsigned posted = 0;

    memset(sink, 0, 4096);
    for (unsigned i = 0; i < 20; i++) {
        uint8_t buf[200];
        memset(buf, 0x11, sizeof buf);
        int rc = post(&pair.a, pair.ab, IBV_WR_RDMA_WRITE, buf, sizeof buf,
                      IBV_SEND_SIGNALED | IBV_SEND_INLINE, i, pair.mr_sink, 200 * posted);
        memset(buf, 0xff, sizeof buf);
        assert_true(rc == 0 || rc == -EAGAIN);
        posted += rc == 0;
    }
    assert_true(posted >= 1);
    RUN_UNTIL(pair.a.writes == posted, &pair.a, pair.b);
    for (unsigned i = 0; i < 200 * posted; i++)
        assert_int_equal(sink[i], 0x11);
    assert_int_equal(sink[200 * posted], 0);
    assert_int_equal(post(&pair.a, pair.ab, IBV_WR_RDMA_WRITE, source, 2000, IBV_SEND_INLINE, 0,
                          pair.mr_sink, 0),
                     -EMSGSIZE);
    pair_close(&pair);
}

static void *run_until_stopped(void *arg)
{
    struct node *node = arg;

    while (!__atomic_load_n((int *)node->arg, __ATOMIC_RELAXED))
        node_poll(node);
    return NULL;
}

static int drain_while_running(struct diwarp_qp *qp, struct node *other)
{
    pthread_t thread;
    int stop = 0;

    other->arg = &stop;
    assert_int_equal(pthread_create(&thread, NULL, run_until_stopped, other), 0);
    int rc = diwarp_drain_qp(qp, WAIT_NS);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    return rc;
}

/* Everything posted has happened when drain returns 0; and it says when it has not. */
static void rd__drain_waits_for_all_that_was_posted(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pair_open(&pair);
    struct node *a = &pair.a;

    fill(source, BIG, 3);
    memset(sink, 0, BIG);
    assert_int_equal(post(a, pair.ab, IBV_WR_SEND, source, 100, 0, 0, NULL, 0), 0);
    assert_int_equal(diwarp_drain_qp(a->qp, 20 * MS), -ETIMEDOUT);
    assert_int_equal(post(a, pair.ab, IBV_WR_RDMA_WRITE, source, BIG, 0, 0, pair.mr_sink, 0), 0);
    assert_int_equal(post(a, pair.ab, IBV_WR_SEND, source, 100, 0, 0, NULL, 0), 0);
    assert_int_equal(drain_while_running(a->qp, pair.b), 0);
    assert_int_equal(pair.b->recvs, 2);
    assert_filled(sink, BIG, 3);
    pair_close(&pair);
}

/* Who missed our acknowledgement asks again after its first time-out. */
static void rd__drain_stays_for_the_first_time_out(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pair_open(&pair);
    pair_exchange(&pair);
    const uint64_t begin_ns = clock_ns();
    assert_int_equal(diwarp_drain_qp(pair.b->qp, WAIT_NS), 0);
    assert_true(clock_ns() - begin_ns > DW_RTO_INITIAL_NS);
    pair_close(&pair);
}

/* Small writes, one of them refused, end with what the other side says of them: whichever side
 * drains hears it, or has it heard. */
static void rd__drain_ends_refused_writes(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pair_open(&pair);
    struct node *a = &pair.a;
    struct diwarp_mr nowhere = *pair.mr_sink;
    nowhere.stag ^= 1;

    fill(source, 100, 5);
    for (unsigned i = 0; i < 2; i++) {
        memset(sink, 0, 100);
        for (unsigned j = 0; j < 2; j++)
            assert_int_equal(post(a, pair.ab, IBV_WR_RDMA_WRITE, source, 100, IBV_SEND_SIGNALED, 0,
                                  j ? pair.mr_sink : &nowhere, 0),
                             0);
        if (i) {
            RUN_UNTIL(pair.b->counters->drop_stag == 2, pair.b);
            assert_int_equal(drain_while_running(pair.b->qp, a), 0);
            RUN_UNTIL(a->errors == 1 && a->writes == 1, a, pair.b);
        } else {
            assert_int_equal(diwarp_drain_qp(a->qp, 20 * MS), -ETIMEDOUT);
            assert_int_equal(drain_while_running(a->qp, pair.b), 0);
        }
        assert_filled(sink, 100, 5);
    }
    pair_close(&pair);
}

/* Messages of many datagrams, put together while nobody takes them: a helper runs the RNIC, and the
 * application computes. */
static void rd__messages_nobody_takes_are_bounded(void **state)
{
    (void)state;
    enum { MESSAGES = 200, BYTES = 60000 };
    struct pair pair = {.attr = loopback_attr(0)};
    struct diwarp_memory memory;
    pair.attr.datagram_max_bytes = 1472;
    pair.attr.gro = DIWARP_OFF; /* the arena then holds of each its short last datagram alone */
    pair_open(&pair);
    for (unsigned i = 0; i < MESSAGES; i++)
        assert_int_equal(
            post(&pair.a, pair.ab, IBV_WR_SEND, source, BYTES, IBV_SEND_SIGNALED, i, NULL, 0), 0);
    for (uint64_t until_ns = clock_ns() + WAIT_NS;
         !pair.b->counters->drop_no_buffer && clock_ns() < until_ns && pair.a.sends < MESSAGES;) {
        node_poll(&pair.a);
        (void)diwarp_run_cq(pair.b->cq);
    }
    diwarp_query_memory(pair.b->cq, pair.b->pd, &memory);
    assert_true(pair.b->counters->drop_no_buffer > 0);
    assert_in_range(memory.assembly_bytes, 1, 2u << 20);
    RUN_UNTIL(pair.b->recvs == MESSAGES && pair.a.sends == MESSAGES, &pair.a, pair.b);
    pair_close(&pair);
}

/* The source takes its memory away while it is read: the reader is told. */
static void rd__deregistered_region_ends_the_read(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pair_open(&pair);
    struct node *a = &pair.a, *b = pair.b;
    struct diwarp_mr *mr = diwarp_reg_mr(b->pd, source, BIG, IBV_ACCESS_REMOTE_READ);

    assert_int_equal(post(a, pair.ab, IBV_WR_RDMA_READ, sink, BIG, IBV_SEND_SIGNALED, 5, mr, 0), 0);
    RUN_UNTIL(b->counters->tx_record_segments > 0, a, b);
    diwarp_dereg_mr(mr);
    RUN_UNTIL(a->errors == 1, a, b);
    assert_int_equal(a->last_error.wc.wr_id, 5);
    assert_int_equal(a->last_error.wc.status, IBV_WC_REM_ABORT_ERR);
    assert_int_equal(a->reads, 0);
    pair_close(&pair);
}

/* Ends with everything still under way: nothing leaks, nothing is touched afterwards. */
static void rd__destroyed_in_the_middle(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pair_open(&pair);
    struct node *a = &pair.a;

    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(post(a, pair.ab, IBV_WR_SEND, source, 5000, IBV_SEND_SIGNALED, i, NULL, 0),
                         0);
    assert_int_equal(
        post(a, pair.ab, IBV_WR_RDMA_READ, sink, BIG / 2, IBV_SEND_SIGNALED, 0, pair.mr_source, 0),
        0);
    assert_int_equal(post(a, pair.ab, IBV_WR_RDMA_WRITE, source, BIG / 2, IBV_SEND_SIGNALED, 0,
                          pair.mr_sink, BIG / 2),
                     0);
    for (unsigned i = 0; i < 20; i++) {
        node_poll(a);
        node_poll(pair.b);
    }
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rd__posts_are_checked),
        cmocka_unit_test(rd__send_queue_is_bounded),
        cmocka_unit_test(rd__inline_writes_are_copied_or_refused),
        cmocka_unit_test(rd__drain_waits_for_all_that_was_posted),
        cmocka_unit_test(rd__drain_stays_for_the_first_time_out),
        cmocka_unit_test(rd__drain_ends_refused_writes),
        cmocka_unit_test(rd__messages_nobody_takes_are_bounded),
        cmocka_unit_test(rd__deregistered_region_ends_the_read),
        cmocka_unit_test(rd__destroyed_in_the_middle),
    };

    return cmocka_run_group_tests_name("loopback_posts", tests, NULL, NULL);
}
