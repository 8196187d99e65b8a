/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups over UDP. What is sent to one leaves from the socket of all peers, by an interface and
 * with a hop limit of the group; what comes has a socket of its own, bound to the group's address,
 * of which each process of the host that has one gets a copy. Its own host's members get what is
 * sent as well (IP_MULTICAST_LOOP, the default). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/llp/udp_socket.h"

/* ---- send ---- */

int dw_udp_aim(struct dw_udp *udp, const struct dw_llp_addr *to)
{
    const struct ip_mreqn interface = {.imr_ifindex = (int)to->interface};
    const int fd = udp->fd;
    const bool broadcasts = to->family == AF_INET && (to->ip[0] & 0xf0) != 0xe0;
    int rc = 0;
    if (broadcasts && !udp->broadcasts) {
        rc = dw_set_int(fd, SOL_SOCKET, SO_BROADCAST, 1);
        udp->broadcasts = !rc;
    }
    if (rc)
        return rc;
    if (udp->aim.interface == to->interface && udp->aim.hops == to->hops &&
        udp->aim.family == to->family)
        return 0;
    if (to->family == AF_INET6) {
        rc = dw_set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)to->interface);
        rc = rc ? rc : dw_set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, to->hops);
    } else {
        rc = setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface) ? -errno : 0;
        rc = rc ? rc : dw_set_int(fd, IPPROTO_IP, IP_MULTICAST_TTL, to->hops);
    }
    udp->aim = rc ? (struct dw_llp_addr){0} : *to;
    return rc;
}

/* ---- receive ---- */

static int group_recv(struct dw_llp *llp, uint8_t *buf, uint32_t *segment_bytes)
{
    ssize_t bytes;
    do
        bytes = recvfrom(llp->fd, buf, DW_LLP_SLOT_BYTES, MSG_TRUNC, NULL, NULL);
    while (bytes < 0 && errno == EINTR);
    *(bytes < 0 ? &llp->counters->rx_empty_syscalls : &llp->counters->rx_syscalls) += 1;
    *segment_bytes = bytes > 0 ? (uint32_t)bytes : 1; /* receivers divide by it */
    return (int)bytes;
}

static void group_close(struct dw_llp *llp)
{
    close(llp->fd);
    free(llp);
}

static void group_add_memory(const struct dw_llp *llp, struct diwarp_memory *memory)
{
    memory->base_bytes += sizeof *llp;
    dw_llp_add_socket(llp->fd, memory);
}

static const struct dw_llp_ops group_ops = {
    .recv = group_recv,
    .close = group_close,
    .add_memory = group_add_memory,
};

/* ---- opening ---- */

/* What other sockets have joined does not come to this one. */
static int join(int fd, const struct dw_llp_addr *group, uint32_t interface)
{
    int rc;
    if (group->family == AF_INET6) {
        struct ipv6_mreq request = {.ipv6mr_interface = interface};
        memcpy(&request.ipv6mr_multiaddr, group->ip, 16);
        rc = setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof request);
    } else {
        struct ip_mreqn request = {.imr_ifindex = (int)interface};
        memcpy(&request.imr_multiaddr, group->ip, 4);
        rc = setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
    }
    return rc ? -errno : 0;
}

/* Where an address is one of each link (RFC 4291 section 2.7), it needs to be said which. */
static bool is_of_a_link(const struct dw_llp_addr *group)
{
    return group->family == AF_INET6 && (group->ip[1] & 15) <= 2;
}

static int bind_and_join(int fd, const struct dw_llp_addr *group, const uint32_t *interfaces,
                         unsigned count)
{
    const bool v6 = group->family == AF_INET6;
    union dw_sockaddr name;
    const socklen_t bytes = dw_sockaddr_set(group->family, group, &name);
    if (is_of_a_link(group)) {
        name.v6.sin6_scope_id = interfaces[0];
        count = 1;
    }
    int rc = dw_set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (!rc && bind(fd, &name.any, bytes))
        rc = -errno;
    if (!rc && v6)
        (void)dw_set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0); /* Linux 4.20 */
    else if (!rc)
        rc = dw_set_int(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    for (unsigned i = 0; i < count && !rc; i++)
        rc = join(fd, group, interfaces[i]);
    return rc;
}

int dw_udp_open_group(struct dw_llp *port, const struct dw_llp_addr *group,
                      const uint32_t *interfaces, unsigned count, struct dw_llp **llp)
{
    struct dw_llp *new = malloc(sizeof *new);
    if (!new)
        return -ENOMEM;
    const int fd = socket(group->family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int rc = fd < 0 ? -errno : bind_and_join(fd, group, interfaces, count);
    if (rc) {
        if (fd >= 0)
            close(fd);
        free(new);
        return rc;
    }
    *new = (struct dw_llp){
        .ops = &group_ops, .counters = port->counters, .fd = fd, .port = group->port};
    /* The kernel doubles what it is asked for. */
    new->rcvbuf_bytes = dw_set_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE, port->rcvbuf_bytes / 2);
    *llp = new;
    return 0;
}
