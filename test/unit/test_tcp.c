/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams over TCP: what they are watched for, epoll without room, their end, and
 * keepalive's times. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/llp/stream.h"

#define WAITS 10000000u

static bool epoll_full;
static bool epoll_gone;  /* the application closed its descriptor */
static int last_watched; /* the descriptor */

int __real_epoll_ctl(int set, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int set, int op, int fd, struct epoll_event *event);

int __wrap_epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
    last_watched = fd;
    if (epoll_gone) {
        errno = EBADF;
        return -1;
    }
    if (epoll_full && op == EPOLL_CTL_ADD) {
        errno = ENOSPC;
        return -1;
    }
    return __real_epoll_ctl(set, op, fd, event);
}

struct set {
    struct dw_streams *streams;
    struct dw_stream *listener, *caller, *called;
};

/* Until that stream has `what`; nothing else may be ready. */
static void wait_for(const struct set *set, struct dw_stream *stream, unsigned what)
{
    struct dw_stream_event event;
    for (unsigned i = 0; i < WAITS; i++) {
        if (set->streams->ops->wait(set->streams, &event, 1) == 1) {
            assert_ptr_equal(event.stream, stream);
            assert_int_equal(event.what & what, what);
            return;
        }
    }
    fail_msg("never ready");
}

static void watch(struct dw_stream *stream, unsigned what)
{
    stream->ops->watch(stream, what);
}

static void open_set(struct set *set, uint64_t silence_ns)
{
    struct dw_llp_addr here = {.family = AF_INET, .ip = {127, 0, 0, 1}}, there = here;
    struct diwarp_diagnosis why = {.text = ""};
    *set = (struct set){.streams = NULL};
    assert_int_equal(dw_tcp_open(silence_ns, &set->streams), 0);
    const struct dw_streams_ops *ops = set->streams->ops;
    assert_int_equal(ops->listen(set->streams, &here, 0, &set->listener, &there.port, &why), 0);
    assert_int_equal(ops->connect(set->streams, &here, &there, &set->caller), 0);
}

static void close_set(const struct set *set)
{
    struct dw_stream *all[] = {set->listener, set->caller, set->called};
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i]) {
            all[i]->ops->close(all[i]);
        }
    }
    set->streams->ops->close(set->streams);
}

static void send_and_receive(const struct set *set)
{
    char text[8] = {0};
    struct iovec out = {.iov_base = (char[]){"hello"}, .iov_len = 5}, in = {text, sizeof(text)};
    assert_int_equal(set->caller->ops->send(set->caller, &out, 1), 5);
    wait_for(set, set->called, DW_STREAM_IN);
    assert_int_equal(set->called->ops->recv(set->called, &in, 1), 5);
    assert_string_equal(text, "hello");
}

static void connect_and_accept(struct set *set)
{
    struct dw_stream_event none;
    watch(set->listener, DW_STREAM_IN);
    wait_for(set, set->listener, DW_STREAM_IN);
    assert_int_equal(set->listener->ops->accept(set->listener, &set->called), 0);
    watch(set->caller, DW_STREAM_OUT);
    wait_for(set, set->caller, DW_STREAM_OUT);
    watch(set->caller, 0);
    watch(set->called, DW_STREAM_IN);
    assert_int_equal(set->streams->ops->wait(set->streams, &none, 1), 0);
}

/* Where epoll has no room a connection is not made, or waits for its turn. */
static void connect_and_accept__without_room_in_epoll(void **state)
{
    (void)state;
    struct dw_llp_addr here = {.family = AF_INET, .ip = {127, 0, 0, 1}};
    struct dw_stream *none;
    struct set set;
    open_set(&set, 0);
    watch(set.listener, DW_STREAM_IN);
    wait_for(&set, set.listener, DW_STREAM_IN);
    epoll_full = true;
    assert_int_equal(set.listener->ops->accept(set.listener, &none), -EMFILE);
    assert_int_equal(set.streams->ops->connect(set.streams, &here, &set.caller->peer, &none),
                     -ENOSPC);
    epoll_full = false;
    close_set(&set);
}

static void watch__what_is_asked_for(void **state)
{
    (void)state;
    struct dw_stream_event none;
    struct set set;
    open_set(&set, 0);
    connect_and_accept(&set);
    send_and_receive(&set);
    set.called->ops->close(set.called);
    set.called = NULL;
    for (unsigned i = 0; i < 100; i++) /* nothing, not even the end of the stream */
        assert_int_equal(set.streams->ops->wait(set.streams, &none, 1), 0);
    watch(set.caller, DW_STREAM_IN);
    wait_for(&set, set.caller, DW_STREAM_IN);
    close_set(&set);
}

/* What is closed is not looked at again. */
static void close__without_the_epoll_set(void **state)
{
    (void)state;
    struct set set;
    struct dw_stream_event event;
    open_set(&set, 0);
    connect_and_accept(&set);
    epoll_gone = true;
    set.called->ops->close(set.called);
    epoll_gone = false;
    set.called = NULL;
    (void)set.streams->ops->wait(set.streams, &event, 1);
    close_set(&set);
}

/* A process that was forked before may hold the descriptors for as long as it lives. */
static void close__ends_the_connection_of_a_forked_process_too(void **state)
{
    (void)state;
    struct set set;
    char byte;
    struct iovec in = {&byte, 1};
    open_set(&set, 0);
    connect_and_accept(&set);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        pause();
        _exit(0);
    }
    set.caller->ops->close(set.caller);
    set.caller = NULL;
    struct dw_stream_event event = {.stream = NULL};
    struct pollfd ready = {.fd = set.streams->fd, .events = POLLIN};
    (void)poll(&ready, 1, 10000);
    (void)set.streams->ops->wait(set.streams, &event, 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_ptr_equal(event.stream, set.called);
    assert_int_equal(set.called->ops->recv(set.called, &in, 1), -ENODATA);
    close_set(&set);
}

static int option(int fd, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, name, &value, &len), 0);
    return value;
}

/* Whatever net.ipv4.tcp_keepalive_probes is. */
static void keepalive__ends_after_the_silence(void **state)
{
    (void)state;
    static const int seconds[] = {2, 5, 10, 60, 600};
    for (unsigned i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
        struct set set;
        open_set(&set, (uint64_t)seconds[i] * 1000000000u);
        watch(set.caller, DW_STREAM_OUT);
        int idle = option(last_watched, TCP_KEEPIDLE);
        int all = idle + option(last_watched, TCP_KEEPINTVL) * option(last_watched, TCP_KEEPCNT);
        assert_int_equal(idle, seconds[i] / 2);
        assert_in_range(all, seconds[i] * 9 / 10 - 1, seconds[i]);
        close_set(&set);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect_and_accept__without_room_in_epoll),
        cmocka_unit_test(watch__what_is_asked_for),
        cmocka_unit_test(close__without_the_epoll_set),
        cmocka_unit_test(close__ends_the_connection_of_a_forked_process_too),
        cmocka_unit_test(keepalive__ends_after_the_silence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
