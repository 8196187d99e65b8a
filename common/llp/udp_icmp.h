/* SPDX-License-Identifier: BSD-3-Clause */
/* What the network and the own host say of destinations: by ICMP, and by their routes. */
#ifndef DW_UDP_ICMP_H
#define DW_UDP_ICMP_H

#include <stdatomic.h>

#include "common/llp/socket.h"

struct dw_udp_icmp {
    int fd;                       /* whose error queue is read */
    const struct dw_bound *bound; /* as that socket is */
    atomic_bool errors_waiting;   /* a call failed with another datagram's error */
    unsigned question_count;
    struct dw_llp_addr questions[DW_DESTINATIONS]; /* whose path is asked about; others ask again */
};

/* Without a system call unless a send or receive has met an error. */
bool dw_udp_icmp_get(struct dw_udp_icmp *icmp, struct dw_llp_icmp *told);
/* A call of dw_udp_icmp_get() will tell the MTU of the path to `to`. */
void dw_udp_icmp_ask_mtu(struct dw_udp_icmp *icmp, const struct dw_llp_addr *to);
/* The error queue is to be read. */
static inline void dw_udp_icmp_on_error(struct dw_udp_icmp *icmp)
{
    atomic_store_explicit(&icmp->errors_waiting, true, memory_order_relaxed);
}
/* By the routes of the own host; 0: nothing is known. */
uint32_t dw_udp_path_mtu_bytes(const struct dw_bound *bound, const struct dw_llp_addr *to);

#endif
