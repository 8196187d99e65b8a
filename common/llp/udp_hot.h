/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets connected to the destinations that most is sent to. */
#ifndef DW_UDP_HOT_H
#define DW_UDP_HOT_H

#include "common/llp/socket.h"

/* A destination that much is sent to, and its connected socket. */
struct dw_udp_hot {
    struct dw_llp_addr to;
    int fd;             /* -1: not hot yet */
    uint32_t sends;     /* how many to it, less those to others of the same place */
    uint32_t wait;      /* sends until it gets its socket; 0: it has, or cannot have it */
    uint32_t wait_next; /* after the next doubt */
    uint32_t carried;   /* sends through it */
};

struct dw_udp_hots {
    const struct dw_bound *bound; /* as are all of its sockets */
    uint32_t sndbuf_bytes;        /* of each */
    bool wanted;
    struct dw_udp_hot hot[DW_DESTINATIONS]; /* by a hash of the address */
};

/* Borrows `bound`. */
void dw_udp_hot_init(struct dw_udp_hots *hots, const struct dw_llp_attr *attr,
                     const struct dw_bound *bound, uint32_t sndbuf_bytes);
void dw_udp_hot_fini(struct dw_udp_hots *hots);
/* The socket connected to `to`; -1: it has none. Counts the send. */
int dw_udp_hot_fd(struct dw_udp_hots *hots, const struct dw_llp_addr *to);
/* Its own socket may not get through: back to the common one, for longer each time. */
void dw_udp_hot_doubt(struct dw_udp_hots *hots, const struct dw_llp_addr *to);

#endif
