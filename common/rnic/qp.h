/* SPDX-License-Identifier: BSD-3-Clause */
/* What every datagram queue pair has. Every function in the headers of this folder runs with the
 * device's lock held, unless it says otherwise. */
#pragma once

#include "common/rnic/cq.h"
#include "common/rnic/port.h"

#define DW_MAX_SGE 4

struct diwarp_pd {
    struct diwarp_device *device;
    struct dw_map mrs; /* by STag */
};

/* The gather list of a request, checked; returns its bytes, -EINVAL, -EACCES or -EMSGSIZE. Key 0 is
 * the process's own memory, unregistered. */
int64_t dw_pd_gather(const struct diwarp_pd *pd, const struct ibv_sge *list, int count, int access,
                     uint32_t max_bytes, struct iovec iov[DW_MAX_SGE]);

struct diwarp_qp {
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct dw_port *port;
    const struct dw_service *service;
    void *state;         /* of the service, for the port */
    uint32_t num;        /* QPN: unique on the port, never 0 */
    bool draining;       /* Sends that come are acknowledged, not delivered */
    struct dw_list link; /* in port.qps */
    struct diwarp_qp_attr attr;
};

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
/* One whose data lies in the receive arena, or goes with the next recycling. */
void dw_qp_push_held(struct diwarp_qp *qp, const struct diwarp_wc *wc);
