/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams over TCP sockets, watched by one epoll set. Knows nothing of MPA. */
#define _GNU_SOURCE /* accept4 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/llp/socket.h"
#include "common/llp/stream.h"

#define STREAMS_PER_WAIT 64

struct tcp_set {
    struct dw_streams streams;
    uint64_t silence_ns;
};

struct tcp_stream {
    struct dw_stream stream;
    struct tcp_set *set;
    int fd;
    unsigned watched; /* DW_STREAM_* */
};

static struct tcp_stream *of(struct dw_stream *stream)
{
    return (struct tcp_stream *)(void *)stream;
}

/* Of a call that moves bytes; 0: none now. */
static ssize_t result_of(ssize_t n)
{
    bool not_now = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS ||
                   errno == ENOMEM;
    return n >= 0 ? n : not_now ? 0 : -errno;
}

static ssize_t tcp_send(struct dw_stream *stream, const struct iovec *iov, unsigned count)
{
    struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = count};
    int fd = of(stream)->fd, flags = MSG_NOSIGNAL | MSG_DONTWAIT;
    return result_of(count == 1 ? send(fd, iov->iov_base, iov->iov_len, flags)
                                : sendmsg(fd, &msg, flags));
}

static ssize_t tcp_recv(struct dw_stream *stream, const struct iovec *iov, unsigned count)
{
    struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = count};
    int fd = of(stream)->fd;
    ssize_t n = count == 1 ? recv(fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT)
                           : recvmsg(fd, &msg, MSG_DONTWAIT);
    return n == 0 ? -ENODATA : result_of(n);
}

/* With what == 0 epoll tells errors all the same, but once, and tcp_wait() hides them. */
static int set_watch(struct tcp_stream *tcp, int op, unsigned what)
{
    struct epoll_event event = {.events = what ? what : EPOLLONESHOT, .data.ptr = tcp};
    tcp->watched = what;
    return epoll_ctl(tcp->set->streams.fd, op, tcp->fd, &event);
}

static void tcp_watch(struct dw_stream *stream, unsigned what)
{
    struct tcp_stream *tcp = of(stream);
    if (what != tcp->watched)
        (void)set_watch(tcp, EPOLL_CTL_MOD, what);
}

static uint32_t tcp_emss(struct dw_stream *stream)
{
    int value = 0;
    socklen_t len = sizeof value;
    (void)getsockopt(of(stream)->fd, IPPROTO_TCP, TCP_MAXSEG, &value, &len);
    return value > 0 ? (uint32_t)value : 536; /* the least IPv4 host's */
}

static void tcp_shutdown(struct dw_stream *stream)
{
    shutdown(of(stream)->fd, SHUT_WR);
}

static void tcp_close(struct dw_stream *stream)
{
    struct tcp_stream *tcp = of(stream);
    (void)epoll_ctl(tcp->set->streams.fd, EPOLL_CTL_DEL, tcp->fd, NULL);
    /* A process that forked and goes on may hold the descriptor, too. */
    shutdown(tcp->fd, SHUT_RDWR);
    close(tcp->fd);
    free(tcp);
}

#define SOCKET_TYPE (SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC)

/* A peer that vanished is noticed also while nothing is sent: half of the time it may be silent,
 * then it is asked up to eight times (the system's own number may be any), a second apart at least.
 * TCP_USER_TIMEOUT would end it sooner while something is sent, but also where the peer is there
 * and does not read: that one is waited for. Buffers are left to autotuning. */
static void set_options(int fd, uint64_t silence_ns)
{
    const uint64_t half_s = silence_ns / 2000000000u;
    const int idle_s = half_s < 1 ? 1 : half_s > INT16_MAX ? INT16_MAX : (int)half_s;
    const int probe_s = idle_s < 8 ? 1 : idle_s / 8;
    dw_set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (!silence_ns)
        return;
    dw_set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
    dw_set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, probe_s);
    dw_set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, idle_s / probe_s);
    dw_set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

static int tcp_accept(struct dw_stream *stream, struct dw_stream **accepted);

static void tcp_add_memory(const struct dw_stream *stream, struct diwarp_memory *memory)
{
    const struct tcp_stream *tcp = (const struct tcp_stream *)(const void *)stream;
    memory->peer_bytes += sizeof *tcp;
    dw_llp_add_socket(tcp->fd, memory);
    memory->socket_slab_bytes += DW_EPOLL_ITEM_BYTES;
}

static const struct dw_stream_ops tcp_stream_ops = {
    .send = tcp_send,
    .recv = tcp_recv,
    .watch = tcp_watch,
    .emss = tcp_emss,
    .shutdown = tcp_shutdown,
    .close = tcp_close,
    .accept = tcp_accept,
    .add_memory = tcp_add_memory,
};

/* Takes the socket, also in error. A user's descriptors in all epoll sets are limited
 * (fs.epoll.max_user_watches): a stream has its place there from the beginning. */
static int make_stream(struct tcp_set *set, int fd, const struct dw_llp_addr *peer,
                       struct dw_stream **stream)
{
    struct tcp_stream *tcp = malloc(sizeof *tcp);
    int rc = -ENOMEM;
    set_options(fd, set->silence_ns);
    if (tcp) {
        *tcp = (struct tcp_stream){
            .stream = {.ops = &tcp_stream_ops, .peer = *peer}, .set = set, .fd = fd};
        rc = set_watch(tcp, EPOLL_CTL_ADD, 0) < 0 ? -errno : 0;
    }
    if (rc) {
        free(tcp);
        close(fd);
        return rc;
    }
    *stream = &tcp->stream;
    return 0;
}

/* An error of the connection (it was reset before it was taken) is not one of the listener. */
static int tcp_accept(struct dw_stream *stream, struct dw_stream **accepted)
{
    union dw_sockaddr name;
    socklen_t len = sizeof name;
    int fd = accept4(of(stream)->fd, &name.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        return full ? -EMFILE : -EAGAIN;
    }
    struct dw_llp_addr peer = dw_sockaddr_get(&name);
    return make_stream(of(stream)->set, fd, &peer, accepted) ? -EMFILE : 0;
}

static int tcp_connect(struct dw_streams *streams, const struct dw_llp_addr *from,
                       const struct dw_llp_addr *to, struct dw_stream **stream)
{
    union dw_sockaddr here, there;
    int fd = socket(to->family, SOCKET_TYPE, 0);
    if (fd < 0)
        return -errno;
    /* A port of its own for each source address would run out. */
    dw_set_int(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    socklen_t here_len = dw_sockaddr_set(to->family, from, &here);
    socklen_t there_len = dw_sockaddr_set(to->family, to, &there);
    if (bind(fd, &here.any, here_len) < 0 ||
        (connect(fd, &there.any, there_len) < 0 && errno != EINPROGRESS)) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    return make_stream((struct tcp_set *)(void *)streams, fd, to, stream);
}

/* A socket of its own for each port: one that is bound cannot be bound again, and two may be bound
 * to one with SO_REUSEADDR, but not listen. */
static int listen_at(void *arg, const union dw_sockaddr *name, socklen_t len)
{
    int fd = socket(name->any.sa_family, SOCKET_TYPE, 0), rc = 0;
    if (fd < 0)
        return -errno;
    if (name->any.sa_family == AF_INET6) /* IPv4, too */
        dw_set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (dw_sockaddr_get(name).port) /* connections that ended lately would keep it */
        dw_set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(fd, &name->any, len) < 0 || listen(fd, SOMAXCONN) < 0) {
        rc = -errno;
        close(fd);
    }
    *(int *)arg = rc ? -1 : fd;
    return rc;
}

static int tcp_listen(struct dw_streams *streams, const struct dw_llp_addr *at, uint16_t port_max,
                      struct dw_stream **listener, uint16_t *port, struct diwarp_diagnosis *why)
{
    int fd = -1;
    int rc = dw_take_port(at, at->port, port_max, listen_at, &fd);
    if (!rc)
        rc = dw_port_of(fd);
    *port = (uint16_t)rc;
    if (rc >= 0)
        rc = make_stream((struct tcp_set *)(void *)streams, fd, at, listener);
    else if (fd >= 0)
        close(fd);
    if (rc)
        dw_explain(why, "cannot listen on a TCP port of the range %u-%u: %s", (unsigned)at->port,
                   (unsigned)(port_max ? port_max : at->port), strerror(-rc));
    return rc;
}

static unsigned tcp_wait(struct dw_streams *streams, struct dw_stream_event *events, unsigned n)
{
    struct epoll_event found[STREAMS_PER_WAIT];
    int count = epoll_wait(streams->fd, found, n < STREAMS_PER_WAIT ? (int)n : STREAMS_PER_WAIT, 0);
    unsigned ready = 0;
    for (int i = 0; i < count; i++) {
        struct tcp_stream *tcp = found[i].data.ptr;
        bool broken = found[i].events & (EPOLLERR | EPOLLHUP);
        unsigned what = broken ? DW_STREAM_IN | DW_STREAM_OUT : found[i].events;
        if (tcp->watched)
            events[ready++] = (struct dw_stream_event){&tcp->stream, what};
    }
    return ready;
}

static void tcp_close_set(struct dw_streams *streams)
{
    close(streams->fd);
    free(streams);
}

static const struct dw_streams_ops tcp_streams_ops = {
    .listen = tcp_listen,
    .connect = tcp_connect,
    .wait = tcp_wait,
    .close = tcp_close_set,
};

int dw_tcp_open(uint64_t silence_ns, struct dw_streams **streams)
{
    struct tcp_set *set = malloc(sizeof *set);
    if (!set)
        return -ENOMEM;
    *set = (struct tcp_set){{&tcp_streams_ops, epoll_create1(EPOLL_CLOEXEC)}, silence_ns};
    if (set->streams.fd < 0) {
        int rc = -errno;
        free(set);
        return rc;
    }
    *streams = &set->streams;
    return 0;
}
