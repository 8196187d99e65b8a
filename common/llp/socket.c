/* SPDX-License-Identifier: BSD-3-Clause */
/* See socket.h. */
#include "common/llp/socket.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

struct dw_llp_addr dw_sockaddr_get(const union dw_sockaddr *from)
{
    struct dw_llp_addr addr = {.family = AF_INET};
    if (from->any.sa_family == AF_INET) {
        addr.port = ntohs(from->v4.sin_port);
        memcpy(addr.ip, &from->v4.sin_addr, 4);
        return addr;
    }
    addr.port = ntohs(from->v6.sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&from->v6.sin6_addr)) {
        memcpy(addr.ip, from->v6.sin6_addr.s6_addr + 12, 4);
        return addr;
    }
    addr.family = AF_INET6;
    memcpy(addr.ip, from->v6.sin6_addr.s6_addr, 16);
    return addr;
}

int dw_set_int(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value) < 0 ? -errno : 0;
}

uint32_t dw_set_buffer(int fd, int name, int force_name, uint32_t bytes)
{
    int value = bytes > INT_MAX / 2 ? INT_MAX / 2 : (int)bytes;
    socklen_t len = sizeof value;
    if (bytes > 0 && dw_set_int(fd, SOL_SOCKET, force_name, value) < 0)
        dw_set_int(fd, SOL_SOCKET, name, value);
    return getsockopt(fd, SOL_SOCKET, name, &value, &len) < 0 || value < 0 ? 0 : (uint32_t)value;
}

int dw_take_port(const struct dw_llp_addr *ip, uint16_t port_min, uint16_t port_max,
                 int (*take)(void *arg, const union dw_sockaddr *name, socklen_t len), void *arg)
{
    struct dw_llp_addr addr = *ip;
    union dw_sockaddr name;
    int rc = -EADDRINUSE;
    for (unsigned port = port_min; rc == -EADDRINUSE && (port == port_min || port <= port_max);
         port++) {
        addr.port = (uint16_t)port;
        rc = take(arg, &name, dw_sockaddr_set(addr.family, &addr, &name));
    }
    return rc;
}

int dw_port_of(int fd)
{
    union dw_sockaddr name;
    socklen_t len = sizeof name;
    if (getsockname(fd, &name.any, &len) < 0)
        return -errno;
    return dw_sockaddr_get(&name).port;
}

void dw_explain(struct diwarp_diagnosis *why, const char *format, ...)
{
    if (!why)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
}
