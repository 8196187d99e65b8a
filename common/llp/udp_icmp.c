/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the network says of datagrams that did not arrive, by ICMP: nobody has the port, or the path
 * is too narrow. Of a host or a network that cannot be reached nothing is told: that may be so for
 * a while only, as when a route changes or a cable is out.
 *
 * No system call unless a send or receive met an error.
 */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <linux/errqueue.h>

#include "common/llp/udp.h"

/* Entries of the error queue looked at in one call. */
#define ERROR_QUEUE_BATCH 16

void dw_udp_ask_mtu(struct dw_udp *udp, const struct dw_llp_addr *to)
{
    udp->mtu_of = *to;
    udp->mtu_wanted = true;
    atomic_store_explicit(&udp->errors_waiting, true, memory_order_relaxed);
}

/* The MTU of the path by what the kernel knows of it, from its route and from ICMP; 0: unknown. */
static uint32_t path_mtu_bytes(const struct dw_udp *udp, const struct dw_llp_addr *to)
{
    int fd = dw_udp_open_connected(udp, to), mtu_bytes = 0;
    socklen_t len = sizeof(mtu_bytes);
    if (fd < 0) {
        return 0;
    }
    int rc = to->family == AF_INET ? getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu_bytes, &len)
                                   : getsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &mtu_bytes, &len);
    close(fd);
    return rc == 0 && mtu_bytes > 0 ? (uint32_t)mtu_bytes : 0;
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

/* Whether an entry of the error queue says one of the two. */
static bool parse(struct msghdr *msg, uint32_t *mtu_bytes)
{
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
        bool is_error = (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_RECVERR) ||
                        (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_RECVERR);
        struct sock_extended_err error;
        if (!is_error || cmsg->cmsg_len < CMSG_LEN(sizeof(error))) {
            continue;
        }
        memcpy(&error, CMSG_DATA(cmsg), sizeof(error));
        if (error.ee_origin != SO_EE_ORIGIN_ICMP && error.ee_origin != SO_EE_ORIGIN_ICMP6) {
            return false;
        }
        *mtu_bytes = error.ee_errno == EMSGSIZE ? error.ee_info : 0;
        return error.ee_errno == ECONNREFUSED || *mtu_bytes > 0;
    }
    return false;
}

/* The flag goes down before the queue is read, so an error that comes meanwhile raises it again.
 * Reading also keeps the queue, which is charged to SO_RCVBUF, short. */
bool dw_udp_icmp(struct dw_llp *llp, struct dw_llp_icmp *icmp)
{
    struct dw_udp *udp = (struct dw_udp *)llp;
    if (!atomic_load_explicit(&udp->errors_waiting, memory_order_relaxed)) {
        return false;
    }
    if (udp->mtu_wanted) {
        udp->mtu_wanted = false;
        icmp->to = udp->mtu_of;
        icmp->mtu_bytes = path_mtu_bytes(udp, &icmp->to);
        if (icmp->mtu_bytes > 0) {
            return true;
        }
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
        if (msg.msg_namelen > 0 && parse(&msg, &icmp->mtu_bytes)) {
            sockaddr_get(&name, &icmp->to);
            atomic_store_explicit(&udp->errors_waiting, true, memory_order_relaxed);
            return true;
        }
    }
    atomic_store_explicit(&udp->errors_waiting, true, memory_order_relaxed);
    return false;
}
