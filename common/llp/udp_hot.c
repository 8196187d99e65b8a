/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connected sockets for the destinations that most is sent to: the kernel then keeps the route, and
 * a send costs it less. They only send; answers come to the one socket that all peers know, since
 * who a datagram is from is in its header, not in its source port. A firewall between the two may
 * think otherwise: see dw_udp_hot_doubt().
 */
#include <unistd.h>

#include "common/llp/udp.h"

/* Sends to a destination that make it hot. */
#define HOT_SENDS 64
/* How many more it takes after each doubt, and the most: a firewall that knows the common port only
 * lets nothing else through, and each try costs some time-outs. */
#define WAIT_GROWTH 8
#define WAIT_MAX    (1u << 24)
/* A socket that has carried so many gets through: when it is doubted, the peer computes. */
#define CARRIED_GOOD 16384
/* More than that is not counted, so that another destination can take over in time. */
#define HOT_SENDS_MAX 1024

static bool same_addr(const struct dw_llp_addr *a, const struct dw_llp_addr *b)
{
    return a->port == b->port && dw_llp_same_host(a, b);
}

static struct dw_udp_hot *slot_of(struct dw_udp *udp, const struct dw_llp_addr *to)
{
    unsigned host = to->family == AF_INET ? to->ip[3] : to->ip[15];
    return &udp->hot[(host * 31 + to->port) % DW_UDP_HOT];
}

void dw_udp_hot_init(struct dw_udp *udp, const struct dw_llp_attr *attr)
{
    struct dw_llp_addr any = {.family = attr->family};
    if (attr->bind_ip) {
        memcpy(any.ip, attr->bind_ip, attr->family == AF_INET ? 4 : 16);
    }
    dw_udp_sockaddr_set(attr->family, &any, &udp->bound);
    for (unsigned i = 0; i < DW_UDP_HOT; i++) {
        udp->hot[i].fd = -1;
    }
    /* Where a firewall wants certain ports, everything comes from the one port in the range. */
    udp->hot_wanted = attr->connected && attr->port_min == 0;
}

static void close_socket(struct dw_udp_hot *hot)
{
    if (hot->fd >= 0) {
        close(hot->fd);
    }
    hot->fd = -1;
}

void dw_udp_hot_fini(struct dw_udp *udp)
{
    for (unsigned i = 0; i < DW_UDP_HOT; i++) {
        close_socket(&udp->hot[i]);
    }
}

/* A socket that only sends, only there. -1: the system has none to give, or no way there.
 * With IP_RECVERR an ICMP error, of whatever kind, fails the next send, which is all that is to be
 * known: its error queue is not read and has no room. Without one, all goes through the common
 * socket. */
static int open_connected(const struct dw_udp *udp, const struct dw_llp_addr *to)
{
    union dw_udp_sockaddr name;
    socklen_t len = dw_udp_sockaddr_set(udp->family, to, &name);
    int fd = socket(udp->family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    dw_udp_set_int(fd, SOL_SOCKET, SO_RCVBUF, 0); /* the least: nothing is read */
    (void)dw_udp_set_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE, udp->llp.sndbuf_bytes / 2);
    if (len == 0 || dw_udp_set_options(fd, udp->family) < 0 || bind(fd, &udp->bound.any, len) < 0 ||
        connect(fd, &name.any, len) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int dw_udp_hot_fd(struct dw_udp *udp, const struct dw_llp_addr *to)
{
    if (!udp->hot_wanted) {
        return -1;
    }
    struct dw_udp_hot *hot = slot_of(udp, to);
    if (__builtin_expect(same_addr(&hot->to, to), 1)) {
        hot->sends += hot->sends < HOT_SENDS_MAX;
        if (__builtin_expect(hot->wait > 0, 0) && --hot->wait == 0) {
            hot->fd = open_connected(udp, to);
            dw_udp_apply_checksum(udp, hot->fd);
        }
        hot->carried += hot->fd >= 0;
        return hot->fd;
    }
    if (hot->sends > 0) {
        hot->sends--;
        return -1;
    }
    close_socket(hot);
    *hot = (struct dw_udp_hot){.to = *to,
                               .fd = -1,
                               .sends = 1,
                               .wait = HOT_SENDS - 1,
                               .wait_next = WAIT_GROWTH * HOT_SENDS};
    return -1;
}

void dw_udp_hot_doubt(struct dw_udp *udp, const struct dw_llp_addr *to)
{
    struct dw_udp_hot *hot = slot_of(udp, to);
    if (hot->fd < 0 || !same_addr(&hot->to, to)) {
        return;
    }
    close_socket(hot);
    if (hot->carried >= CARRIED_GOOD) {
        hot->wait_next = HOT_SENDS;
    }
    hot->carried = 0;
    hot->wait = hot->wait_next;
    if (hot->wait_next < WAIT_MAX) {
        hot->wait_next *= WAIT_GROWTH;
    }
}
