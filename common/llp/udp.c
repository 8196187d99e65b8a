/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UDP as a lower layer protocol: one unconnected, non-blocking socket for all peers, and others,
 * which only send, for further flows. Owns their options, and the fallbacks from GSO and GRO. Who
 * sent a datagram is in its header, so the source address is never asked for.
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
#include <unistd.h>

#include <linux/filter.h>

#include "common/base/iov.h"
#include "common/llp/control.h"
#include "common/llp/udp_socket.h"

/* A padded probe has 18, other trains up to 3; send_apart() keeps as many on its caller's stack,
 * which may be one of 16 KiB. */
#define TRAIN_IOVS_MAX 32
/* With IP_RECVERR an ICMP error of any destination fails the next call, whatever its destination;
 * that call did nothing. Two more are enough unless further errors come in between. */
#define ATTEMPTS 3
/* A second datagram of the same length right after the first is taken for part of a train. Of an
 * MTU below 1280 they are shorter; but so are many messages, which GRO would delay. */
#define GRO_MIN_BYTES 1200
/* Trains in a row whose way out has no checksum offload: then probably none has. */
#define EIO_MAX 8
/* Ports of further flows: with half as many a range of most of the system's own leaves too few. */
#define PORTS_TRIED_MAX 256

/* Whether a call may have failed for an ICMP error of an earlier datagram, which the queue has.
 * EPERM is not one: it is a local firewall's answer to this datagram. */
static bool is_pending_error(struct dw_udp *udp, int error)
{
    const bool icmp = error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
                      error == EHOSTDOWN || error == ENONET || error == EMSGSIZE ||
                      error == EPROTO || error == ENOPROTOOPT || error == EOPNOTSUPP ||
                      error == EACCES;
    udp->llp.told |= icmp;
    return icmp || error == EINTR;
}

/* ---- send ---- */

/* IP_PMTUDISC_DO: all leave with DF, and none above the path's MTU. _WANT: those leave in
 * fragments. _PROBE: all leave with DF, whatever the kernel believes of the path. An IPv6 socket
 * carries IPv4, too, so it has both sets of options. */
static int set_discovery(struct dw_udp *udp, int discovery)
{
    _Static_assert(IP_PMTUDISC_WANT == IPV6_PMTUDISC_WANT && IP_PMTUDISC_DO == IPV6_PMTUDISC_DO &&
                       IP_PMTUDISC_PROBE == IPV6_PMTUDISC_PROBE,
                   "both families number them alike");
    const int fd = udp->fd;
    int rc =
        udp->family == AF_INET6 ? dw_set_int(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, discovery) : 0;
    udp->discovery = discovery;
    return rc ? rc : dw_set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, discovery);
}

/* One send call, of datagrams of `segment` bytes each but the last; sendto() costs the kernel less
 * than sendmsg(). */
static int transmit(struct dw_udp *udp, struct msghdr *msg, const struct dw_llp_addr *to,
                    uint32_t bytes, uint32_t segment)
{
    struct diwarp_counters *counters = udp->llp.counters;
    union dw_sockaddr name;
    int rc = 0;
    msg->msg_name = &name;
    msg->msg_namelen = dw_sockaddr_set(udp->family, to, &name);
    if (msg->msg_namelen == 0)
        return -EAFNOSUPPORT;
    for (unsigned attempt = 1; attempt <= ATTEMPTS; attempt++) {
        long sent = msg->msg_iovlen == 1 && !msg->msg_controllen
                        ? syscall(SYS_sendto, udp->fd, msg->msg_iov->iov_base, (size_t)bytes, 0,
                                  msg->msg_name, msg->msg_namelen)
                        : syscall(SYS_sendmsg, udp->fd, msg, 0);
        counters->tx_syscalls++;
        if (__builtin_expect(sent >= 0, 1)) {
            counters->tx_datagrams += bytes > segment ? (bytes + segment - 1) / segment : 1;
            counters->tx_bytes += bytes;
            return 0;
        }
        rc = -errno;
        if (!is_pending_error(udp, -rc))
            break;
        if (rc == -EMSGSIZE && bytes <= segment && udp->discovery == IP_PMTUDISC_DO) {
            set_discovery(udp, IP_PMTUDISC_WANT);
            attempt--;
        }
    }
    if (rc != -EAGAIN && rc != -ENOBUFS && rc != -ENOMEM)
        return rc;
    counters->tx_eagain++;
    return -EAGAIN;
}

static int send_gso(struct dw_udp *udp, struct msghdr msg, const struct dw_llp_train *train)
{
    const uint16_t segment_bytes = (uint16_t)train->segment_bytes;
    dw_control_add(&msg, IPPROTO_UDP, UDP_SEGMENT, &segment_bytes, sizeof segment_bytes);
    int rc = transmit(udp, &msg, train->to, train->total_bytes, segment_bytes);
    udp->eio_in_row = rc == -EIO ? udp->eio_in_row + 1 : 0;
    return rc;
}

/* Datagram by datagram. What the socket refuses after the first one counts as lost. */
__attribute__((noinline)) static int send_apart(struct dw_udp *udp, struct msghdr msg,
                                                const struct dw_llp_train *train)
{
    struct iovec pieces[TRAIN_IOVS_MAX];
    msg.msg_iov = pieces;
    const struct iovec *iov = train->iov;
    size_t offset = 0;
    for (uint32_t sent = 0, bytes; sent < train->total_bytes; sent += bytes) {
        const uint32_t left = train->total_bytes - sent;
        bytes = left < train->segment_bytes ? left : train->segment_bytes;
        msg.msg_iovlen = dw_iov_slice(&iov, &offset, bytes, pieces);
        int rc = transmit(udp, &msg, train->to, bytes, bytes);
        if (rc < 0)
            return sent == 0 ? rc : 0;
    }
    return 0;
}

static int send_train(struct dw_udp *udp, const struct dw_llp_train *train)
{
    _Alignas(struct cmsghdr) char control[DW_CONTROL_BYTES] = {0};
    struct msghdr msg = {.msg_iov = (struct iovec *)train->iov,
                         .msg_iovlen = train->iov_count,
                         .msg_control = control};
    /* Who would not see the mark of a queue does not ask for it; all of a job are alike. */
    if (train->ecn && (udp->llp.gro || udp->gro_allowed))
        dw_control_add_tos(&msg, train->to->family, DW_ECT0);
    assert(train->segment_bytes > 0 && train->iov_count <= TRAIN_IOVS_MAX);
    if (train->total_bytes <= train->segment_bytes)
        return transmit(udp, &msg, train->to, train->total_bytes, train->segment_bytes);
    assert(train->total_bytes <= DW_LLP_TRAIN_BYTES);
    assert((train->total_bytes - 1) / train->segment_bytes < DW_LLP_TRAIN_DATAGRAMS);
    if (udp->llp.gso) {
        int rc = send_gso(udp, msg, train);
        /* EINVAL, EMSGSIZE: the segments are larger than the path's MTU. EIO: the way out has no
         * checksum offload. */
        if (rc != -EIO && rc != -EINVAL && rc != -EMSGSIZE)
            return rc;
        udp->llp.counters->gso_fallbacks++;
        udp->llp.gso = udp->eio_in_row < EIO_MAX;
    }
    return send_apart(udp, msg, train);
}

static int udp_send(struct dw_llp *llp, const struct dw_llp_train *train)
{
    struct dw_udp *udp = (struct dw_udp *)llp;
    udp->fd = udp->fds[train->flow];
    if (__builtin_expect(train->to->interface != 0, 0)) {
        const int refused = dw_udp_aim(udp, train->to);
        if (refused)
            return refused;
    }
    udp->before_bytes = 0; /* what comes after this datagram may answer it: no sign of a train */
    if (__builtin_expect(train->whole, 0))
        set_discovery(udp, IP_PMTUDISC_PROBE);
    int rc = send_train(udp, train);
    /* Else all of a train that the path is too narrow for goes in fragments. */
    if (__builtin_expect(udp->discovery != IP_PMTUDISC_DO, 0))
        set_discovery(udp, IP_PMTUDISC_DO);
    return rc;
}

/* ---- receive ---- */

/* Also tells of marks from now on. */
static bool switch_gro_on(const struct dw_udp *udp)
{
    if (dw_set_int(udp->fds[0], IPPROTO_UDP, UDP_GRO, 1) != 0)
        return false;
    (void)dw_set_int(udp->fds[0], IPPROTO_IP, IP_RECVTOS, 1);
    if (udp->family == AF_INET6)
        (void)dw_set_int(udp->fds[0], IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    return true;
}

/* A socket that may receive trains takes longer for every datagram, so it may only once they come.
 * Until then the kernel cuts them up: trains of whole messages arrive as datagrams alike, back to
 * back; those of one message's parts are told by who reads them (llp.trains). */
static void gro_on_received(struct dw_udp *udp, uint32_t bytes)
{
    const bool fits = bytes >= GRO_MIN_BYTES && bytes <= DW_LLP_SLOT_BYTES / 2;
    if (udp->llp.trains || (fits && bytes == udp->before_bytes)) {
        udp->gro_allowed = false;
        udp->llp.gro = switch_gro_on(udp);
    }
    udp->before_bytes = bytes;
}

/* While GRO is off: recvfrom() costs the kernel less than recvmsg(), also when nothing is there.
 * -1: errno. */
static inline long recv_datagram(struct dw_udp *udp, uint8_t *buf, uint32_t *segment_bytes)
{
    const long bytes =
        syscall(SYS_recvfrom, udp->fds[0], buf, (size_t)DW_LLP_SLOT_BYTES, MSG_TRUNC, NULL, NULL);
    *segment_bytes = bytes > 0 ? (uint32_t)bytes : 0;
    if (udp->gro_allowed)
        gro_on_received(udp, *segment_bytes);
    return bytes;
}

/* While GRO is on: may be a train, whose datagrams are marked alike. -1: errno. */
static inline long recv_train(struct dw_udp *udp, uint8_t *buf, uint32_t *segment_bytes)
{
    struct iovec iov = {.iov_base = buf, .iov_len = DW_LLP_SLOT_BYTES};
    int told = 0;
    _Alignas(struct cmsghdr) char control[DW_CONTROL_BYTES];
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    const long bytes = syscall(SYS_recvmsg, udp->fds[0], &msg, MSG_TRUNC);
    udp->llp.marked = false;
    if (bytes <= 0)
        msg.msg_controllen = 0;
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg))
        if (cmsg->cmsg_level == IPPROTO_UDP && cmsg->cmsg_type == UDP_GRO)
            told = dw_control_int(cmsg);
        else if (dw_control_is_tos(cmsg))
            udp->llp.marked = (dw_control_int(cmsg) & DW_ECN_MASK) == DW_ECN_CE;
    *segment_bytes = (uint32_t)(told > 0 && told < bytes ? told : bytes);
    return bytes;
}

static long recv_forwarded(struct dw_udp *udp, uint8_t *buf, uint32_t *segment_bytes)
{
    const int bytes = dw_siblings_recv(&udp->siblings, buf, DW_LLP_SLOT_BYTES);
    if (bytes >= 0)
        *segment_bytes = (uint32_t)bytes;
    return bytes;
}

static int udp_recv(struct dw_llp *llp, uint8_t *buf, uint32_t *segment_bytes)
{
    struct dw_udp *udp = (struct dw_udp *)llp;
    for (unsigned attempt = 1;; attempt++) {
        long bytes = -1;
        int error = 0;
        if (dw_siblings_due(&udp->siblings))
            bytes = recv_forwarded(udp, buf, segment_bytes);
        if (bytes < 0) {
            bytes = llp->gro ? recv_train(udp, buf, segment_bytes)
                             : recv_datagram(udp, buf, segment_bytes);
            error = bytes < 0 ? errno : 0;
        }
        if (error == EAGAIN)
            bytes = recv_forwarded(udp, buf, segment_bytes);
        if (bytes >= 0) {
            llp->counters->rx_syscalls++;
            *segment_bytes += bytes == 0; /* receivers divide by it */
            return (int)bytes;
        }
        llp->counters->rx_empty_syscalls++;
        if (!is_pending_error(udp, error) || attempt == ATTEMPTS)
            return -1;
    }
}

static uint64_t udp_share(struct dw_llp *llp, uint64_t key, unsigned key_at)
{
    struct dw_udp *udp = (struct dw_udp *)llp;
    if (udp->shares && !dw_siblings_open(&udp->siblings, udp->fds[0], &key, key_at))
        llp->forwarded_fd = udp->siblings.fd;
    return key;
}

static bool udp_forward(struct dw_llp *llp, uint64_t key, const uint8_t *buf, uint32_t bytes)
{
    return dw_siblings_forward(&((struct dw_udp *)llp)->siblings, key, buf, bytes);
}

/* ---- opening and the end ---- */

static void udp_close(struct dw_llp *llp)
{
    struct dw_udp *udp = (struct dw_udp *)llp;
    dw_siblings_close(&udp->siblings);
    for (unsigned flow = 0; flow < udp->flows; flow++)
        close(udp->fds[flow]);
    free(udp);
}

static void udp_add_memory(const struct dw_llp *llp, struct diwarp_memory *memory)
{
    const struct dw_udp *udp = (const struct dw_udp *)llp;
    memory->base_bytes += sizeof *udp;
    for (unsigned flow = 0; flow < udp->flows; flow++)
        dw_llp_add_socket(udp->fds[flow], memory);
    dw_siblings_add_memory(&udp->siblings, memory);
}

static const struct dw_llp_ops udp_ops = {
    .send = udp_send,
    .recv = udp_recv,
    .share = udp_share,
    .forward = udp_forward,
    .icmp = dw_udp_icmp,
    .path_mtu_bytes = dw_udp_path_mtu_bytes,
    .open_group = dw_udp_open_group,
    .close = udp_close,
    .add_memory = udp_add_memory,
};

static void explain_bind(const struct diwarp_device_attr *attr, const struct dw_llp_addr *at,
                         int error, struct diwarp_diagnosis *why)
{
    static const char remedy[] = "MCA parameters btl_diwarp_port_min / btl_diwarp_port_max";
    const unsigned first = attr->port_min, last = attr->port_max ? attr->port_max : first;
    char ip[INET6_ADDRSTRLEN] = "";
    inet_ntop(at->family, at->ip, ip, sizeof ip);
    if (error == EADDRINUSE && first > 0)
        dw_explain(why,
                   "every UDP port of the range %u-%u is in use on this host (%s), and not by "
                   "diwarp of this user; "
                   "choose another or a wider range with the %s (0: any free port)",
                   first, last, ip, remedy);
    else if (error == EADDRINUSE)
        dw_explain(why, "no free UDP port left on this host (%s); see ip_local_port_range", ip);
    else if (error == EADDRNOTAVAIL)
        dw_explain(why, "%s is not an address of this host", ip);
    else if (error == EACCES && first > 0)
        dw_explain(why, "not allowed to use the UDP ports %u-%u (%s); choose others with the %s",
                   first, last, ip, remedy);
    else
        dw_explain(why, "cannot bind a UDP socket to %s: %s", ip, strerror(error));
}

static int bind_to(void *fd, const union dw_sockaddr *name, socklen_t len)
{
    return bind(*(const int *)fd, &name->any, len) < 0 ? -errno : 0;
}

/* One more, in udp->fd. 0, or negative errno, explained. */
static int open_socket(struct dw_udp *udp, struct diwarp_diagnosis *why)
{
    const int fd = socket(udp->family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int rc = fd < 0 ? -errno : 0;
    if (!rc) {
        udp->fds[udp->flows++] = udp->fd = fd;
        rc = set_discovery(udp, IP_PMTUDISC_DO);
    }
    if (!rc && udp->family == AF_INET6) {
        rc = dw_set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
        rc = rc ? rc : dw_set_int(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
    }
    rc = rc ? rc : dw_set_int(fd, IPPROTO_IP, IP_RECVERR, 1);
    if (rc)
        dw_explain(why, "cannot open a UDP socket: %s", strerror(-rc));
    return rc;
}

/* That of the port which peers send to. */
static int open_first(struct dw_udp *udp, const struct diwarp_device_attr *attr,
                      const struct dw_llp_addr *at, struct diwarp_diagnosis *why)
{
    int rc = open_socket(udp, why);
    if (rc)
        return rc;
    if (attr->port_min)
        rc = dw_siblings_bind(udp->fd, at, attr->port_min, attr->port_max, attr->name.rank);
    else
        rc = dw_take_port(at, 0, 0, bind_to, &udp->fd);
    rc = rc ? rc : dw_port_of(udp->fd);
    if (rc < 0)
        explain_bind(attr, at, -rc, why);
    udp->llp.port = (uint16_t)rc;
    udp->llp.fd = udp->fd;
    udp->llp.forwarded_fd = -1;
    return rc < 0 ? rc : 0;
}

static bool is_of_range(const struct diwarp_device_attr *attr, int port)
{
    return port >= attr->port_min && port <= (attr->port_max ? attr->port_max : attr->port_min);
}

/* Of any port but those of the range, which others may need: there is none more if it is one of
 * these. Nothing is sent to it: what comes there is dropped. */
static int open_further(struct dw_udp *udp, const struct diwarp_device_attr *attr,
                        const struct dw_llp_addr *at, struct diwarp_diagnosis *why)
{
    struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog filter = {.len = 1, .filter = &drop};
    int rc = open_socket(udp, why);
    if (rc)
        return rc;
    if (setsockopt(udp->fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) < 0) {
        rc = -errno;
        dw_explain(why, "cannot have a UDP socket drop what comes: %s", strerror(-rc));
        return rc;
    }
    rc = dw_take_port(at, 0, 0, bind_to, &udp->fd);
    rc = rc ? rc : dw_port_of(udp->fd);
    if (rc < 0) {
        dw_explain(why, "no free UDP port for flow %u: %s", udp->flows - 1, strerror(-rc));
        return rc;
    }
    if (is_of_range(attr, rc)) {
        close(udp->fds[--udp->flows]);
        return 0;
    }
    (void)dw_set_buffer(udp->fd, SO_SNDBUF, SO_SNDBUFFORCE, attr->sndbuf_bytes);
    return 0;
}

int dw_udp_open(void *arg, const struct diwarp_device_attr *attr, const struct dw_llp_addr *at,
                struct diwarp_counters *counters, struct dw_llp **llp, struct diwarp_diagnosis *why)
{
    (void)arg;
    struct dw_udp *udp = calloc(1, sizeof *udp);
    if (!udp)
        return -ENOMEM;
    udp->llp.ops = &udp_ops;
    udp->llp.counters = counters;
    dw_siblings_init(&udp->siblings);
    udp->shares = attr->port_min > 0;
    udp->family = at->family;
    (void)dw_sockaddr_set(at->family, at, &udp->bound_ip);
    int rc = open_first(udp, attr, at, why);
    const int fd = udp->fd;
    for (unsigned i = 0; !rc && udp->flows < attr->flows; i++) {
        rc = i < PORTS_TRIED_MAX ? open_further(udp, attr, at, why) : -EADDRINUSE;
        if (i == PORTS_TRIED_MAX)
            dw_explain(why,
                       "all free UDP ports are of the range of btl_diwarp_port_min: no other "
                       "for flow %u",
                       udp->flows);
    }
    if (rc) {
        udp_close(&udp->llp);
        return rc;
    }
    udp->llp.rcvbuf_bytes = dw_set_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE, attr->rcvbuf_bytes);
    udp->llp.sndbuf_bytes = dw_set_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE, attr->sndbuf_bytes);
    udp->llp.gso = attr->gso != DIWARP_OFF && dw_set_int(fd, IPPROTO_UDP, UDP_SEGMENT, 0) == 0;
    /* Switched on when trains come: until then it would only cost time. */
    udp->gro_allowed = attr->gro == DIWARP_AUTO;
    udp->llp.gro = attr->gro == DIWARP_ON && switch_gro_on(udp);
    *llp = &udp->llp;
    return 0;
}
