/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening the UDP LLP: socket, options and port; and why one of them cannot be had. */
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/llp/udp.h"

static void explain_bind(const struct dw_llp_attr *attr, int error, struct diwarp_diagnosis *why)
{
    static const char remedy[] = "MCA parameters btl_diwarp_port_min / btl_diwarp_port_max";
    const unsigned first = attr->port_min, last = attr->port_max ? attr->port_max : first;
    char ip[INET6_ADDRSTRLEN] = "any address";
    if (attr->bind_ip)
        inet_ntop(attr->family, attr->bind_ip, ip, sizeof ip);
    if (error == EADDRINUSE && first > 0)
        dw_explain(why,
                   "every UDP port of the range %u-%u is in use on this host (%s); "
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

static int attr_check(const struct dw_llp_attr *attr, struct diwarp_diagnosis *why)
{
    if (attr->family != AF_INET && attr->family != AF_INET6) {
        dw_explain(why, "address family %u is neither IPv4 nor IPv6", (unsigned)attr->family);
        return -EAFNOSUPPORT;
    }
    if (attr->port_max > 0 && attr->port_max < attr->port_min) {
        dw_explain(why, "the UDP port range %u-%u is empty", (unsigned)attr->port_min,
                   (unsigned)attr->port_max);
        return -EINVAL;
    }
    return 0;
}

static void init(struct dw_udp *udp, const struct dw_llp_attr *attr)
{
    const int fd = udp->llp.fd;
    udp->llp.rcvbuf_bytes = dw_set_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE, attr->rcvbuf_bytes);
    udp->llp.sndbuf_bytes = dw_set_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE, attr->sndbuf_bytes);
    udp->llp.gso = attr->gso != DIWARP_OFF && dw_set_int(fd, IPPROTO_UDP, UDP_SEGMENT, 0) == 0;
    /* Switched on when trains come: until then it would only cost time. */
    udp->gro_allowed = attr->gro == DIWARP_AUTO;
    udp->llp.gro = attr->gro == DIWARP_ON && dw_set_int(fd, IPPROTO_UDP, UDP_GRO, 1) == 0;
}

static int set_options(struct dw_udp *udp)
{
    int rc = 0;
    if (udp->family == AF_INET6) {
        rc = dw_set_int(udp->llp.fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
        rc = rc ? rc : dw_set_int(udp->llp.fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
    }
    rc = rc ? rc : dw_udp_set_discovery(udp, IP_PMTUDISC_DO);
    return rc ? rc : dw_set_int(udp->llp.fd, IPPROTO_IP, IP_RECVERR, 1);
}

/* 0, or negative errno, explained; then the socket is for the caller to close, if there is one. */
static int open_socket(struct dw_udp *udp, const struct dw_llp_attr *attr,
                       struct diwarp_diagnosis *why)
{
    struct dw_llp_addr ip = {.family = attr->family};
    if (attr->bind_ip)
        memcpy(ip.ip, attr->bind_ip, attr->family == AF_INET ? 4 : 16);
    udp->family = attr->family;
    dw_sockaddr_set(attr->family, &ip, &udp->bound_ip);
    udp->llp.fd = socket(attr->family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int rc = udp->llp.fd < 0 ? -errno : set_options(udp);
    if (rc) {
        dw_explain(why, "cannot open a UDP socket: %s", strerror(-rc));
        return rc;
    }
    rc = dw_take_port(&ip, attr->port_min, attr->port_max, bind_to, &udp->llp.fd);
    if (!rc)
        rc = dw_port_of(udp->llp.fd);
    if (rc < 0)
        explain_bind(attr, -rc, why);
    udp->llp.port = (uint16_t)rc;
    return rc < 0 ? rc : 0;
}

int dw_udp_open(const struct dw_llp_attr *attr, struct diwarp_counters *counters,
                struct dw_llp **llp, struct diwarp_diagnosis *why)
{
    int rc = attr_check(attr, why);
    if (rc)
        return rc;
    struct dw_udp *udp = calloc(1, sizeof *udp);
    if (!udp) {
        dw_explain(why, "out of memory");
        return -ENOMEM;
    }
    udp->llp.ops = &dw_udp_ops;
    udp->llp.counters = counters;
    rc = open_socket(udp, attr, why);
    if (rc) {
        if (udp->llp.fd >= 0)
            close(udp->llp.fd);
        free(udp);
        return rc;
    }
    init(udp, attr);
    *llp = &udp->llp;
    return 0;
}
