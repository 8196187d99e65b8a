/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/llp/direct.h"

#include <unistd.h>

/* Sends to an address before it gets a socket, which costs some 5 us and 2.7 KiB of the kernel's
 * memory. Half opens sockets for short exchanges; twice pays for more routes first. */
#define SENDS 256

static bool is_loopback(const struct dw_llp_addr *addr)
{
    return addr->family == AF_INET ? addr->ip[0] == 127
                                   : !memcmp(addr->ip, &in6addr_loopback, sizeof in6addr_loopback);
}

static struct dw_direct *slot_of(struct dw_directs *directs, const struct dw_llp_addr *to)
{
    return &directs->slots[to->port % DW_DIRECTS];
}

static void drop(struct dw_direct *slot)
{
    if (slot->fd >= 0)
        close(slot->fd);
    slot->fd = -1;
}

static int set_options(int fd, bool v4)
{
    (void)dw_set_int(fd, SOL_SOCKET, SO_RCVBUF, 0); /* the least: nothing is read */
    return v4 ? dw_set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
              : dw_set_int(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
}

/* The first ICMP error fails the next send by the socket; that goes by the common one, which learns
 * from the second. */
static int open_to(const struct dw_llp_addr *to)
{
    union dw_sockaddr name;
    const socklen_t len = dw_sockaddr_set(to->family, to, &name);
    const int fd = socket(to->family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* Where nobody has the port any more it may be the one that connect() chooses for us. */
    if (fd >= 0 && !set_options(fd, to->family == AF_INET) && !connect(fd, &name.any, len) &&
        dw_port_of(fd) != to->port)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

void dw_directs_init(struct dw_directs *directs)
{
    for (unsigned i = 0; i < DW_DIRECTS; i++)
        directs->slots[i] = (struct dw_direct){.fd = -1};
}

void dw_directs_fini(struct dw_directs *directs)
{
    for (unsigned i = 0; i < DW_DIRECTS; i++)
        drop(&directs->slots[i]);
}

int dw_direct_fd(struct dw_directs *directs, const struct dw_llp_addr *to)
{
    if (directs->off || !is_loopback(to))
        return -1;
    struct dw_direct *slot = slot_of(directs, to);
    if (slot->to.port == to->port && dw_llp_same_host(&slot->to, to)) {
        if (slot->sends < SENDS && ++slot->sends == SENDS)
            slot->fd = open_to(to);
        return slot->fd;
    }
    if (slot->sends) {
        slot->sends--;
        return -1;
    }
    drop(slot);
    *slot = (struct dw_direct){.to = *to, .fd = -1, .sends = 1};
    return -1;
}

void dw_direct_drop(struct dw_directs *directs, const struct dw_llp_addr *to)
{
    drop(slot_of(directs, to));
    slot_of(directs, to)->sends = 0;
}

void dw_directs_add_memory(const struct dw_directs *directs, struct diwarp_memory *memory)
{
    for (unsigned i = 0; i < DW_DIRECTS; i++)
        if (directs->slots[i].fd >= 0)
            dw_llp_add_socket(directs->slots[i].fd, memory);
}
