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
    opal_hash_table_t endpoints; /* by name; also of processes not added yet */
    unsigned connections;        /* QPs that were not destroyed yet */
    bool closing;                /* nothing is delivered or completed any more */
    bool unflushed;              /* callbacks have posted lazily */
    uint64_t yield_ends_ns;      /* then endpoints that yield call again; 0: none does */
    bool told_no_descriptor;
};

/* ---- endpoints: a table, states, queue pairs (btl_diwarp_rc_endpoint.c) ---------------------- */

enum mca_btl_diwarp_rc_state {
    MCA_BTL_DIWARP_RC_IDLE,
    MCA_BTL_DIWARP_RC_CALLING,   /* our call is under way */
    MCA_BTL_DIWARP_RC_YIELDING,  /* our call lost against theirs, which is to come soon */
    MCA_BTL_DIWARP_RC_ACCEPTING, /* their call was answered */
    MCA_BTL_DIWARP_RC_CONNECTED,
    MCA_BTL_DIWARP_RC_LEAVING, /* one side said goodbye */
    MCA_BTL_DIWARP_RC_GONE,    /* and reported */
    MCA_BTL_DIWARP_RC_STATES
};

/* Under the module's lock, but for `name`. Lives until it was deleted and its QPs are destroyed. */
typedef struct mca_btl_diwarp_rc_endpoint {
    mca_btl_base_endpoint_t super; /* proc is NULL before it is added and after it is deleted */
    struct diwarp_name name;
    enum mca_btl_diwarp_rc_state state;
    bool deleted;
    bool ending;                /* not to be freed: its lost connection is being reported */
    bool left;                  /* it said goodbye, or that it has, and was not connected since */
    bool unused;                /* its call was answered, and no message went either way since;
                                 * atomic: receives clear it without the lock */
    unsigned long sent_at_poll; /* module->polls at the last send */
    uint64_t sent_ns;           /* when that was: the end of its call, which is no pause */
    struct diwarp_rc_qp *qp;    /* of the state */
    struct diwarp_rc_qp *lost;  /* our call that lost, until its rejection comes */
    unsigned char *buffers;     /* receives, without SRQ, while connected */
} mca_btl_diwarp_rc_endpoint_t;

static inline mca_btl_diwarp_rc_endpoint_t *
mca_btl_diwarp_rc_endpoint(mca_btl_base_endpoint_t *endpoint)
{
    return MCA_BTL_DIWARP_OWNER(endpoint, mca_btl_diwarp_rc_endpoint_t, super);
}

/* Work requests wait for a connection, or for room. */
static inline bool mca_btl_diwarp_rc_waits(const mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    return !STAILQ_EMPTY(&endpoint->super.waiting);
}

/* Of the table of endpoints, and what decides between two calls that cross: the lower one wins. */
static inline uint64_t mca_btl_diwarp_rc_key(struct diwarp_name name)
{
    return (uint64_t)name.job << 32 | name.rank;
}

static inline uint64_t mca_btl_diwarp_rc_my_key(void)
{
    return mca_btl_diwarp_rc_key(
        (struct diwarp_name){.job = OPAL_PROC_MY_NAME.jobid, .rank = OPAL_PROC_MY_NAME.vpid});
}

/* The PML's view. */
int mca_btl_diwarp_rc_endpoint_create(struct mca_btl_diwarp_module *module, opal_proc_t *proc,
                                      const struct diwarp_address *address,
                                      mca_btl_base_endpoint_t **endpoint);
void mca_btl_diwarp_rc_endpoint_destroy(struct mca_btl_diwarp_module *module,
                                        mca_btl_base_endpoint_t *endpoint);

/* These are called under the lock: */
/* The endpoint of a name, made when there is none. NULL: no memory. */
mca_btl_diwarp_rc_endpoint_t *mca_btl_diwarp_rc_endpoint_for(struct mca_btl_diwarp_rc *rc,
                                                             struct diwarp_name name);
/* Once nobody can name it any more. */
void mca_btl_diwarp_rc_endpoint_free_if_unused(struct mca_btl_diwarp_module *module,
                                               mca_btl_diwarp_rc_endpoint_t *endpoint);
void mca_btl_diwarp_rc_set_state(mca_btl_diwarp_rc_endpoint_t *endpoint,
                                 enum mca_btl_diwarp_rc_state to);
/* The connection is lost; report_lost() follows. True when that is no error: the peer finished, or
 * we do, and what is left for it matters to nobody. */
bool mca_btl_diwarp_rc_set_lost(const struct mca_btl_diwarp_module *module,
                                mca_btl_diwarp_rc_endpoint_t *endpoint);
/* In state IDLE: calls the peer. 0, or negative errno for on_lost(). */
int mca_btl_diwarp_rc_call(struct mca_btl_diwarp_module *module,
                           mca_btl_diwarp_rc_endpoint_t *endpoint);
/* Accepts the peer's call. 0 or negative errno. */
int mca_btl_diwarp_rc_answer(struct mca_btl_diwarp_module *module,
                             mca_btl_diwarp_rc_endpoint_t *endpoint,
                             struct diwarp_connect_request *request);
/* Without a goodbye, whatever its state; harmless with NULL. */
void mca_btl_diwarp_rc_qp_destroy(struct mca_btl_diwarp_module *module, struct diwarp_rc_qp **qp);
/* The QP of the state, and the receives posted to it. */
void mca_btl_diwarp_rc_connection_destroy(struct mca_btl_diwarp_module *module,
                                          mca_btl_diwarp_rc_endpoint_t *endpoint);

/* And these without: */
/* For each endpoint; `act` may free it. */
void mca_btl_diwarp_rc_endpoints_foreach(struct mca_btl_diwarp_module *module,
                                         void (*act)(struct mca_btl_diwarp_module *module,
                                                     mca_btl_diwarp_rc_endpoint_t *endpoint));
/* Says goodbye and closes, if it is deleted or the module closes, and nothing waits. */
void mca_btl_diwarp_rc_leave_if_due(struct mca_btl_diwarp_module *module,
                                    mca_btl_diwarp_rc_endpoint_t *endpoint);
/* Closes what is still open and frees it, also where the PML knows it. */
void mca_btl_diwarp_rc_endpoint_free(struct mca_btl_diwarp_module *module,
                                     mca_btl_diwarp_rc_endpoint_t *endpoint);
/* Tells of a lost connection if that was not expected, and ends all that waits. */
void mca_btl_diwarp_rc_report_lost(struct mca_btl_diwarp_module *module,
                                   mca_btl_diwarp_rc_endpoint_t *endpoint, bool expected,
                                   const char *why);
/* set_lost() and report_lost(), where error is negative. */
void mca_btl_diwarp_rc_on_lost(struct mca_btl_diwarp_module *module,
                               mca_btl_diwarp_rc_endpoint_t *endpoint, int error);

/* ---- work requests, sends (btl_diwarp_rc_send.c) --------------------------------------------- */

int mca_btl_diwarp_rc_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                            opal_convertor_t *convertor, void *header, size_t header_size,
                            size_t payload_size, uint8_t order, uint32_t flags,
                            mca_btl_base_tag_t tag, mca_btl_base_descriptor_t **descriptor);
/* For the transport's table. */
int mca_btl_diwarp_rc_post(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work);
int mca_btl_diwarp_rc_frag_post(struct mca_btl_diwarp_module *module,
                                struct mca_btl_diwarp_work *work);
int mca_btl_diwarp_rc_rdma_post(struct mca_btl_diwarp_module *module,
                                struct mca_btl_diwarp_work *work);
/* A completion of a send or write. */
void mca_btl_diwarp_rc_work_on_wc(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc);

/* ---- receives (btl_diwarp_rc_endpoint.c) ---------------------------------------------------- */

/* The wr_id of receives is odd, that of other requests even: which is all that verbs leaves to tell
 * them by in an error. */
#define MCA_BTL_DIWARP_RC_IS_RECV(wr_id) (((wr_id)&1u))

/* Makes memory for `count` receives, resident at once, as the registration with an RNIC would pin
 * it, and posts them to qp, or to the SRQ when there is one. 0 or negative errno; *buffers is set
 * when there is something to free. */
int mca_btl_diwarp_rc_buffers_make(const struct mca_btl_diwarp_module *module,
                                   unsigned char **buffers, unsigned count,
                                   struct diwarp_rc_qp *qp);
/* Posts one of them again. */
int mca_btl_diwarp_rc_buffer_post(const struct mca_btl_diwarp_module *module, unsigned char *buffer,
                                  struct diwarp_rc_qp *qp);
/* Harmless with NULL. */
void mca_btl_diwarp_rc_buffers_free(unsigned char *buffers, unsigned count);
/* Of all that there are now. */
uint64_t mca_btl_diwarp_rc_buffers_bytes(void);
