/* SPDX-License-Identifier: BSD-3-Clause */
/* What a socket holds in kernel memory. */
#include <linux/sock_diag.h>
#include <sys/socket.h>

#include "common/llp/llp.h"
#include "common/llp/socket_slab.h"

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

static int option(int fd, int name)
{
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &length) < 0 ? -1 : value;
}

void dw_llp_add_socket(int fd, struct dw_llp_memory *memory)
{
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof info;
    memory->sockets++;
    memory->slab_bytes += dw_socket_slab_bytes(option(fd, SO_DOMAIN), option(fd, SO_TYPE));
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &length) < 0)
        return;
    /* TCP's queue of what may have to be sent again; the copies of it on their way down are in
     * wmem_alloc, which is all that UDP has. */
    const uint32_t sent = info[SK_MEMINFO_WMEM_ALLOC], queued = info[SK_MEMINFO_WMEM_QUEUED];
    memory->queue_bytes += (uint64_t)(sent > queued ? sent : queued) + info[SK_MEMINFO_RMEM_ALLOC] +
                           info[SK_MEMINFO_FWD_ALLOC] + info[SK_MEMINFO_OPTMEM] +
                           info[SK_MEMINFO_BACKLOG];
    memory->limit_bytes += (uint64_t)info[SK_MEMINFO_RCVBUF] + info[SK_MEMINFO_SNDBUF];
}
