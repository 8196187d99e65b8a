/* SPDX-License-Identifier: BSD-3-Clause */
/* See socket_memory.h. */
#include "common/llp/socket_memory.h"

#include <linux/sock_diag.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/llp/llp.h"

/* The sizes serve where /proc/slabinfo cannot be read (it needs root) or does not name the cache,
 * because the kernel has merged it with another: Linux 6.18, x86-64, with the cache's waste per
 * object. */
enum slab { TCP, TCP6, UDP, UDP6, UNIX, INODE, FILP, DENTRY, EPOLL_ITEM, SLABS };
static struct {
    const char *name;
    uint64_t bytes;
} slabs[SLABS] = {{"TCP", 2520},   {"TCPv6", 2520}, {"UDP", 1365},
                  {"UDPv6", 1489}, {"UNIX", 1092},  {"sock_inode_cache", 862},
                  {"filp", 195},   {"dentry", 195}, {"eventpoll_epi", 128}};

/* "NAME active total objsize objperslab pagesperslab : ...": an object's share of its pages. */
static void read_slabs(void)
{
    char line[256], name[64];
    unsigned long long per_slab, pages;
    FILE *file = fopen("/proc/slabinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%63s %*u %*u %*u %llu %llu", name, &per_slab, &pages) != 3 || !per_slab)
            continue;
        for (unsigned i = 0; i < SLABS; i++)
            if (strcmp(slabs[i].name, name) == 0)
                slabs[i].bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE) / per_slab;
    }
    if (file)
        fclose(file);
}

static uint64_t slab_bytes(enum slab slab)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, read_slabs);
    return slabs[slab].bytes;
}

uint64_t dw_socket_slab_bytes(int domain, int type)
{
    const uint64_t bytes = slab_bytes(INODE) + slab_bytes(FILP) + slab_bytes(DENTRY);
    if (domain == AF_UNIX)
        return bytes + slab_bytes(UNIX);
    if ((domain != AF_INET && domain != AF_INET6) || (type != SOCK_STREAM && type != SOCK_DGRAM))
        return bytes;
    return bytes + slab_bytes((type == SOCK_STREAM ? TCP : UDP) + (domain == AF_INET6));
}

uint64_t dw_epoll_item_slab_bytes(void)
{
    return slab_bytes(EPOLL_ITEM);
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
