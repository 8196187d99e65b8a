/* SPDX-License-Identifier: BSD-3-Clause */
/* The UDP LLP: opened by dw_udp_open() of udp_open.c, runs in udp.c. */
#pragma once

#include <stdatomic.h>

#include "common/llp/socket.h"

struct dw_udp {
    struct dw_llp llp;
    uint8_t family;
    union dw_sockaddr bound_ip; /* port 0 */
    int discovery;              /* IP_PMTUDISC_DO between sends */
    bool gro_allowed;           /* but not on yet */
    uint32_t before_bytes;      /* of the datagram just before; 0: none came right before */
    unsigned eio_in_row;        /* trains refused with EIO since the last one that went */
    atomic_bool errors_waiting; /* a call failed with another datagram's error */
};

extern const struct dw_llp_ops dw_udp_ops;

/* IP_PMTUDISC_DO: all leave with DF, and none above the path's MTU. _WANT: those leave in
 * fragments. _PROBE: all leave with DF, whatever the kernel believes of the path. */
int dw_udp_set_discovery(struct dw_udp *udp, int discovery);
