/* SPDX-License-Identifier: BSD-3-Clause */
/* Names, options, ports and memory of sockets, and why one could not be had. */
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

#include "common/llp/llp.h"

union dw_sockaddr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* An IPv6 socket reaches IPv4 as ::ffff:a.b.c.d. 0: one of `family` cannot reach `from`. */
static inline socklen_t dw_sockaddr_set(uint8_t family, const struct dw_llp_addr *from,
                                        union dw_sockaddr *to)
{
    if (family == AF_INET) {
        if (from->family != AF_INET)
            return 0;
        to->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(from->port)};
        memcpy(&to->v4.sin_addr, from->ip, 4);
        return sizeof to->v4;
    }
    to->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(from->port)};
    if (from->family == AF_INET) {
        memset(to->v6.sin6_addr.s6_addr + 10, 0xff, 2);
        memcpy(to->v6.sin6_addr.s6_addr + 12, from->ip, 4);
    } else {
        memcpy(to->v6.sin6_addr.s6_addr, from->ip, 16);
    }
    return sizeof to->v6;
}

/* The reverse; of ::ffff:a.b.c.d the IPv4 address. */
struct dw_llp_addr dw_sockaddr_get(const union dw_sockaddr *from);
/* "10.0.0.2:40001", "[::1]:40001". */
void dw_llp_format(const struct dw_llp_addr *addr, char *buf, size_t len);

/* 0, or negative errno. */
int dw_set_int(int fd, int level, int name, int value);
/* Asks for a buffer, beyond the system's limit where that is allowed. Returns what there is. */
uint32_t dw_set_buffer(int fd, int name, int force_name, uint32_t bytes);

/* Takes the first free port from port_min to port_max, or port_min alone where that is 0; port_min
 * 0: any. `take` makes it the port of a socket and returns 0, or -EADDRINUSE to be asked again. */
int dw_take_port(const struct dw_llp_addr *ip, uint16_t port_min, uint16_t port_max,
                 int (*take)(void *arg, const union dw_sockaddr *name, socklen_t len), void *arg);
/* That a socket is bound to; or negative errno. */
int dw_port_of(int fd);

/* As snprintf() into why->text; why may be NULL. */
__attribute__((format(printf, 2, 3))) void dw_explain(struct diwarp_diagnosis *why,
                                                      const char *format, ...);

/* Kernel memory of a descriptor that an epoll set watches. */
#define DW_EPOLL_ITEM_BYTES 128
/* Of a socket of that domain (AF_*) and type (SOCK_*): the protocol's structure, as far as it is
 * known, inode, directory entry and file. */
uint64_t dw_socket_slab_bytes(int domain, int type);
/* Adds that, what is queued in the socket, and how much may be. */
void dw_llp_add_socket(int fd, struct diwarp_memory *memory);
