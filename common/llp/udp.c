/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UDP as a lower layer protocol: one unconnected, non-blocking socket for all peers.
 *
 * Owns the socket, its options and the fallbacks from GSO and GRO. Knows nothing of the bytes it
 * carries; who sent a datagram is in its header, so the source address is never asked for.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* recvmmsg */
#endif
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/errqueue.h>
#include <netinet/udp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/llp/llp.h"

/* The kernel's limit of one sendmsg(). */
#define TRAIN_IOVS_MAX 1024
/* recvmmsg() entries prepared on the stack. */
#define RECV_BATCH 16
/* With IP_RECVERR an ICMP error of any destination fails the next call, whatever its destination;
 * that call did nothing. One retry is enough unless another error comes in between. */
#define PENDING_ERROR_RETRIES 2
/* Entries of the error queue looked at in one call. */
#define ERROR_QUEUE_BATCH 16
/* Destinations whose GSO refusal is remembered, and for how many trains. */
#define REFUSALS          16
#define REFUSAL_TRAINS    256
#define GSO_EIO_TOLERANCE 8

union dw_udp_sockaddr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Trains of segment_bytes or more to this host go datagram by datagram until trains_left is 0. */
struct dw_udp_refusal {
    struct dw_llp_addr to;
    uint32_t segment_bytes;
    uint32_t trains_left;
};

struct dw_udp {
    struct dw_llp llp;
    uint8_t family;
    bool checksum;
    atomic_bool errors_waiting; /* a call failed with another datagram's error: see the queue */
    unsigned eio_in_row;        /* trains refused with EIO since the last one that went */
    unsigned refusal_count;
    struct dw_udp_refusal refusals[REFUSALS];
};

__attribute__((format(printf, 2, 3))) static void explain(struct diwarp_diagnosis *why,
                                                          const char *format, ...)
{
    if (!why) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
}

/* ---- addresses ---------------------------------------------------------------------------- */

/* An IPv6 socket reaches IPv4 as ::ffff:a.b.c.d. Returns 0 when the socket cannot reach `from`. */
static inline socklen_t sockaddr_set(uint8_t family, const struct dw_llp_addr *from,
                                     union dw_udp_sockaddr *to)
{
    if (family == AF_INET) {
        if (from->family != AF_INET) {
            return 0;
        }
        to->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(from->port)};
        memcpy(&to->v4.sin_addr, from->ip, 4);
        return sizeof(to->v4);
    }
    to->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(from->port)};
    if (from->family == AF_INET) {
        memset(to->v6.sin6_addr.s6_addr + 10, 0xff, 2);
        memcpy(to->v6.sin6_addr.s6_addr + 12, from->ip, 4);
    } else {
        memcpy(to->v6.sin6_addr.s6_addr, from->ip, 16);
    }
    return sizeof(to->v6);
}

static void sockaddr_get(const union dw_udp_sockaddr *from, struct dw_llp_addr *to)
{
    memset(to, 0, sizeof(*to));
    if (from->any.sa_family == AF_INET) {
        to->family = AF_INET;
        to->port = ntohs(from->v4.sin_port);
        memcpy(to->ip, &from->v4.sin_addr, 4);
        return;
    }
    to->port = ntohs(from->v6.sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&from->v6.sin6_addr)) {
        to->family = AF_INET;
        memcpy(to->ip, from->v6.sin6_addr.s6_addr + 12, 4);
    } else {
        to->family = AF_INET6;
        memcpy(to->ip, from->v6.sin6_addr.s6_addr, 16);
    }
}

/* ---- send --------------------------------------------------------------------------------- */

/* Whether a call may have failed for an ICMP error of an earlier datagram. EPERM is not one: it is
 * a local firewall's answer to this datagram. */
static bool is_pending_error(struct dw_udp *udp, int error)
{
    switch (error) {
    case EINTR:
        return true;
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENONET:
    case EMSGSIZE:
    case EPROTO:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case EACCES:
        atomic_store_explicit(&udp->errors_waiting, true, memory_order_relaxed);
        return true;
    default:
        return false;
    }
}

/* One send call. sendto() costs the kernel less than sendmsg(). */
static inline int transmit(struct dw_udp *udp, const struct msghdr *msg, uint32_t bytes)
{
    int fd = udp->llp.fd;
    for (unsigned retries = 0;; retries++) {
        ssize_t sent;
        if (msg->msg_iovlen == 1 && !msg->msg_control) {
            sent = sendto(fd, msg->msg_iov->iov_base, bytes, 0, msg->msg_name, msg->msg_namelen);
        } else {
            sent = sendmsg(fd, msg, 0);
        }
        udp->llp.counters->tx_syscalls++;
        if (__builtin_expect(sent >= 0, 1)) {
            return 0;
        }
        int error = errno;
        if (error == EAGAIN || error == ENOBUFS || error == ENOMEM) {
            udp->llp.counters->tx_eagain++;
            return -EAGAIN;
        }
        if (!is_pending_error(udp, error) || retries == PENDING_ERROR_RETRIES) {
            return -error;
        }
    }
}

static inline void count_sent(struct dw_udp *udp, uint32_t datagrams, uint32_t bytes)
{
    udp->llp.counters->tx_datagrams += datagrams;
    udp->llp.counters->tx_bytes += bytes;
}

static inline int send_datagram(struct dw_udp *udp, const struct msghdr *msg, uint32_t bytes)
{
    int rc = transmit(udp, msg, bytes);
    if (rc == 0) {
        count_sent(udp, 1, bytes);
    }
    return rc;
}

/* Linux has no GSO on a socket without checksums; a train's checksum is the device's work then. */
static void apply_checksum(struct dw_udp *udp)
{
    int off = 1;
    if (!udp->checksum && udp->family == AF_INET && !udp->llp.gso) {
        setsockopt(udp->llp.fd, SOL_SOCKET, SO_NO_CHECK, &off, sizeof(off));
    }
}

static bool same_host(const struct dw_llp_addr *a, const struct dw_llp_addr *b)
{
    return a->family == b->family && memcmp(a->ip, b->ip, a->family == AF_INET ? 4 : 16) == 0;
}

static struct dw_udp_refusal *refusal_slot(struct dw_udp *udp, const struct dw_llp_addr *to)
{
    unsigned hash = 0;
    unsigned ip_bytes = to->family == AF_INET ? 4 : 16;
    for (unsigned i = 0; i < ip_bytes; i++) {
        hash = hash * 31 + to->ip[i];
    }
    return &udp->refusals[hash % REFUSALS];
}

/* Whether a train like this was refused lately. Forgets in time: routes and MTUs change. */
static bool gso_refused_before(struct dw_udp *udp, const struct dw_llp_train *train)
{
    struct dw_udp_refusal *refusal = refusal_slot(udp, train->to);
    if (refusal->trains_left == 0 || !same_host(&refusal->to, train->to) ||
        train->segment_bytes < refusal->segment_bytes) {
        return false;
    }
    if (--refusal->trains_left == 0) {
        udp->refusal_count--;
    }
    return true;
}

/* EINVAL and EMSGSIZE: segments larger than the path's MTU. EIO: the way out has no checksum
 * offload; then probably no way out has. */
static void gso_on_refused(struct dw_udp *udp, const struct dw_llp_train *train, int error)
{
    udp->llp.counters->gso_fallbacks++;
    struct dw_udp_refusal *refusal = refusal_slot(udp, train->to);
    if (refusal->trains_left == 0) {
        udp->refusal_count++;
    }
    refusal->to = *train->to;
    refusal->segment_bytes = error == EIO ? 0 : train->segment_bytes;
    refusal->trains_left = REFUSAL_TRAINS;
    if (error == EIO && ++udp->eio_in_row >= GSO_EIO_TOLERANCE) {
        udp->llp.gso = false;
        apply_checksum(udp);
    }
}

static int send_gso(struct dw_udp *udp, struct msghdr *msg, const struct dw_llp_train *train)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(uint16_t))];
    } control = {.space = {0}};
    uint16_t segment_bytes = (uint16_t)train->segment_bytes;

    control.header.cmsg_level = IPPROTO_UDP;
    control.header.cmsg_type = UDP_SEGMENT;
    control.header.cmsg_len = CMSG_LEN(sizeof(segment_bytes));
    memcpy(CMSG_DATA(&control.header), &segment_bytes, sizeof(segment_bytes));
    msg->msg_control = &control;
    msg->msg_controllen = sizeof(control.space);
    int rc = transmit(udp, msg, train->total_bytes);
    if (rc == 0) {
        udp->eio_in_row = 0;
        count_sent(udp, (train->total_bytes + segment_bytes - 1) / segment_bytes,
                   train->total_bytes);
    }
    return rc;
}

/* Describes the next `bytes` of a gather list whose first entry is used up to *used. Returns the
 * entries written and moves on. */
static unsigned cut_piece(const struct iovec **iov, size_t *used, size_t bytes, struct iovec *piece)
{
    unsigned count = 0;
    while (bytes > 0) {
        size_t left = (*iov)->iov_len - *used;
        size_t take = left < bytes ? left : bytes;
        if (take > 0) {
            piece[count].iov_base = (char *)(*iov)->iov_base + *used;
            piece[count].iov_len = take;
            count++;
        }
        bytes -= take;
        *used += take;
        if (take == left) {
            (*iov)++;
            *used = 0;
        }
    }
    return count;
}

/* Datagram by datagram. What the socket refuses after the first one counts as lost. */
__attribute__((noinline)) static int send_apart(struct dw_udp *udp, union dw_udp_sockaddr *to,
                                                socklen_t to_bytes,
                                                const struct dw_llp_train *train)
{
    struct iovec piece[TRAIN_IOVS_MAX];
    struct msghdr msg = {.msg_name = to, .msg_namelen = to_bytes, .msg_iov = piece};
    const struct iovec *iov = train->iov;
    size_t used = 0;

    for (uint32_t sent = 0; sent < train->total_bytes;) {
        uint32_t left = train->total_bytes - sent;
        uint32_t bytes = left < train->segment_bytes ? left : train->segment_bytes;
        msg.msg_iovlen = cut_piece(&iov, &used, bytes, piece);
        int rc = send_datagram(udp, &msg, bytes);
        if (rc < 0) {
            return sent == 0 ? rc : 0;
        }
        sent += bytes;
    }
    return 0;
}

static int udp_send(struct dw_llp *llp, const struct dw_llp_train *train)
{
    struct dw_udp *udp = (struct dw_udp *)llp;
    union dw_udp_sockaddr to;
    socklen_t to_bytes = sockaddr_set(udp->family, train->to, &to);
    struct msghdr msg = {.msg_name = &to,
                         .msg_namelen = to_bytes,
                         .msg_iov = (struct iovec *)train->iov,
                         .msg_iovlen = train->iov_count};

    assert(train->segment_bytes > 0 && train->iov_count <= TRAIN_IOVS_MAX);
    if (to_bytes == 0) {
        return -EAFNOSUPPORT;
    }
    if (train->total_bytes <= train->segment_bytes) {
        return send_datagram(udp, &msg, train->total_bytes);
    }
    assert(train->total_bytes <= DW_LLP_TRAIN_BYTES);
    assert((train->total_bytes - 1) / train->segment_bytes < DW_LLP_TRAIN_DATAGRAMS);
    if (llp->gso && !(udp->refusal_count > 0 && gso_refused_before(udp, train))) {
        int rc = send_gso(udp, &msg, train);
        if (rc != -EIO && rc != -EINVAL && rc != -EMSGSIZE) {
            return rc;
        }
        gso_on_refused(udp, train, -rc);
    }
    return send_apart(udp, &to, to_bytes, train);
}

/* ---- receive ------------------------------------------------------------------------------ */

union dw_udp_gro_control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

/* segment_bytes is never 0, not even for an empty datagram: receivers divide by it. */
static inline void slot_fill(struct dw_llp_slot *slot, size_t bytes, bool truncated,
                             uint32_t segment_bytes)
{
    slot->bytes = (uint32_t)bytes;
    slot->truncated = truncated;
    if (segment_bytes == 0 || segment_bytes > slot->bytes) {
        segment_bytes = slot->bytes > 0 ? slot->bytes : 1;
    }
    slot->segment_bytes = segment_bytes;
}

/* 0: the message says nothing of segments, it is one datagram. */
static inline uint32_t gro_segment_bytes(struct msghdr *msg)
{
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
    int segment_bytes = 0;
    if (cmsg && cmsg->cmsg_level == IPPROTO_UDP && cmsg->cmsg_type == UDP_GRO &&
        cmsg->cmsg_len == CMSG_LEN(sizeof(segment_bytes))) {
        memcpy(&segment_bytes, CMSG_DATA(cmsg), sizeof(segment_bytes));
    }
    return segment_bytes > 0 ? (uint32_t)segment_bytes : 0;
}

/* One slot. Returns 1, or -1 with errno. */
static inline int recv_one(struct dw_udp *udp, struct dw_llp_slot *slot)
{
    struct iovec iov[3] = {{.iov_base = slot->buf, .iov_len = DW_LLP_SLOT_BYTES}};
    union dw_udp_gro_control control;
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 1};
    if (slot->direct_bytes) {
        uint32_t behind = slot->direct_at + slot->direct_bytes;
        iov[0].iov_len = slot->direct_at;
        iov[1] = (struct iovec){.iov_base = slot->direct, .iov_len = slot->direct_bytes};
        iov[2] = (struct iovec){.iov_base = slot->buf + behind,
                                .iov_len = DW_LLP_SLOT_BYTES - behind};
        msg.msg_iovlen = 3;
    }
    slot->split = slot->direct_bytes != 0;
    if (udp->llp.gro) {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control.space);
    }
    ssize_t bytes = recvmsg(udp->llp.fd, &msg, 0);
    if (bytes < 0) {
        return -1;
    }
    slot_fill(slot, (size_t)bytes, msg.msg_flags & MSG_TRUNC,
              udp->llp.gro ? gro_segment_bytes(&msg) : 0);
    return 1;
}

/* As recv_one(), for up to RECV_BATCH slots. */
static int recv_many(struct dw_udp *udp, struct dw_llp_slot *slots, unsigned n)
{
    struct mmsghdr msgs[RECV_BATCH];
    struct iovec iovs[RECV_BATCH];
    union dw_udp_gro_control controls[RECV_BATCH];

    n = n < RECV_BATCH ? n : RECV_BATCH;
    for (unsigned i = 0; i < n; i++) {
        iovs[i] = (struct iovec){.iov_base = slots[i].buf, .iov_len = DW_LLP_SLOT_BYTES};
        msgs[i].msg_hdr = (struct msghdr){.msg_iov = &iovs[i], .msg_iovlen = 1};
        if (udp->llp.gro) {
            msgs[i].msg_hdr.msg_control = &controls[i];
            msgs[i].msg_hdr.msg_controllen = sizeof(controls[i].space);
        }
    }
    int got = recvmmsg(udp->llp.fd, msgs, n, 0, NULL);
    for (int i = 0; i < got; i++) {
        struct msghdr *msg = &msgs[i].msg_hdr;
        slots[i].split = false;
        slot_fill(&slots[i], msgs[i].msg_len, msg->msg_flags & MSG_TRUNC,
                  udp->llp.gro ? gro_segment_bytes(msg) : 0);
    }
    return got;
}

static int udp_recv(struct dw_llp *llp, struct dw_llp_slot *slots, unsigned n)
{
    struct dw_udp *udp = (struct dw_udp *)llp;
    for (unsigned retries = 0; n > 0 && retries <= PENDING_ERROR_RETRIES; retries++) {
        int got = n == 1 ? recv_one(udp, slots) : recv_many(udp, slots, n);
        if (got > 0) {
            llp->counters->rx_syscalls++;
            return got;
        }
        llp->counters->rx_empty_syscalls++;
        if (!is_pending_error(udp, errno)) {
            break;
        }
    }
    return 0;
}

/* Whether an error queue entry says that its datagram cannot reach its destination. */
static bool is_unreachable(struct msghdr *msg)
{
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
        bool is_error = (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_RECVERR) ||
                        (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_RECVERR);
        struct sock_extended_err error;
        if (!is_error || cmsg->cmsg_len < CMSG_LEN(sizeof(error))) {
            continue;
        }
        memcpy(&error, CMSG_DATA(cmsg), sizeof(error));
        bool is_icmp =
            error.ee_origin == SO_EE_ORIGIN_ICMP || error.ee_origin == SO_EE_ORIGIN_ICMP6;
        return is_icmp && (error.ee_errno == ECONNREFUSED || error.ee_errno == EHOSTUNREACH ||
                           error.ee_errno == ENETUNREACH);
    }
    return false;
}

/* No system call unless a send or receive met an error. The flag goes down before the queue is
 * read, so an error that comes meanwhile raises it again. Reading also keeps the queue, which is
 * charged to SO_RCVBUF, short. */
static bool udp_unreachable(struct dw_llp *llp, struct dw_llp_addr *to)
{
    struct dw_udp *udp = (struct dw_udp *)llp;
    if (!atomic_load_explicit(&udp->errors_waiting, memory_order_relaxed)) {
        return false;
    }
    atomic_store_explicit(&udp->errors_waiting, false, memory_order_relaxed);
    for (unsigned i = 0; i < ERROR_QUEUE_BATCH; i++) {
        union dw_udp_sockaddr name = {.v6 = {0}};
        _Alignas(struct cmsghdr) char control[256];
        struct msghdr msg = {.msg_name = &name,
                             .msg_namelen = sizeof(name),
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
        if (recvmsg(llp->fd, &msg, MSG_ERRQUEUE) < 0) {
            return false;
        }
        if (msg.msg_namelen > 0 && is_unreachable(&msg)) {
            sockaddr_get(&name, to);
            atomic_store_explicit(&udp->errors_waiting, true, memory_order_relaxed);
            return true;
        }
    }
    atomic_store_explicit(&udp->errors_waiting, true, memory_order_relaxed);
    return false;
}

static void udp_close(struct dw_llp *llp)
{
    close(llp->fd);
    free(llp);
}

static const struct dw_llp_ops udp_ops = {
    .send = udp_send,
    .recv = udp_recv,
    .unreachable = udp_unreachable,
    .close = udp_close,
};

/* ---- open --------------------------------------------------------------------------------- */

static int set_int(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? -errno : 0;
}

/* Asks for a buffer, beyond the system's limit where that is allowed. Returns what there is. */
static uint32_t buffer_set(int fd, int name, int force_name, uint32_t bytes)
{
    int value = bytes > INT_MAX / 2 ? INT_MAX / 2 : (int)bytes;
    socklen_t len = sizeof(value);
    if (bytes > 0 && set_int(fd, SOL_SOCKET, force_name, value) < 0) {
        set_int(fd, SOL_SOCKET, name, value);
    }
    if (getsockopt(fd, SOL_SOCKET, name, &value, &len) < 0 || value < 0) {
        return 0;
    }
    return (uint32_t)value;
}

/* PMTUDISC_WANT: a datagram above the path's MTU leaves in fragments, all others with DF. An IPv6
 * socket carries IPv4 too, so it has both sets of options. */
static int options_set(int fd, uint8_t family)
{
    int rc = 0;
    if (family == AF_INET6) {
        rc = set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
        rc = rc ? rc : set_int(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_WANT);
        rc = rc ? rc : set_int(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
    }
    rc = rc ? rc : set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_WANT);
    return rc ? rc : set_int(fd, IPPROTO_IP, IP_RECVERR, 1);
}

static void explain_bind(const struct dw_llp_attr *attr, int error, struct diwarp_diagnosis *why)
{
    static const char remedy[] = "MCA parameters btl_diwarp_port_min / btl_diwarp_port_max";
    char ip[INET6_ADDRSTRLEN] = "any address";
    unsigned last = attr->port_max > 0 ? attr->port_max : attr->port_min;
    if (attr->bind_ip) {
        inet_ntop(attr->family, attr->bind_ip, ip, sizeof(ip));
    }
    if (error == EADDRINUSE && attr->port_min > 0) {
        explain(why,
                "every UDP port of the range %u-%u is in use on this host (%s); "
                "choose another or a wider range with the %s (0: any free port)",
                (unsigned)attr->port_min, last, ip, remedy);
    } else if (error == EADDRINUSE) {
        explain(why, "no free UDP port left on this host (%s); see ip_local_port_range", ip);
    } else if (error == EADDRNOTAVAIL) {
        explain(why, "%s is not an address of this host", ip);
    } else if (error == EACCES && attr->port_min > 0) {
        explain(why, "not allowed to use the UDP ports %u-%u (%s); choose others with the %s",
                (unsigned)attr->port_min, last, ip, remedy);
    } else {
        explain(why, "cannot bind a UDP socket to %s: %s", ip, strerror(error));
    }
}

/* Takes the first free port of the range. */
static int bind_range(int fd, const struct dw_llp_attr *attr, uint16_t *bound,
                      struct diwarp_diagnosis *why)
{
    unsigned last = attr->port_max > 0 ? attr->port_max : attr->port_min;
    struct dw_llp_addr any = {.family = attr->family};
    union dw_udp_sockaddr name;
    int error = EADDRINUSE;

    if (attr->bind_ip) {
        memcpy(any.ip, attr->bind_ip, attr->family == AF_INET ? 4 : 16);
    }
    for (unsigned port = attr->port_min; error == EADDRINUSE && port <= last; port++) {
        any.port = (uint16_t)port;
        socklen_t len = sockaddr_set(attr->family, &any, &name);
        error = bind(fd, &name.any, len) < 0 ? errno : 0;
    }
    socklen_t len = sizeof(name);
    if (error == 0 && getsockname(fd, &name.any, &len) < 0) {
        error = errno;
    }
    if (error) {
        explain_bind(attr, error, why);
        return -error;
    }
    *bound = ntohs(attr->family == AF_INET ? name.v4.sin_port : name.v6.sin6_port);
    return 0;
}

static int attr_check(const struct dw_llp_attr *attr, struct diwarp_diagnosis *why)
{
    if (attr->family != AF_INET && attr->family != AF_INET6) {
        explain(why, "address family %u is neither IPv4 nor IPv6", (unsigned)attr->family);
        return -EAFNOSUPPORT;
    }
    if (attr->port_max > 0 && attr->port_max < attr->port_min) {
        explain(why, "the UDP port range %u-%u is empty", (unsigned)attr->port_min,
                (unsigned)attr->port_max);
        return -EINVAL;
    }
    return 0;
}

int dw_udp_open(const struct dw_llp_attr *attr, struct diwarp_counters *counters,
                struct dw_llp **llp, struct diwarp_diagnosis *why)
{
    int rc = attr_check(attr, why);
    if (rc) {
        return rc;
    }
    struct dw_udp *udp = calloc(1, sizeof(*udp));
    if (!udp) {
        explain(why, "out of memory");
        return -ENOMEM;
    }
    int fd = socket(attr->family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        rc = -errno;
        explain(why, "cannot open a UDP socket: %s", strerror(-rc));
        goto free_udp;
    }
    rc = options_set(fd, attr->family);
    if (rc) {
        explain(why, "cannot set the options of a UDP socket: %s", strerror(-rc));
        goto close_fd;
    }
    rc = bind_range(fd, attr, &udp->llp.port, why);
    if (rc) {
        goto close_fd;
    }
    udp->family = attr->family;
    udp->checksum = attr->checksum;
    udp->llp.ops = &udp_ops;
    udp->llp.counters = counters;
    udp->llp.fd = fd;
    udp->llp.rcvbuf_bytes = buffer_set(fd, SO_RCVBUF, SO_RCVBUFFORCE, attr->rcvbuf_bytes);
    udp->llp.sndbuf_bytes = buffer_set(fd, SO_SNDBUF, SO_SNDBUFFORCE, attr->sndbuf_bytes);
    udp->llp.gso = attr->gso != DIWARP_OFF && set_int(fd, IPPROTO_UDP, UDP_SEGMENT, 0) == 0;
    udp->llp.gro = attr->gro != DIWARP_OFF && set_int(fd, IPPROTO_UDP, UDP_GRO, 1) == 0;
    apply_checksum(udp);
    *llp = &udp->llp;
    return 0;

close_fd:
    close(fd);
free_udp:
    free(udp);
    return rc;
}
