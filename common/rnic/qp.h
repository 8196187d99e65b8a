/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains, the port, and what every datagram queue pair has. Every function
 * in the headers of this folder runs with the device's lock held, unless it says otherwise. */
#pragma once

#include "common/base/heap.h"
#include "common/mem/mr.h"
#include "common/rnic/cq.h"
#include "common/rnic/service.h"

/* ---- protection domains: who may touch which bytes (RFC 5040 section 8, RFC 5042) ---- */

#define DW_MAX_SGE DIWARP_RD_SEND_SGES /* RD keeps them */

struct diwarp_pd {
    struct diwarp_device *device;
    struct dw_map mrs;     /* struct dw_region by STag */
    uint64_t deregistered; /* how many have been, so far */
};

/* The gather list of a request, of `room` elements at most, checked; returns its bytes, -EINVAL,
 * -EACCES or -EMSGSIZE. Key 0 is the process's own memory, unregistered. */
int64_t dw_pd_gather(const struct diwarp_pd *pd, const struct ibv_sge *list, int count, int access,
                     uint32_t max_bytes, struct iovec *iov, int room);

/* An element of a list that waits for what is written to it: as it was posted, and where its memory
 * was when its key was checked last. */
struct dw_sge {
    struct ibv_sge sge;
    void *at;
};

/* Checks the keys, for IBV_ACCESS_LOCAL_WRITE, and sets where the memory is. False: one is wrong.
 */
bool dw_pd_locate(const struct diwarp_pd *pd, struct dw_sge *list, unsigned count);

/* A peer (NULL: one over RC, whose QP has that context) ends the rights that peers have to a region
 * (RFC 5040 5.3); the application's own use goes on. False: there are none, or the region is bound
 * to another peer, or a window for all QPs. */
bool dw_pd_invalidate(struct diwarp_pd *pd, const struct diwarp_name *peer, const void *context,
                      uint32_t stag);

/* ---- the port: the datagrams of one UDP socket, for all queue pairs of a device ---- */

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
    uint32_t counting_qps;          /* of qps, that count their receives */
    uint32_t mtu_max_bytes;         /* peers are told of no larger one */
    bool refuses_data;              /* no room for what would have to be handed out */
    bool handed_out;                /* something, since the last recycling */
    struct dw_heap timers;
    uint64_t ran_ns;
    uint64_t timers_wait_ns;    /* time since timers ran, absences shortened */
    struct dw_timer trim_timer; /* runs while there is something to give back */
    struct dw_groups *groups;   /* groups.h; NULL: no QP was attached to any yet */
    int all_fd;                 /* watches all its sockets; -1: nobody has asked for it */
};

/* Address handles may outlive their port: taken, before a device's lock, where a port may go and
 * where one is found by a handle. */
extern pthread_mutex_t dw_ports_lock;

/* The device's port, opened at first use; polls run it. As diwarp_create_qp(). */
int dw_port_get(struct diwarp_device *device, struct diwarp_diagnosis *why);
/* Closes it, and what services keep of it, when no QP is left. */
void dw_port_put(struct dw_port *port);
/* Sees that what is taken now will be given back. */
void dw_port_trim_later(struct dw_port *port, uint64_t now_ns);
/* Longest datagram that a path of that MTU takes. */
uint32_t dw_datagram_max_bytes(const struct dw_port *port, uint8_t family, uint32_t mtu_bytes);
/* What peers are told of an interface's MTU, and what we count on ourselves. */
uint32_t dw_told_mtu_bytes(const struct dw_port *port, const struct diwarp_interface *interface);
/* The intro block of a datagram by that path. */
void dw_port_put_intro(const struct dw_port *port, const struct dw_path *path, uint8_t *buf);
/* Sets where a handle leads by what a datagram says of its source. False: no memory, it is as
 * before. */
bool dw_ah_set_route_by_intro(struct diwarp_ah *ah, const struct dw_intro *intro);
/* The handle is about to be freed, or its port to be closed. */
void dw_ah_drop_route(struct diwarp_ah *ah);

/* ---- queue pairs ---- */

struct diwarp_qp {
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct dw_port *port;
    const struct dw_service *service;
    void *state;       /* of the service, for the port */
    uint32_t num;      /* QPN: unique on the port, never 0 */
    bool counts_recvs; /* RD: it takes so many messages, recv_room; negative: so many came, or were
                        * taken back, beyond what there was */
    int64_t recv_room;
    bool draining;       /* Sends that come are acknowledged, not delivered */
    struct dw_list link; /* in port.qps */
    struct diwarp_qp_attr attr;
};

static inline bool dw_qp_takes_sends(const struct diwarp_qp *qp)
{
    return !qp->counts_recvs || qp->recv_room > 0;
}

/* Whom a message is between. */
struct dw_ends {
    struct diwarp_qp *qp; /* ours; NULL: it is gone */
    struct dw_qpns qpns;
};

/* The port, and with it what it owes to peers, goes with this one. */
static inline bool dw_qp_is_alone(const struct diwarp_qp *qp)
{
    return qp->port->qps.next == qp->port->qps.prev;
}

/* Completion of a posted request: nothing when it succeeded unsignaled. */
void dw_qp_complete(struct diwarp_qp *qp, uint64_t wr_id, bool signaled, enum ibv_wc_opcode opcode,
                    enum ibv_wc_status status, uint32_t bytes);
/* As dw_cq_slot(), for a completion whose data lies in the receive arena, or goes with the next
 * recycling. */
struct diwarp_wc *dw_qp_slot_held(struct diwarp_qp *qp);
