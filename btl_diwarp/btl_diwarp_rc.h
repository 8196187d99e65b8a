/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The adapter over RC queue pairs: one connection per pair of processes, made at first use.
 *
 * Sends carry an 8-byte header (the tag) into receives posted in advance, of each connection or
 * shared; large contiguous messages are RDMA writes and a FIN. Nothing here blocks: what finds no
 * connection or no room waits at its endpoint, and receives go on meanwhile.
 */
#ifndef MCA_BTL_DIWARP_RC_H
#define MCA_BTL_DIWARP_RC_H

#include "btl_diwarp/btl_diwarp_work.h"

#include "opal/class/opal_hash_table.h"

/* A tag of nobody: the sender closes the connection in order, and sends no more. */
#define MCA_BTL_DIWARP_RC_TAG_GOODBYE 0

/* ---- the RC side of the module (btl_diwarp_rc_transport.c) ---------------------------------- */

struct mca_btl_diwarp_rc {
    struct diwarp_listener *listener;
    struct diwarp_srq *srq; /* NULL: each connection has receives of its own */
    unsigned char *srq_buffers;
    opal_mutex_t lock;           /* states, QPs and queues of all endpoints */
    opal_hash_table_t endpoints; /* by name; also of processes not added yet */
    unsigned connections;        /* QPs that were not destroyed yet */
    bool closing;                /* nothing is delivered or completed any more */
    bool unflushed;              /* callbacks have posted lazily */
    struct mca_btl_diwarp_rc_endpoint *yielding_first, *yielding_last; /* the next to call again */
    bool told_no_descriptor;
};

/* ---- endpoints (btl_diwarp_rc_endpoint.c) --------------------------------------------------- */

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

/* Under rc->lock, but for `name`. Lives until it was deleted and its QPs are destroyed. */
typedef struct mca_btl_diwarp_rc_endpoint {
    mca_btl_base_endpoint_t super; /* proc is NULL before it is added and after it is deleted */
    struct diwarp_name name;
    enum mca_btl_diwarp_rc_state state;
    bool deleted;
    bool ending;            /* not to be freed: its lost connection is being reported */
    bool left;              /* it said goodbye, or that it has, and was not connected since */
    bool unused;            /* its call was answered, and no message went either way since;
                             * atomic: receives clear it without the lock */
    bool yields;            /* in rc's list of those that do, or did */
    uint64_t yield_ends_ns; /* then it calls again, if it still does */
    struct mca_btl_diwarp_rc_endpoint *yielding_next;
    unsigned long sent_at_poll; /* module->polls at the last send */
    uint64_t sent_ns;           /* when that was: the end of its call, which is no pause */
    struct diwarp_rc_qp *qp;    /* of the state */
    struct diwarp_rc_qp *lost;  /* our call that lost, until its rejection comes */
    unsigned char *buffers;     /* receives, without SRQ, while connected */
    struct mca_btl_diwarp_work *waiting_first, *waiting_last; /* for the connection, or for room */
    unsigned posted;                                          /* until their end has been told */
} mca_btl_diwarp_rc_endpoint_t;

static inline mca_btl_diwarp_rc_endpoint_t *
mca_btl_diwarp_rc_endpoint(mca_btl_base_endpoint_t *endpoint)
{
    return MCA_BTL_DIWARP_OWNER(endpoint, mca_btl_diwarp_rc_endpoint_t, super);
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

int mca_btl_diwarp_rc_endpoint_create(struct mca_btl_diwarp_module *module, opal_proc_t *proc,
                                      mca_btl_base_endpoint_t **endpoint);
void mca_btl_diwarp_rc_endpoint_destroy(struct mca_btl_diwarp_module *module,
                                        mca_btl_base_endpoint_t *endpoint);
/* Under the lock: the endpoint of a name, made when there is none. NULL: no memory. */
mca_btl_diwarp_rc_endpoint_t *mca_btl_diwarp_rc_endpoint_for(struct mca_btl_diwarp_rc *rc,
                                                             struct diwarp_name name);
/* Under the lock: once nobody can name it any more. */
void mca_btl_diwarp_rc_endpoint_free_if_unused(struct mca_btl_diwarp_module *module,
                                               mca_btl_diwarp_rc_endpoint_t *endpoint);
/* Says goodbye to everybody. */
void mca_btl_diwarp_rc_endpoints_leave(struct mca_btl_diwarp_module *module);
/* Closes what is still open and frees all endpoints, those of the PML included. */
void mca_btl_diwarp_rc_endpoints_free(struct mca_btl_diwarp_module *module);

/* ---- state and queue pairs (btl_diwarp_rc_qp.c) --------------------------------------------- */

/* All of these are called under the lock, but for the last two when the module closes. */
void mca_btl_diwarp_rc_endpoint_set_state(mca_btl_diwarp_rc_endpoint_t *endpoint,
                                          enum mca_btl_diwarp_rc_state to);
/* The connection is lost. True when that is no error: the peer finished, or we do, and what is left
 * for it matters to nobody. */
bool mca_btl_diwarp_rc_set_lost(const struct mca_btl_diwarp_module *module,
                                mca_btl_diwarp_rc_endpoint_t *endpoint);
/* In state IDLE: calls the peer. 0, or negative errno for ..._on_lost(). */
int mca_btl_diwarp_rc_endpoint_call(struct mca_btl_diwarp_module *module,
                                    mca_btl_diwarp_rc_endpoint_t *endpoint);
/* Accepts the peer's call. 0 or negative errno. */
int mca_btl_diwarp_rc_endpoint_answer(struct mca_btl_diwarp_module *module,
                                      mca_btl_diwarp_rc_endpoint_t *endpoint,
                                      struct diwarp_connect_request *request);
/* Says goodbye and closes, if it is deleted or the module closes, and nothing waits. */
void mca_btl_diwarp_rc_endpoint_leave_if_due(struct mca_btl_diwarp_module *module,
                                             mca_btl_diwarp_rc_endpoint_t *endpoint);
/* Without a goodbye, whatever its state; harmless with NULL. */
void mca_btl_diwarp_rc_qp_destroy(struct mca_btl_diwarp_module *module, struct diwarp_rc_qp **qp);
/* The QP of the state, and the receives posted to it. */
void mca_btl_diwarp_rc_connection_destroy(struct mca_btl_diwarp_module *module,
                                          mca_btl_diwarp_rc_endpoint_t *endpoint);

/* ---- work requests (btl_diwarp_rc_work.c) --------------------------------------------------- */

/* Under the lock, for a request: BURST for what follows right after another, with no poll between,
 * and for what callbacks post, which leaves when they are over. That shares send calls. A message
 * on its own leaves at once: its sender may compute before it polls again. */
enum mca_btl_diwarp_pace mca_btl_diwarp_rc_pace(const struct mca_btl_diwarp_module *module,
                                                mca_btl_diwarp_rc_endpoint_t *endpoint);
/* Under the lock: posts at that pace. */
int mca_btl_diwarp_rc_post(struct mca_btl_diwarp_module *module,
                           mca_btl_diwarp_rc_endpoint_t *endpoint, const struct ibv_send_wr *wr,
                           enum mca_btl_diwarp_pace pace);

/* Posts, or queues while there is no connection or no room. 1: done at once, without completion.
 * 0: on_complete() will be called. 2: also, but work->buffered says that whoever posted it takes it
 * for done. Negative errno: nothing was kept. */
int mca_btl_diwarp_rc_work_post(struct mca_btl_diwarp_module *module,
                                mca_btl_diwarp_rc_endpoint_t *endpoint,
                                struct mca_btl_diwarp_work *work);
/* Without the lock: posts what waits, as far as there is a connection and room; then says goodbye
 * where that is due. */
void mca_btl_diwarp_rc_work_post_waiting(struct mca_btl_diwarp_module *module,
                                         mca_btl_diwarp_rc_endpoint_t *endpoint);
/* Without the lock: ends all that waits; without a word once the PML has deleted the endpoint. */
void mca_btl_diwarp_rc_work_end_waiting(struct mca_btl_diwarp_module *module,
                                        mca_btl_diwarp_rc_endpoint_t *endpoint,
                                        enum ibv_wc_status status);
/* Without the lock, after set_lost(), which said whether it is expected: reports it if not, and
 * ends all that waits. */
void mca_btl_diwarp_rc_report_lost(struct mca_btl_diwarp_module *module,
                                   mca_btl_diwarp_rc_endpoint_t *endpoint, bool expected,
                                   const char *why);
/* Without the lock: set_lost() and report_lost(). */
void mca_btl_diwarp_rc_endpoint_on_lost(struct mca_btl_diwarp_module *module,
                                        mca_btl_diwarp_rc_endpoint_t *endpoint, const char *why);
/* A completion of a send or write. */
void mca_btl_diwarp_rc_work_on_wc(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc);

/* ---- connections (btl_diwarp_rc_connect.c) -------------------------------------------------- */

/* Without the lock: calls those again whose calls have not come. */
void mca_btl_diwarp_rc_endpoints_yield_no_more(struct mca_btl_diwarp_module *module);

/* Events, from completions. */
void mca_btl_diwarp_rc_on_request(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc);
void mca_btl_diwarp_rc_on_connected(struct mca_btl_diwarp_module *module,
                                    const struct diwarp_wc *wc);
void mca_btl_diwarp_rc_on_disconnected(struct mca_btl_diwarp_module *module,
                                       const struct diwarp_wc *wc);
void mca_btl_diwarp_rc_on_goodbye(struct mca_btl_diwarp_module *module,
                                  mca_btl_diwarp_rc_endpoint_t *endpoint);

/* ---- receives (btl_diwarp_rc_buffers.c) ----------------------------------------------------- */

/* The wr_id of receives is odd, that of other requests even: which is all that verbs leaves to tell
 * them by in an error. */
#define MCA_BTL_DIWARP_RC_IS_RECV(wr_id) (0 != ((wr_id)&1u))

/* Memory for `count` receives, resident at once, as the registration with an RNIC would pin it.
 * NULL: there is none. */
unsigned char *mca_btl_diwarp_rc_buffers_alloc(unsigned count);
/* Harmless with NULL. */
void mca_btl_diwarp_rc_buffers_free(unsigned char *buffers, unsigned count);
/* Of all that there are now. */
uint64_t mca_btl_diwarp_rc_buffers_bytes(void);
/* Posts all of them to qp, or to the SRQ when that is NULL. 0 or negative errno. */
int mca_btl_diwarp_rc_buffers_post(struct mca_btl_diwarp_module *module, unsigned char *buffers,
                                   unsigned count, struct diwarp_rc_qp *qp);

/* ---- sends and puts (btl_diwarp_rc_send.c, _rc_put.c) --------------------------------------- */

int mca_btl_diwarp_rc_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                           mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag);
int mca_btl_diwarp_rc_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                            opal_convertor_t *convertor, void *header, size_t header_size,
                            size_t payload_size, uint8_t order, uint32_t flags,
                            mca_btl_base_tag_t tag, mca_btl_base_descriptor_t **descriptor);
int mca_btl_diwarp_rc_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                          void *local_address, uint64_t remote_address,
                          mca_btl_base_registration_handle_t *local_handle,
                          mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                          int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                          void *cbdata);

#endif
