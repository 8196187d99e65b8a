/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets connected to the few addresses on this host that most is sent to, for sending only: for
 * an unconnected one the kernel looks up the route with each send, and runs what BPF programs watch
 * such sends (0.05 to 0.1 us of 2). Who answers has been told our address, and needs none from the
 * IP header. Between hosts a firewall may let our one port through alone: all leaves from that. */
#pragma once

#include "common/llp/socket.h"

#define DW_DIRECTS 4

struct dw_directs {
    struct dw_direct {
        struct dw_llp_addr to;
        int fd;         /* -1: none */
        uint16_t sends; /* there, of late: more than to others that would have the slot */
    } slots[DW_DIRECTS];
};

void dw_directs_init(struct dw_directs *directs);
void dw_directs_fini(struct dw_directs *directs);
/* The socket for the next send there; -1: the common one. */
int dw_direct_fd(struct dw_directs *directs, const struct dw_llp_addr *to);
/* A send by it has failed: it is not used again. */
void dw_direct_drop(struct dw_directs *directs, const struct dw_llp_addr *to);
void dw_directs_add_memory(const struct dw_directs *directs, struct diwarp_memory *memory);
