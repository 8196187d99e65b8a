/* SPDX-License-Identifier: BSD-3-Clause */
/* The helper thread: runs the RNIC while nobody polls, gives way to whoever does, stops at once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "common/include/diwarp_helper.h"
#include "common/rnic/device.h"
#include "test/net/node.h"

#define BYTES 64
#define TRIES 20
/* A look, two schedulings and a flush; a sleep that nothing ends lasts a second. */
#define SERVED_MOST_NS (20 * MS)

static uint8_t payload[BYTES];

/* A node whose owner never polls, and one that does. */
struct away {
    struct node a, b;
    struct diwarp_ah *ah;
    struct diwarp_helper_attr attr;
    struct diwarp_helper *helper;
    bool busy;     /* atomic: somebody else polls */
    unsigned runs; /* atomic: asked for */
};

static int run(void *arg)
{
    struct away *away = arg;

    (void)__atomic_add_fetch(&away->runs, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&away->busy, __ATOMIC_ACQUIRE))
        return -EBUSY;
    (void)diwarp_run_cq(away->a.cq);
    return 0;
}

static void open_away(struct away *away, bool all, uint64_t look_ns)
{
    struct diwarp_device_attr attr = loopback_attr(1);
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);

    memset(away, 0, sizeof *away);
    attr.threaded = true;
    node_open(&away->a, &attr, &qp_attr);
    node_open_default(&away->b, 2, DIWARP_QPT_RD);
    away->ah = node_ah(&away->a, &away->b);
    away->attr = (struct diwarp_helper_attr){
        .cq = away->a.cq, .run = run, .arg = away, .all = all, .look_ns = look_ns};
    assert_int_equal(diwarp_start_helper(&away->attr, &away->helper), 0);
}

/* Returns how long the helper took to stop. */
static uint64_t close_away(struct away *away)
{
    uint64_t began_ns = clock_ns();

    diwarp_stop_helper(away->helper);
    began_ns = clock_ns() - began_ns;
    diwarp_destroy_ah(away->ah);
    node_close(&away->a);
    node_close(&away->b);
    return began_ns;
}

static unsigned runs_of(const struct away *away)
{
    return __atomic_load_n(&away->runs, __ATOMIC_RELAXED);
}

static void pause_ms(unsigned ms)
{
    const struct timespec pause = {.tv_nsec = (long)(ms * MS)};

    nanosleep(&pause, NULL);
}

/* Posts, and returns how long it takes until that has come, though nobody polls where it was
 * posted. */
static uint64_t send_one(struct away *away)
{
    unsigned before = away->b.recvs;
    uint64_t began_ns = clock_ns();

    assert_int_equal(post(&away->a, away->ah, IBV_WR_SEND, payload, BYTES, 0, 0, NULL, 0), 0);
    RUN_UNTIL(away->b.recvs > before, &away->b);
    return clock_ns() - began_ns;
}

/* What waits for a poll leaves, soon after the first look and then at once; what is acknowledged is
 * done. */
static void helper__sends_what_was_posted(void **state)
{
    (void)state;
    struct away away;

    for (int all = 0; all < 2; all++) {
        uint64_t best_ns = UINT64_MAX;
        open_away(&away, all, MS / 2);
        for (unsigned i = 0; i < TRIES; i++) {
            uint64_t took_ns = send_one(&away);
            best_ns = took_ns < best_ns ? took_ns : best_ns;
            RUN_FOR(2 * MS, &away.b);
        }
        assert_true(best_ns < SERVED_MOST_NS);
        RUN_UNTIL(runs_of(&away) > 0, &away.b);
        assert_true(close_away(&away) < 900 * MS);
    }
}

/* Large transfers to and from who is away. */
static void helper__places_and_sends_records(void **state)
{
    (void)state;
    enum { LENGTH = 8 << 20 };
    uint8_t *from = malloc(LENGTH), *to = calloc(1, LENGTH);
    struct away away;

    open_away(&away, false, MS / 2);
    struct diwarp_mr *mr =
        diwarp_reg_mr(away.a.pd, to, LENGTH, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct diwarp_ah *back = node_ah(&away.b, &away.a);
    fill(from, LENGTH, 3);
    assert_int_equal(
        post(&away.b, back, IBV_WR_RDMA_WRITE, from, LENGTH, IBV_SEND_SIGNALED, 0, mr, 0), 0);
    RUN_UNTIL(away.b.writes == 1, &away.b);
    assert_filled(to, LENGTH, 3);
    diwarp_destroy_ah(back);
    diwarp_dereg_mr(mr);
    assert_true(close_away(&away) < 900 * MS);
    free(from);
    free(to);
}

/* In a sleep that would last for minutes, in one until something comes, and right after the start.
 */
static void stop__ends_any_sleep(void **state)
{
    (void)state;
    struct away away;

    open_away(&away, true, 100000 * MS);
    pause_ms(20);
    assert_int_equal(runs_of(&away), 0);
    assert_true(close_away(&away) < 900 * MS);

    open_away(&away, true, MS / 2);
    (void)send_one(&away);
    pause_ms(50);
    assert_true(close_away(&away) < 900 * MS);

    for (unsigned i = 0; i < 100; i++) {
        open_away(&away, true, MS / 100);
        assert_true(close_away(&away) < 900 * MS);
    }
}

/* It does not wait for the RNIC, nor ask for it over and over; one who posts all the time is not
 * away. */
static void helper__gives_way(void **state)
{
    (void)state;
    struct away away;

    open_away(&away, true, MS / 2);
    (void)send_one(&away);
    __atomic_store_n(&away.busy, true, __ATOMIC_RELEASE);
    pause_ms(20); /* it may be in a run */
    unsigned before = runs_of(&away);
    pause_ms(200);
    /* Looks are 4 ms apart by then. */
    assert_in_range(runs_of(&away) - before, 1, 100);
    __atomic_store_n(&away.busy, false, __ATOMIC_RELEASE);
    assert_true(send_one(&away) < 10000 * MS);
    (void)close_away(&away);
}

/* Looks as often as it is told to from then on. */
static void look_every__takes_effect(void **state)
{
    (void)state;
    struct away away;

    open_away(&away, false, MS / 10);
    RUN_UNTIL(runs_of(&away) > 0, &away.b);
    diwarp_helper_look_every(away.helper, 100000 * MS);
    pause_ms(20);
    unsigned before = runs_of(&away);
    pause_ms(50);
    assert_int_equal(runs_of(&away), before);
    assert_true(close_away(&away) < 900 * MS);
}

static uint64_t told_ns(void *clock)
{
    return __atomic_load_n((uint64_t *)clock, __ATOMIC_ACQUIRE);
}

/* Whose last poll brought nothing waits, perhaps for its core: it is away only after a whole
 * look_ns, by a clock that the test sets. */
static void helper__leaves_alone_who_waits(void **state)
{
    (void)state;
    uint64_t clock = 1000000 * MS;
    struct diwarp_wc wc;
    struct away away;

    open_away(&away, false, 100000 * MS);
    diwarp_stop_helper(away.helper);
    away.a.device->env.now_ns = told_ns;
    away.a.device->env.arg = &clock;
    assert_int_equal(diwarp_poll_cq(away.a.cq, 1, &wc), 0);
    __atomic_store_n(&clock, clock + MS - 1, __ATOMIC_RELEASE);
    away.attr.look_ns = MS;
    assert_int_equal(diwarp_start_helper(&away.attr, &away.helper), 0);
    pause_ms(50);
    assert_int_equal(runs_of(&away), 0);
    __atomic_store_n(&clock, clock + 1, __ATOMIC_RELEASE);
    RUN_UNTIL(runs_of(&away) > 0, &away.b);
    (void)close_away(&away);
}

/* A child has the descriptors, and goes: nothing of that wakes, stops or blocks the helper. */
static void helper__goes_on_when_a_child_ends(void **state)
{
    (void)state;
    struct away away;
    int status;

    open_away(&away, true, MS / 2);
    (void)send_one(&away);
    for (unsigned i = 0; i < 10; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child)
            _exit(0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        (void)send_one(&away);
    }
    assert_true(close_away(&away) < 900 * MS);
}

static void start__needs_threads_and_a_run(void **state)
{
    (void)state;
    struct diwarp_helper *helper = NULL;
    struct away away;
    struct node node;

    open_away(&away, true, MS);
    struct diwarp_helper_attr attr = away.attr;
    attr.run = NULL;
    assert_int_equal(diwarp_start_helper(&attr, &helper), -EINVAL);
    attr = away.attr;
    attr.look_ns = 0;
    assert_int_equal(diwarp_start_helper(&attr, &helper), -EINVAL);
    node_open_default(&node, 3, DIWARP_QPT_RD);
    attr = away.attr;
    attr.cq = node.cq;
    assert_int_equal(diwarp_start_helper(&attr, &helper), -EINVAL);
    assert_null(helper);
    node_close(&node);
    (void)close_away(&away);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(helper__sends_what_was_posted),
        cmocka_unit_test(helper__places_and_sends_records),
        cmocka_unit_test(stop__ends_any_sleep),
        cmocka_unit_test(helper__gives_way),
        cmocka_unit_test(look_every__takes_effect),
        cmocka_unit_test(helper__leaves_alone_who_waits),
        cmocka_unit_test(helper__goes_on_when_a_child_ends),
        cmocka_unit_test(start__needs_threads_and_a_run),
    };

    return cmocka_run_group_tests_name("helper", tests, NULL, NULL);
}
