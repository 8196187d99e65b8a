/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The adapter over RC queue pairs: one connection per pair of processes, made at first use.
 *
 * Sends carry an 8-byte header (the tag) into receives posted in advance, of each connection or
 * shared; large contiguous messages are RDMA writes and a FIN. Nothing here blocks: what finds no
 * connection or no room waits at its endpoint, and receives go on meanwhile.
 */
#pragma once

#include "btl_diwarp/btl_diwarp_work.h"

#include "opal/class/opal_hash_table.h"

/* A tag of nobody: the sender closes the connection in order, and sends no more. */
#define MCA_BTL_DIWARP_RC_TAG_GOODBYE 0

/* The RC side of the module. */
struct mca_btl_diwarp_rc {
    struct diwarp_listener *listener;
    struct diwarp_srq *srq; /* NULL: each connection has receives of its own */
    unsigned char *srq_buffers;
    uint64_t buffers_bytes;      /* of all receives */
    opal_hash_table_t endpoints; /* by name; also of processes not added yet */
    unsigned connections;        /* QPs that were not destroyed yet */
    bool closing;                /* nothing is delivered or completed any more */
    bool unflushed;              /* callbacks have posted lazily */
};

enum mca_btl_diwarp_rc_state {
    MCA_BTL_DIWARP_RC_IDLE,
    MCA_BTL_DIWARP_RC_CALLING,   /* our call is under way */
    MCA_BTL_DIWARP_RC_ACCEPTING, /* their call was answered */
    MCA_BTL_DIWARP_RC_CONNECTED,
    MCA_BTL_DIWARP_RC_LEAVING, /* one side said goodbye */
    MCA_BTL_DIWARP_RC_GONE,    /* and reported */
    MCA_BTL_DIWARP_RC_STATES
};

/* Under the module's lock, but for `name`. Lives as long as the module: a process that was deleted
 * may be added again, or call. */
typedef struct mca_btl_diwarp_rc_endpoint {
    mca_btl_base_endpoint_t super; /* proc is NULL before it is added and after it is deleted */
    struct diwarp_name name;
    enum mca_btl_diwarp_rc_state state;
    bool deleted;
    bool left;                  /* it said goodbye, or that it has, and was not connected since */
    bool unused;                /* its call was answered, and no message came or left since; atomic:
                                 * receives and completions clear it without the lock */
    unsigned long sent_at_poll; /* module->polls at the last send */
    uint64_t sent_ns;           /* when that was: the end of its call, which is no pause */
    struct diwarp_rc_qp *qp;    /* of the state */
    struct diwarp_rc_qp *lost;  /* our call that lost, until it is closed */
    struct diwarp_connect_request *request; /* its call, while our QP is in the way */
    unsigned char *buffers;                 /* receives, without SRQ, while connected */
} mca_btl_diwarp_rc_endpoint_t;

static inline mca_btl_diwarp_rc_endpoint_t *
mca_btl_diwarp_rc_endpoint(mca_btl_base_endpoint_t *endpoint)
{
    return MCA_BTL_DIWARP_OWNER(endpoint, mca_btl_diwarp_rc_endpoint_t, super);
}

/* ---- btl_diwarp_rc_endpoint.c ---------------------------------------------------------------- */

/* For the transport's table. */
int mca_btl_diwarp_rc_endpoint_create(struct mca_btl_diwarp_module *module, opal_proc_t *proc,
                                      const struct diwarp_address *address,
                                      mca_btl_base_endpoint_t **endpoint);
void mca_btl_diwarp_rc_endpoint_destroy(struct mca_btl_diwarp_module *module,
                                        mca_btl_base_endpoint_t *endpoint);
void mca_btl_diwarp_rc_connect(struct mca_btl_diwarp_module *module,
                               mca_btl_base_endpoint_t *endpoint);

/* A call, or a connection that is made or ends. */
void mca_btl_diwarp_rc_on_event(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc);
void mca_btl_diwarp_rc_on_goodbye(struct mca_btl_diwarp_module *module,
                                  mca_btl_diwarp_rc_endpoint_t *endpoint);
/* A request has ended: says goodbye and closes, if the endpoint is deleted or the module closes,
 * and nothing waits. */
void mca_btl_diwarp_rc_leave_if_due(struct mca_btl_diwarp_module *module,
                                    mca_btl_diwarp_rc_endpoint_t *endpoint);
/* The module closes: leaves all, and nobody is told any more of what ends. */
void mca_btl_diwarp_rc_leave_all(struct mca_btl_diwarp_module *module);
/* Closes what is still open and frees all endpoints, also where the PML knows them. */
void mca_btl_diwarp_rc_endpoints_free(struct mca_btl_diwarp_module *module);

/* Makes memory for receives, resident at once, as the registration with an RNIC would pin it, and
 * posts them to qp, or to the SRQ when there is one; their wr_id is odd. 0 or negative errno;
 * *buffers is set when there is something to free. */
int mca_btl_diwarp_rc_buffers_make(struct mca_btl_diwarp_rc *rc, unsigned char **buffers,
                                   struct diwarp_rc_qp *qp);
/* Posts one of them again. */
int mca_btl_diwarp_rc_buffer_post(const struct mca_btl_diwarp_rc *rc, unsigned char *buffer,
                                  struct diwarp_rc_qp *qp);
/* Harmless with NULL. */
void mca_btl_diwarp_rc_buffers_free(struct mca_btl_diwarp_rc *rc, unsigned char **buffers);
