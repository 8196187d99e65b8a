/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets connected to a few busy peers that are reached over loopback, for sending only: for an
 * unconnected socket the kernel looks up the route with each send, and runs the BPF programs that
 * watch such sends (0.05 to 0.1 us of 2). Peers answer to the address that the modex or an intro
 * gave them, not to the source of a datagram. To other hosts all datagrams leave by the common
 * socket, as a firewall may let its port alone through. */
#pragma once

#include "common/llp/socket.h"

#define DW_DIRECTS 4

struct dw_directs {
    bool off;
    struct dw_direct {
        struct dw_llp_addr to;
        int fd;         /* -1: none */
        uint16_t sends; /* to `to`, less those since to other addresses of the slot */
    } slots[DW_DIRECTS];
};

/* Zeroed before. */
void dw_directs_init(struct dw_directs *directs);
void dw_directs_fini(struct dw_directs *directs);
/* The socket for the next send to `to`; -1: the common one. */
int dw_direct_fd(struct dw_directs *directs, const struct dw_llp_addr *to);
/* A send by the socket to `to` has failed: it is closed, and another has to be earned again. */
void dw_direct_drop(struct dw_directs *directs, const struct dw_llp_addr *to);
void dw_directs_add_memory(const struct dw_directs *directs, struct diwarp_memory *memory);
