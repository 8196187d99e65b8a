/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests: posting, and waiting for room in the send queue to an endpoint, or for a
 * connection. An endpoint whose queue is full holds up nobody else: the end of a request to it lets
 * the next to it go.
 */
#include "btl_diwarp/btl_diwarp_work.h"

#include <errno.h>

/* Bound of short messages to an endpoint that its caller takes for sent, though nobody has been
 * told of their end: who sends more has to wait, and so polls. Twice as many let who never polls
 * get so much farther ahead of its peer. A callback cannot wait: it may fill the send queue. */
#define BUFFERED_MAX 512

static void queue_construct(struct mca_btl_diwarp_queue *queue)
{
    queue->first = queue->last = NULL;
    queue->waiting = queue->posted = 0;
    queue->stalled = queue->silent = false;
}

typedef struct mca_btl_diwarp_queue mca_btl_diwarp_queue;
OBJ_CLASS_INSTANCE(mca_btl_diwarp_queue, opal_list_item_t, queue_construct, NULL);

static struct mca_btl_diwarp_queue *queue_of(struct mca_btl_diwarp_module *module,
                                             mca_btl_base_endpoint_t *endpoint)
{
    if (!endpoint->queue) {
        endpoint->queue = module->spare;
        module->spare = NULL;
        endpoint->queue->endpoint = endpoint;
        opal_list_append(&module->queues, &endpoint->queue->super);
    }
    return endpoint->queue;
}

/* After each change: takes it away when nothing is under way any more. What waits for a connection
 * is not stalled: that comes with an event. */
static void queue_look(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_queue *queue)
{
    const bool stalled = queue->waiting > 0 && !queue->posted && !module->rc;
    if (stalled != queue->stalled) {
        queue->stalled = stalled;
        __atomic_store_n(&module->stalled_count, module->stalled_count + (stalled ? 1 : -1u),
                         __ATOMIC_RELAXED);
    }
    if (queue->waiting > 0 || queue->posted > 0)
        return;
    opal_list_remove_item(&module->queues, &queue->super);
    if (queue->endpoint)
        queue->endpoint->queue = NULL;
    if (!module->spare) {
        module->spare = queue;
        queue->silent = false;
    } else {
        OBJ_RELEASE(queue);
    }
}

static void append(struct mca_btl_diwarp_queue *queue, struct mca_btl_diwarp_work *work)
{
    work->next = NULL;
    work->queue = queue;
    *(queue->first ? &queue->last->next : &queue->first) = work;
    queue->last = work;
    queue->waiting++;
}

static struct mca_btl_diwarp_work *remove_first(struct mca_btl_diwarp_queue *queue)
{
    struct mca_btl_diwarp_work *work = queue->first;
    queue->first = work->next;
    queue->waiting--;
    return work;
}

static bool may_buffer(const struct mca_btl_diwarp_module *module,
                       const struct mca_btl_diwarp_queue *queue)
{
    return !queue || queue->posted < (mca_btl_diwarp_in_progress(module) ? MCA_BTL_DIWARP_QUEUE_WRS
                                                                         : BUFFERED_MAX);
}

/* As mca_btl_diwarp_work_post(). Most end as they are posted, and need no queue. */
static int post_or_append(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work)
{
    mca_btl_base_endpoint_t *endpoint = work->endpoint;
    struct mca_btl_diwarp_queue *queue = endpoint->queue;
    int rc = -ENOMEM;
    if (!queue && !module->spare && !(module->spare = OBJ_NEW(mca_btl_diwarp_queue)))
        return -ENOBUFS;
    work->buffered = work->buffered && may_buffer(module, queue);
    if (OPAL_LIKELY(!queue || !queue->first))
        rc = work->ops->post(module, work);
    if (OPAL_UNLIKELY(rc == -ENOMEM || rc == -ENOTCONN)) {
        work->buffered = false;
        append(queue_of(module, endpoint), work);
        module->counters.waiting_for_room += rc == -ENOMEM;
        queue_look(module, endpoint->queue);
        return 0;
    }
    if (rc)
        return rc;
    work->queue = queue_of(module, endpoint);
    work->queue->posted++;
    return work->buffered ? 2 : 0;
}

int mca_btl_diwarp_work_post(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work)
{
    int rc;
    OPAL_THREAD_LOCK(&module->lock);
    rc = post_or_append(module, work);
    OPAL_THREAD_UNLOCK(&module->lock);
    return rc;
}

/* Without the lock, which is taken again; something under way keeps the queue. */
static void tell(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_queue *queue,
                 struct mca_btl_diwarp_work *work, enum ibv_wc_status status,
                 const struct diwarp_wc *wc)
{
    if (OPAL_UNLIKELY(queue->silent))
        work->endpoint = NULL;
    OPAL_THREAD_UNLOCK(&module->lock);
    work->ops->on_complete(module, work, status, wc);
    OPAL_THREAD_LOCK(&module->lock);
}

/* What a work that waited ends with when it is posted. */
static enum ibv_wc_status status_of_post(int rc)
{
    return rc > 0                ? IBV_WC_SUCCESS
           : rc == -EHOSTUNREACH ? IBV_WC_RETRY_EXC_ERR
                                 : IBV_WC_LOC_QP_OP_ERR;
}

static void post_waiting(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_queue *queue)
{
    while (queue->first) {
        struct mca_btl_diwarp_work *work = queue->first;
        int rc = work->ops->post(module, work);
        if (rc == -ENOMEM || rc == -ENOTCONN)
            return;
        (void)remove_first(queue);
        queue->posted++;
        if (rc) {
            tell(module, queue, work, status_of_post(rc), NULL);
            queue->posted--;
        }
    }
}

void mca_btl_diwarp_work_end(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work,
                             enum ibv_wc_status status, const struct diwarp_wc *wc)
{
    struct mca_btl_diwarp_queue *queue;
    OPAL_THREAD_LOCK(&module->lock);
    queue = work->queue;
    tell(module, queue, work, status, wc);
    post_waiting(module, queue);
    queue->posted--;
    queue_look(module, queue);
    OPAL_THREAD_UNLOCK(&module->lock);
}

void mca_btl_diwarp_work_wait_again(struct mca_btl_diwarp_module *module,
                                    struct mca_btl_diwarp_work *work)
{
    OPAL_THREAD_LOCK(&module->lock);
    work->queue->posted--;
    append(work->queue, work);
    OPAL_THREAD_UNLOCK(&module->lock);
}

void mca_btl_diwarp_work_post_waiting(struct mca_btl_diwarp_module *module,
                                      mca_btl_base_endpoint_t *endpoint)
{
    struct mca_btl_diwarp_queue *queue;
    OPAL_THREAD_LOCK(&module->lock);
    queue = endpoint->queue; /* a callback may delete the endpoint */
    if (queue) {
        post_waiting(module, queue);
        queue_look(module, queue);
    }
    OPAL_THREAD_UNLOCK(&module->lock);
}

void mca_btl_diwarp_work_post_stalled(struct mca_btl_diwarp_module *module)
{
    struct mca_btl_diwarp_queue *queue, *next;
    if (OPAL_LIKELY(!__atomic_load_n(&module->stalled_count, __ATOMIC_RELAXED)))
        return;
    OPAL_THREAD_LOCK(&module->lock);
    for (queue = (struct mca_btl_diwarp_queue *)opal_list_get_first(&module->queues);
         &queue->super != opal_list_get_end(&module->queues); queue = next) {
        queue->posted++; /* whatever callbacks do, it stays */
        if (queue->stalled)
            post_waiting(module, queue);
        next = (struct mca_btl_diwarp_queue *)opal_list_get_next(&queue->super);
        queue->posted--;
        queue_look(module, queue);
    }
    OPAL_THREAD_UNLOCK(&module->lock);
}

static void end_waiting(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_queue *queue,
                        enum ibv_wc_status status)
{
    queue->posted++; /* until all have been told */
    while (queue->first)
        tell(module, queue, remove_first(queue), status, NULL);
    queue->posted--;
    queue_look(module, queue);
}

void mca_btl_diwarp_work_end_waiting(struct mca_btl_diwarp_module *module,
                                     mca_btl_base_endpoint_t *endpoint, enum ibv_wc_status status)
{
    OPAL_THREAD_LOCK(&module->lock);
    if (endpoint->queue)
        end_waiting(module, endpoint->queue, status);
    OPAL_THREAD_UNLOCK(&module->lock);
}

void mca_btl_diwarp_work_forget(struct mca_btl_diwarp_module *module,
                                mca_btl_base_endpoint_t *endpoint)
{
    struct mca_btl_diwarp_queue *queue;
    OPAL_THREAD_LOCK(&module->lock);
    queue = endpoint->queue;
    if (queue) {
        queue->endpoint = NULL;
        queue->silent = true;
        end_waiting(module, queue, IBV_WC_WR_FLUSH_ERR);
    }
    OPAL_THREAD_UNLOCK(&module->lock);
}

void mca_btl_diwarp_work_forget_all(struct mca_btl_diwarp_module *module)
{
    struct mca_btl_diwarp_queue *queue, *next;
    OPAL_LIST_FOREACH_SAFE(queue, next, &module->queues, struct mca_btl_diwarp_queue)
    {
        queue->first = NULL;
        queue->waiting = queue->posted = 0;
        queue_look(module, queue);
    }
    if (module->spare)
        OBJ_RELEASE(module->spare);
}
