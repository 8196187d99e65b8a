/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that end without destroying what they made, over two processes with a queue pair each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/verbs/rc_pair.h"

/* Of those that confirm nothing as they end, one in three is found out by its sender. */
#define PROCESSES 20
#define LIFE_S    60

/* Queue pair 0 of `pair` and the other process's. */
static void connect_by(int fd, const struct pair *pair)
{
    uint32_t other = 0;
    assert_int_equal(write(fd, &pair->qp[0]->qp_num, sizeof other), sizeof other);
    assert_int_equal(read(fd, &other, sizeof other), sizeof other);
    pair_init(pair->qp[0], ALL_ACCESS);
    pair_connect_to(pair, pair->qp[0], other);
}

/* Both have done as much. */
static void meet(int fd)
{
    char byte = 0;
    assert_int_equal(write(fd, &byte, 1), 1);
    assert_int_equal(read(fd, &byte, 1), 1);
}

_Noreturn static void receive_and_exit(int fd)
{
    struct ibv_wc wc;
    struct pair *pair = pair_open(false);
    connect_by(fd, pair);
    pair_receive(pair, 0, 1);
    meet(fd);
    while (!ibv_poll_cq(pair->recv_cq[0], 1, &wc))
        ;
    exit((int)wc.status);
}

static pid_t start(void (*run)(int fd), int *fd)
{
    int fds[2];
    (void)fflush(stdout);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        (void)alarm(LIFE_S);
        run(fds[1]);
    }
    assert_int_equal(close(fds[1]), 0);
    *fd = fds[0];
    return child;
}

static void assert_succeeds(pid_t child, int fd)
{
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(close(fd), 0);
}

/* Over InfiniBand the card has acknowledged what a completion tells of. */
static void exit__right_after_a_receive(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PROCESSES; i++) {
        int fd;
        const pid_t child = start(receive_and_exit, &fd);
        struct pair *pair = pair_open(false);
        connect_by(fd, pair);
        meet(fd);
        pair_post(pair, 0, IBV_WR_SEND, 1, 64);
        assert_done(pair->send_cq[0], 1, IBV_WC_SUCCESS);
        assert_succeeds(child, fd);
        pair_close(pair);
    }
}

_Noreturn static void exit_at_once(int fd)
{
    (void)fd;
    exit(0);
}

/* What a process inherits is its parent's. */
static void exit__of_a_child(void **state)
{
    (void)state;
    int fd;
    struct pair *pair = pair_open(false);
    pair_connect(pair, ALL_ACCESS);
    for (unsigned i = 0; i < 2; i++) {
        pair_receive(pair, 1, 1);
        pair_post(pair, 0, IBV_WR_SEND, 2, 64);
        assert_done(pair->recv_cq[1], 1, IBV_WC_SUCCESS);
        assert_done(pair->send_cq[0], 2, IBV_WC_SUCCESS);
        const pid_t child = start(exit_at_once, &fd);
        assert_succeeds(child, fd);
    }
    pair_close(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit__right_after_a_receive),
        cmocka_unit_test(exit__of_a_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
