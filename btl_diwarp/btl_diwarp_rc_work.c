/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests over RC. Each endpoint has a queue of what found no connection or no room in the
 * send queue of its QP, so that a peer that stands still holds up nobody else.
 */
#include "btl_diwarp/btl_diwarp_rc.h"

#include <errno.h>
#include <string.h>

/* Messages to a peer that are posted no further apart are a burst. */
#define BURST_NS 2000

enum mca_btl_diwarp_pace mca_btl_diwarp_rc_pace(const struct mca_btl_diwarp_module *module,
                                                mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    unsigned long polls;
    uint64_t now_ns;
    bool burst;

    if (!mca_btl_diwarp_params.rc_coalesce) {
        return MCA_BTL_DIWARP_PACE_ALONE;
    }
    if (mca_btl_diwarp_in_progress(module)) {
        return MCA_BTL_DIWARP_PACE_BURST;
    }
    polls = __atomic_load_n(&module->polls, __ATOMIC_RELAXED);
    now_ns = mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC);
    burst = endpoint->sent_at_poll == polls && now_ns - endpoint->sent_ns < BURST_NS;
    endpoint->sent_at_poll = polls;
    endpoint->sent_ns = now_ns;
    return burst ? MCA_BTL_DIWARP_PACE_BURST : MCA_BTL_DIWARP_PACE_ALONE;
}

int mca_btl_diwarp_rc_post(struct mca_btl_diwarp_module *module,
                           mca_btl_diwarp_rc_endpoint_t *endpoint, const struct ibv_send_wr *wr,
                           enum mca_btl_diwarp_pace pace)
{
    struct ibv_send_wr lazy = *wr;
    int rc;

    __atomic_store_n(&endpoint->unused, false, __ATOMIC_RELAXED);
    if (MCA_BTL_DIWARP_PACE_BURST == pace) {
        lazy.send_flags |= (unsigned)DIWARP_SEND_LAZY;
        module->rc->unflushed = module->rc->unflushed || mca_btl_diwarp_in_progress(module);
        return diwarp_rc_post_send(endpoint->qp, &lazy);
    }
    rc = diwarp_rc_post_send(endpoint->qp, wr);
    if (mca_btl_diwarp_params.rc_coalesce) {
        endpoint->sent_ns = mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC);
    }
    return rc;
}

static void waiting_append(mca_btl_diwarp_rc_endpoint_t *endpoint, struct mca_btl_diwarp_work *work)
{
    work->next = NULL;
    if (NULL == endpoint->waiting_first) {
        endpoint->waiting_first = work;
    } else {
        endpoint->waiting_last->next = work;
    }
    endpoint->waiting_last = work;
}

static struct mca_btl_diwarp_work *waiting_remove_first(mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    struct mca_btl_diwarp_work *work = endpoint->waiting_first;

    if (NULL != work) {
        endpoint->waiting_first = work->next;
    }
    return work;
}

/* To be called back. */
static bool pml_is_there(const struct mca_btl_diwarp_module *module,
                         const mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    return !endpoint->deleted && !module->rc->closing;
}

/* What was buffered calls nobody back. */
static bool may_complete(const struct mca_btl_diwarp_module *module,
                         const mca_btl_diwarp_rc_endpoint_t *endpoint,
                         const struct mca_btl_diwarp_work *work)
{
    return work->buffered || pml_is_there(module, endpoint);
}

/* Under the lock. 2, 1, 0 or negative errno as mca_btl_diwarp_rc_work_post(). */
static int post_or_append(struct mca_btl_diwarp_module *module,
                          mca_btl_diwarp_rc_endpoint_t *endpoint, struct mca_btl_diwarp_work *work)
{
    bool buffered;

    work->buffered = work->buffered && mca_btl_diwarp_work_may_buffer(module, endpoint->posted);
    buffered = work->buffered; /* posted, it may be no more */
    if (OPAL_LIKELY(MCA_BTL_DIWARP_RC_CONNECTED == endpoint->state &&
                    NULL == endpoint->waiting_first)) {
        int rc = work->ops->post(module, work);

        if (OPAL_LIKELY(-ENOMEM != rc && -ENOTCONN != rc)) {
            endpoint->posted += 0 == rc;
            return 0 == rc && buffered ? 2 : rc;
        }
        module->counters.waiting_for_room++;
    }
    if (OPAL_UNLIKELY(MCA_BTL_DIWARP_RC_GONE == endpoint->state)) {
        return -EHOSTUNREACH;
    }
    work->buffered = false;
    waiting_append(endpoint, work);
    return 0;
}

void mca_btl_diwarp_rc_work_end_waiting(struct mca_btl_diwarp_module *module,
                                        mca_btl_diwarp_rc_endpoint_t *endpoint,
                                        enum ibv_wc_status status)
{
    struct mca_btl_diwarp_work *work;

    do {
        OPAL_THREAD_LOCK(&module->rc->lock);
        work = waiting_remove_first(endpoint);
        OPAL_THREAD_UNLOCK(&module->rc->lock);
        if (NULL != work && may_complete(module, endpoint, work)) {
            work->ops->on_complete(module, work, status, NULL);
        }
    } while (NULL != work);
}

void mca_btl_diwarp_rc_report_lost(struct mca_btl_diwarp_module *module,
                                   mca_btl_diwarp_rc_endpoint_t *endpoint, bool expected,
                                   const char *why)
{
    if (!expected) {
        mca_btl_diwarp_peer_on_gone(module, &endpoint->name, why);
    }
    mca_btl_diwarp_rc_work_end_waiting(module, endpoint,
                                       expected ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR);
}

void mca_btl_diwarp_rc_endpoint_on_lost(struct mca_btl_diwarp_module *module,
                                        mca_btl_diwarp_rc_endpoint_t *endpoint, const char *why)
{
    bool expected;

    OPAL_THREAD_LOCK(&module->rc->lock);
    expected = mca_btl_diwarp_rc_set_lost(module, endpoint);
    OPAL_THREAD_UNLOCK(&module->rc->lock);
    mca_btl_diwarp_rc_report_lost(module, endpoint, expected, why);
}

int mca_btl_diwarp_rc_work_post(struct mca_btl_diwarp_module *module,
                                mca_btl_diwarp_rc_endpoint_t *endpoint,
                                struct mca_btl_diwarp_work *work)
{
    int rc, called = 0;

    OPAL_THREAD_LOCK(&module->rc->lock);
    rc = post_or_append(module, endpoint, work);
    if (OPAL_UNLIKELY(MCA_BTL_DIWARP_RC_IDLE == endpoint->state)) {
        called = mca_btl_diwarp_rc_endpoint_call(module, endpoint);
    }
    OPAL_THREAD_UNLOCK(&module->rc->lock);
    if (OPAL_UNLIKELY(called < 0)) {
        mca_btl_diwarp_rc_endpoint_on_lost(module, endpoint, strerror(-called));
    }
    return rc;
}

/* 1: posted and done; 0: posted; -EAGAIN: nothing to post, or not now; or why it failed. */
static int post_first(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rc_endpoint_t *endpoint,
                      struct mca_btl_diwarp_work **work)
{
    int rc;

    if (MCA_BTL_DIWARP_RC_CONNECTED != endpoint->state || NULL == endpoint->waiting_first) {
        mca_btl_diwarp_rc_endpoint_leave_if_due(module, endpoint);
        return -EAGAIN;
    }
    *work = endpoint->waiting_first;
    rc = (*work)->ops->post(module, *work);
    if (-ENOMEM == rc || -ENOTCONN == rc) {
        return -EAGAIN;
    }
    (void)waiting_remove_first(endpoint);
    endpoint->posted += 0 == rc;
    return rc;
}

void mca_btl_diwarp_rc_work_post_waiting(struct mca_btl_diwarp_module *module,
                                         mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    struct mca_btl_diwarp_work *work = NULL;
    int rc;

    do {
        OPAL_THREAD_LOCK(&module->rc->lock);
        rc = post_first(module, endpoint, &work);
        OPAL_THREAD_UNLOCK(&module->rc->lock);
        if (0 != rc && -EAGAIN != rc && may_complete(module, endpoint, work)) {
            work->ops->on_complete(module, work, rc > 0 ? IBV_WC_SUCCESS : IBV_WC_LOC_QP_OP_ERR,
                                   NULL);
        }
    } while (-EAGAIN != rc);
}

/* A request that the end of its connection flushed waits for what comes of that. */
void mca_btl_diwarp_rc_work_on_wc(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    struct mca_btl_diwarp_work *work = (struct mca_btl_diwarp_work *)(uintptr_t)wc->wc.wr_id;
    mca_btl_diwarp_rc_endpoint_t *endpoint = diwarp_rc_qp_context(wc->rc_qp);
    bool waiting;

    if (NULL != work && IBV_WC_WR_FLUSH_ERR == wc->wc.status) {
        OPAL_THREAD_LOCK(&module->rc->lock);
        endpoint->posted--;
        waiting_append(endpoint, work);
        OPAL_THREAD_UNLOCK(&module->rc->lock);
        return;
    }
    if (NULL != work && may_complete(module, endpoint, work)) {
        work->ops->on_complete(module, work, wc->wc.status, wc);
    }
    OPAL_THREAD_LOCK(&module->rc->lock);
    endpoint->posted -= NULL != work;
    waiting = NULL != endpoint->waiting_first || !pml_is_there(module, endpoint);
    OPAL_THREAD_UNLOCK(&module->rc->lock);
    if (waiting) {
        mca_btl_diwarp_rc_work_post_waiting(module, endpoint);
    }
}
