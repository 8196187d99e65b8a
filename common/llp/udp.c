/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UDP as a lower layer protocol: one unconnected, non-blocking socket for all peers (udp_hot.c has
 * more to send with).
 *
 * Owns the data path and the fallbacks from GSO and GRO; what comes back as ICMP is read in
 * udp_icmp.c. Knows nothing of the bytes it carries; who sent a datagram is in its header, so the
 * source address is never asked for.
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
        dw_udp_icmp_on_error(&udp->icmp);
        return true;
    default:
        return false;
    }
}

/* One send call; sendto() costs the kernel less than sendmsg(). */
static int transmit(struct dw_udp *udp, struct msghdr *msg, const struct dw_llp_addr *to,
                    uint32_t bytes)
{
    union dw_sockaddr name;
    for (unsigned attempt = 1;; attempt++) {
        const int hot_fd = udp->whole ? -1 : dw_udp_hot_fd(&udp->hots, to);
        const int fd = hot_fd < 0 ? udp->llp.fd : hot_fd;
        msg->msg_name = hot_fd < 0 ? &name : NULL;
        msg->msg_namelen = hot_fd < 0 ? dw_sockaddr_set(udp->bound.family, to, &name) : 0;
        if (hot_fd < 0 && msg->msg_namelen == 0)
            return -EAFNOSUPPORT;
        long sent = msg->msg_iovlen == 1 && !msg->msg_control
                        ? syscall(SYS_sendto, fd, msg->msg_iov->iov_base, (size_t)bytes, 0,
                                  msg->msg_name, msg->msg_namelen)
                        : syscall(SYS_sendmsg, fd, msg, 0);
        udp->llp.counters->tx_syscalls++;
        if (__builtin_expect(sent >= 0, 1))
            return 0;
        const int error = errno;
        if (error == EAGAIN || error == ENOBUFS || error == ENOMEM) {
            udp->llp.counters->tx_eagain++;
            return -EAGAIN;
        }
        /* What a router or a firewall answers, too, maybe of this port of ours only: the common
         * socket finds out. */
        if (hot_fd >= 0 && (error == ECONNREFUSED || error == EHOSTUNREACH ||
                            error == ENETUNREACH || error == EACCES))
            dw_udp_hot_doubt(&udp->hots, to);
        /* EINVAL: of a train, by older kernels. */
        if (error == EMSGSIZE || (error == EINVAL && msg->msg_control))
            dw_udp_icmp_ask_mtu(&udp->icmp, to);
        if (!is_pending_error(udp, error) || attempt == ATTEMPTS)
            return -error;
    }
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

static struct dw_udp_refusal *refusal_slot(struct dw_udp *udp, const struct dw_llp_addr *to)
{
    unsigned hash = 0;
    unsigned ip_bytes = to->family == AF_INET ? 4 : 16;
    for (unsigned i = 0; i < ip_bytes; i++)
        hash = hash * 31 + to->ip[i];
    return &udp->refusals[hash % DW_DESTINATIONS];
}

/* Whether a train like this was refused lately. Forgets in time: routes and MTUs change. */
static bool gso_refused_before(struct dw_udp *udp, const struct dw_llp_train *train)
{
    struct dw_udp_refusal *refusal = refusal_slot(udp, train->to);
    if (refusal->trains_left == 0 || !dw_llp_same_host(&refusal->to, train->to) ||
        train->segment_bytes < refusal->segment_bytes)
        return false;
    udp->refusal_count -= --refusal->trains_left == 0;
    return true;
}

/* EINVAL and EMSGSIZE: segments larger than the path's MTU. EIO: the way out has no checksum
 * offload; when eight trains in a row have met that, probably no way out has. The next 256 trains
 * to this host are not tried: of twice as many, half would know of a wider path later. */
static void gso_on_refused(struct dw_udp *udp, const struct dw_llp_train *train, int error)
{
    struct dw_udp_refusal *refusal = refusal_slot(udp, train->to);
    udp->llp.counters->gso_fallbacks++;
    udp->refusal_count += refusal->trains_left == 0;
    *refusal = (struct dw_udp_refusal){.to = *train->to,
                                       .segment_bytes = error == EIO ? 0 : train->segment_bytes,
                                       .trains_left = 256};
    if (error == EIO && ++udp->eio_in_row >= 8)
        udp->llp.gso = false;
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
    if (udp->llp.gso && !(udp->refusal_count > 0 && gso_refused_before(udp, train))) {
        int rc = send_gso(udp, &msg, train);
        if (rc != -EIO && rc != -EINVAL && rc != -EMSGSIZE)
            return rc;
        gso_on_refused(udp, train, -rc);
    }
    return send_apart(udp, train);
}

/* By the common socket, whose option is another meanwhile: that is rare. */
__attribute__((noinline)) static int send_whole(struct dw_udp *udp,
                                                const struct dw_llp_train *train)
{
    udp->whole = dw_set_udp_discovery(udp->llp.fd, udp->bound.family, IP_PMTUDISC_PROBE) == 0;
    int rc = send_train(udp, train);
    udp->whole = false;
    dw_set_udp_discovery(udp->llp.fd, udp->bound.family, IP_PMTUDISC_WANT);
    return rc;
}

static int udp_send(struct dw_llp *llp, const struct dw_llp_train *train)
{
    struct dw_udp *udp = (struct dw_udp *)llp;
    return __builtin_expect(train->whole, 0) ? send_whole(udp, train) : send_train(udp, train);
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

static bool udp_icmp(struct dw_llp *llp, struct dw_llp_icmp *icmp)
{
    return dw_udp_icmp_get(&((struct dw_udp *)llp)->icmp, icmp);
}

static uint32_t udp_path_mtu_bytes(struct dw_llp *llp, const struct dw_llp_addr *to)
{
    return dw_udp_path_mtu_bytes(&((struct dw_udp *)llp)->bound, to);
}

static void udp_doubt(struct dw_llp *llp, const struct dw_llp_addr *to)
{
    dw_udp_hot_doubt(&((struct dw_udp *)llp)->hots, to);
}

static void udp_close(struct dw_llp *llp)
{
    dw_udp_hot_fini(&((struct dw_udp *)llp)->hots);
    close(llp->fd);
    free(llp);
}

static void udp_add_memory(const struct dw_llp *llp, struct diwarp_memory *memory)
{
    const struct dw_udp *udp = (const struct dw_udp *)llp;
    memory->base_bytes += sizeof *udp;
    dw_llp_add_socket(llp->fd, memory);
    for (unsigned i = 0; i < DW_DESTINATIONS; i++)
        if (udp->hots.hot[i].fd >= 0)
            dw_llp_add_socket(udp->hots.hot[i].fd, memory);
}

const struct dw_llp_ops dw_udp_ops = {
    .send = udp_send,
    .recv = udp_recv,
    .icmp = udp_icmp,
    .path_mtu_bytes = udp_path_mtu_bytes,
    .doubt = udp_doubt,
    .close = udp_close,
    .add_memory = udp_add_memory,
};
