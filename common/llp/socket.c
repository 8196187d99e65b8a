/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/llp/socket.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include <linux/sock_diag.h>

struct dw_llp_addr dw_sockaddr_get(const union dw_sockaddr *from)
{
    const bool v4 = from->any.sa_family == AF_INET;
    const bool mapped = !v4 && IN6_IS_ADDR_V4MAPPED(&from->v6.sin6_addr);
    struct dw_llp_addr addr = {.family = v4 || mapped ? AF_INET : AF_INET6,
                               .port = ntohs(v4 ? from->v4.sin_port : from->v6.sin6_port)};
    if (v4)
        memcpy(addr.ip, &from->v4.sin_addr, 4);
    else
        memcpy(addr.ip, from->v6.sin6_addr.s6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
    return addr;
}

void dw_llp_format(const struct dw_llp_addr *addr, char *buf, size_t len)
{
    char ip[INET6_ADDRSTRLEN] = "?";
    inet_ntop(addr->family, addr->ip, ip, sizeof ip);
    snprintf(buf, len, addr->family == AF_INET6 ? "[%s]:%u" : "%s:%u", ip, addr->port);
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
    return getsockname(fd, &name.any, &len) < 0 ? -errno : dw_sockaddr_get(&name).port;
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

/* ---- memory ---- */

/* With the waste of their slabs, Linux 6.18 on x86-64: what a running kernel takes it tells only
 * root, and not of caches that it has merged with others. */
uint64_t dw_socket_slab_bytes(int domain, int type)
{
    const uint64_t file_bytes = 862 + 195 + 195; /* inode, struct file, directory entry */
    if (domain == AF_UNIX)
        return file_bytes + 1092;
    if (domain != AF_INET && domain != AF_INET6)
        return file_bytes;
    return file_bytes + (type == SOCK_STREAM ? 2520 : domain == AF_INET6 ? 1489 : 1365);
}

static int option(int fd, int name)
{
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &length) < 0 ? -1 : value;
}

void dw_llp_add_socket(int fd, struct diwarp_memory *memory)
{
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof info;
    memory->sockets++;
    memory->socket_slab_bytes += dw_socket_slab_bytes(option(fd, SO_DOMAIN), option(fd, SO_TYPE));
    (void)getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &length);
    /* TCP's queue of what may have to be sent again; the copies of it on their way down are in
     * wmem_alloc, which is all that UDP has. */
    const uint32_t sent = info[SK_MEMINFO_WMEM_ALLOC], queued = info[SK_MEMINFO_WMEM_QUEUED];
    memory->socket_queue_bytes += (uint64_t)(sent > queued ? sent : queued) +
                                  info[SK_MEMINFO_RMEM_ALLOC] + info[SK_MEMINFO_FWD_ALLOC] +
                                  info[SK_MEMINFO_OPTMEM] + info[SK_MEMINFO_BACKLOG];
    memory->socket_limit_bytes += (uint64_t)info[SK_MEMINFO_RCVBUF] + info[SK_MEMINFO_SNDBUF];
}

/* Linux keeps a datagram that fits one allocation of up to 16 KiB in a linear buffer: payload, link
 * layer room, headers and struct skb_shared_info, rounded up to a power of two, plus struct
 * sk_buff. A longer one keeps its payload in page fragments, charged as they are, beside a small
 * head. Upper bounds over IPv4 and IPv6 of SO_MEMINFO on loopback; the unit test asks the running
 * kernel. */
uint32_t dw_llp_truesize(uint32_t payload_bytes)
{
    enum {
        SKB = 256,
        HEAD = 576 + SKB,    /* the smallest there is */
        OVERHEAD = 392,      /* IPv6, 16 bytes of link layer room, shared info, alignment */
        LINEAR_MOST = 15808, /* above, the other form costs no less */
    };
    if (payload_bytes > LINEAR_MOST)
        return payload_bytes + HEAD;
    uint32_t truesize = (1u << (32 - __builtin_clz(payload_bytes + OVERHEAD - 1))) + SKB;
    return truesize < HEAD ? HEAD : truesize;
}
