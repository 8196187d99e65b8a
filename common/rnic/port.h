/* SPDX-License-Identifier: BSD-3-Clause */
/* A port: the datagrams of one UDP socket, shared by all queue pairs of a device, and their run. */
#pragma once

#include "common/base/heap.h"
#include "common/rnic/device.h"
#include "common/rnic/service.h"

#define DW_PORT_SERVICES 2

struct dw_port {
    struct dw_runner runner; /* in device.runners */
    struct diwarp_device *device;
    struct dw_datagrams datagrams;
    struct dw_paths paths;
    struct dw_list qps;
    struct dw_map qp_by_num;
    uint32_t last_qpn;              /* given out; none again before all others have been */
    void *states[DW_PORT_SERVICES]; /* of device.services, each from its first QP on */
    uint32_t mtu_max_bytes;         /* peers are told of no larger one */
    bool refuses_data;              /* no room for what would have to be handed out */
    struct dw_heap timers;
    uint64_t ran_ns;
    uint64_t timers_wait_ns;    /* time since timers ran, absences shortened */
    struct dw_timer trim_timer; /* runs while there is something to give back */
};

/* Address handles may outlive their port, and lead to it while it lives: taken, before a device's
 * lock, where a port may go and where one is found by a handle. */
extern pthread_mutex_t dw_ports_lock;

/* The device's port, opened at first use; polls run it. As diwarp_create_qp(). */
int dw_port_get(struct diwarp_device *device, struct diwarp_diagnosis *why);
/* Closes it, and what services keep of it, when no QP is left. */
void dw_port_put(struct dw_port *port);
/* Sees that what is taken now will be given back. */
void dw_port_trim_later(struct dw_port *port, uint64_t now_ns);

/* ---- where address handles lead: which pair of interfaces, and how long datagrams may be ---- */

/* Longest datagram that a path of that MTU takes. */
uint32_t dw_datagram_max_bytes(const struct dw_port *port, uint8_t family, uint32_t mtu_bytes);
/* What peers are told of an interface's MTU, and what we count on ourselves. */
uint32_t dw_told_mtu_bytes(const struct dw_port *port, const struct diwarp_interface *interface);
/* Sets where it is by what a datagram says of its source. False: no memory, it is as before. */
bool dw_ah_set_route_by_intro(struct diwarp_ah *ah, const struct dw_intro *intro);
/* It is about to be freed, or its port to be closed. */
void dw_ah_drop_route(struct diwarp_ah *ah);
