/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Holds known amounts of memory, of sockets and of what is queued in them, until MPI_Finalize.
 * usage: hold MIB UDP TCP UNIX QUEUED: touched memory; sockets (TCP: connected ones, even number;
 * UNIX: even number); bytes queued unread in one of the UDP sockets. All are also watched by epoll.
 */
#include <arpa/inet.h>
#include <mpi.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static int epoll_fd;

static void need(int truth, const char *what)
{
    if (!truth) {
        perror(what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void watch(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    need(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
}

/* A socket on a free port of the loopback interface. */
static int bound(int type, struct sockaddr_in *address)
{
    socklen_t length = sizeof *address;
    const int fd = socket(AF_INET, type, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET};
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    need(fd >= 0, "socket");
    need(bind(fd, (struct sockaddr *)address, sizeof *address) == 0, "bind");
    need(getsockname(fd, (struct sockaddr *)address, &length) == 0, "getsockname");
    return fd;
}

static void hold_udp(int count, size_t queued)
{
    struct sockaddr_in address = {.sin_family = AF_INET}, other;
    char *data = calloc(1, queued + 1);
    int fd = -1;
    need(data != NULL, "calloc");
    for (int i = 0; i < count; i++) {
        fd = bound(SOCK_DGRAM, i ? &other : &address);
        watch(fd);
    }
    if (queued)
        need(sendto(fd, data, queued, 0, (struct sockaddr *)&address, sizeof address) ==
                 (ssize_t)queued,
             "sendto");
    free(data);
}

static void hold_tcp(int count)
{
    struct sockaddr_in address;
    const int listener = bound(SOCK_STREAM, &address);
    need(listen(listener, count) == 0, "listen");
    for (int i = 0; i < count / 2; i++) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        need(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
        const int accepted = accept(listener, NULL, NULL);
        need(accepted >= 0, "accept");
        watch(fd);
        watch(accepted);
    }
    close(listener);
}

static void hold_unix(int count)
{
    int fds[2];
    for (int i = 0; i < count / 2; i++) {
        need(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "socketpair");
        watch(fds[0]);
        watch(fds[1]);
    }
}

int main(int argc, char **argv)
{
    char *memory;
    size_t bytes;

    MPI_Init(&argc, &argv);
    if (argc != 6)
        MPI_Abort(MPI_COMM_WORLD, 2);
    bytes = strtoul(argv[1], NULL, 10) << 20;
    memory = malloc(bytes);
    need(memory != NULL, "malloc");
    memset(memory, 1, bytes);
    epoll_fd = epoll_create1(0);
    need(epoll_fd >= 0, "epoll_create1");
    hold_udp(atoi(argv[2]), strtoul(argv[5], NULL, 10));
    hold_tcp(atoi(argv[3]));
    hold_unix(atoi(argv[4]));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    /* The compiler must not think that nobody looks at it. */
    return memory[bytes / 2] == 1 ? 0 : 1;
}
