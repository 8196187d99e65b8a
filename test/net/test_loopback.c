/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The services of the RNIC over real sockets on 127.0.0.1, through the public API: two devices in
 * one process that poll in turns, one that talks to itself, and threads.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/net/node.h"

#define RIGHTS_ALL                                                                                 \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                   \
     IBV_ACCESS_REMOTE_ATOMIC)
#define BIG (8u << 20)

static uint8_t source[BIG], sink[BIG];

/* Two RD nodes that know each other. With self they are one. */
struct pair {
    struct node a, b_own, *b;
    struct diwarp_ah *ab, *ba;
    struct diwarp_mr *mr_source, *mr_sink; /* of b */
    struct diwarp_device_attr attr;
    bool self;
};

static void pair_open(struct pair *pair)
{
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);

    pair->attr.name.rank = 1;
    node_open(&pair->a, &pair->attr, &qp_attr);
    pair->b = pair->self ? &pair->a : &pair->b_own;
    if (!pair->self) {
        pair->attr.name.rank = 2;
        node_open(&pair->b_own, &pair->attr, &qp_attr);
    }
    pair->ab = node_ah(&pair->a, pair->b);
    pair->ba = node_ah(pair->b, &pair->a);
    pair->mr_source = diwarp_reg_mr(pair->b->pd, source, sizeof source, IBV_ACCESS_REMOTE_READ);
    pair->mr_sink = diwarp_reg_mr(pair->b->pd, sink, sizeof sink, RIGHTS_ALL);
    assert_non_null(pair->mr_source);
    assert_non_null(pair->mr_sink);
}

/* Handles and regions last: both may outlive the QP. */
static void pair_close(struct pair *pair)
{
    node_destroy_qp(&pair->a);
    node_destroy_qp(pair->b);
    diwarp_destroy_ah(pair->ab);
    diwarp_destroy_ah(pair->ba);
    diwarp_dereg_mr(pair->mr_source);
    diwarp_dereg_mr(pair->mr_sink);
    node_close(&pair->a);
    if (!pair->self)
        node_close(&pair->b_own);
}

/* ---- RD: sends ---------------------------------------------------------------------------- */

static const uint32_t send_sizes[] = {0,    1,    7,    64,    1023,  1400,  1408,  1409,
                                      1472, 2048, 4096, 16384, 32768, 64999, 65000, 65536};
#define SEND_SIZES (sizeof send_sizes / sizeof *send_sizes)

/* The immediate data says which message it is: they come in any order. */
static void check_message(struct node *node, const struct diwarp_wc *wc)
{
    unsigned *seen = node->arg;

    if (wc->wc.opcode != IBV_WC_RECV)
        return;
    uint32_t id = wc->wc.imm_data;
    assert_true(wc->wc.wc_flags & IBV_WC_WITH_IMM);
    assert_true(id < SEND_SIZES);
    assert_int_equal(wc->wc.byte_len, send_sizes[id]);
    assert_int_equal(wc->src.rank, 1);
    assert_filled(wc->data, wc->wc.byte_len, id);
    seen[id]++;
}

static int post_message(struct pair *pair, uint32_t id, uint8_t *buf, unsigned flags)
{
    struct ibv_sge sge[2] = {{.addr = (uintptr_t)buf, .length = send_sizes[id] / 3},
                             {.addr = (uintptr_t)buf + send_sizes[id] / 3,
                              .length = send_sizes[id] - send_sizes[id] / 3}};
    struct diwarp_send_wr wr = {
        .wr = {.wr_id = id,
               .sg_list = sge,
               .num_sge = 2,
               .opcode = IBV_WR_SEND_WITH_IMM,
               .send_flags = flags,
               .imm_data = id},
        .ah = pair->ab,
    };

    fill(buf, send_sizes[id], id);
    return diwarp_post_send(pair->a.qp, &wr);
}

/* Each size by each way of sending it. */
static void check_sends(struct pair *pair)
{
    unsigned seen[SEND_SIZES] = {0}, expected = 0;
    struct node *a = &pair->a, *b = pair->b;

    b->on_wc = check_message;
    b->arg = seen;
    for (uint32_t id = 0; id < SEND_SIZES; id++) {
        unsigned sent = a->sends;
        assert_int_equal(post_message(pair, id, source, IBV_SEND_SIGNALED), 0);
        RUN_UNTIL(a->sends == sent + 1, a, b);
        assert_int_equal(post_message(pair, id, source, 0), 0);
        expected += 2;
        RUN_UNTIL(b->recvs == expected, a, b);
        int rc = post_message(pair, id, source, IBV_SEND_SIGNALED | (unsigned)DIWARP_SEND_BUFFERED);
        assert_true(rc == 0 || rc == 1);
        RUN_UNTIL(a->sends == sent + 1 + (rc == 0) && b->recvs == expected + 1, a, b);
        expected++;
        uint8_t *room = diwarp_send_reserve(a->qp, pair->ab, send_sizes[id]);
        if (room) {
            fill(room, send_sizes[id], id);
            diwarp_send_commit(a->qp, pair->ab, id);
            expected++;
        }
        rc = post_message(pair, id, sink, IBV_SEND_INLINE);
        assert_true(rc == 0 || rc == -EAGAIN || rc == -EMSGSIZE);
        memset(sink, 0xee, send_sizes[id]);
        expected += rc == 0;
        RUN_UNTIL(b->recvs == expected, a, b);
    }
    for (uint32_t id = 0; id < SEND_SIZES; id++)
        assert_true(seen[id] >= 3);
    b->on_wc = NULL;
}

/* Many small messages at once: some share datagrams. */
static void check_coalescing(struct pair *pair)
{
    struct node *a = &pair->a, *b = pair->b;
    unsigned before = b->recvs, posted = 0;
    uint8_t buf[24];

    for (unsigned i = 0; i < 2000; i++) {
        int rc = post(a, pair->ab, IBV_WR_SEND, buf, sizeof buf, (unsigned)DIWARP_SEND_BUFFERED, i,
                      NULL, 0);
        assert_true(rc == 0 || rc == 1);
        posted++;
    }
    RUN_UNTIL(b->recvs == before + posted, a, b);
    assert_true(a->counters->tx_coalesced_msgs > 1000);
}

/* ---- RD: reads, writes, atomics ----------------------------------------------------------- */

static const uint32_t rdma_sizes[] = {1,     64,     1408,    4096,     16384,
                                      16385, 65000,  262144,  1000003,  BIG};
#define RDMA_SIZES (sizeof rdma_sizes / sizeof *rdma_sizes)

static void check_reads(struct pair *pair)
{
    struct node *a = &pair->a, *b = pair->b;
    uint8_t *target = malloc(BIG);

    for (unsigned i = 0; i < RDMA_SIZES; i++) {
        uint32_t length = rdma_sizes[i];
        unsigned flags = IBV_SEND_SIGNALED | (i % 2 ? (unsigned)DIWARP_SEND_HOLD : 0);
        unsigned reads = a->reads, releases = b->releases;
        fill(source, length, i);
        assert_int_equal(post(a, pair->ab, IBV_WR_RDMA_READ, target, length, flags, 100 + i,
                              pair->mr_source, 0),
                         0);
        RUN_UNTIL(a->reads == reads + 1, a, b);
        assert_int_equal(a->last.wc.wr_id, 100 + i);
        assert_int_equal(a->last.wc.byte_len, length);
        assert_filled(target, length, i);
        if (!(i % 2))
            continue;
        char release[DIWARP_RELEASE_MAX_BYTES] = "thank you";
        assert_int_equal(
            diwarp_post_release(a->qp, a->last.read_id, release, sizeof release + 1), -EMSGSIZE);
        assert_int_equal(diwarp_post_release(a->qp, a->last.read_id, release, sizeof release), 0);
        RUN_UNTIL(b->releases == releases + 1, a, b);
        assert_memory_equal(b->data, release, sizeof release);
    }
    free(target);
}

static void check_writes(struct pair *pair)
{
    struct node *a = &pair->a, *b = pair->b;

    for (unsigned i = 0; i < RDMA_SIZES; i++) {
        uint32_t length = rdma_sizes[i] < BIG ? rdma_sizes[i] : BIG - 2;
        unsigned writes = a->writes;
        fill(source, length, i + 50);
        memset(sink, 0, length + 2);
        assert_int_equal(post(a, pair->ab, IBV_WR_RDMA_WRITE, source, length, IBV_SEND_SIGNALED, i,
                              pair->mr_sink, 1),
                         0);
        RUN_UNTIL(a->writes == writes + 1, a, b);
        assert_filled(sink + 1, length, i + 50);
        assert_int_equal(sink[0] | sink[length + 1], 0);
    }
}

static void atomic(struct pair *pair, enum ibv_wr_opcode opcode, uint64_t add, uint64_t swap,
                   uint64_t *result)
{
    struct ibv_sge sge = {.addr = (uintptr_t)result, .length = sizeof *result};
    struct diwarp_send_wr wr = {
        .wr = {.sg_list = &sge,
               .num_sge = 1,
               .opcode = opcode,
               .send_flags = IBV_SEND_SIGNALED,
               .wr.atomic = {.remote_addr = (uintptr_t)pair->mr_sink->addr,
                             .rkey = pair->mr_sink->stag,
                             .compare_add = add,
                             .swap = swap}},
        .ah = pair->ab,
    };
    unsigned before = pair->a.atomics;

    assert_int_equal(diwarp_post_send(pair->a.qp, &wr), 0);
    RUN_UNTIL(pair->a.atomics == before + 1, &pair->a, pair->b);
}

static void check_atomics(struct pair *pair)
{
    uint64_t value = 40, old = 0;

    memcpy(sink, &value, sizeof value);
    atomic(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0, &old);
    assert_int_equal(old, 40);
    atomic(pair, IBV_WR_ATOMIC_CMP_AND_SWP, 42, 7, &old);
    assert_int_equal(old, 42);
    atomic(pair, IBV_WR_ATOMIC_CMP_AND_SWP, 42, 9, &old);
    assert_int_equal(old, 7);
    memcpy(&value, sink, sizeof value);
    assert_int_equal(value, 7);
}

static void check_all(struct pair *pair)
{
    pair_open(pair);
    check_sends(pair);
    check_coalescing(pair);
    check_reads(pair);
    check_writes(pair);
    check_atomics(pair);
    assert_int_equal(pair->a.errors + pair->b->errors, 0);
    assert_int_equal(pair->b->counters->drop_header + pair->b->counters->drop_stag +
                         pair->b->counters->drop_crc + pair->b->counters->drop_token,
                     0);
    pair_close(pair);
}

static void rd__everything_by_default(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    check_all(&pair);
}

static void rd__everything_in_datagrams_of_mtu_1500(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pair.attr.datagram_max_bytes = 1472;
    check_all(&pair);
}

static void rd__everything_without_gso_gro_crc(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pair.attr.datagram_max_bytes = 1472;
    pair.attr.gso = pair.attr.gro = pair.attr.crc = DIWARP_OFF;
    check_all(&pair);
}

static void rd__everything_to_itself(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0), .self = true};
    check_all(&pair);
}

static void rd__everything_with_a_small_window(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pair.attr.send_window_datagrams = 2;
    pair.attr.record_window_bytes = 20000;
    pair.attr.send_pool_bytes = 256 << 10;
    pair.attr.datagram_max_bytes = 512;
    check_all(&pair);
}

/* ---- RD: posts that are refused, drain, deregistration -------------------------------------- */

static void rd__posts_are_checked(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pair_open(&pair);
    struct node *a = &pair.a;
    struct diwarp_mr *own = diwarp_reg_mr(a->pd, sink, 100, 0);
    struct ibv_sge sge = {.addr = (uintptr_t)sink, .length = 101, .lkey = own->stag};
    struct diwarp_send_wr wr = {
        .wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, .ah = pair.ab};

    assert_int_equal(diwarp_post_send(a->qp, &wr), -EACCES); /* beyond the region */
    sge.length = 100;
    assert_int_equal(diwarp_post_send(a->qp, &wr), 0);
    wr.wr.opcode = IBV_WR_RDMA_READ;
    assert_int_equal(diwarp_post_send(a->qp, &wr), -EACCES); /* no LOCAL_WRITE */
    wr.wr.opcode = IBV_WR_SEND;
    wr.wr.num_sge = 5;
    assert_int_equal(diwarp_post_send(a->qp, &wr), -EINVAL);
    assert_int_equal(post(a, pair.ab, IBV_WR_SEND, sink, 65537, 0, 0, NULL, 0), -EMSGSIZE);
    assert_int_equal(post(a, pair.ab, IBV_WR_RDMA_READ, sink, 0, 0, 0, pair.mr_source, 0),
                     -EINVAL);
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

/* Everything posted has happened when drain returns 0; and it says when it has not. */
static void rd__drain_waits_for_all_that_was_posted(void **state)
{
    (void)state;
    struct pair pair = {.attr = loopback_attr(0)};
    pthread_t thread;
    int stop = 0;
    pair_open(&pair);
    struct node *a = &pair.a;

    fill(source, BIG, 3);
    memset(sink, 0, BIG);
    assert_int_equal(post(a, pair.ab, IBV_WR_SEND, source, 100, 0, 0, NULL, 0), 0);
    assert_int_equal(diwarp_drain_qp(a->qp, 20 * MS), -ETIMEDOUT);
    assert_int_equal(post(a, pair.ab, IBV_WR_RDMA_WRITE, source, BIG, 0, 0, pair.mr_sink, 0), 0);
    assert_int_equal(post(a, pair.ab, IBV_WR_SEND, source, 100, 0, 0, NULL, 0), 0);
    pair.b->arg = &stop;
    assert_int_equal(pthread_create(&thread, NULL, run_until_stopped, pair.b), 0);
    int rc = diwarp_drain_qp(a->qp, WAIT_NS);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    assert_int_equal(rc, 0);
    assert_int_equal(pair.b->recvs, 2);
    assert_filled(sink, BIG, 3);
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
    assert_int_equal(post(a, pair.ab, IBV_WR_RDMA_READ, sink, BIG / 2, IBV_SEND_SIGNALED, 0,
                          pair.mr_source, 0),
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

/* ---- waiting, and threads ------------------------------------------------------------------- */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rd__everything_by_default),
        cmocka_unit_test(rd__everything_in_datagrams_of_mtu_1500),
        cmocka_unit_test(rd__everything_without_gso_gro_crc),
        cmocka_unit_test(rd__everything_to_itself),
        cmocka_unit_test(rd__everything_with_a_small_window),
        cmocka_unit_test(rd__posts_are_checked),
        cmocka_unit_test(rd__send_queue_is_bounded),
        cmocka_unit_test(rd__inline_writes_are_copied_or_refused),
        cmocka_unit_test(rd__drain_waits_for_all_that_was_posted),
        cmocka_unit_test(rd__deregistered_region_ends_the_read),
        cmocka_unit_test(rd__destroyed_in_the_middle),
        cmocka_unit_test(wait_cq__sleeps_until_something_comes),
        cmocka_unit_test(threaded__three_post_while_one_polls),
    };

    return cmocka_run_group_tests_name("loopback", tests, NULL, NULL);
}
