/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UDP as a lower layer protocol: one unconnected, non-blocking socket for all peers.
 *
 * Owns the data path, the fallbacks from GSO and GRO, and what comes back as ICMP. Knows nothing of
 * the bytes it carries; who sent a datagram is in its header, so the source address is never asked
 * for.
 *
 * All datagrams leave with DF (IP_PMTUDISC_DO), which spares the kernel to give them an IP id; but
 * one larger than the path's MTU, which is refused then, leaves in fragments.
 *
 * The calls per message bypass libc: its wrappers are cancellation points, which cost a twentieth
 * of a small round trip in a process with threads.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall */
#endif
#include <assert.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/errqueue.h>

#include "common/llp/socket_memory.h"
#include "common/llp/udp.h"

/* A padded probe has 18, other trains up to 3; send_apart() keeps as many on its caller's stack,
 * which may be one of 16 KiB. */
#define TRAIN_IOVS_MAX 32
/* With IP_RECVERR an ICMP error of any destination fails the next call, whatever its destination;
 * that call did nothing. Two more are enough unless further errors come in between. */
#define ATTEMPTS 3
/* A second datagram of the same length right after the first is taken for part of a train. Of an
 * MTU below 1280 they are shorter; but so are many messages, which GRO would delay. */
#define GRO_MIN_BYTES 1200
/* Trains in a row that the way out has no checksum offload for, after which probably no way out
 * has. */
#define EIO_MAX 8
/* Entries of the error queue read in a row that say nothing of interest: datagrams are received,
 * too. */
#define ERRORS_MAX 8

/* ---- send --------------------------------------------------------------------------------- */

/* The error queue is to be read. */
static void on_error(struct dw_udp *udp)
{
    atomic_store_explicit(&udp->errors_waiting, true, memory_order_relaxed);
}

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
        on_error(udp);
        return true;
    default:
        return false;
    }
}

/* An IPv6 socket carries IPv4 too, so it has both sets of options. */
int dw_udp_set_discovery(struct dw_udp *udp, int discovery)
{
    _Static_assert(IP_PMTUDISC_WANT == IPV6_PMTUDISC_WANT && IP_PMTUDISC_DO == IPV6_PMTUDISC_DO &&
                       IP_PMTUDISC_PROBE == IPV6_PMTUDISC_PROBE,
                   "both families number them alike");
    const int fd = udp->llp.fd;
    int rc =
        udp->family == AF_INET6 ? dw_set_int(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, discovery) : 0;
    udp->discovery = discovery;
    return rc ? rc : dw_set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, discovery);
}

/* One send call; sendto() costs the kernel less than sendmsg(). */
static int transmit(struct dw_udp *udp, struct msghdr *msg, const struct dw_llp_addr *to,
                    uint32_t bytes)
{
    union dw_sockaddr name;
    int rc = 0;
    msg->msg_name = &name;
    msg->msg_namelen = dw_sockaddr_set(udp->family, to, &name);
    if (msg->msg_namelen == 0)
        return -EAFNOSUPPORT;
    for (unsigned attempt = 1; attempt <= ATTEMPTS; attempt++) {
        long sent = msg->msg_iovlen == 1 && !msg->msg_control
                        ? syscall(SYS_sendto, udp->llp.fd, msg->msg_iov->iov_base, (size_t)bytes, 0,
                                  msg->msg_name, msg->msg_namelen)
                        : syscall(SYS_sendmsg, udp->llp.fd, msg, 0);
        udp->llp.counters->tx_syscalls++;
        rc = sent >= 0 ? 0 : -errno;
        if (__builtin_expect(rc == 0, 1) || !is_pending_error(udp, -rc))
            break;
        if (rc == -EMSGSIZE && !msg->msg_control && udp->discovery == IP_PMTUDISC_DO) {
            dw_udp_set_discovery(udp, IP_PMTUDISC_WANT);
            attempt--;
        }
    }
    if (rc != -EAGAIN && rc != -ENOBUFS && rc != -ENOMEM)
        return rc;
    udp->llp.counters->tx_eagain++;
    return -EAGAIN;
}

/* In datagrams of `segment` bytes each but the last. */
static inline int send_counted(struct dw_udp *udp, struct msghdr *msg, const struct dw_llp_addr *to,
                               uint32_t bytes, uint32_t segment)
{
    int rc = transmit(udp, msg, to, bytes);
    if (rc == 0) {
        udp->llp.counters->tx_datagrams += bytes > segment ? (bytes + segment - 1) / segment : 1;
        udp->llp.counters->tx_bytes += bytes;
    }
    return rc;
}

static int send_gso(struct dw_udp *udp, struct msghdr *msg, const struct dw_llp_train *train)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(uint16_t))];
    } control = {.space = {0}};
    const uint16_t segment_bytes = (uint16_t)train->segment_bytes;

    control.header.cmsg_level = IPPROTO_UDP;
    control.header.cmsg_type = UDP_SEGMENT;
    control.header.cmsg_len = CMSG_LEN(sizeof segment_bytes);
    memcpy(CMSG_DATA(&control.header), &segment_bytes, sizeof segment_bytes);
    msg->msg_control = &control;
    msg->msg_controllen = sizeof control.space;
    int rc = send_counted(udp, msg, train->to, train->total_bytes, segment_bytes);
    msg->msg_control = NULL;
    msg->msg_controllen = 0;
    if (rc == 0)
        udp->eio_in_row = 0;
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
        if (take > 0)
            piece[count++] = (struct iovec){(char *)(*iov)->iov_base + *used, take};
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
__attribute__((noinline)) static int send_apart(struct dw_udp *udp,
                                                const struct dw_llp_train *train)
{
    struct iovec piece[TRAIN_IOVS_MAX];
    struct msghdr msg = {.msg_iov = piece};
    const struct iovec *iov = train->iov;
    size_t used = 0;

    for (uint32_t sent = 0; sent < train->total_bytes;) {
        uint32_t left = train->total_bytes - sent;
        uint32_t bytes = left < train->segment_bytes ? left : train->segment_bytes;
        msg.msg_iovlen = cut_piece(&iov, &used, bytes, piece);
        int rc = send_counted(udp, &msg, train->to, bytes, bytes);
        if (rc < 0)
            return sent == 0 ? rc : 0;
        sent += bytes;
    }
    return 0;
}

static int send_train(struct dw_udp *udp, const struct dw_llp_train *train)
{
    struct msghdr msg = {.msg_iov = (struct iovec *)train->iov, .msg_iovlen = train->iov_count};

    assert(train->segment_bytes > 0 && train->iov_count <= TRAIN_IOVS_MAX);
    if (train->total_bytes <= train->segment_bytes)
        return send_counted(udp, &msg, train->to, train->total_bytes, train->segment_bytes);
    assert(train->total_bytes <= DW_LLP_TRAIN_BYTES);
    assert((train->total_bytes - 1) / train->segment_bytes < DW_LLP_TRAIN_DATAGRAMS);
    if (udp->llp.gso) {
        int rc = send_gso(udp, &msg, train);
        /* EINVAL, EMSGSIZE: the segments are larger than the path's MTU. EIO: the way out has no
         * checksum offload. */
        if (rc != -EIO && rc != -EINVAL && rc != -EMSGSIZE)
            return rc;
        udp->llp.counters->gso_fallbacks++;
        if (rc == -EIO && ++udp->eio_in_row >= EIO_MAX)
            udp->llp.gso = false;
    }
    return send_apart(udp, train);
}

static int udp_send(struct dw_llp *llp, const struct dw_llp_train *train)
{
    struct dw_udp *udp = (struct dw_udp *)llp;
    if (__builtin_expect(train->whole, 0))
        dw_udp_set_discovery(udp, IP_PMTUDISC_PROBE);
    int rc = send_train(udp, train);
    /* Else all of a train that the path is too narrow for goes in fragments. */
    if (__builtin_expect(udp->discovery != IP_PMTUDISC_DO, 0))
        dw_udp_set_discovery(udp, IP_PMTUDISC_DO);
    return rc;
}

/* ---- receive ------------------------------------------------------------------------------ */

/* segment_bytes 0: it is one datagram. What the slot tells is never 0, not even of an empty
 * datagram: receivers divide by it. */
static inline void slot_fill(struct dw_llp_slot *slot, size_t bytes, bool truncated,
                             uint32_t segment_bytes)
{
    slot->bytes = (uint32_t)bytes;
    slot->truncated = truncated;
    if (segment_bytes == 0 || segment_bytes > slot->bytes)
        segment_bytes = slot->bytes > 0 ? slot->bytes : 1;
    slot->segment_bytes = segment_bytes;
}

/* A socket that may receive trains takes longer for every datagram, so it may only once they seem
 * to come: until then the kernel cuts them up, and they arrive as datagrams alike, back to back. */
static void gro_on_received(struct dw_udp *udp, uint32_t bytes)
{
    bool fits = bytes >= GRO_MIN_BYTES && bytes <= DW_LLP_SLOT_BYTES / 2;
    bool alike = fits && bytes == udp->before_bytes;
    udp->before_bytes = bytes;
    if (alike) {
        udp->gro_allowed = false;
        udp->llp.gro = dw_set_int(udp->llp.fd, IPPROTO_UDP, UDP_GRO, 1) == 0;
    }
}

/* While GRO is off: recvfrom() costs the kernel less than recvmsg(), also when nothing is
 * there. False: errno. */
static inline bool recv_datagram(struct dw_udp *udp, struct dw_llp_slot *slot)
{
    long bytes = syscall(SYS_recvfrom, udp->llp.fd, slot->buf, (size_t)DW_LLP_SLOT_BYTES, MSG_TRUNC,
                         NULL, NULL);
    if (bytes < 0) {
        udp->before_bytes = 0;
        return false;
    }
    bool truncated = bytes > DW_LLP_SLOT_BYTES;
    slot_fill(slot, truncated ? DW_LLP_SLOT_BYTES : (size_t)bytes, truncated, 0);
    if (udp->gro_allowed)
        gro_on_received(udp, slot->bytes);
    return true;
}

/* While GRO is on: may be a train. False: errno. */
static inline bool recv_train(struct dw_udp *udp, struct dw_llp_slot *slot)
{
    struct iovec iov = {.iov_base = slot->buf, .iov_len = DW_LLP_SLOT_BYTES};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof control.space};
    long bytes = syscall(SYS_recvmsg, udp->llp.fd, &msg, 0);
    if (bytes < 0)
        return false;
    const struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
    int segment_bytes = 0;
    if (cmsg && cmsg->cmsg_level == IPPROTO_UDP && cmsg->cmsg_type == UDP_GRO &&
        cmsg->cmsg_len == CMSG_LEN(sizeof segment_bytes))
        memcpy(&segment_bytes, CMSG_DATA(cmsg), sizeof segment_bytes);
    slot_fill(slot, (size_t)bytes, msg.msg_flags & MSG_TRUNC,
              segment_bytes > 0 ? (uint32_t)segment_bytes : 0);
    return true;
}

static bool udp_recv(struct dw_llp *llp, struct dw_llp_slot *slot)
{
    struct dw_udp *udp = (struct dw_udp *)llp;
    for (unsigned attempt = 1;; attempt++) {
        if (llp->gro ? recv_train(udp, slot) : recv_datagram(udp, slot)) {
            llp->counters->rx_syscalls++;
            return true;
        }
        llp->counters->rx_empty_syscalls++;
        if (!is_pending_error(udp, errno) || attempt == ATTEMPTS)
            return false;
    }
}

/* ---- ICMP --------------------------------------------------------------------------------- */

/* Without sending: a connected socket has a route, whose MTU is IP_MTU. */
static uint32_t udp_path_mtu_bytes(struct dw_llp *llp, const struct dw_llp_addr *to)
{
    const struct dw_udp *udp = (const struct dw_udp *)llp;
    const bool v4 = to->family == AF_INET;
    union dw_sockaddr name;
    int mtu_bytes = 0;
    socklen_t len = dw_sockaddr_set(to->family, to, &name), mtu_len = sizeof mtu_bytes;
    int fd = socket(to->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    if ((to->family != udp->family || bind(fd, &udp->bound_ip.any, len) == 0) &&
        connect(fd, &name.any, len) == 0 &&
        getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu_bytes,
                   &mtu_len) < 0)
        mtu_bytes = 0;
    close(fd);
    return mtu_bytes > 0 ? (uint32_t)mtu_bytes : 0;
}

/* What an entry of the error queue says: that nobody has the port (ECONNREFUSED), that the path is
 * too narrow (EMSGSIZE, also by the own host), or nothing of interest (0): a host or network that
 * cannot be reached may be so for a while only, as when a route changes or a cable is out. */
static int parse(struct msghdr *msg)
{
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
        bool is_error = (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_RECVERR) ||
                        (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_RECVERR);
        struct sock_extended_err error;
        if (!is_error || cmsg->cmsg_len < CMSG_LEN(sizeof error))
            continue;
        memcpy(&error, CMSG_DATA(cmsg), sizeof error);
        bool by_icmp =
            error.ee_origin == SO_EE_ORIGIN_ICMP || error.ee_origin == SO_EE_ORIGIN_ICMP6;
        bool known = (error.ee_errno == ECONNREFUSED && by_icmp) || error.ee_errno == EMSGSIZE;
        return known ? (int)error.ee_errno : 0;
    }
    return 0;
}

/* The flag goes down before the queue is read, so an error that comes meanwhile raises it again.
 * Reading also keeps the queue, which is charged to SO_RCVBUF, short. */
static bool udp_icmp(struct dw_llp *llp, struct dw_llp_icmp *icmp)
{
    struct dw_udp *udp = (struct dw_udp *)llp;
    if (!atomic_load_explicit(&udp->errors_waiting, memory_order_relaxed))
        return false;
    atomic_store_explicit(&udp->errors_waiting, false, memory_order_relaxed);
    for (unsigned i = 0; i < ERRORS_MAX; i++) {
        union dw_sockaddr name = {.v6 = {0}};
        _Alignas(struct cmsghdr) char control[256];
        struct msghdr msg = {.msg_name = &name,
                             .msg_namelen = sizeof name,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
        if (recvmsg(llp->fd, &msg, MSG_ERRQUEUE) < 0)
            return false;
        int error = msg.msg_namelen > 0 ? parse(&msg) : 0;
        icmp->to = dw_sockaddr_get(&name);
        /* The kernel has judged what the message claims. */
        icmp->mtu_bytes = error == EMSGSIZE ? udp_path_mtu_bytes(llp, &icmp->to) : 0;
        if (error == ECONNREFUSED || icmp->mtu_bytes > 0) {
            on_error(udp);
            return true;
        }
    }
    on_error(udp);
    return false;
}

/* ---- the end ------------------------------------------------------------------------------ */

static void udp_close(struct dw_llp *llp)
{
    close(llp->fd);
    free(llp);
}

static void udp_add_memory(const struct dw_llp *llp, struct diwarp_memory *memory)
{
    memory->base_bytes += sizeof(struct dw_udp);
    dw_llp_add_socket(llp->fd, memory);
}

const struct dw_llp_ops dw_udp_ops = {
    .send = udp_send,
    .recv = udp_recv,
    .icmp = udp_icmp,
    .path_mtu_bytes = udp_path_mtu_bytes,
    .close = udp_close,
    .add_memory = udp_add_memory,
};
