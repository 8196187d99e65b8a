/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections: when they are made, which of two that cross is kept, and how they end.
 *
 * The first send to a peer calls it. Where both call at once, the call of the lower name wins: the
 * other side accepts it, and its own call is rejected. Should the winner's not come soon, the loser
 * calls again: the winner may be gone. Before it closes, a side says goodbye; a connection that
 * ends without is an error.
 */
#include "btl_diwarp/btl_diwarp_rc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

/* The caller's name: job, rank. */
#define REQUEST_BYTES 8

/* Why a call was rejected: one byte of private data. */
enum rejection {
    REJECT_NOT,
    REJECT_CROSSED, /* our call to you is under way, or there is a connection already */
    REJECT_CLOSING, /* an earlier connection or call is not at its end yet: call again */
    REJECT_LEFT,    /* nothing will be received here any more */
    REJECT_BAD,     /* not a request of diwarp's BTL */
    REJECT_GONE,    /* you are lost to us */
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
    if (MCA_BTL_DIWARP_RC_YIELDING == endpoint->state) {
        mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_IDLE);
        if (mca_btl_diwarp_rc_waits(endpoint) && !endpoint->deleted && !module->rc->closing) {
            rc = mca_btl_diwarp_rc_call(module, endpoint);
        }
    }
    OPAL_THREAD_UNLOCK(&module->lock);
    mca_btl_diwarp_rc_on_lost(module, endpoint, rc);
}

void mca_btl_diwarp_rc_yield_no_more(struct mca_btl_diwarp_module *module)
{
    if (OPAL_UNLIKELY(0 != module->rc->yield_ends_ns) &&
        mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC) >= module->rc->yield_ends_ns) {
        module->rc->yield_ends_ns = 0;
        mca_btl_diwarp_rc_endpoints_foreach(module, call_again);
    }
}

/* ---- requests of peers -------------------------------------------------------------------- */

static bool name_from_request(const struct diwarp_wc *wc, struct diwarp_name *name)
{
    uint32_t words[2];

    if (REQUEST_BYTES != wc->wc.byte_len) {
        return false;
    }
    memcpy(words, wc->data, sizeof(words));
    *name = (struct diwarp_name){.job = ntohl(words[0]), .rank = ntohl(words[1])};
    return mca_btl_diwarp_rc_key(*name) != mca_btl_diwarp_rc_my_key();
}

static void reject(struct diwarp_connect_request *request, enum rejection rejection)
{
    const unsigned char why = (unsigned char)rejection;

    diwarp_reject(request, &why, sizeof(why));
}

/* What to answer. */
static enum rejection judge_request(const struct mca_btl_diwarp_module *module,
                                    const mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    switch (endpoint->state) {
    case MCA_BTL_DIWARP_RC_IDLE:
        if (module->rc->closing) {
            return REJECT_LEFT;
        }
        return NULL == endpoint->qp ? REJECT_NOT : REJECT_CLOSING;
    case MCA_BTL_DIWARP_RC_CALLING:
        if (mca_btl_diwarp_rc_key(endpoint->name) > mca_btl_diwarp_rc_my_key()) {
            return REJECT_CROSSED;
        }
        return NULL == endpoint->lost ? REJECT_NOT : REJECT_CLOSING;
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

void mca_btl_diwarp_rc_on_request(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint;
    struct diwarp_name name;
    enum rejection rejection;
    int rc = 0;

    if (!name_from_request(wc, &name)) {
        reject(wc->request, REJECT_BAD);
        return;
    }
    OPAL_THREAD_LOCK(&module->lock);
    endpoint = mca_btl_diwarp_rc_endpoint_for(module->rc, name);
    rejection = NULL != endpoint ? judge_request(module, endpoint) : REJECT_LEFT;
    if (REJECT_NOT != rejection) {
        reject(wc->request, rejection);
    } else {
        rc = mca_btl_diwarp_rc_answer(module, endpoint, wc->request);
        /* Its own affair: its call has failed. */
        if (rc < 0 && !mca_btl_diwarp_rc_waits(endpoint)) {
            if (MCA_BTL_DIWARP_RC_IDLE != endpoint->state) {
                mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_IDLE);
            }
            rc = 0;
        }
    }
    OPAL_THREAD_UNLOCK(&module->lock);
    mca_btl_diwarp_rc_on_lost(module, endpoint, rc);
}

/* ---- events of connections ---------------------------------------------------------------- */

/* Under the lock: gives the connection its receives. 0 or negative errno. */
static int connection_post_receives(struct mca_btl_diwarp_module *module,
                                    mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    const unsigned count = mca_btl_diwarp_params.rc_recv_buffers;

    if (NULL != module->rc->srq) {
        return 0;
    }
    endpoint->buffers = mca_btl_diwarp_rc_buffers_alloc(count);
    if (NULL == endpoint->buffers) {
        return -ENOMEM;
    }
    return mca_btl_diwarp_rc_buffers_post(module, endpoint->buffers, count, endpoint->qp);
}

void mca_btl_diwarp_rc_on_connected(struct mca_btl_diwarp_module *module,
                                    const struct diwarp_wc *wc)
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
    rc = connection_post_receives(module, endpoint);
    OPAL_THREAD_UNLOCK(&module->lock);
    if (rc < 0) {
        diwarp_disconnect(wc->rc_qp);
        mca_btl_diwarp_rc_on_lost(module, endpoint, rc);
        return;
    }
    mca_btl_diwarp_work_post_waiting(module, &endpoint->super);
    mca_btl_diwarp_rc_leave_if_due(module, endpoint);
}

void mca_btl_diwarp_rc_on_goodbye(struct mca_btl_diwarp_module *module,
                                  mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    OPAL_THREAD_LOCK(&module->lock);
    endpoint->left = true;
    if (MCA_BTL_DIWARP_RC_CONNECTED == endpoint->state) {
        mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_LEAVING);
    }
    OPAL_THREAD_UNLOCK(&module->lock);
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

    if (MCA_BTL_DIWARP_RC_CALLING != endpoint->state || IBV_WC_REM_INV_REQ_ERR != wc->wc.status ||
        1 != wc->wc.byte_len) {
        return REJECT_NOT;
    }
    memcpy(&why, wc->data, sizeof(why));
    return (enum rejection)why;
}

/* Nobody waits for a call that failed, or the peer has given up on its own before it was answered:
 * what is answered late is reset. Whoever wants a connection calls again. */
static bool lost_nothing(const mca_btl_diwarp_rc_endpoint_t *endpoint, const struct diwarp_wc *wc)
{
    const bool late = __atomic_load_n(&endpoint->unused, __ATOMIC_RELAXED) &&
                      IBV_WC_RETRY_EXC_ERR == wc->wc.status;

    return !mca_btl_diwarp_rc_waits(endpoint) &&
           (late || MCA_BTL_DIWARP_RC_CALLING == endpoint->state);
}

/* Under the lock: moves an endpoint on that has no QP any more. False: it is lost. */
static bool state_after(const struct mca_btl_diwarp_module *module,
                        mca_btl_diwarp_rc_endpoint_t *endpoint, enum rejection rejection,
                        const struct diwarp_wc *wc)
{
    if (REJECT_CROSSED == rejection) {
        mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_YIELDING);
        if (0 == module->rc->yield_ends_ns) {
            module->rc->yield_ends_ns = mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC) + YIELD_NS;
        }
        return true;
    }
    endpoint->left = endpoint->left || REJECT_LEFT == rejection;
    if (REJECT_CLOSING == rejection || MCA_BTL_DIWARP_RC_LEAVING == endpoint->state ||
        lost_nothing(endpoint, wc)) {
        mca_btl_diwarp_rc_set_state(endpoint, MCA_BTL_DIWARP_RC_IDLE);
        return true;
    }
    return false;
}

static void on_lost_call_end(struct mca_btl_diwarp_module *module,
                             mca_btl_diwarp_rc_endpoint_t *endpoint, struct diwarp_rc_qp *qp)
{
    OPAL_THREAD_LOCK(&module->lock);
    if (qp == endpoint->lost) {
        mca_btl_diwarp_rc_qp_destroy(module, &endpoint->lost);
        mca_btl_diwarp_rc_endpoint_free_if_unused(module, endpoint);
    }
    OPAL_THREAD_UNLOCK(&module->lock);
}

void mca_btl_diwarp_rc_on_disconnected(struct mca_btl_diwarp_module *module,
                                       const struct diwarp_wc *wc)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint = diwarp_rc_qp_context(wc->rc_qp);
    const char *why = end_text(wc);
    enum rejection rejection;
    bool lost, expected = false;

    if (wc->rc_qp != endpoint->qp) {
        on_lost_call_end(module, endpoint, wc->rc_qp);
        return;
    }
    OPAL_THREAD_LOCK(&module->lock);
    rejection = rejection_of(endpoint, wc); /* before its data goes with the QP */
    mca_btl_diwarp_rc_connection_destroy(module, endpoint);
    lost =
        MCA_BTL_DIWARP_RC_GONE == endpoint->state || !state_after(module, endpoint, rejection, wc);
    if (MCA_BTL_DIWARP_RC_IDLE == endpoint->state && mca_btl_diwarp_rc_waits(endpoint)) {
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
    if (lost) {
        mca_btl_diwarp_rc_report_lost(module, endpoint, expected, why);
    }
}
