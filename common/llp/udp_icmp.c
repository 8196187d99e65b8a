/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes back to UDP as ICMP, and what the own host knows of paths. */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <linux/errqueue.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>

#include "common/llp/udp_socket.h"

/* Entries of the error queue read in a row that say nothing of interest. */
#define ERRORS_MAX 8

/* Without sending: a connected socket has a route, whose MTU is IP_MTU. */
uint32_t dw_udp_path_mtu_bytes(struct dw_llp *llp, const struct dw_llp_addr *to)
{
    const struct dw_udp *udp = (const struct dw_udp *)llp;
    const bool v4 = to->family == AF_INET;
    union dw_sockaddr name;
    int mtu_bytes = 0;
    socklen_t len = dw_sockaddr_set(to->family, to, &name), mtu_len = sizeof mtu_bytes;
    const int fd = socket(to->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (to->family != udp->family || bind(fd, &udp->bound_ip.any, len) == 0) &&
        connect(fd, &name.any, len) == 0 &&
        getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu_bytes,
                   &mtu_len) < 0)
        mtu_bytes = 0;
    if (fd >= 0)
        close(fd);
    return mtu_bytes > 0 ? (uint32_t)mtu_bytes : 0;
}

/* "Communication prohibited", as firewalls say (RFC 1812 section 5.2.7.1, RFC 4443 section 3.1). */
static bool is_prohibited(const struct sock_extended_err *error)
{
    if (error->ee_origin == SO_EE_ORIGIN_ICMP)
        return error->ee_type == ICMP_DEST_UNREACH &&
               (error->ee_code == ICMP_NET_ANO || error->ee_code == ICMP_HOST_ANO ||
                error->ee_code == ICMP_PKT_FILTERED);
    return error->ee_origin == SO_EE_ORIGIN_ICMP6 && error->ee_type == ICMPV6_DEST_UNREACH &&
           (error->ee_code == ICMPV6_ADM_PROHIBITED || error->ee_code == ICMPV6_POLICY_FAIL ||
            error->ee_code == ICMPV6_REJECT_ROUTE);
}

/* What an entry of the error queue says: that nobody has the port (ECONNREFUSED), that a firewall
 * lets nothing through (EACCES), that the path is too narrow (EMSGSIZE, also by the own host), or
 * nothing of interest (0): a host or network that cannot be reached may be so for a while only, as
 * when a route changes or a cable is out. */
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
        if (is_prohibited(&error))
            return EACCES;
        bool known = (error.ee_errno == ECONNREFUSED && by_icmp) || error.ee_errno == EMSGSIZE;
        return known ? (int)error.ee_errno : 0;
    }
    return 0;
}

/* The oldest of the first socket that has one. */
static bool next_error(const struct dw_udp *udp, struct msghdr *msg)
{
    for (unsigned flow = 0; flow < udp->flows; flow++)
        if (recvmsg(udp->fds[flow], msg, MSG_ERRQUEUE) >= 0)
            return true;
    return false;
}

/* Reading also keeps the queue, which is charged to SO_RCVBUF, short. */
int dw_udp_icmp(struct dw_llp *llp, struct dw_llp_addr *to)
{
    for (unsigned i = 0; llp->told && i < ERRORS_MAX; i++) {
        union dw_sockaddr name = {.v6 = {0}};
        _Alignas(struct cmsghdr) char control[256];
        struct msghdr msg = {.msg_name = &name,
                             .msg_namelen = sizeof name,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
        llp->told = next_error((struct dw_udp *)llp, &msg);
        int error = llp->told && msg.msg_namelen > 0 ? parse(&msg) : 0;
        *to = dw_sockaddr_get(&name);
        /* The kernel has judged what the message claims. */
        const int mtu_bytes = error == EMSGSIZE ? (int)dw_udp_path_mtu_bytes(llp, to) : 0;
        if (error == EACCES)
            return DW_LLP_PROHIBITED;
        if (error == ECONNREFUSED)
            return DW_LLP_NO_PORT;
        if (mtu_bytes > 0)
            return mtu_bytes;
    }
    return -1;
}
