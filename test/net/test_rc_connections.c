/* SPDX-License-Identifier: BSD-3-Clause */
/* How RC connections over real TCP on 127.0.0.1 begin and end: set-up, errors, strangers, one side
 * that goes, and whatever the application takes away meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/rnic/cq.h"
#include "test/net/rc_traffic.h"

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
    char name[64], expected[64];
    snprintf(expected, sizeof expected, "127.0.0.1:%u", pair.b.address.port);
    diwarp_format_rc_qp(pair.a.qp, name, sizeof name);
    assert_string_equal(name, expected);
    diwarp_format_rc_qp(pair.b.qp, name, sizeof name);
    assert_memory_equal(name, "127.0.0.1:", 10); /* any port */
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

/* Of one of two, and in their order; what is the other's stays. */
static void rc__completions_of_one_are_taken(void **state)
{
    (void)state;
    struct rc_pair pair;
    struct diwarp_rc_qp *a[2], *b[2];
    struct diwarp_wc wc[4];

    rc_pair_init(&pair);
    for (unsigned i = 0; i < 2; i++) {
        rc_pair_connect(&pair);
        a[i] = pair.a.qp;
        b[i] = pair.b.qp;
    }
    for (unsigned id = 0; id < 6; id++) {
        pair.a.qp = a[id % 2];
        pair.b.qp = b[id % 2];
        const uint64_t before = diwarp_query_rc_counters(pair.b.cq)->rc_rx_send_msgs;
        assert_int_equal(rc_post_recv(&pair.b, buf_b, 64, id), 0);
        assert_int_equal(rc_post(&pair.a, IBV_WR_SEND, buf_a, 64, 0, id, NULL, 0), 0);
        while (diwarp_query_rc_counters(pair.b.cq)->rc_rx_send_msgs == before)
            (void)diwarp_run_cq(pair.b.cq);
    }
    assert_int_equal(diwarp_rc_take_completions(b[1], 1, wc), 1);
    assert_int_equal(wc[0].wc.wr_id, 1);
    assert_int_equal(diwarp_rc_take_completions(b[1], 4, wc), 2);
    assert_int_equal(wc[0].wc.wr_id, 3);
    assert_int_equal(wc[1].wc.wr_id, 5);
    assert_int_equal(diwarp_rc_take_completions(b[1], 4, wc), 0);
    assert_int_equal(diwarp_poll_cq(pair.b.cq, 4, wc), 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_ptr_equal(wc[i].rc_qp, b[0]);
        assert_int_equal(wc[i].wc.wr_id, 2 * i);
    }
    diwarp_destroy_rc_qp(a[0]);
    diwarp_destroy_rc_qp(b[0]);
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
    struct pollfd pollfd;
    unsigned watched = dw_cq_fds(pair.b.cq, &pollfd, 1);
    int ready = poll(&pollfd, 1, 0); /* nobody could sleep */
    RC_UNTIL(counters->rc_no_descriptor == 3, &pair.a, &pair.b);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(watched, 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc__private_data_goes_both_ways),
        cmocka_unit_test(rc__reject_says_why),
        cmocka_unit_test(rc__many_connections),
        cmocka_unit_test(rc__completions_of_one_are_taken),
        cmocka_unit_test(rc__listens_in_the_range_of_ports),
        cmocka_unit_test(rc__write_without_the_right_terminates_both),
        cmocka_unit_test(rc__strangers_do_no_harm),
        cmocka_unit_test(rc__without_descriptors_calls_wait),
        cmocka_unit_test(rc__nobody_listens),
        cmocka_unit_test(rc__nobody_answers),
        cmocka_unit_test(rc__the_other_side_vanishes),
        cmocka_unit_test(rc__both_close_at_once),
        cmocka_unit_test(rc__what_was_posted_is_sent_before_the_end),
        cmocka_unit_test(rc__regions_may_go_while_in_use),
        cmocka_unit_test(rc__destroy_at_any_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
