/* SPDX-License-Identifier: BSD-3-Clause */
/* See socket_memory.h. */
#include "common/llp/socket_memory.h"

#include <linux/sock_diag.h>
#include <sys/socket.h>

#include "common/llp/llp.h"

/* Bytes of kernel objects with the waste of their slabs, Linux 6.18 on x86-64: what a running
 * kernel takes it tells only root, and not of caches that it has merged with others. */
enum {
    TCP_BYTES = 2520,
    UDP_BYTES = 1365,
    UDP6_BYTES = 1489,
    UNIX_BYTES = 1092,
    FILE_BYTES = 862 + 195 + 195, /* inode of a socket, struct file, directory entry */
    EPOLL_ITEM_BYTES = 128,
};

uint64_t dw_socket_slab_bytes(int domain, int type)
{
    if (domain == AF_UNIX)
        return FILE_BYTES + UNIX_BYTES;
    if ((domain != AF_INET && domain != AF_INET6) || (type != SOCK_STREAM && type != SOCK_DGRAM))
        return FILE_BYTES;
    if (type == SOCK_STREAM)
        return FILE_BYTES + TCP_BYTES;
    return FILE_BYTES + (domain == AF_INET6 ? UDP6_BYTES : UDP_BYTES);
}

uint64_t dw_epoll_item_slab_bytes(void)
{
    return EPOLL_ITEM_BYTES;
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
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &length) < 0)
        return;
    /* TCP's queue of what may have to be sent again; the copies of it on their way down are in
     * wmem_alloc, which is all that UDP has. */
    const uint32_t sent = info[SK_MEMINFO_WMEM_ALLOC], queued = info[SK_MEMINFO_WMEM_QUEUED];
    memory->socket_queue_bytes += (uint64_t)(sent > queued ? sent : queued) +
                                  info[SK_MEMINFO_RMEM_ALLOC] + info[SK_MEMINFO_FWD_ALLOC] +
                                  info[SK_MEMINFO_OPTMEM] + info[SK_MEMINFO_BACKLOG];
    memory->socket_limit_bytes += (uint64_t)info[SK_MEMINFO_RCVBUF] + info[SK_MEMINFO_SNDBUF];
}

/* What a waiting datagram costs of SO_RCVBUF. Linux keeps a datagram that fits one allocation of up
 * to 16 KiB in a linear buffer: payload, link layer room, IP and UDP headers and struct
 * skb_shared_info, rounded up to the allocator's power of two, plus struct sk_buff. A longer one
 * keeps its payload in page fragments, charged as they are, beside a small linear head. The figures
 * are upper bounds over IPv4 and IPv6, taken from SO_MEMINFO on loopback; the unit test compares
 * them with the running kernel. */
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
