/* SPDX-License-Identifier: BSD-3-Clause */
/* The RC transport of the module: listener, shared receives, and the orderly end. */
#include "btl_diwarp/btl_diwarp_rc.h"

#include <errno.h>
#include <stdlib.h>

/* 0 or negative errno. */
static int open_srq(struct mca_btl_diwarp_module *module)
{
    const unsigned count = mca_btl_diwarp_params.rc_srq_buffers;
    struct mca_btl_diwarp_rc *rc = module->rc;

    if (MCA_BTL_DIWARP_RC_SRQ != mca_btl_diwarp_params.transport) {
        return 0;
    }
    rc->srq = diwarp_create_srq(module->pd, count);
    if (NULL == rc->srq) {
        return -ENOMEM;
    }
    return mca_btl_diwarp_rc_buffers_make(module, &rc->srq_buffers, count, NULL);
}

/* What the RC transport serves, and how: no reads, no atomics, and it sends what is packed. */
static void fit_function_table(mca_btl_base_module_t *btl)
{
    btl->btl_sendi = mca_btl_diwarp_rc_sendi;
    btl->btl_get = NULL;
    btl->btl_atomic_fop = NULL;
    btl->btl_atomic_cswap = NULL;
    btl->btl_flags &=
        ~(uint32_t)(MCA_BTL_FLAGS_GET | MCA_BTL_FLAGS_ATOMIC_FOPS | MCA_BTL_FLAGS_SEND_INPLACE);
    btl->btl_atomic_flags = 0;
}

static int open_rc(struct mca_btl_diwarp_module *module, const char **what,
                   struct diwarp_diagnosis *why)
{
    struct mca_btl_diwarp_rc *rc = calloc(1, sizeof(*rc));
    int error;

    *what = "setting up connections";
    if (NULL == rc) {
        return -ENOMEM;
    }
    OBJ_CONSTRUCT(&rc->endpoints, opal_hash_table_t);
    module->rc = rc;
    if (OPAL_SUCCESS != opal_hash_table_init(&rc->endpoints, 64)) {
        return -ENOMEM;
    }
    *what = "posting shared receives";
    error = open_srq(module);
    if (error < 0) {
        return error;
    }
    *what = "listening for connections";
    error = diwarp_listen(module->pd, module->cq, &rc->listener, why);
    if (error < 0) {
        return error;
    }
    diwarp_query_listener(rc->listener, &module->address);
    fit_function_table(&module->super);
    mca_btl_diwarp_show_opened(module, NULL != rc->srq ? "rc-srq" : "rc");
    return 0;
}

/* Nobody is told any more of what ends. */
static void leave(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    OPAL_THREAD_LOCK(&module->lock);
    if (NULL != endpoint->super.queue) {
        endpoint->super.queue->silent = true;
    }
    OPAL_THREAD_UNLOCK(&module->lock);
    mca_btl_diwarp_rc_leave_if_due(module, endpoint);
}

/* Until everything sent is with TCP and every peer has closed, too: a connection that is closed
 * with bytes unread would be reset, and what the peer has not read yet with it. */
static void close_connections(struct mca_btl_diwarp_module *module)
{
    const uint64_t until_ns = mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC) +
                              mca_btl_diwarp_params.finalize_timeout_ms * 1000000ull;

    module->rc->closing = true;
    mca_btl_diwarp_rc_endpoints_foreach(module, leave);
    while (module->rc->connections > 0 && mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC) < until_ns) {
        mca_btl_diwarp_polling_wait(module);
        const int count = mca_btl_diwarp_poll_and_call_back(module);
        mca_btl_diwarp_polling_end(module);
        if (0 == count) {
            (void)diwarp_block_cq(module->cq, MCA_BTL_DIWARP_SLEEP_NS);
        }
    }
}

static void close_rc(struct mca_btl_diwarp_module *module)
{
    struct mca_btl_diwarp_rc *rc = module->rc;

    if (NULL == rc) {
        return;
    }
    if (NULL != rc->listener) {
        close_connections(module);
        if (mca_btl_diwarp_params.stats) {
            mca_btl_diwarp_counters_dump(module);
        }
    }
    mca_btl_diwarp_work_forget_all(module);
    mca_btl_diwarp_rc_endpoints_foreach(module, mca_btl_diwarp_rc_endpoint_free);
    if (NULL != rc->listener) {
        diwarp_destroy_listener(rc->listener);
    }
    if (NULL != rc->srq) {
        diwarp_destroy_srq(rc->srq);
    }
    mca_btl_diwarp_rc_buffers_free(rc->srq_buffers, mca_btl_diwarp_params.rc_srq_buffers);
    OBJ_DESTRUCT(&rc->endpoints);
    free(rc);
    module->rc = NULL;
}

const struct mca_btl_diwarp_transport mca_btl_diwarp_transport_rc = {
    .open = open_rc,
    .close = close_rc,
    .endpoint_create = mca_btl_diwarp_rc_endpoint_create,
    .endpoint_destroy = mca_btl_diwarp_rc_endpoint_destroy,
    .on_completions = mca_btl_diwarp_rc_on_completions,
    .on_nothing = mca_btl_diwarp_rc_on_nothing,
    .post = mca_btl_diwarp_rc_post,
    .frag_ops = &mca_btl_diwarp_rc_frag_ops,
    .rdma_ops = &mca_btl_diwarp_rc_rdma_ops,
};
