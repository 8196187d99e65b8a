/* SPDX-License-Identifier: BSD-3-Clause */
/* Connected sockets for the destinations that most is sent to: the kernel then keeps the route, and
 * a send costs it less. They only send; answers come to the one socket that all peers know, since
 * who a datagram is from is in its header, not in its source port. A firewall between the two may
 * think otherwise: see dw_udp_hot_doubt(). */
#include <unistd.h>

#include "common/llp/udp_hot.h"

/* Sends to a destination that make it hot: at half of that a few messages to each of many peers
 * make sockets for nothing, at twice of that short runs send 64 more by the slower way. */
#define HOT_SENDS 64
/* How many times longer each doubt makes the wait: a firewall that knows the common port only lets
 * nothing else through, and each try costs some time-outs. */
#define WAIT_GROWTH 8
/* A socket that has carried so many sends gets through: when it is doubted, the peer computes. More
 * sends are not counted, so that another destination of its place can take over in time. */
#define PROVEN_SENDS (256 * HOT_SENDS)

static struct dw_udp_hot *place_of(struct dw_udp_hots *hots, const struct dw_llp_addr *to)
{
    unsigned host = to->family == AF_INET ? to->ip[3] : to->ip[15];
    return &hots->hot[(host * 31 + to->port) % DW_DESTINATIONS];
}

static bool is_to(const struct dw_udp_hot *hot, const struct dw_llp_addr *to)
{
    return hot->to.port == to->port && dw_llp_same_host(&hot->to, to);
}

void dw_udp_hot_init(struct dw_udp_hots *hots, const struct dw_llp_attr *attr,
                     const struct dw_bound *bound, uint32_t sndbuf_bytes)
{
    hots->bound = bound;
    hots->sndbuf_bytes = sndbuf_bytes / 2;
    for (unsigned i = 0; i < DW_DESTINATIONS; i++)
        hots->hot[i].fd = -1;
    /* Where a firewall wants certain ports, everything comes from the one port in the range. */
    hots->wanted = attr->connected && attr->port_min == 0;
}

static void close_socket(struct dw_udp_hot *hot)
{
    if (hot->fd >= 0)
        close(hot->fd);
    hot->fd = -1;
}

void dw_udp_hot_fini(struct dw_udp_hots *hots)
{
    for (unsigned i = 0; i < DW_DESTINATIONS; i++)
        close_socket(&hots->hot[i]);
}

/* A socket that only sends, only there. -1: the system has none to give, or no way there.
 * With IP_RECVERR an ICMP error, of whatever kind, fails the next send, which is all that is to be
 * known: its error queue is not read and has no room. Without one, all goes through the common
 * socket. */
static int open_connected(const struct dw_udp_hots *hots, const struct dw_llp_addr *to)
{
    const uint8_t family = hots->bound->family;
    union dw_sockaddr name;
    socklen_t len = dw_sockaddr_set(family, to, &name);
    int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    dw_set_int(fd, SOL_SOCKET, SO_RCVBUF, 0); /* the least: nothing is read */
    (void)dw_set_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE, hots->sndbuf_bytes);
    if (len == 0 || dw_set_udp_options(fd, family) < 0 ||
        bind(fd, &hots->bound->name.any, len) < 0 || connect(fd, &name.any, len) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int dw_udp_hot_fd(struct dw_udp_hots *hots, const struct dw_llp_addr *to)
{
    if (!hots->wanted)
        return -1;
    struct dw_udp_hot *hot = place_of(hots, to);
    if (__builtin_expect(is_to(hot, to), 1)) {
        hot->sends += hot->sends < PROVEN_SENDS;
        if (__builtin_expect(hot->wait > 0, 0) && --hot->wait == 0)
            hot->fd = open_connected(hots, to);
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

void dw_udp_hot_doubt(struct dw_udp_hots *hots, const struct dw_llp_addr *to)
{
    struct dw_udp_hot *hot = place_of(hots, to);
    if (hot->fd < 0 || !is_to(hot, to))
        return;
    close_socket(hot);
    hot->wait = hot->carried >= PROVEN_SENDS ? HOT_SENDS : hot->wait_next;
    hot->wait_next = hot->wait < UINT32_MAX / WAIT_GROWTH ? WAIT_GROWTH * hot->wait : hot->wait;
    hot->carried = 0;
}
