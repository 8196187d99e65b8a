/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the UDP LLP. Opened by dw_udp_open() of udp_open.c. */
#ifndef DW_UDP_H
#define DW_UDP_H

#include "common/llp/udp_hot.h"
#include "common/llp/udp_icmp.h"

/* Trains of segment_bytes or more to this host go datagram by datagram until trains_left is 0. */
struct dw_udp_refusal {
    struct dw_llp_addr to;
    uint32_t segment_bytes;
    uint32_t trains_left;
};

struct dw_udp {
    struct dw_llp llp;
    struct dw_bound bound;
    bool gro_allowed;      /* but not on yet */
    uint32_t before_bytes; /* of the datagram just before; 0: none came right before */
    unsigned eio_in_row;   /* trains refused with EIO since the last one that went */
    unsigned refusal_count;
    struct dw_udp_refusal refusals[DW_DESTINATIONS];
    bool whole; /* the train that is being sent, see struct dw_llp_train */
    struct dw_udp_hots hots;
    struct dw_udp_icmp icmp;
};

extern const struct dw_llp_ops dw_udp_ops;

#endif
