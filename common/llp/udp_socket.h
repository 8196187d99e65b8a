/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of UDP share. */
#pragma once

#include "common/llp/siblings.h"
#include "common/llp/socket.h"

struct dw_udp {
    struct dw_llp llp;
    int fds[DIWARP_MAX_FLOWS]; /* sockets by flow; the first one receives */
    unsigned flows;
    int fd; /* of the train at hand */
    struct dw_siblings siblings;
    bool shares; /* its port is of a range: other processes may have it, too */
    uint8_t family;
    union dw_sockaddr bound_ip; /* port 0 */
    struct dw_llp_addr aim;     /* the group that was sent to last; family 0: none */
    bool broadcasts;            /* it may: one of the groups was a broadcast address */
    int discovery;              /* IP_PMTUDISC_DO between sends */
    bool gro_allowed;           /* but not on yet */
    uint32_t before_bytes;      /* of the datagram just before; 0: none came, or one was sent */
    unsigned eio_in_row;        /* trains refused with EIO since the last one that went */
};

/* ---- udp_icmp.c: as of struct dw_llp_ops ---- */
uint32_t dw_udp_path_mtu_bytes(struct dw_llp *llp, const struct dw_llp_addr *to);
int dw_udp_icmp(struct dw_llp *llp, struct dw_llp_addr *to);

/* ---- udp_group.c ---- */
/* Sets what the next datagram to a group leaves by, from udp->fd. 0 or negative errno. */
int dw_udp_aim(struct dw_udp *udp, const struct dw_llp_addr *to);
int dw_udp_open_group(struct dw_llp *port, const struct dw_llp_addr *group,
                      const uint32_t *interfaces, unsigned count, struct dw_llp **llp);
