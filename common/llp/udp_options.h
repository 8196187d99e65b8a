/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses and options of sockets, those of the UDP LLP above all. */
#ifndef DW_UDP_OPTIONS_H
#define DW_UDP_OPTIONS_H

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "common/llp/llp.h"

union dw_udp_sockaddr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* What the sockets of one LLP are bound to. */
struct dw_udp_bound {
    uint8_t family;
    union dw_udp_sockaddr name; /* any port */
};

int dw_udp_set_int(int fd, int level, int name, int value);
/* Asks for a buffer, beyond the system's limit where that is allowed. Returns what there is. */
uint32_t dw_udp_set_buffer(int fd, int name, int force_name, uint32_t bytes);
/* Options of every socket, the send-only ones included. */
int dw_udp_set_options(int fd, uint8_t family);

/* An IPv6 socket reaches IPv4 as ::ffff:a.b.c.d. Returns 0 when the socket cannot reach `from`. */
static inline socklen_t dw_udp_sockaddr_set(uint8_t family, const struct dw_llp_addr *from,
                                            union dw_udp_sockaddr *to)
{
    if (family == AF_INET) {
        if (from->family != AF_INET) {
            return 0;
        }
        to->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(from->port)};
        memcpy(&to->v4.sin_addr, from->ip, 4);
        return sizeof(to->v4);
    }
    to->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(from->port)};
    if (from->family == AF_INET) {
        memset(to->v6.sin6_addr.s6_addr + 10, 0xff, 2);
        memcpy(to->v6.sin6_addr.s6_addr + 12, from->ip, 4);
    } else {
        memcpy(to->v6.sin6_addr.s6_addr, from->ip, 16);
    }
    return sizeof(to->v6);
}

#endif
