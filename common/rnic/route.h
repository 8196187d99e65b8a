/* SPDX-License-Identifier: BSD-3-Clause */
/* Where an address handle leads: which pair of interfaces, and how long datagrams may be. */
#ifndef DW_ROUTE_H
#define DW_ROUTE_H

#include "common/rnic/port.h"
#include "common/wire/llp_header.h"

/* Longest datagram that a path of that MTU takes. */
uint32_t dw_datagram_max_bytes(const struct dw_port *port, uint8_t family, uint32_t mtu_bytes);
/* What peers are told of an interface's MTU, and what we count on ourselves. */
uint32_t dw_told_mtu_bytes(const struct dw_port *port, const struct diwarp_interface *interface);
/* Sets where it is by what a datagram says of its source. False: no memory, it is as before. */
bool dw_ah_set_route_by_intro(struct diwarp_ah *ah, const struct dw_intro *intro);
/* It is about to be freed, or its port to be closed. */
void dw_ah_drop_route(struct diwarp_ah *ah);

#endif
