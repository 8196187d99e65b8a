/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RC transport of the module: listener and shared receives, and what completes: messages, and
 * the events of connections: when they are made, which of two that cross is kept, and how they end.
 *
 * The first send to a peer calls it. Where both call at once, the call of the lower name wins: the
 * other side accepts it, and its own call is rejected. Should the winner's not come soon, the loser
 * calls again: the winner may be gone. Before it closes, a side says goodbye; a connection that
 * ends without is an error.
 */
#include "btl_diwarp/btl_diwarp_rc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Why a call was rejected: one byte of private data. */
enum rejection {
    REJECT_NOT,
    REJECT_CROSSED, /* our call to you is under way, or there is a connection already */
    REJECT_CLOSING, /* an earlier connection or call is not at its end yet: call again */
    REJECT_LEFT,    /* nothing will be received here any more */
    REJECT_GONE,    /* you are lost to us, or are not who you say */
};

/* For how long, at most, calls that were rejected because the peer calls, too, leave it to the
 * peer. Half of it may be less than a busy peer takes; twice as much makes the loss of one known
 * later. */
#define YIELD_NS 1000000000ull

/* ---- calls that give way ------------------------------------------------------------------ */

static void call_again(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    int rc = 0;
    OPAL_THREAD_LOCK(&module->lock);
    if (endpoint->state == MCA_BTL_DIWARP_RC_YIELDING) {
        mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_IDLE);
        if (mca_btl_diwarp_rc_waits(endpoint) && !endpoint->deleted && !module->rc->closing)
            rc = mca_btl_diwarp_rc_call(module, endpoint);
    }
    OPAL_THREAD_UNLOCK(&module->lock);
    mca_btl_diwarp_rc_on_lost(module, endpoint, rc);
}

/* ---- requests of peers -------------------------------------------------------------------- */

/* What to answer. */
static enum rejection judge_request(const struct mca_btl_diwarp_module *module,
                                    const mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    switch (endpoint->state) {
    case MCA_BTL_DIWARP_RC_IDLE:
        if (module->rc->closing)
            return REJECT_LEFT;
        return !endpoint->qp ? REJECT_NOT : REJECT_CLOSING;
    case MCA_BTL_DIWARP_RC_CALLING:
        if (mca_btl_diwarp_rc_key(endpoint->name) > mca_btl_diwarp_rc_my_key())
            return REJECT_CROSSED;
        return !endpoint->lost ? REJECT_NOT : REJECT_CLOSING;
    case MCA_BTL_DIWARP_RC_YIELDING:
        return REJECT_NOT;
    case MCA_BTL_DIWARP_RC_LEAVING:
        return REJECT_CLOSING;
    case MCA_BTL_DIWARP_RC_GONE:
        return REJECT_GONE;
    default:
        return REJECT_CROSSED;
    }
}

static void on_request(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint = NULL;
    enum rejection rejection = REJECT_GONE;
    unsigned char why;
    int rc = 0;
    OPAL_THREAD_LOCK(&module->lock);
    if (mca_btl_diwarp_rc_key(wc->src) != mca_btl_diwarp_rc_my_key()) {
        endpoint = mca_btl_diwarp_rc_endpoint_for(module->rc, wc->src);
        rejection = endpoint ? judge_request(module, endpoint) : REJECT_LEFT;
    }
    if (rejection != REJECT_NOT) {
        why = (unsigned char)rejection;
        diwarp_reject(wc->request, &why, sizeof why);
    } else {
        rc = mca_btl_diwarp_rc_answer(module, endpoint, wc->request);
        /* Its own affair: its call has failed. */
        if (rc < 0 && !mca_btl_diwarp_rc_waits(endpoint)) {
            if (endpoint->state != MCA_BTL_DIWARP_RC_IDLE)
                mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_IDLE);
            rc = 0;
        }
    }
    OPAL_THREAD_UNLOCK(&module->lock);
    mca_btl_diwarp_rc_on_lost(module, endpoint, rc);
}

/* ---- events of connections ---------------------------------------------------------------- */

static void on_connected(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint = diwarp_rc_qp_context(wc->rc_qp);
    int rc;
    /* A peer that accepts our call, and calls, too. */
    if (wc->rc_qp != endpoint->qp) {
        diwarp_disconnect(wc->rc_qp);
        return;
    }
    OPAL_THREAD_LOCK(&module->lock);
    endpoint->left = false;
    mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_CONNECTED);
    rc = module->rc->srq
             ? 0
             : mca_btl_diwarp_rc_buffers_make(module, &endpoint->buffers,
                                              mca_btl_diwarp_params.rc_recv_buffers, endpoint->qp);
    OPAL_THREAD_UNLOCK(&module->lock);
    if (rc < 0) {
        diwarp_disconnect(wc->rc_qp);
        mca_btl_diwarp_rc_on_lost(module, endpoint, rc);
        return;
    }
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
static enum rejection rejection_of(const mca_btl_diwarp_rc_endpoint_t *endpoint,
                                   const struct diwarp_wc *wc)
{
    unsigned char why;
    if (endpoint->state != MCA_BTL_DIWARP_RC_CALLING || wc->wc.status != IBV_WC_REM_INV_REQ_ERR ||
        wc->wc.byte_len != 1)
        return REJECT_NOT;
    memcpy(&why, wc->data, sizeof why);
    return (enum rejection)why;
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

/* Under the lock: moves an endpoint on that has no QP any more. False: it is lost. */
static bool state_after(const struct mca_btl_diwarp_module *module,
                        mca_btl_diwarp_rc_endpoint_t *endpoint, enum rejection rejection,
                        const struct diwarp_wc *wc)
{
    if (rejection == REJECT_CROSSED) {
        mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_YIELDING);
        if (!module->rc->yield_ends_ns)
            module->rc->yield_ends_ns = mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC) + YIELD_NS;
        return true;
    }
    endpoint->left = endpoint->left || rejection == REJECT_LEFT;
    if (rejection == REJECT_CLOSING || endpoint->state == MCA_BTL_DIWARP_RC_LEAVING ||
        lost_nothing(endpoint, wc)) {
        mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_IDLE);
        return true;
    }
    return false;
}

static void on_disconnected(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint = diwarp_rc_qp_context(wc->rc_qp);
    const char *why = end_text(wc);
    enum rejection rejection;
    bool lost, expected = false;
    OPAL_THREAD_LOCK(&module->lock);
    if (wc->rc_qp != endpoint->qp) { /* our call that lost */
        if (wc->rc_qp == endpoint->lost) {
            mca_btl_diwarp_rc_qp_destroy(module, &endpoint->lost);
            mca_btl_diwarp_rc_endpoint_free_if_unused(module, endpoint);
        }
        OPAL_THREAD_UNLOCK(&module->lock);
        return;
    }
    rejection = rejection_of(endpoint, wc); /* before its data goes with the QP */
    mca_btl_diwarp_rc_connection_destroy(module, endpoint);
    lost =
        endpoint->state == MCA_BTL_DIWARP_RC_GONE || !state_after(module, endpoint, rejection, wc);
    if (endpoint->state == MCA_BTL_DIWARP_RC_IDLE && mca_btl_diwarp_rc_waits(endpoint)) {
        int rc = endpoint->deleted || module->rc->closing
                     ? -ECONNABORTED
                     : mca_btl_diwarp_rc_call(module, endpoint);
        lost = rc < 0;
        why = lost ? strerror(-rc) : why;
    }
    if (lost) {
        /* Now: nobody is to find it connected, without QP. */
        expected = mca_btl_diwarp_rc_set_lost(module, endpoint);
    } else {
        mca_btl_diwarp_rc_endpoint_free_if_unused(module, endpoint);
    }
    OPAL_THREAD_UNLOCK(&module->lock);
    if (lost)
        mca_btl_diwarp_rc_report_lost(module, endpoint, expected, why);
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
    if (OPAL_UNLIKELY(rc->yield_ends_ns) &&
        mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC) >= rc->yield_ends_ns) {
        rc->yield_ends_ns = 0;
        mca_btl_diwarp_rc_endpoints_foreach(module, call_again);
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
        mca_btl_diwarp_polling_end(module);
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
