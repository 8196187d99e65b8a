/* SPDX-License-Identifier: BSD-3-Clause */
/* RC queue pairs over real TCP on 127.0.0.1, through the public API. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/net/rc_end.h"

static uint8_t buf_a[1 << 21], buf_b[1 << 21];

static struct diwarp_mr *reg(struct rc_end *end, uint8_t *buf, int access)
{
    struct diwarp_mr *mr = diwarp_reg_mr(end->pd, buf, sizeof buf_a, access);

    assert_non_null(mr);
    return mr;
}

static const uint32_t sizes[] = {0,     1,     3,      100,    1460,   4096,   65000,
                                 65464, 65536, 100001, 262144, 300000, 1 << 20};
#define SIZES (sizeof sizes / sizeof *sizes)

/* ---- messages ------------------------------------------------------------------------------- */

static void check_send(struct rc_pair *pair, uint32_t bytes, unsigned flags)
{
    unsigned sends = pair->a.sends, recvs = pair->b.recvs;

    fill(buf_a, bytes, bytes);
    memset(buf_b, 0xee, bytes + 1);
    assert_int_equal(rc_post_recv(&pair->b, buf_b, bytes + 7, 1000 + bytes), 0);
    assert_int_equal(
        rc_post(&pair->a, IBV_WR_SEND, buf_a, bytes, IBV_SEND_SIGNALED | flags, bytes, NULL, 0), 0);
    RC_UNTIL(pair->b.recvs == recvs + 1 && pair->a.sends == sends + 1, &pair->a, &pair->b);
    assert_int_equal(pair->b.last_recv.wc.wr_id, 1000 + bytes);
    assert_int_equal(pair->b.last_recv.wc.byte_len, bytes);
    assert_filled(buf_b, bytes, bytes);
    assert_int_equal(buf_b[bytes], 0xee);
}

static void check_write(struct rc_pair *pair, uint32_t bytes, const struct diwarp_mr *mr)
{
    unsigned writes = pair->a.writes, recvs = pair->b.recvs;
    uint8_t fin = 1;

    fill(buf_a, bytes, bytes + 1);
    memset(buf_b, 0xee, bytes + 10);
    assert_int_equal(rc_post_recv(&pair->b, &fin, 1, 1), 0);
    assert_int_equal(
        rc_post(&pair->a, IBV_WR_RDMA_WRITE, buf_a, bytes, IBV_SEND_SIGNALED, 5, mr, 3), 0);
    assert_int_equal(rc_post(&pair->a, IBV_WR_SEND, &fin, 1, 0, 6, NULL, 0), 0);
    RC_UNTIL(pair->b.recvs == recvs + 1 && pair->a.writes == writes + 1, &pair->a, &pair->b);
    assert_filled(buf_b + 3, bytes, bytes + 1);
    assert_int_equal(buf_b[2], 0xee);
    assert_int_equal(buf_b[3 + bytes], 0xee);
}

static void check_read(struct rc_pair *pair, uint32_t bytes, const struct diwarp_mr *mr)
{
    unsigned reads = pair->a.reads;

    fill(buf_b + 5, bytes, bytes + 2);
    memset(buf_a, 0xee, bytes + 10);
    assert_int_equal(rc_post(&pair->a, IBV_WR_RDMA_READ, buf_a, bytes, IBV_SEND_SIGNALED, 7, mr, 5),
                     0);
    RC_UNTIL(pair->a.reads == reads + 1, &pair->a, &pair->b);
    assert_int_equal(pair->a.last.wc.byte_len, bytes);
    assert_filled(buf_a, bytes, bytes + 2);
    assert_int_equal(buf_a[bytes], 0xee);
}

static void check_orderly_close(struct rc_pair *pair)
{
    diwarp_disconnect(pair->a.qp);
    RC_UNTIL(pair->a.disconnects && pair->b.disconnects, &pair->a, &pair->b);
    assert_int_equal(pair->a.disconnected.wc.status, IBV_WC_SUCCESS);
    assert_int_equal(pair->b.disconnected.wc.status, IBV_WC_SUCCESS);
}

static void check_all(struct rc_pair *pair)
{
    struct diwarp_mr *mr = reg(
        &pair->b, buf_b, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);

    rc_pair_connect(pair);
    for (unsigned i = 0; i < SIZES; i++) {
        check_send(pair, sizes[i], 0);
        check_write(pair, sizes[i], mr);
        check_read(pair, sizes[i], mr);
    }
    check_orderly_close(pair);
    diwarp_dereg_mr(mr);
}

static void rc__messages_of_all_sizes_in_each_mode(void **state)
{
    (void)state;
    for (unsigned mode = 0; mode < 32; mode++) {
        struct rc_pair pair;

        rc_pair_init(&pair);
        pair.a.attr.markers = mode & 1;
        pair.b.attr.markers = mode & 2;
        pair.a.attr.crc = mode & 4;
        pair.b.attr.crc = mode & 8;
        pair.a.attr.mpa_revision = mode & 16 ? 1 : 2;
        check_all(&pair);
        assert_int_equal(pair.a.errors + pair.b.errors, 0);
        assert_int_equal(diwarp_query_rc_counters(pair.a.cq)->rc_connections, 0);
        rc_pair_close(&pair);
    }
}

/* Posts n lazy sends of one byte each, and the receives for them. */
static void post_lazy(struct rc_pair *pair, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(rc_post_recv(&pair->b, buf_b + i, 1, i), 0);
        assert_int_equal(rc_post(&pair->a, IBV_WR_SEND, buf_a + i, 1,
                                 IBV_SEND_SIGNALED | DIWARP_SEND_LAZY, i, NULL, 0),
                         0);
    }
}

static void rc__lazy_sends_share_a_call(void **state)
{
    (void)state;
    enum { FEW = 10, MANY = 40 };
    const struct diwarp_rc_counters *counters;
    struct rc_pair pair;
    uint64_t calls;

    rc_pair_init(&pair);
    rc_pair_connect(&pair);
    counters = diwarp_query_rc_counters(pair.a.cq);
    calls = counters->rc_tx_syscalls;
    fill(buf_a, MANY, 1);
    memset(buf_b, 0xee, MANY);
    post_lazy(&pair, FEW);
    assert_int_equal(counters->rc_tx_syscalls, calls);
    assert_int_equal(diwarp_cq_idle_ns(pair.a.cq), 0);
    RC_UNTIL(pair.b.recvs == FEW && pair.a.sends == FEW, &pair.a, &pair.b);
    assert_int_equal(counters->rc_tx_syscalls, calls + 1);
    assert_filled(buf_b, FEW, 1);

    post_lazy(&pair, FEW); /* what is not lazy makes them leave, and leaves itself */
    assert_int_equal(rc_post_recv(&pair.b, buf_b + FEW, 1, FEW), 0);
    assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, buf_a + FEW, 1, IBV_SEND_INLINE, 1, NULL, 0), 0);
    assert_int_equal(counters->rc_tx_syscalls, calls + 3);
    RC_UNTIL(pair.b.recvs == 2 * FEW + 1 && pair.a.sends == 2 * FEW, &pair.a, &pair.b);
    assert_filled(buf_b, FEW + 1, 1);

    post_lazy(&pair, MANY); /* so many do not wait */
    assert_int_equal(counters->rc_tx_syscalls, calls + 4);
    check_orderly_close(&pair); /* nor does the end overtake them */
    assert_int_equal(pair.b.recvs, 2 * FEW + 1 + MANY);
    assert_filled(buf_b, MANY, 1);
    rc_pair_close(&pair);
}

/* ---- setting up ----------------------------------------------------------------------------- */

static void rc__private_data_goes_both_ways(void **state)
{
    (void)state;
    uint8_t call[DIWARP_PRIVATE_DATA_MAX_BYTES], answer[DIWARP_PRIVATE_DATA_MAX_BYTES];
    struct rc_pair pair;

    fill(call, sizeof call, 1);
    fill(answer, sizeof answer, 2);
    rc_pair_init(&pair);
    rc_pair_call(&pair, call, sizeof call);
    assert_int_equal(pair.b.data_bytes, sizeof call);
    assert_memory_equal(pair.b.data, call, sizeof call);
    assert_int_equal(pair.b.last.src.rank, 1);
    assert_int_equal(
        diwarp_accept(pair.b.request, pair.b.pd, &pair.b.attr, answer, sizeof answer, &pair.b.qp),
        0);
    RC_UNTIL(pair.a.connects && pair.b.connects, &pair.a, &pair.b);
    assert_int_equal(pair.a.data_bytes, sizeof answer);
    assert_memory_equal(pair.a.data, answer, sizeof answer);
    assert_int_equal(pair.a.connected.src.rank, 2);
    rc_pair_close(&pair);
}

static void rc__reject_says_why(void **state)
{
    (void)state;
    struct rc_pair pair;

    rc_pair_init(&pair);
    rc_pair_call(&pair, "x", 1);
    diwarp_reject(pair.b.request, "no", 2);
    RC_UNTIL(pair.a.disconnects, &pair.a, &pair.b);
    assert_int_equal(pair.a.disconnected.wc.status, IBV_WC_REM_INV_REQ_ERR);
    assert_int_equal(pair.a.data_bytes, 2);
    assert_memory_equal(pair.a.data, "no", 2);
    rc_pair_close(&pair);
}

/* ---- errors --------------------------------------------------------------------------------- */

static void rc__write_without_the_right_terminates_both(void **state)
{
    (void)state;
    struct rc_pair pair;

    rc_pair_init(&pair);
    struct diwarp_mr *mr = reg(&pair.b, buf_b, IBV_ACCESS_REMOTE_READ);

    rc_pair_connect(&pair);
    memset(buf_b, 0xee, 100);
    assert_int_equal(rc_post_recv(&pair.b, buf_b, 10, 1), 0);
    assert_int_equal(rc_post(&pair.a, IBV_WR_RDMA_WRITE, buf_a, 100, IBV_SEND_SIGNALED, 5, mr, 0),
                     0);
    RC_UNTIL(pair.a.disconnects && pair.b.disconnects, &pair.a, &pair.b);
    assert_int_equal(pair.a.disconnected.wc.status, IBV_WC_REM_OP_ERR);
    assert_int_equal(pair.b.disconnected.wc.status, IBV_WC_REM_OP_ERR);
    assert_int_equal(pair.a.disconnected.wc.vendor_err, 0x0102);
    assert_int_equal(pair.b.disconnected.wc.vendor_err, 0x0102);
    assert_int_equal(pair.b.flushed, 1);
    assert_int_equal(buf_b[0], 0xee);
    assert_int_equal(diwarp_query_rc_counters(pair.b.cq)->rc_tx_terminates, 1);
    assert_int_equal(diwarp_query_rc_counters(pair.a.cq)->rc_rx_terminates, 1);
    assert_int_equal(diwarp_query_rc_counters(pair.b.cq)->rc_bad_stag, 1);
    assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, buf_a, 1, 0, 5, NULL, 0), -ENOTCONN);
    diwarp_dereg_mr(mr);
    rc_pair_close(&pair);
}

/* A socket of the test's own, connected to an end's listener. */
static int call_by_hand(const struct rc_end *end)
{
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_port = htons(end->address.port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
    return fd;
}

static void close_with_reset(int fd)
{
    struct linger now = {.l_onoff = 1};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

static void rc__strangers_do_no_harm(void **state)
{
    (void)state;
    static const char garbage[600] = "MPA ID Req FrameX no, it is not";
    struct rc_pair pair;

    rc_pair_init(&pair);
    const struct diwarp_rc_counters *counters = diwarp_query_rc_counters(pair.b.cq);
    int fds[3];

    for (unsigned i = 0; i < 3; i++)
        fds[i] = call_by_hand(&pair.b);
    assert_int_equal(write(fds[0], garbage, sizeof garbage), sizeof garbage);
    assert_int_equal(write(fds[1], garbage, 7), 7);
    close_with_reset(fds[1]);
    close(fds[2]);
    RC_UNTIL(counters->rc_bad_startup == 3, &pair.a, &pair.b);
    close(fds[0]);
    rc_pair_connect(&pair);
    check_send(&pair, 100, 0);
    rc_pair_close(&pair);
}

static void rc__without_descriptors_calls_wait(void **state)
{
    (void)state;
    struct rc_pair pair;
    struct rlimit before, none;

    rc_pair_init(&pair);
    const struct diwarp_rc_counters *counters = diwarp_query_rc_counters(pair.b.cq);
    int fd = call_by_hand(&pair.b);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    RC_UNTIL(counters->rc_no_descriptor == 1, &pair.a, &pair.b);
    struct pollfd pollfd = {.fd = diwarp_rc_fd(pair.b.cq), .events = POLLIN};
    int ready = poll(&pollfd, 1, 0); /* nobody could sleep */
    RC_UNTIL(counters->rc_no_descriptor == 3, &pair.a, &pair.b);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(ready, 0);
    rc_pair_connect(&pair);
    check_send(&pair, 100, 0);
    close(fd);
    rc_pair_close(&pair);
}

static void rc__nobody_listens(void **state)
{
    (void)state;
    struct rc_pair pair;

    rc_pair_init(&pair);
    diwarp_destroy_listener(pair.b.listener);
    pair.b.listener = NULL;
    assert_int_equal(
        diwarp_connect(pair.a.pd, &pair.a.attr, &pair.b.address, NULL, 0, &pair.a.qp, NULL), 0);
    RC_UNTIL(pair.a.disconnects, &pair.a, &pair.b);
    assert_int_equal(pair.a.disconnected.wc.status, IBV_WC_RETRY_EXC_ERR);
    rc_pair_close(&pair);
}

static void rc__nobody_answers(void **state)
{
    (void)state;
    struct rc_pair pair;

    rc_pair_init(&pair);
    pair.a.attr.connect_timeout_ns = 100 * MS;
    rc_pair_call(&pair, NULL, 0);
    RC_UNTIL(pair.a.disconnects, &pair.a, &pair.b);
    assert_int_equal(pair.a.disconnected.wc.status, IBV_WC_RETRY_EXC_ERR);
    /* It answers after all: the caller is gone. */
    assert_int_equal(diwarp_accept(pair.b.request, pair.b.pd, &pair.b.attr, NULL, 0, &pair.b.qp),
                     0);
    RC_UNTIL(pair.b.disconnects, &pair.a, &pair.b);
    assert_int_equal(pair.b.disconnected.wc.status, IBV_WC_RETRY_EXC_ERR);
    rc_pair_close(&pair);
}

static void rc__the_other_side_vanishes(void **state)
{
    (void)state;
    struct rc_pair pair;

    rc_pair_init(&pair);
    rc_pair_connect(&pair);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(rc_post_recv(&pair.a, buf_a, 10, i), 0);
    /* Unread bytes there: its close resets the connection. */
    while (!rc_post(&pair.a, IBV_WR_SEND, buf_a, 1 << 20, 0, 1, NULL, 0))
        ;
    rc_end_destroy_qp(&pair.b);
    RC_UNTIL(pair.a.disconnects, &pair.a, &pair.b);
    assert_int_equal(pair.a.disconnected.wc.status, IBV_WC_RETRY_EXC_ERR);
    assert_true(pair.a.flushed > 5);
    assert_int_equal(diwarp_query_rc_counters(pair.a.cq)->rc_connections, 0);
    rc_pair_close(&pair);
}

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

static void rc__both_close_at_once(void **state)
{
    (void)state;
    struct rc_pair pair;

    rc_pair_init(&pair);
    rc_pair_connect(&pair);
    diwarp_disconnect(pair.b.qp);
    check_orderly_close(&pair);
    assert_int_equal(rc_post(&pair.b, IBV_WR_SEND, buf_b, 1, 0, 1, NULL, 0), -ENOTCONN);
    assert_int_equal(rc_post_recv(&pair.b, buf_b, 1, 1), -ENOTCONN);
    rc_pair_close(&pair);
}

/* Of both sides: the one that is told of the end sends what it has left. */
static void rc__what_was_posted_is_sent_before_the_end(void **state)
{
    (void)state;
    enum { COUNT = 20 };
    struct rc_pair pair;

    rc_pair_init(&pair);
    rc_pair_connect(&pair);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(rc_post_recv(&pair.a, buf_b, 1 << 20, i), 0);
        assert_int_equal(rc_post_recv(&pair.b, buf_b, 1 << 20, i), 0);
        assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, buf_a, 1 << 20, 0, i, NULL, 0), 0);
        assert_int_equal(rc_post(&pair.b, IBV_WR_SEND, buf_a, 1 << 20, 0, i, NULL, 0), 0);
    }
    check_orderly_close(&pair);
    assert_int_equal(pair.a.recvs, COUNT);
    assert_int_equal(pair.b.recvs, COUNT);
    assert_int_equal(pair.a.flushed + pair.b.flushed, 0);
    rc_pair_close(&pair);
}

/* ---- receives ------------------------------------------------------------------------------- */

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
        struct diwarp_srq *srq = shared ? diwarp_create_srq(pair.b.pd, 10) : NULL;

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

/* ---- how Sends are posted ------------------------------------------------------------------- */

static void rc__inline_and_buffered(void **state)
{
    (void)state;
    struct rc_pair pair;
    unsigned sent = 0;
    int rc;

    rc_pair_init(&pair);
    pair.b.attr.rnr_timeout_ns = UINT64_MAX;
    rc_pair_connect(&pair);
    assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, buf_a, 8, DIWARP_SEND_BUFFERED, 1, NULL, 0), 1);
    /* Until TCP takes no more. What it took of the last one counts as taken. */
    do {
        memset(buf_a, (int)(sent & 0xff), 100000);
        rc = rc_post(&pair.a, IBV_WR_SEND, buf_a, 100000, IBV_SEND_INLINE, 1, NULL, 0);
        sent += rc == 0;
    } while (rc == 0 && sent < 1000);
    assert_int_equal(rc, -EAGAIN);
    assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, buf_a, 8,
                             DIWARP_SEND_BUFFERED | IBV_SEND_SIGNALED, 77, NULL, 0),
                     0);
    memset(buf_a, 0xee, 100000);
    for (unsigned i = 0; i < sent + 2; i++) {
        assert_int_equal(rc_post_recv(&pair.b, buf_b, 100000, i), 0);
        RC_UNTIL(pair.b.recvs == i + 1, &pair.a, &pair.b);
        if (i > 0 && i <= sent)
            assert_true(buf_b[0] == ((i - 1) & 0xff) && buf_b[99999] == ((i - 1) & 0xff));
    }
    RC_UNTIL(pair.a.sends == 1, &pair.a, &pair.b);
    assert_int_equal(pair.a.last.wc.wr_id, 77);
    rc_pair_close(&pair);
}

static void rc__solicited_and_invalidate(void **state)
{
    (void)state;
    struct rc_pair pair;

    rc_pair_init(&pair);
    struct diwarp_mr *mr = reg(&pair.b, buf_b, IBV_ACCESS_REMOTE_READ);
    rc_pair_connect(&pair);
    assert_int_equal(rc_post_recv(&pair.b, buf_b, 10, 1), 0);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_INV,
                             .send_flags = IBV_SEND_SOLICITED,
                             .invalidate_rkey = mr->stag};
    assert_int_equal(diwarp_rc_post_send(pair.a.qp, &wr), 0);
    RC_UNTIL(pair.b.recvs, &pair.a, &pair.b);
    assert_int_equal(pair.b.last_recv.wc.wc_flags, IBV_WC_WITH_INV);
    assert_int_equal(pair.b.last_recv.wc.invalidated_rkey, mr->stag);
    assert_int_equal(rc_post(&pair.a, IBV_WR_RDMA_READ, buf_a, 10, 0, 1, mr, 0), 0);
    RC_UNTIL(pair.a.disconnects && pair.b.disconnects, &pair.a, &pair.b);
    assert_int_equal(pair.a.disconnected.wc.vendor_err, 0x0102);
    diwarp_dereg_mr(mr);
    rc_pair_close(&pair);
}

static void rc__malformed_requests(void **state)
{
    (void)state;
    struct rc_pair pair;

    rc_pair_init(&pair);
    pair.a.attr.max_rd_atomic = 0;
    pair.a.attr.max_recv_wr = 1;
    rc_pair_connect(&pair);
    struct ibv_sge sge[5] = {{.addr = (uintptr_t)buf_a, .length = 1, .lkey = 12345}};
    struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    assert_int_equal(diwarp_rc_post_send(pair.a.qp, &wr), -EACCES);
    wr.num_sge = 5;
    assert_int_equal(diwarp_rc_post_send(pair.a.qp, &wr), -EINVAL);
    wr = (struct ibv_send_wr){.opcode = IBV_WR_ATOMIC_CMP_AND_SWP};
    assert_int_equal(diwarp_rc_post_send(pair.a.qp, &wr), -EINVAL);
    wr.opcode = IBV_WR_RDMA_READ;
    assert_int_equal(diwarp_rc_post_send(pair.a.qp, &wr), -EINVAL);
    assert_int_equal(rc_post_recv(&pair.a, buf_a, 1, 1), 0);
    assert_int_equal(rc_post_recv(&pair.a, buf_a, 1, 1), -ENOMEM);
    rc_pair_close(&pair);
}

/* ---- at any time ---------------------------------------------------------------------------- */

static void rc__regions_may_go_while_in_use(void **state)
{
    (void)state;
    for (unsigned steps = 0; steps < 40; steps++) {
        struct rc_pair pair;

        rc_pair_init(&pair);
        struct diwarp_mr *mr =
            reg(&pair.b, buf_b,
                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
        bool reads = steps & 1;

        rc_pair_connect(&pair);
        for (unsigned i = 0; i < 16; i++)
            assert_int_equal(rc_post(&pair.a, reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, buf_a,
                                     1 << 20, IBV_SEND_SIGNALED, i, mr, 0),
                             0);
        for (unsigned i = 0; i < steps / 2; i++) {
            rc_end_poll(&pair.b);
            rc_end_poll(&pair.a);
        }
        diwarp_dereg_mr(mr);
        RC_UNTIL(pair.a.disconnects || pair.a.writes + pair.a.reads == 16, &pair.a, &pair.b);
        if (pair.a.disconnects)
            assert_int_equal(pair.a.disconnected.wc.vendor_err, reads ? 0x0100 : 0x1100);
        rc_pair_close(&pair);
    }
}

static void rc__destroy_at_any_time(void **state)
{
    (void)state;
    for (unsigned steps = 0; steps < 60; steps++) {
        struct rc_pair pair;

        rc_pair_init(&pair);
        assert_int_equal(
            diwarp_connect(pair.a.pd, &pair.a.attr, &pair.b.address, "abc", 3, &pair.a.qp, NULL),
            0);
        for (unsigned i = 0; i < steps; i++) {
            rc_end_poll(&pair.a);
            rc_end_poll(&pair.b);
            if (pair.b.request && !pair.b.qp)
                assert_int_equal(
                    diwarp_accept(pair.b.request, pair.b.pd, &pair.b.attr, NULL, 0, &pair.b.qp), 0);
            if (i % 3 == 0)
                (void)rc_post(&pair.a, IBV_WR_SEND, buf_a, 300000, IBV_SEND_SIGNALED, i, NULL, 0);
        }
        unsigned before = pair.a.sends + pair.a.flushed + pair.a.disconnects;
        rc_end_destroy_qp(steps & 1 ? &pair.a : &pair.b);
        for (unsigned i = 0; i < 50; i++)
            rc_end_poll(&pair.a);
        if (steps & 1) /* nothing of it comes any more */
            assert_int_equal(pair.a.sends + pair.a.flushed + pair.a.disconnects, before);
        rc_pair_close(&pair);
    }
}

/* ---- waiting, draining, memory -------------------------------------------------------------- */

static void rc__waits_and_drains(void **state)
{
    (void)state;
    struct rc_pair pair;
    struct diwarp_wc wc;
    struct diwarp_rc_memory memory;

    rc_pair_init(&pair);
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
    unsigned posted = 0;
    while (posted < 100 && !rc_post(&pair.a, IBV_WR_SEND, buf_a, 1 << 20, 0, 1, NULL, 0))
        posted++;
    assert_int_equal(diwarp_drain_rc_qps(pair.a.cq, 20 * MS), -ETIMEDOUT);
    diwarp_query_rc_memory(pair.a.cq, &memory);
    assert_in_range(memory.qp_bytes, 1000, 30000);
    assert_in_range(memory.receive_bytes, 256 << 10, 257 << 10);
    assert_in_range(memory.send_bytes, 100 << 10, 400 << 10);
    rc_pair_close(&pair);
}

static void rc__many_connections(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    struct rc_pair pair;
    struct diwarp_rc_qp *a[COUNT], *b[COUNT];
    static uint8_t in[COUNT][64];

    rc_pair_init(&pair);
    for (unsigned i = 0; i < COUNT; i++) {
        rc_pair_connect(&pair);
        a[i] = pair.a.qp;
        b[i] = pair.b.qp;
        assert_int_equal(rc_post_recv(&pair.b, in[i], 64, i), 0);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        pair.a.qp = a[i];
        fill(buf_a + 64 * i, 64, i);
        assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, buf_a + 64 * i, 64, 0, i, NULL, 0), 0);
    }
    RC_UNTIL(pair.b.recvs == COUNT, &pair.a, &pair.b);
    for (unsigned i = 0; i < COUNT; i++)
        assert_filled(in[i], 64, i);
    for (unsigned i = 0; i < COUNT; i++)
        diwarp_disconnect(b[i]);
    RC_UNTIL(pair.a.disconnects == COUNT && pair.b.disconnects == COUNT, &pair.a, &pair.b);
    for (unsigned i = 0; i < COUNT; i++) {
        diwarp_destroy_rc_qp(a[i]);
        diwarp_destroy_rc_qp(b[i]);
    }
    pair.a.qp = pair.b.qp = NULL;
    rc_pair_close(&pair);
}

/* One call to send and one to receive for each message. */
static void rc__ping_pong_takes_two_calls(void **state)
{
    (void)state;
    struct rc_pair pair;
    const struct diwarp_rc_counters *counters;

    rc_pair_init(&pair);
    rc_pair_connect(&pair);
    counters = diwarp_query_rc_counters(pair.a.cq);
    uint64_t sends = counters->rc_tx_syscalls, recvs = counters->rc_rx_syscalls;
    for (unsigned i = 0; i < 100; i++) {
        struct rc_end *from = i & 1 ? &pair.b : &pair.a, *to = i & 1 ? &pair.a : &pair.b;
        unsigned before = to->recvs;

        assert_int_equal(rc_post_recv(to, buf_b, 64, i), 0);
        assert_int_equal(rc_post(from, IBV_WR_SEND, buf_a, 64, IBV_SEND_INLINE, i, NULL, 0), 0);
        RC_UNTIL(to->recvs == before + 1, &pair.a, &pair.b);
    }
    assert_int_equal(counters->rc_tx_syscalls - sends, 50);
    assert_int_equal(counters->rc_rx_syscalls - recvs, 50);
    rc_pair_close(&pair);
}

/* ---- threads, ports ---------------------------------------------------------------------------
 */

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

static void rc__listens_in_the_range_of_ports(void **state)
{
    (void)state;
    struct rc_end end;
    struct diwarp_listener *second = NULL;
    struct diwarp_diagnosis why;

    rc_end_open(&end, 1, NULL);
    end.device->attr.port_min = end.device->attr.port_max = end.address.port;
    assert_int_equal(diwarp_listen(end.pd, end.cq, &second, &why), -EADDRINUSE);
    assert_non_null(strstr(why.text, "in use"));
    end.device->attr.port_max = (uint16_t)(end.address.port + 20);
    assert_int_equal(diwarp_listen(end.pd, end.cq, &second, &why), 0);
    struct diwarp_address address;
    diwarp_query_listener(second, &address);
    assert_in_range(address.port, end.address.port + 1, end.address.port + 20);
    diwarp_destroy_listener(second);
    rc_end_close(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc__messages_of_all_sizes_in_each_mode),
        cmocka_unit_test(rc__lazy_sends_share_a_call),
        cmocka_unit_test(rc__private_data_goes_both_ways),
        cmocka_unit_test(rc__reject_says_why),
        cmocka_unit_test(rc__write_without_the_right_terminates_both),
        cmocka_unit_test(rc__strangers_do_no_harm),
        cmocka_unit_test(rc__without_descriptors_calls_wait),
        cmocka_unit_test(rc__nobody_listens),
        cmocka_unit_test(rc__nobody_answers),
        cmocka_unit_test(rc__the_other_side_vanishes),
        cmocka_unit_test(rc__a_standing_receiver_is_waited_for),
        cmocka_unit_test(rc__both_close_at_once),
        cmocka_unit_test(rc__what_was_posted_is_sent_before_the_end),
        cmocka_unit_test(rc__stands_still_without_receives),
        cmocka_unit_test(rc__a_receive_wakes_who_sleeps),
        cmocka_unit_test(rc__inline_and_buffered),
        cmocka_unit_test(rc__solicited_and_invalidate),
        cmocka_unit_test(rc__malformed_requests),
        cmocka_unit_test(rc__regions_may_go_while_in_use),
        cmocka_unit_test(rc__destroy_at_any_time),
        cmocka_unit_test(rc__waits_and_drains),
        cmocka_unit_test(rc__many_connections),
        cmocka_unit_test(rc__ping_pong_takes_two_calls),
        cmocka_unit_test(rc__threads_post_while_another_polls),
        cmocka_unit_test(rc__listens_in_the_range_of_ports),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
