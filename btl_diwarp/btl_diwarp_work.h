/* SPDX-License-Identifier: BSD-3-Clause */
/* What is posted: work requests, the Sends and the puts, gets and atomics that are such. Threads:
 * as btl_diwarp.h says. */
#pragma once

#include "btl_diwarp/btl_diwarp.h"

/* ---- work requests (btl_diwarp_work.c) ------------------------------------------------------ */

/* What a posted request is to the send queue; its address is the wr_id. */
struct mca_btl_diwarp_work {
    /* As transport->post_send(). */
    int (*post)(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work);
    /* Ends the work: calls back and recycles it. wc is NULL when it was never posted. */
    void (*on_complete)(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work,
                        enum ibv_wc_status status, const struct diwarp_wc *wc);
    mca_btl_base_endpoint_t *endpoint; /* NULL when it ends: nobody is told */
    struct mca_btl_diwarp_work *next;  /* that waits for the endpoint; of the newest, the oldest */
    TAILQ_ENTRY(mca_btl_diwarp_work) turn; /* in module->waiting, while it is the oldest */
    LIST_ENTRY(mca_btl_diwarp_work) link;  /* of those that are posted and have not been told of */
    bool fence;    /* what was posted before it comes before it, and what follows it */
    bool buffered; /* done for who posts it as soon as the core has it: what waits here needs us */
};

/* Posts, or queues when the send queue to its endpoint is full: callers above must never depend on
 * a later callback to try again, because there may be none. 1: done at once, without completion. 0:
 * on_complete() will be called. 2: as 0, but whoever posted it takes it for done (work->buffered).
 * Negative errno: nothing was kept. */
int mca_btl_diwarp_work_post(struct mca_btl_diwarp_module *module,
                             struct mca_btl_diwarp_work *work);
/* Whether something waits for any endpoint. */
static inline bool mca_btl_diwarp_work_waits(const struct mca_btl_diwarp_module *module)
{
    return __atomic_load_n(&TAILQ_FIRST(&module->waiting), __ATOMIC_RELAXED);
}

/* These may call back, so they are for the thread that polls. */
/* It has ended: on_complete(). */
void mca_btl_diwarp_work_end(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work,
                             enum ibv_wc_status status, const struct diwarp_wc *wc);
/* It was posted in vain, and waits again. */
void mca_btl_diwarp_work_wait_again(struct mca_btl_diwarp_module *module,
                                    struct mca_btl_diwarp_work *work);
/* Posts what waits for the next few endpoints in turn, as far as there is room. */
void mca_btl_diwarp_work_post_next_waiting(struct mca_btl_diwarp_module *module);
/* Posts as much as there is room for, or ends all, of what waits for an endpoint that no callback
 * frees. Under the lock, which they give back for callbacks. */
void mca_btl_diwarp_work_post_waiting(struct mca_btl_diwarp_module *module,
                                      mca_btl_base_endpoint_t *endpoint);
void mca_btl_diwarp_work_end_waiting(struct mca_btl_diwarp_module *module,
                                     mca_btl_base_endpoint_t *endpoint, enum ibv_wc_status status);
/* The endpoint is about to go: what there is room for is posted, and nobody is told of the end of
 * what is under way to it. */
void mca_btl_diwarp_work_forget(struct mca_btl_diwarp_module *module,
                                mca_btl_base_endpoint_t *endpoint);

/* ---- sends (btl_diwarp_send.c) -------------------------------------------------------------- */

/* A send descriptor; its own segment follows it in memory, and so is led by the header. */
typedef struct mca_btl_diwarp_frag {
    mca_btl_base_descriptor_t base;
    mca_btl_base_segment_t segments[2]; /* of its own; then, in place, the user's */
    struct mca_btl_diwarp_work work;
    opal_free_list_t *list;                                        /* where it goes back to */
    _Alignas(8) unsigned char header[MCA_BTL_DIWARP_HEADER_BYTES]; /* the tag first */
} mca_btl_diwarp_frag_t;

_Static_assert(sizeof(mca_btl_diwarp_frag_t) ==
                   offsetof(mca_btl_diwarp_frag_t, header) + MCA_BTL_DIWARP_HEADER_BYTES,
               "the payload must follow the header");

OBJ_CLASS_DECLARATION(mca_btl_diwarp_frag_t);

/* Largest payload of FRAG_SMALL: every control message of ob1, registration handle included. What
 * is longer, and contiguous, is sent from the user's buffer. */
#define MCA_BTL_DIWARP_SMALL_BYTES 192
/* Of FRAG_MEDIUM: 4 KiB and the PML's header. */
#define MCA_BTL_DIWARP_MEDIUM_BYTES 4352

/* Those of the function table that concern descriptors, over RD. */
void mca_btl_diwarp_send_set_functions(mca_btl_base_module_t *btl);
mca_btl_base_descriptor_t *mca_btl_diwarp_alloc(mca_btl_base_module_t *btl,
                                                mca_btl_base_endpoint_t *endpoint, uint8_t order,
                                                size_t size, uint32_t flags);

/* The get whose callback runs. */
struct mca_btl_diwarp_ending_read {
    const mca_btl_base_endpoint_t *endpoint;
    size_t len;
    unsigned char release[DIWARP_RELEASE_MAX_BYTES]; /* tag, then the message */
};

/* ---- one-sided (btl_diwarp_rdma.c) ----------------------------------------------------------- */

/* What put, get and atomics are called with alike. */
struct mca_btl_diwarp_rdma_args {
    mca_btl_base_endpoint_t *endpoint;
    void *local_address;
    uint64_t remote_address;
    mca_btl_base_registration_handle_t *local_handle, *remote_handle; /* may be gone at the end */
    mca_btl_base_rdma_completion_fn_t cbfunc;
    void *cbcontext, *cbdata;
};

/* A put, get or atomic under way. */
typedef struct mca_btl_diwarp_rdma {
    opal_free_list_item_t super;
    struct mca_btl_diwarp_work work;
    struct diwarp_send_wr wr;
    struct ibv_sge sge;
    struct mca_btl_diwarp_rdma_args args;
} mca_btl_diwarp_rdma_t;

OBJ_CLASS_DECLARATION(mca_btl_diwarp_rdma_t);

/* Those of the function table that are one-sided, over RD. */
void mca_btl_diwarp_rdma_set_functions(mca_btl_base_module_t *btl);
