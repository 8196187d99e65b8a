/* SPDX-License-Identifier: BSD-3-Clause */
/* Socket addresses of IPv4 and IPv6, and the GIDs that they stand for. Pure. */
#pragma once

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "verbs_diwarp/front.h"

/* 0: of neither family. */
static inline socklen_t dv_cm_sockaddr_bytes(const struct sockaddr *address)
{
    const int family = address ? address->sa_family : AF_UNSPEC;
    return family == AF_INET    ? sizeof(struct sockaddr_in)
           : family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                : 0;
}

/* Of either family. */
static inline union ibv_gid dv_cm_gid_of(const struct sockaddr *address)
{
    union ibv_gid gid;
    if (address->sa_family == AF_INET)
        dv_put_gid(&gid,
                   (const uint8_t *)&((const struct sockaddr_in *)(const void *)address)->sin_addr);
    else
        memcpy(&gid, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, sizeof gid);
    return gid;
}

/* With that port, in network order. */
static inline struct sockaddr_storage dv_cm_sockaddr_of(const union ibv_gid *gid, in_port_t port)
{
    struct sockaddr_storage storage = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&storage;
    if (dv_is_ipv4(gid)) {
        *v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
        memcpy(&v4->sin_addr, gid->raw + 12, sizeof v4->sin_addr);
    } else {
        *v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = port};
        memcpy(&v6->sin6_addr, gid, sizeof v6->sin6_addr);
    }
    return storage;
}

/* Both families have it at one place. */
static inline in_port_t dv_cm_port_of(const struct sockaddr *address)
{
    return ((const struct sockaddr_in *)(const void *)address)->sin_port;
}

static inline void dv_cm_set_port(struct sockaddr *address, in_port_t port)
{
    ((struct sockaddr_in *)(void *)address)->sin_port = port;
}

static inline bool dv_cm_is_loopback(const union ibv_gid *gid)
{
    return dv_is_ipv4(gid) ? gid->raw[12] == IN_LOOPBACKNET
                           : IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)(const void *)gid);
}

static inline bool dv_cm_is_any(const union ibv_gid *gid)
{
    static const uint8_t none[16];
    return dv_is_ipv4(gid) ? !memcmp(gid->raw + 12, none, 4) : !memcmp(gid, none, sizeof none);
}
