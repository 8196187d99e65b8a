/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening the UDP LLP: socket and port; and why one of them cannot be had. */
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/llp/explain.h"
#include "common/llp/udp.h"

static void explain_bind(const struct dw_llp_attr *attr, int error, struct diwarp_diagnosis *why)
{
    static const char remedy[] = "MCA parameters btl_diwarp_port_min / btl_diwarp_port_max";
    char ip[INET6_ADDRSTRLEN] = "any address";
    unsigned last = attr->port_max > 0 ? attr->port_max : attr->port_min;
    if (attr->bind_ip) {
        inet_ntop(attr->family, attr->bind_ip, ip, sizeof(ip));
    }
    if (error == EADDRINUSE && attr->port_min > 0) {
        dw_explain(why,
                   "every UDP port of the range %u-%u is in use on this host (%s); "
                   "choose another or a wider range with the %s (0: any free port)",
                   (unsigned)attr->port_min, last, ip, remedy);
    } else if (error == EADDRINUSE) {
        dw_explain(why, "no free UDP port left on this host (%s); see ip_local_port_range", ip);
    } else if (error == EADDRNOTAVAIL) {
        dw_explain(why, "%s is not an address of this host", ip);
    } else if (error == EACCES && attr->port_min > 0) {
        dw_explain(why, "not allowed to use the UDP ports %u-%u (%s); choose others with the %s",
                   (unsigned)attr->port_min, last, ip, remedy);
    } else {
        dw_explain(why, "cannot bind a UDP socket to %s: %s", ip, strerror(error));
    }
}

/* Any port of the address to bind to. */
static struct dw_llp_addr bind_addr(const struct dw_llp_attr *attr)
{
    struct dw_llp_addr addr = {.family = attr->family};
    if (attr->bind_ip) {
        memcpy(addr.ip, attr->bind_ip, attr->family == AF_INET ? 4 : 16);
    }
    return addr;
}

/* Takes the first free port of the range. */
static int bind_range(int fd, const struct dw_llp_attr *attr, uint16_t *bound,
                      struct diwarp_diagnosis *why)
{
    unsigned last = attr->port_max > 0 ? attr->port_max : attr->port_min;
    struct dw_llp_addr addr = bind_addr(attr);
    union dw_udp_sockaddr name;
    int error = EADDRINUSE;

    for (unsigned port = attr->port_min; error == EADDRINUSE && port <= last; port++) {
        addr.port = (uint16_t)port;
        socklen_t len = dw_udp_sockaddr_set(attr->family, &addr, &name);
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

static void init(struct dw_udp *udp, int fd, const struct dw_llp_attr *attr,
                 struct diwarp_counters *counters)
{
    const struct dw_llp_addr addr = bind_addr(attr);
    udp->bound.family = attr->family;
    dw_udp_sockaddr_set(attr->family, &addr, &udp->bound.name);
    udp->checksum = attr->checksum;
    udp->llp.ops = &dw_udp_ops;
    udp->llp.counters = counters;
    udp->llp.fd = fd;
    udp->llp.rcvbuf_bytes = dw_udp_set_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE, attr->rcvbuf_bytes);
    udp->llp.sndbuf_bytes = dw_udp_set_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE, attr->sndbuf_bytes);
    udp->llp.gso = attr->gso != DIWARP_OFF && dw_udp_set_int(fd, IPPROTO_UDP, UDP_SEGMENT, 0) == 0;
    /* Switched on when trains come: until then it would only cost time. */
    udp->gro_allowed = attr->gro == DIWARP_AUTO;
    udp->llp.gro = attr->gro == DIWARP_ON && dw_udp_set_int(fd, IPPROTO_UDP, UDP_GRO, 1) == 0;
    udp->icmp.fd = fd;
    udp->icmp.bound = &udp->bound;
    dw_udp_hot_init(&udp->hots, attr, &udp->bound, udp->llp.sndbuf_bytes);
    dw_udp_apply_checksum(udp);
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
        dw_explain(why, "out of memory");
        return -ENOMEM;
    }
    int fd = socket(attr->family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        rc = -errno;
        dw_explain(why, "cannot open a UDP socket: %s", strerror(-rc));
        goto free_udp;
    }
    rc = dw_udp_set_options(fd, attr->family);
    if (rc) {
        dw_explain(why, "cannot set the options of a UDP socket: %s", strerror(-rc));
        goto close_fd;
    }
    rc = bind_range(fd, attr, &udp->llp.port, why);
    if (rc) {
        goto close_fd;
    }
    init(udp, fd, attr, counters);
    *llp = &udp->llp;
    return 0;

close_fd:
    close(fd);
free_udp:
    free(udp);
    return rc;
}
