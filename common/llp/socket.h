/* SPDX-License-Identifier: BSD-3-Clause */
/* Names, options and ports of sockets, and why one could not be had. */
#pragma once

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "common/llp/llp.h"

union dw_sockaddr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* What the sockets of one LLP are bound to. */
struct dw_bound {
    uint8_t family;
    union dw_sockaddr name; /* any port */
};

/* Places in a table of destinations, such that one of a few peers rarely takes that of another. */
#define DW_DESTINATIONS 8

/* An IPv6 socket reaches IPv4 as ::ffff:a.b.c.d. Returns 0 when one of `family` cannot reach
 * `from`.
 */
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

int dw_set_int(int fd, int level, int name, int value);

/* Options of every socket, the send-only ones included. */
int dw_set_udp_options(int fd, uint8_t family);
/* IP_PMTUDISC_WANT: a datagram above the path's MTU leaves in fragments, all others with DF.
 * IP_PMTUDISC_PROBE: all leave with DF, whatever the kernel believes of the path. */
int dw_set_udp_discovery(int fd, uint8_t family, int discovery);
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
