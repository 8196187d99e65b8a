/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets of the raw benchmark; see raw_link.h. Nothing here knows what is measured. */
#include "benchmarks/raw_link.h"
#include "benchmarks/samples.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define SILENCE_SECONDS   5.0
#define CONTROL_SECONDS   150 /* a client may wait for its turn; see turns.c */
#define REDIAL_MICROS     20000
#define SPINS_PER_CLOCK   16384
#define MAX_ADDRESS_CHARS 64

void raw_die(const char *what)
{
    if (errno)
        fprintf(stderr, "raw_sockets: %s: %s\n", what, strerror(errno));
    else
        fprintf(stderr, "raw_sockets: %s\n", what);
    fflush(stdout);
    _exit(1);
}

/* ---- addresses ----------------------------------------------------------------------------- */

bool raw_parse_address(const char *text, bool with_port, struct raw_address *out)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                             .ai_socktype = SOCK_DGRAM};
    struct addrinfo *found;
    char host[MAX_ADDRESS_CHARS];
    const char *port = with_port ? strrchr(text, ':') : NULL;
    size_t length = port ? (size_t)(port - text) : strlen(text);

    if ((with_port && !port) || length >= sizeof host)
        return false;
    memcpy(host, text, length);
    host[length] = 0;
    if (length > 2 && host[0] == '[' && host[length - 1] == ']') {
        memmove(host, host + 1, length - 2);
        host[length - 2] = 0;
    }
    if (getaddrinfo(host, port ? port + 1 : "0", &hints, &found))
        return false;
    *out = (struct raw_address){.length = found->ai_addrlen};
    memcpy(&out->sa, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return true;
}

/* The port lies at the same place for both families. */
_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
               "ports of IPv4 and IPv6");

void raw_set_port(struct raw_address *address, uint16_t port)
{
    ((struct sockaddr_in *)&address->sa)->sin_port = htons(port);
}

uint16_t raw_port(const struct raw_address *address)
{
    return ntohs(((const struct sockaddr_in *)&address->sa)->sin_port);
}

struct raw_address raw_local(int fd)
{
    struct raw_address a = {.length = sizeof a.sa};
    if (getsockname(fd, (struct sockaddr *)&a.sa, &a.length))
        raw_die("getsockname");
    return a;
}

struct raw_address raw_remote(int fd)
{
    struct raw_address a = {.length = sizeof a.sa};
    if (getpeername(fd, (struct sockaddr *)&a.sa, &a.length))
        raw_die("getpeername");
    return a;
}

/* ---- sockets ------------------------------------------------------------------------------- */

static int open_socket(const struct raw_address *family_of, int type, int bytes)
{
    int one = 1, fd = socket(family_of->sa.ss_family, type | SOCK_CLOEXEC, 0);

    if (fd < 0)
        raw_die("socket");
    if (bytes) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    }
    if (type == SOCK_STREAM)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

int raw_listen(const struct raw_address *at, int socket_bytes)
{
    int one = 1, fd = open_socket(at, SOCK_STREAM, socket_bytes);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (const struct sockaddr *)&at->sa, at->length) || listen(fd, 1))
        raw_die("listen");
    return fd;
}

int raw_accept(int listener, double seconds)
{
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    int one = 1, fd;

    errno = ETIMEDOUT;
    if (poll(&wait, 1, (int)(seconds * 1000)) != 1)
        raw_die("no client");
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        raw_die("accept");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* Tries again until the time is over, so that the client may start before the server. */
int raw_dial(const struct raw_address *to, int socket_bytes, double seconds)
{
    double deadline = samples_now() + seconds;
    struct timeval patience = {.tv_sec = 2};

    for (;;) {
        int fd = open_socket(to, SOCK_STREAM, socket_bytes);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if (!connect(fd, (const struct sockaddr *)&to->sa, to->length))
            return fd;
        if (samples_now() > deadline)
            raw_die("connect");
        close(fd);
        usleep(REDIAL_MICROS);
    }
}

int raw_udp(const struct raw_address *at, int socket_bytes)
{
    struct raw_address any_port = *at;
    int fd = open_socket(at, SOCK_DGRAM, socket_bytes);

    raw_set_port(&any_port, 0);
    if (bind(fd, (const struct sockaddr *)&any_port.sa, any_port.length))
        raw_die("bind");
    return fd;
}

void raw_connect(int fd, const struct raw_address *to)
{
    if (connect(fd, (const struct sockaddr *)&to->sa, to->length))
        raw_die("connect");
}

size_t raw_receive_limit(int fd)
{
    int bytes = 0;
    socklen_t length = sizeof bytes;
    if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &length) || bytes <= 0)
        raw_die("SO_RCVBUF");
    return (size_t)bytes;
}

bool raw_set_gso(int fd, int segment)
{
    return !setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment);
}

bool raw_set_gro(int fd)
{
    int one = 1;
    return !setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof one);
}

/* ---- the control connection ---------------------------------------------------------------- */

void raw_tell(int fd, const void *message, size_t bytes)
{
    if (send(fd, message, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
        raw_die("control connection");
}

void raw_hear(int fd, void *message, size_t bytes)
{
    struct timeval patience = {.tv_sec = CONTROL_SECONDS};
    ssize_t n;

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    n = recv(fd, message, bytes, MSG_WAITALL);
    if (n == (ssize_t)bytes)
        return;
    if (n >= 0)
        errno = 0;
    raw_die(n < 0 ? "control connection" : "the other process has ended");
}

/* ---- spinning ------------------------------------------------------------------------------ */

struct patience {
    unsigned spins;
    double deadline;
};

static void spin(struct patience *p, const char *what)
{
    if (++p->spins % SPINS_PER_CLOCK)
        return;
    double now = samples_now();
    if (p->spins == SPINS_PER_CLOCK)
        p->deadline = now + SILENCE_SECONDS;
    errno = 0;
    if (now > p->deadline)
        raw_die(what);
}

size_t raw_spin_recv(int fd, void *data, size_t bytes)
{
    struct patience p = {0};
    for (;;) {
        ssize_t n = recv(fd, data, bytes, MSG_DONTWAIT);
        if (n > 0)
            return (size_t)n;
        if (n == 0) {
            errno = 0;
            raw_die("the other process has ended");
        }
        if (errno != EAGAIN && errno != EINTR)
            raw_die("recv");
        spin(&p, "nothing received for 5 s: a lost datagram is not repeated here");
    }
}

void raw_spin_send(int fd, const void *data, size_t bytes)
{
    struct patience p = {0};
    const char *from = data;
    while (bytes > 0) {
        ssize_t n = send(fd, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n >= 0) {
            from += n;
            bytes -= (size_t)n;
            continue;
        }
        if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR)
            raw_die("send");
        spin(&p, "nothing could be sent for 5 s");
    }
}
