/* SPDX-License-Identifier: BSD-3-Clause */
/* What the network says of datagrams that did not arrive, by ICMP: nobody has the port, or the path
 * is too narrow. Of a host or a network that cannot be reached nothing is told: that may be so for
 * a while only, as when a route changes or a cable is out. */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <linux/errqueue.h>

#include "common/llp/udp_icmp.h"

void dw_udp_icmp_ask_mtu(struct dw_udp_icmp *icmp, const struct dw_llp_addr *to)
{
    for (unsigned i = 0; i < icmp->question_count; i++)
        if (dw_llp_same_host(&icmp->questions[i], to))
            return;
    if (icmp->question_count < DW_DESTINATIONS)
        icmp->questions[icmp->question_count++] = *to;
    dw_udp_icmp_on_error(icmp);
}

/* Without sending: a connected socket has a route, whose MTU is IP_MTU. */
uint32_t dw_udp_path_mtu_bytes(const struct dw_bound *bound, const struct dw_llp_addr *to)
{
    const bool v4 = to->family == AF_INET;
    union dw_sockaddr name;
    int mtu_bytes = 0;
    socklen_t len = dw_sockaddr_set(to->family, to, &name), mtu_len = sizeof mtu_bytes;
    int fd = socket(to->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    if ((to->family != bound->family || bind(fd, &bound->name.any, len) == 0) &&
        connect(fd, &name.any, len) == 0 &&
        getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu_bytes,
                   &mtu_len) < 0)
        mtu_bytes = 0;
    close(fd);
    return mtu_bytes > 0 ? (uint32_t)mtu_bytes : 0;
}

/* What an entry of the error queue says: ECONNREFUSED, EMSGSIZE, or neither (0). */
static int parse(struct msghdr *msg)
{
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
        bool is_error = (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_RECVERR) ||
                        (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_RECVERR);
        struct sock_extended_err error;
        if (!is_error || cmsg->cmsg_len < CMSG_LEN(sizeof error))
            continue;
        memcpy(&error, CMSG_DATA(cmsg), sizeof error);
        bool known = error.ee_errno == ECONNREFUSED || error.ee_errno == EMSGSIZE;
        bool by_icmp =
            error.ee_origin == SO_EE_ORIGIN_ICMP || error.ee_origin == SO_EE_ORIGIN_ICMP6;
        return known && by_icmp ? (int)error.ee_errno : 0;
    }
    return 0;
}

/* The next entry of the error queue; false: there is none. */
static bool read_entry(const struct dw_udp_icmp *icmp, struct dw_llp_addr *to, int *error)
{
    union dw_sockaddr name = {.v6 = {0}};
    _Alignas(struct cmsghdr) char control[256];
    struct msghdr msg = {.msg_name = &name,
                         .msg_namelen = sizeof name,
                         .msg_control = control,
                         .msg_controllen = sizeof control};
    if (recvmsg(icmp->fd, &msg, MSG_ERRQUEUE) < 0)
        return false;
    *error = msg.msg_namelen > 0 ? parse(&msg) : 0;
    *to = dw_sockaddr_get(&name);
    return true;
}

/* The flag goes down before the queue is read, so an error that comes meanwhile raises it again.
 * Reading also keeps the queue, which is charged to SO_RCVBUF, short. */
bool dw_udp_icmp_get(struct dw_udp_icmp *icmp, struct dw_llp_icmp *told)
{
    int error;
    if (!atomic_load_explicit(&icmp->errors_waiting, memory_order_relaxed))
        return false;
    while (icmp->question_count > 0) {
        told->to = icmp->questions[--icmp->question_count];
        told->mtu_bytes = dw_udp_path_mtu_bytes(icmp->bound, &told->to);
        if (told->mtu_bytes > 0)
            return true;
    }
    atomic_store_explicit(&icmp->errors_waiting, false, memory_order_relaxed);
    /* However many there are that say nothing of interest, datagrams are received, too. */
    for (unsigned i = 0; i < DW_DESTINATIONS; i++) {
        if (!read_entry(icmp, &told->to, &error))
            return false;
        /* The kernel has judged what the message claims. */
        told->mtu_bytes = error == EMSGSIZE ? dw_udp_path_mtu_bytes(icmp->bound, &told->to) : 0;
        if (error == ECONNREFUSED || told->mtu_bytes > 0) {
            dw_udp_icmp_on_error(icmp);
            return true;
        }
    }
    dw_udp_icmp_on_error(icmp);
    return false;
}
