/* SPDX-License-Identifier: BSD-3-Clause */
/* What the UDP LLP holds in memory, its own and the kernel's. */
#include <linux/sock_diag.h>

#include "common/llp/udp.h"

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

static void add_socket(int fd, struct dw_llp_memory *memory)
{
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof info;
    memory->sockets++;
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &length) < 0) {
        return;
    }
    memory->queue_bytes += (uint64_t)info[SK_MEMINFO_RMEM_ALLOC] + info[SK_MEMINFO_WMEM_ALLOC] +
                           info[SK_MEMINFO_FWD_ALLOC] + info[SK_MEMINFO_OPTMEM] +
                           info[SK_MEMINFO_BACKLOG];
    memory->limit_bytes += (uint64_t)info[SK_MEMINFO_RCVBUF] + info[SK_MEMINFO_SNDBUF];
}

void dw_udp_query_memory(const struct dw_llp *llp, struct dw_llp_memory *memory)
{
    const struct dw_udp *udp = (const struct dw_udp *)llp;
    *memory = (struct dw_llp_memory){.own_bytes = sizeof *udp};
    add_socket(llp->fd, memory);
    for (unsigned i = 0; i < DW_UDP_HOT; i++) {
        if (udp->hot[i].fd >= 0) {
            add_socket(udp->hot[i].fd, memory);
        }
    }
}
