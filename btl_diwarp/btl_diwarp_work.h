/* SPDX-License-Identifier: BSD-3-Clause */
/* What is posted: work requests, the Sends and the puts, gets and atomics that are such. Threads:
 * as btl_diwarp.h says. */
#ifndef MCA_BTL_DIWARP_WORK_H
#define MCA_BTL_DIWARP_WORK_H

#include "btl_diwarp/btl_diwarp.h"

/* ---- work requests (btl_diwarp_work.c) ------------------------------------------------------ */

/* What a posted request is to the send queue; its address is the wr_id. */
struct mca_btl_diwarp_work_ops {
    /* As diwarp_post_send(). */
    int (*post)(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work);
    /* Ends the work: calls back and recycles it. wc is NULL when it was never posted. */
    void (*on_complete)(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work,
                        enum ibv_wc_status status, const struct diwarp_wc *wc);
};

struct mca_btl_diwarp_work {
    const struct mca_btl_diwarp_work_ops *ops;
    struct mca_btl_diwarp_work *next;   /* of those that wait */
    mca_btl_base_endpoint_t *endpoint;  /* NULL when it ends: has been deleted, nobody is told */
    struct mca_btl_diwarp_queue *queue; /* over RD */
    bool buffered; /* done for who posts it as soon as the core has it: what waits here needs us */
};

/* Posts, or queues when the send queue to its endpoint is full: callers above must never depend on
 * a later callback to try again, because there may be none. 1: done at once, without completion. 0:
 * on_complete() will be called. 2: also, but work->buffered says that whoever posted it takes it
 * for done. Negative errno: nothing was kept. */
int mca_btl_diwarp_work_post(struct mca_btl_diwarp_module *module,
                             struct mca_btl_diwarp_work *work);
/* Whether one more may be taken for done, when so many are posted whose end has not been told. */
bool mca_btl_diwarp_work_may_buffer(const struct mca_btl_diwarp_module *module, unsigned posted);
/* It has ended: on_complete(), then what waits for its endpoint is posted. */
void mca_btl_diwarp_work_end(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work,
                             enum ibv_wc_status status, const struct diwarp_wc *wc);
/* Posts what waits for room to an endpoint, as far as there is; as all here that may call back, in
 * the thread that polls. */
void mca_btl_diwarp_work_post_waiting(struct mca_btl_diwarp_module *module,
                                      mca_btl_base_endpoint_t *endpoint);
/* The same for endpoints to which nothing is under way that would see to it when it ends. */
void mca_btl_diwarp_work_post_stalled(struct mca_btl_diwarp_module *module);
/* The endpoint is about to go: nobody is told of the end of what is under way to it. */
void mca_btl_diwarp_work_forget(struct mca_btl_diwarp_module *module,
                                mca_btl_base_endpoint_t *endpoint);
/* Nothing ends any more. */
void mca_btl_diwarp_work_forget_all(struct mca_btl_diwarp_module *module);
/* Of the queues. */
size_t mca_btl_diwarp_work_queue_bytes(const struct mca_btl_diwarp_module *module);

/* A put, get or atomic under way. */
typedef struct mca_btl_diwarp_rdma {
    opal_free_list_item_t super;
    struct mca_btl_diwarp_work work;
    struct diwarp_send_wr wr;
    struct ibv_sge sge;
    void *local_address;
    mca_btl_base_registration_handle_t *local_handle;
    mca_btl_base_rdma_completion_fn_t cbfunc;
    void *cbcontext, *cbdata;
} mca_btl_diwarp_rdma_t;

OBJ_CLASS_DECLARATION(mca_btl_diwarp_rdma_t);

/* The arguments that btl_put, btl_get and the atomics have in common. */
struct mca_btl_diwarp_rdma_args {
    mca_btl_base_endpoint_t *endpoint;
    void *local_address;
    uint64_t remote_address;
    mca_btl_base_registration_handle_t *local_handle, *remote_handle;
    size_t size;
    mca_btl_base_rdma_completion_fn_t cbfunc;
    void *cbcontext, *cbdata;
};

/* A request with its common fields set; the caller sets opcode, flags and remote side, then calls
 * mca_btl_diwarp_rdma_start(). NULL: too many wait already, or no memory. */
mca_btl_diwarp_rdma_t *mca_btl_diwarp_rdma_alloc(struct mca_btl_diwarp_module *module,
                                                 const struct mca_btl_diwarp_rdma_args *args);
/* Returns an OPAL code; frees the request on error. */
int mca_btl_diwarp_rdma_start(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rdma_t *rdma);
/* For mca_btl_diwarp_work_ops, as the next. */
void mca_btl_diwarp_rdma_on_complete(struct mca_btl_diwarp_module *module,
                                     struct mca_btl_diwarp_work *work, enum ibv_wc_status status,
                                     const struct diwarp_wc *wc);
/* Tells about a gone peer, calls back, then recycles the request. */
void mca_btl_diwarp_rdma_end(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rdma_t *rdma,
                             enum ibv_wc_status status);

/* ---- sends (btl_diwarp_send.c) -------------------------------------------------------------- */

/* Whether a message is part of a burst (btl_diwarp_rc.h): asked once, for asking counts it. */
enum mca_btl_diwarp_pace {
    MCA_BTL_DIWARP_PACE_UNKNOWN,
    MCA_BTL_DIWARP_PACE_ALONE,
    MCA_BTL_DIWARP_PACE_BURST,
};

/* A send descriptor; its own segment follows it in memory, and so is led by the header. */
typedef struct mca_btl_diwarp_frag {
    mca_btl_base_descriptor_t base;
    mca_btl_base_segment_t segments[2]; /* of its own; then, in place, the user's */
    struct mca_btl_diwarp_work work;
    opal_free_list_t *list;                                        /* where it goes back to */
    enum mca_btl_diwarp_pace pace;                                 /* over RC */
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

/* Before it is posted: makes work->buffered what is ours to free, short, and of which nobody wants
 * to hear. osc/pt2pt answers swaps by blocking sends within a lock, and these must not make
 * progress, which would take the same lock. */
void mca_btl_diwarp_frag_buffer(const struct mca_btl_diwarp_module *module,
                                mca_btl_diwarp_frag_t *frag);
/* What a send returns to the PML, of what the post returned (>= 0). */
int mca_btl_diwarp_frag_posted(struct mca_btl_diwarp_module *module, mca_btl_diwarp_frag_t *frag,
                               int rc);
mca_btl_base_descriptor_t *mca_btl_diwarp_alloc(mca_btl_base_module_t *btl,
                                                mca_btl_base_endpoint_t *endpoint, uint8_t order,
                                                size_t size, uint32_t flags);
int mca_btl_diwarp_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor);
mca_btl_base_descriptor_t *mca_btl_diwarp_prepare_src(mca_btl_base_module_t *btl,
                                                      mca_btl_base_endpoint_t *endpoint,
                                                      opal_convertor_t *convertor, uint8_t order,
                                                      size_t reserve, size_t *size, uint32_t flags);
int mca_btl_diwarp_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                        mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag);
int mca_btl_diwarp_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                         opal_convertor_t *convertor, void *header, size_t header_size,
                         size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                         mca_btl_base_descriptor_t **descriptor);
/* Done within btl_send: calls back only where that was asked for. */
void mca_btl_diwarp_frag_done(struct mca_btl_diwarp_module *module, mca_btl_diwarp_frag_t *frag);
/* For mca_btl_diwarp_work_ops. */
void mca_btl_diwarp_frag_on_complete(struct mca_btl_diwarp_module *module,
                                     struct mca_btl_diwarp_work *work, enum ibv_wc_status status,
                                     const struct diwarp_wc *wc);
/* Sends a copy of len <= MCA_BTL_DIWARP_SMALL_BYTES bytes, without callback. OPAL code. */
int mca_btl_diwarp_send_copy(struct mca_btl_diwarp_module *module,
                             mca_btl_base_endpoint_t *endpoint, mca_btl_base_tag_t tag,
                             const void *data, size_t len);

/* ---- one-sided (btl_diwarp_put.c, _get.c, _atomic.c) ---------------------------------------- */

int mca_btl_diwarp_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                       void *local_address, uint64_t remote_address,
                       mca_btl_base_registration_handle_t *local_handle,
                       mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                       int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                       void *cbdata);
int mca_btl_diwarp_get(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                       void *local_address, uint64_t remote_address,
                       mca_btl_base_registration_handle_t *local_handle,
                       mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                       int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                       void *cbdata);
int mca_btl_diwarp_atomic_fop(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                              void *local_address, uint64_t remote_address,
                              mca_btl_base_registration_handle_t *local_handle,
                              mca_btl_base_registration_handle_t *remote_handle,
                              mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                              mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                              void *cbdata);
int mca_btl_diwarp_atomic_cswap(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                                void *local_address, uint64_t remote_address,
                                mca_btl_base_registration_handle_t *local_handle,
                                mca_btl_base_registration_handle_t *remote_handle, uint64_t compare,
                                uint64_t value, int flags, int order,
                                mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                                void *cbdata);

/* The get whose callback runs. */
struct mca_btl_diwarp_ending_read {
    const mca_btl_base_endpoint_t *endpoint;
    size_t len;
    unsigned char release[DIWARP_RELEASE_MAX_BYTES]; /* tag, then the message */
};

#endif
