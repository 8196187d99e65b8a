/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the front for librdmacm share. Its objects are guarded by one lock of the
 * process, which is taken before a context's. */
#pragma once

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "verbs_diwarp/cm_wire.h"
#include "verbs_diwarp/front.h"

struct dv_cm_link;

enum dv_cm_state {
    DV_CM_IDLE,
    DV_CM_BOUND,
    DV_CM_ADDR_RESOLVED,
    DV_CM_ROUTE_RESOLVED,
    DV_CM_LISTENING,
    DV_CM_CALLING,   /* the request is on its way, or has no answer yet */
    DV_CM_ANSWERED,  /* accepted; the program, which made the queue pair, is to say ready */
    DV_CM_REQUESTED, /* a caller's: the program is to accept or reject */
    DV_CM_ACCEPTED,  /* by us; the caller is to say ready */
    DV_CM_ESTABLISHED,
    DV_CM_CLOSING, /* the other side has left, its last data may be on the way */
    DV_CM_LEAVING, /* we have left, the other side is to say so, too */
    DV_CM_DISCONNECTED,
    DV_CM_ENDED, /* rejected, failed, or of UD and answered */
    DV_CM_STATES
};

struct dv_cm_id {
    struct rdma_cm_id id;
    struct ibv_sa_path_rec path; /* id.route.path_rec, once there is a route */
    enum dv_cm_state state;
    int fd;                  /* bound, not yet of a link; -1: none */
    struct dv_cm_link *link; /* NULL: none */
    uint32_t taken, acked;   /* events */
    bool sync;               /* calls wait for their event; the channel is its own */
    bool has_left;           /* by rdma_disconnect() */
    bool is_of_one_family;   /* of IPv6, it takes no calls by IPv4 */
    bool shares;             /* its port, with others that do while none of them listens */
    uint32_t sgid_index;
    uint8_t ack_timeout;             /* as in ibv_qp_attr.timeout */
    uint32_t qpn;                    /* connected, or about to be */
    struct dv_cm_message own, other; /* request and answer */
    int64_t until_ns;                /* in DV_CM_CALLING: calls again; in DV_CM_CLOSING: waits */
    int64_t polled_until_ns;         /* likewise, for completions to be polled */
    /* Of one that listens: callers that the program neither accepted nor rejected; those of them
     * whose event nobody has taken, which are `backlog` at most. */
    LIST_HEAD(, dv_cm_id) callers;
    uint32_t caller_count, untaken_count, backlog;
    LIST_HEAD(, dv_cm_group) groups; /* joined, each once */
    struct dv_cm_id *listener;       /* of a caller; NULL: there is none any more */
    LIST_ENTRY(dv_cm_id) among_callers;
    struct ibv_qp_init_attr *ep_attr; /* of rdma_create_ep() */
};

static inline struct dv_cm_id *dv_cm_id_of(struct rdma_cm_id *id)
{
    return (struct dv_cm_id *)id;
}

/* Of what is sent to one receiver; the device has no other. */
#define DV_CM_HOP_LIMIT 64

extern pthread_mutex_t dv_cm_mutex;

static inline void dv_cm_lock(void)
{
    pthread_mutex_lock(&dv_cm_mutex);
}

static inline void dv_cm_unlock(void)
{
    pthread_mutex_unlock(&dv_cm_mutex);
}

/* -1 with errno set. */
static inline int dv_cm_fail(int error)
{
    errno = error;
    return -1;
}
