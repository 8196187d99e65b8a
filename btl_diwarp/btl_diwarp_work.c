/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests: posting, and waiting for room in the send queue to an endpoint, or for a
 * connection. An endpoint whose queue is full holds up nobody else. What waits is tried again after
 * each poll.
 */
#include "btl_diwarp/btl_diwarp_work.h"

#include <errno.h>

/* Bound of short messages to an endpoint that its caller takes for sent, though nobody has been
 * told of their end: who sends more has to wait, and so polls. Twice as many let who never polls
 * get so much farther ahead of its peer. A callback cannot wait: it may fill the send queue. */
#define BUFFERED_MAX 512
/* Endpoints that are tried after a poll: each in vain costs some 0.1 us. Half: who has room again
 * is found later; twice: polls take longer where hundreds have none. */
#define TRIES_MAX 16

static void append(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work)
{
    mca_btl_base_endpoint_t *endpoint = work->endpoint;
    struct mca_btl_diwarp_work *last = endpoint->waiting;
    if (!last)
        TAILQ_INSERT_TAIL(&module->waiting, work, turn);
    work->next = last ? last->next : work;
    if (last)
        last->next = work;
    endpoint->waiting = work;
    endpoint->waiting_count++;
    endpoint->fence_waits |= work->fence;
}

static struct mca_btl_diwarp_work *remove_first(struct mca_btl_diwarp_module *module,
                                                mca_btl_base_endpoint_t *endpoint)
{
    struct mca_btl_diwarp_work *last = endpoint->waiting, *work = last->next;
    last->next = work->next;
    if (work == last)
        endpoint->waiting = NULL;
    else
        TAILQ_INSERT_AFTER(&module->waiting, work, work->next, turn);
    endpoint->fence_waits &= work != last;
    TAILQ_REMOVE(&module->waiting, work, turn);
    endpoint->waiting_count--;
    return work;
}

static void add_posted(struct mca_btl_diwarp_work *work)
{
    LIST_INSERT_HEAD(&work->endpoint->posted, work, link);
    work->endpoint->posted_count++;
}

static void remove_posted(struct mca_btl_diwarp_work *work)
{
    LIST_REMOVE(work, link);
    work->endpoint->posted_count--;
}

static bool must_wait(int rc)
{
    return rc == -ENOMEM || rc == -ENOTCONN;
}

int mca_btl_diwarp_work_post(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work)
{
    const unsigned buffered_max =
        mca_btl_diwarp_in_progress(module) ? MCA_BTL_DIWARP_QUEUE_WRS : BUFFERED_MAX;
    mca_btl_base_endpoint_t *endpoint = work->endpoint;
    int rc = -ENOMEM;
    mca_btl_diwarp_look_soon(module);
    OPAL_THREAD_LOCK(&module->lock);
    work->buffered = work->buffered && endpoint->posted_count < buffered_max;
    if (OPAL_LIKELY(!endpoint->waiting))
        rc = work->post(module, work);
    if (OPAL_UNLIKELY(must_wait(rc))) {
        module->counters.waiting_for_room += rc == -ENOMEM;
        work->buffered = false;
        append(module, work);
    } else if (!rc) {
        add_posted(work);
        rc = work->buffered ? 2 : 0;
    }
    OPAL_THREAD_UNLOCK(&module->lock);
    if (rc == -ENOTCONN)
        module->transport->connect(module, endpoint);
    if (rc == 2 && module->rc && !module->helper)
        diwarp_rc_flush(module->cq); /* nobody else would, should the program compute now */
    return must_wait(rc) ? 0 : rc;
}

void mca_btl_diwarp_work_end(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work,
                             enum ibv_wc_status status, const struct diwarp_wc *wc)
{
    OPAL_THREAD_LOCK(&module->lock);
    if (OPAL_LIKELY(work->endpoint)) {
        remove_posted(work);
        if (OPAL_UNLIKELY(!work->endpoint->proc))
            work->endpoint = NULL;
    }
    OPAL_THREAD_UNLOCK(&module->lock);
    work->on_complete(module, work, status, wc);
}

void mca_btl_diwarp_work_wait_again(struct mca_btl_diwarp_module *module,
                                    struct mca_btl_diwarp_work *work)
{
    OPAL_THREAD_LOCK(&module->lock);
    remove_posted(work);
    append(module, work);
    OPAL_THREAD_UNLOCK(&module->lock);
}

/* Counts as posted until it is told of, without the lock: a callback may delete the endpoint. */
static void end_first(struct mca_btl_diwarp_module *module, mca_btl_base_endpoint_t *endpoint,
                      enum ibv_wc_status status)
{
    struct mca_btl_diwarp_work *work = remove_first(module, endpoint);
    add_posted(work);
    OPAL_THREAD_UNLOCK(&module->lock);
    mca_btl_diwarp_work_end(module, work, status, NULL);
    OPAL_THREAD_LOCK(&module->lock);
}

/* False: the first request to wait has to wait on. */
static bool post_first(struct mca_btl_diwarp_module *module, mca_btl_base_endpoint_t *endpoint)
{
    struct mca_btl_diwarp_work *work = endpoint->waiting->next;
    const int rc = work->post(module, work);
    if (must_wait(rc))
        return false;
    if (!rc)
        add_posted(remove_first(module, endpoint));
    else
        end_first(module, endpoint,
                  rc > 0                ? IBV_WC_SUCCESS
                  : rc == -EHOSTUNREACH ? IBV_WC_RETRY_EXC_ERR
                                        : IBV_WC_LOC_QP_OP_ERR);
    return true;
}

void mca_btl_diwarp_work_post_waiting(struct mca_btl_diwarp_module *module,
                                      mca_btl_base_endpoint_t *endpoint)
{
    while (endpoint->waiting && post_first(module, endpoint))
        continue;
}

void mca_btl_diwarp_work_post_next_waiting(struct mca_btl_diwarp_module *module)
{
    const struct mca_btl_diwarp_work *first = NULL;
    struct mca_btl_diwarp_work *work;
    unsigned tries = 0;
    if (OPAL_LIKELY(!mca_btl_diwarp_work_waits(module)))
        return;
    OPAL_THREAD_LOCK(&module->lock);
    while ((work = TAILQ_FIRST(&module->waiting)) && work != first && tries < TRIES_MAX) {
        if (post_first(module, work->endpoint))
            continue;
        TAILQ_REMOVE(&module->waiting, work, turn);
        TAILQ_INSERT_TAIL(&module->waiting, work, turn);
        first = first ? first : work;
        tries++;
    }
    OPAL_THREAD_UNLOCK(&module->lock);
}

void mca_btl_diwarp_work_end_waiting(struct mca_btl_diwarp_module *module,
                                     mca_btl_base_endpoint_t *endpoint, enum ibv_wc_status status)
{
    while (endpoint->waiting)
        end_first(module, endpoint, status);
}

void mca_btl_diwarp_work_forget(struct mca_btl_diwarp_module *module,
                                mca_btl_base_endpoint_t *endpoint)
{
    OPAL_THREAD_LOCK(&module->lock);
    endpoint->proc = NULL;
    mca_btl_diwarp_work_post_waiting(module, endpoint);
    mca_btl_diwarp_work_end_waiting(module, endpoint, IBV_WC_WR_FLUSH_ERR);
    while (!LIST_EMPTY(&endpoint->posted)) {
        struct mca_btl_diwarp_work *work = LIST_FIRST(&endpoint->posted);
        remove_posted(work);
        work->endpoint = NULL;
    }
    OPAL_THREAD_UNLOCK(&module->lock);
}
