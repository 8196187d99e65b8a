/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/llp/socket_slab.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The sizes serve where /proc/slabinfo cannot be read (it needs root) or does not name the cache,
 * because the kernel has merged it with another: Linux 6.18, x86-64, with the cache's waste per
 * object. */
enum slab {
    SLAB_TCP,
    SLAB_TCP6,
    SLAB_UDP,
    SLAB_UDP6,
    SLAB_UNIX,
    SLAB_INODE,
    SLAB_FILE,
    SLAB_DENTRY,
    SLAB_EPOLL_ITEM,
    SLABS
};
static struct {
    const char *name;
    uint64_t bytes;
} slabs[SLABS] = {
    [SLAB_TCP] = {"TCP", 2520},
    [SLAB_TCP6] = {"TCPv6", 2520},
    [SLAB_UDP] = {"UDP", 1365},
    [SLAB_UDP6] = {"UDPv6", 1489},
    [SLAB_UNIX] = {"UNIX", 1092},
    [SLAB_INODE] = {"sock_inode_cache", 862},
    [SLAB_FILE] = {"filp", 195},
    [SLAB_DENTRY] = {"dentry", 195},
    [SLAB_EPOLL_ITEM] = {"eventpoll_epi", 128},
};
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* "NAME active total objsize objperslab pagesperslab : ...": an object's share of its pages. */
static void read_slab_line(const char *line)
{
    char name[64];
    unsigned long long per_slab, pages;
    if (sscanf(line, "%63s %*u %*u %*u %llu %llu", name, &per_slab, &pages) != 3 || !per_slab) {
        return;
    }
    for (unsigned i = 0; i < SLABS; i++) {
        if (strcmp(slabs[i].name, name) == 0) {
            slabs[i].bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE) / per_slab;
        }
    }
}

static void read_slabs(void)
{
    char line[256];
    FILE *file = fopen("/proc/slabinfo", "re");
    if (!file) {
        return;
    }
    while (fgets(line, sizeof line, file)) {
        read_slab_line(line);
    }
    fclose(file);
}

static uint64_t protocol_bytes(int domain, int type)
{
    if (domain == AF_UNIX) {
        return slabs[SLAB_UNIX].bytes;
    }
    if (domain != AF_INET && domain != AF_INET6) {
        return 0;
    }
    switch (type) {
    case SOCK_STREAM:
        return slabs[domain == AF_INET ? SLAB_TCP : SLAB_TCP6].bytes;
    case SOCK_DGRAM:
        return slabs[domain == AF_INET ? SLAB_UDP : SLAB_UDP6].bytes;
    default:
        return 0;
    }
}

uint64_t dw_socket_slab_bytes(int domain, int type)
{
    (void)pthread_once(&once, read_slabs);
    return protocol_bytes(domain, type) + slabs[SLAB_INODE].bytes + slabs[SLAB_FILE].bytes +
           slabs[SLAB_DENTRY].bytes;
}

uint64_t dw_epoll_item_slab_bytes(void)
{
    (void)pthread_once(&once, read_slabs);
    return slabs[SLAB_EPOLL_ITEM].bytes;
}
