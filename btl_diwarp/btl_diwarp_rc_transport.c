/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RC transport of the module: listener and shared receives, and what completes: messages, and
 * the events of connections: when they are made, which of two that cross is kept, and how they end.
 *
 * The first send to a peer calls it. A call that finds a QP of ours in its way waits for the end of
 * that. So where both call at once, the call of the lower name wins: the other side accepts it and
 * gives up its own. Before it closes, a side says goodbye; a connection that ends without is an
 * error.
 */
#include "btl_diwarp/btl_diwarp_rc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- requests of peers -------------------------------------------------------------------- */

static void on_request(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint = NULL;
    int rc = 0;
    OPAL_THREAD_LOCK(&module->lock);
    if (mca_btl_diwarp_rc_key(wc->src) != mca_btl_diwarp_rc_my_key())
        endpoint = mca_btl_diwarp_rc_endpoint_for(module->rc, wc->src);
    if (endpoint) {
        if (endpoint->request)
            mca_btl_diwarp_rc_reject(endpoint->request, MCA_BTL_DIWARP_RC_REJECT_AGAIN);
        endpoint->request = wc->request;
        rc = mca_btl_diwarp_rc_connect(module, endpoint);
        if (rc < 0)
            mca_btl_diwarp_rc_on_lost(module, endpoint, strerror(-rc));
    } else {
        mca_btl_diwarp_rc_reject(wc->request, MCA_BTL_DIWARP_RC_REJECT_GONE);
    }
    OPAL_THREAD_UNLOCK(&module->lock);
}

/* ---- events of connections ---------------------------------------------------------------- */

static void on_connected(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint = diwarp_rc_qp_context(wc->rc_qp);
    int rc = 0;
    OPAL_THREAD_LOCK(&module->lock);
    if (wc->rc_qp != endpoint->qp) { /* our call that lost */
        OPAL_THREAD_UNLOCK(&module->lock);
        return;
    }
    endpoint->left = false;
    mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_CONNECTED);
    if (endpoint->request) /* given up by the peer, which has accepted ours */
        mca_btl_diwarp_rc_reject(endpoint->request, MCA_BTL_DIWARP_RC_REJECT_AGAIN);
    endpoint->request = NULL;
    if (!module->rc->srq)
        rc = mca_btl_diwarp_rc_buffers_make(module, &endpoint->buffers,
                                            mca_btl_diwarp_params.rc_recv_buffers, endpoint->qp);
    if (rc < 0) {
        diwarp_disconnect(wc->rc_qp);
        mca_btl_diwarp_rc_on_lost(module, endpoint, strerror(-rc));
    }
    OPAL_THREAD_UNLOCK(&module->lock);
    if (rc < 0)
        return;
    mca_btl_diwarp_work_post_waiting(module, &endpoint->super);
    mca_btl_diwarp_rc_leave_if_due(module, endpoint);
}

/* Why the connection ended whose last completion that is. */
static const char *end_text(const struct diwarp_wc *wc)
{
    switch (wc->wc.status) {
    case IBV_WC_SUCCESS:
        return "it closed the connection without a goodbye";
    case IBV_WC_REM_OP_ERR:
        return "the connection was terminated (RDMAP Terminate)";
    case IBV_WC_REM_INV_REQ_ERR:
        return "it rejected the connection";
    case IBV_WC_LOC_PROT_ERR:
        return "memory of this process that was to be sent cannot be read";
    case IBV_WC_LOC_QP_OP_ERR:
        return "this process has no memory for it";
    default:
        return "TCP lost the connection, or it could not be made in time";
    }
}

/* Why the peer rejected our call. */
static enum mca_btl_diwarp_rc_rejection rejection_of(const mca_btl_diwarp_rc_endpoint_t *endpoint,
                                                     const struct diwarp_wc *wc)
{
    unsigned char why;
    if (endpoint->state != MCA_BTL_DIWARP_RC_CALLING || wc->wc.status != IBV_WC_REM_INV_REQ_ERR ||
        wc->wc.byte_len != 1)
        return MCA_BTL_DIWARP_RC_REJECT_NOT;
    memcpy(&why, wc->data, sizeof why);
    return (enum mca_btl_diwarp_rc_rejection)why;
}

/* Nobody waits for a call that failed, or the peer has given up on its own before it was answered:
 * what is answered late is reset. Whoever wants a connection calls again. */
static bool lost_nothing(const mca_btl_diwarp_rc_endpoint_t *endpoint, const struct diwarp_wc *wc)
{
    const bool late = __atomic_load_n(&endpoint->unused, __ATOMIC_RELAXED) &&
                      wc->wc.status == IBV_WC_RETRY_EXC_ERR;
    return !mca_btl_diwarp_rc_waits(endpoint) &&
           (late || endpoint->state == MCA_BTL_DIWARP_RC_CALLING);
}

/* Under the lock: whether the end of its QP is no loss. */
static bool is_over(mca_btl_diwarp_rc_endpoint_t *endpoint,
                    enum mca_btl_diwarp_rc_rejection rejection, const struct diwarp_wc *wc)
{
    endpoint->left = endpoint->left || rejection == MCA_BTL_DIWARP_RC_REJECT_LEFT;
    return endpoint->state != MCA_BTL_DIWARP_RC_GONE &&
           (rejection == MCA_BTL_DIWARP_RC_REJECT_AGAIN ||
            endpoint->state == MCA_BTL_DIWARP_RC_LEAVING || lost_nothing(endpoint, wc));
}

static void on_disconnected(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint = diwarp_rc_qp_context(wc->rc_qp);
    const char *why = end_text(wc);
    bool lost = false;
    int rc = 0;
    OPAL_THREAD_LOCK(&module->lock);
    if (wc->rc_qp == endpoint->qp) {
        lost = !is_over(endpoint, rejection_of(endpoint, wc), wc);
        mca_btl_diwarp_rc_connection_destroy(module, endpoint);
        if (!lost && endpoint->state != MCA_BTL_DIWARP_RC_IDLE)
            mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_IDLE);
    } else {
        mca_btl_diwarp_rc_qp_destroy(module, &endpoint->lost);
    }
    if (!lost)
        rc = mca_btl_diwarp_rc_connect(module, endpoint);
    if (lost || rc < 0) {
        mca_btl_diwarp_rc_on_lost(module, endpoint, rc < 0 ? strerror(-rc) : why);
        mca_btl_diwarp_rc_answer(module, endpoint);
    }
    OPAL_THREAD_UNLOCK(&module->lock);
}

/* ---- messages ----------------------------------------------------------------------------- */

static void on_goodbye(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    OPAL_THREAD_LOCK(&module->lock);
    endpoint->left = true;
    if (endpoint->state == MCA_BTL_DIWARP_RC_CONNECTED)
        mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_LEAVING);
    OPAL_THREAD_UNLOCK(&module->lock);
}

/* Handed to the PML where it lies. The bytes come from a peer and may be anything. */
static void deliver(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rc_endpoint_t *endpoint,
                    unsigned char *message, uint32_t bytes)
{
    __atomic_store_n(&endpoint->unused, false, __ATOMIC_RELAXED);
    if (OPAL_UNLIKELY(bytes < MCA_BTL_DIWARP_HEADER_BYTES)) {
        module->counters.rx_unknown_tag++;
    } else if (OPAL_UNLIKELY(message[0] == MCA_BTL_DIWARP_RC_TAG_GOODBYE)) {
        on_goodbye(module, endpoint);
    } else if (OPAL_LIKELY(!module->rc->closing)) { /* else the PML is gone */
        mca_btl_diwarp_deliver(module, message[0], message + MCA_BTL_DIWARP_HEADER_BYTES,
                               bytes - MCA_BTL_DIWARP_HEADER_BYTES);
    }
}

/* Posted again as soon as the PML has seen it. */
static void on_recv(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    unsigned char *buffer = (unsigned char *)(uintptr_t)(wc->wc.wr_id & ~(uint64_t)1);
    if (OPAL_LIKELY(wc->wc.status == IBV_WC_SUCCESS))
        deliver(module, diwarp_rc_qp_context(wc->rc_qp), buffer, wc->wc.byte_len);
    else if (!module->rc->srq)
        return; /* the connection ends, and its buffers with it */
    (void)mca_btl_diwarp_rc_buffer_post(module, buffer, wc->rc_qp);
}

/* ---- completions -------------------------------------------------------------------------- */

static void on_wc(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    switch ((unsigned)wc->wc.opcode) {
    case DIWARP_WC_CONNECT_REQUEST:
        on_request(module, wc);
        return;
    case DIWARP_WC_CONNECTED:
        on_connected(module, wc);
        return;
    case DIWARP_WC_DISCONNECTED:
        on_disconnected(module, wc);
        return;
    default:
        if (MCA_BTL_DIWARP_RC_IS_RECV(wc->wc.wr_id))
            on_recv(module, wc);
        else
            mca_btl_diwarp_rc_work_on_wc(module, wc);
    }
}

static void on_completions(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc,
                           int count)
{
    for (int i = 0; i < count; i++)
        on_wc(module, &wc[i]);
    mca_btl_diwarp_work_post_next_waiting(module);
    if (module->rc->unflushed) {
        module->rc->unflushed = false;
        diwarp_rc_flush(module->cq);
    }
}

static void on_nothing(struct mca_btl_diwarp_module *module)
{
    struct mca_btl_diwarp_rc *rc = module->rc;
    /* A caller that waits because we have no descriptor for it knows no reason. */
    if (!rc->told_no_descriptor && diwarp_query_rc_counters(module->cq)->rc_no_descriptor) {
        rc->told_no_descriptor = true;
        MCA_BTL_DIWARP_SAY("rank %u on %s has no file descriptor left for a connection, which "
                           "waits until there is one: look at \"ulimit -n\"",
                           OPAL_PROC_MY_NAME.vpid, opal_process_info.nodename);
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

/* 0 or negative errno. */
static int open_srq(struct mca_btl_diwarp_module *module)
{
    const unsigned count = mca_btl_diwarp_params.rc_srq_buffers;
    struct mca_btl_diwarp_rc *rc = module->rc;
    if (mca_btl_diwarp_params.transport != MCA_BTL_DIWARP_RC_SRQ)
        return 0;
    rc->srq = diwarp_create_srq(module->pd, count);
    if (!rc->srq)
        return -ENOMEM;
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
    struct mca_btl_diwarp_rc *rc = calloc(1, sizeof *rc);
    int error;
    *what = "setting up connections";
    if (!rc)
        return -ENOMEM;
    OBJ_CONSTRUCT(&rc->endpoints, opal_hash_table_t);
    module->rc = rc;
    if (opal_hash_table_init(&rc->endpoints, 64) != OPAL_SUCCESS)
        return -ENOMEM;
    *what = "posting shared receives";
    error = open_srq(module);
    if (error < 0)
        return error;
    *what = "listening for connections";
    error = diwarp_listen(module->pd, module->cq, &rc->listener, why);
    if (error < 0)
        return error;
    diwarp_query_listener(rc->listener, &module->address);
    fit_function_table(&module->super);
    mca_btl_diwarp_show_opened(module, rc->srq ? "rc-srq" : "rc");
    return 0;
}

/* Nobody is told any more of what ends. */
static void leave(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    OPAL_THREAD_LOCK(&module->lock);
    endpoint->super.proc = NULL;
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
        opal_atomic_unlock(&module->polling);
        if (!count)
            (void)diwarp_block_cq(module->cq, MCA_BTL_DIWARP_SLEEP_NS);
    }
}

static void close_rc(struct mca_btl_diwarp_module *module)
{
    struct mca_btl_diwarp_rc *rc = module->rc;
    if (!rc)
        return;
    if (rc->listener) {
        close_connections(module);
        if (mca_btl_diwarp_params.stats)
            mca_btl_diwarp_counters_dump(module);
    }
    mca_btl_diwarp_rc_endpoints_foreach(module, mca_btl_diwarp_rc_endpoint_free);
    if (rc->listener)
        diwarp_destroy_listener(rc->listener);
    if (rc->srq)
        diwarp_destroy_srq(rc->srq);
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
    .on_completions = on_completions,
    .on_nothing = on_nothing,
    .post = mca_btl_diwarp_rc_post,
    .frag_post = mca_btl_diwarp_rc_frag_post,
    .rdma_post = mca_btl_diwarp_rc_rdma_post,
};
