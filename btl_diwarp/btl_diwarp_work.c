/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests: posting, waiting for room in the send queue to an endpoint, and what puts, gets
 * and atomics have in common. An endpoint whose queue is full holds up nobody else: the end of a
 * request to it lets the next to it go.
 */
#include "btl_diwarp/btl_diwarp_work.h"

#include "opal/util/output.h"
#include "opal/util/show_help.h"

#include <errno.h>
#include <stdlib.h>

/* Bound of requests that wait for an endpoint, beyond which one-sided callers are turned away.
 * Sends are not: their number is bounded by the upper layer's own requests, and it has nowhere else
 * to put them. */
#define WAITING_MAX 4096

/* Bound of short messages to an endpoint that its caller takes for sent, though nobody has been
 * told of their end: who sends more has to wait, and so polls. A callback cannot. */
#define BUFFERED_MAX           512
#define BUFFERED_CALLBACKS_MAX 8192

OBJ_CLASS_INSTANCE(mca_btl_diwarp_rdma_t, opal_free_list_item_t, NULL, NULL);

int mca_btl_diwarp_status(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_SUCCESS:
        return OPAL_SUCCESS;
    case IBV_WC_RETRY_EXC_ERR:
        return OPAL_ERR_UNREACH;
    default:
        return OPAL_ERROR;
    }
}

/* What is under way to an endpoint. All of it but what calls back runs under the lock. */
struct mca_btl_diwarp_queue {
    struct mca_btl_diwarp_queue *next, *prev; /* in module->queues */
    mca_btl_base_endpoint_t *endpoint;        /* NULL: has been deleted */
    struct mca_btl_diwarp_work *first, *last; /* that found no room, oldest first */
    unsigned waiting, posted;                 /* posted: until their end has been told */
    bool stalled;
};

size_t mca_btl_diwarp_work_queue_bytes(const struct mca_btl_diwarp_module *module)
{
    return module->queue_count * sizeof(struct mca_btl_diwarp_queue);
}

static struct mca_btl_diwarp_queue *queue_of(struct mca_btl_diwarp_module *module,
                                             mca_btl_base_endpoint_t *endpoint)
{
    struct mca_btl_diwarp_queue *queue = endpoint->queue;

    if (NULL == queue && NULL != (queue = calloc(1, sizeof(*queue)))) {
        queue->endpoint = endpoint;
        queue->next = module->queues;
        if (NULL != queue->next) {
            queue->next->prev = queue;
        }
        module->queues = endpoint->queue = queue;
        module->queue_count++;
    }
    return queue;
}

static void set_stalled(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_queue *queue,
                        bool stalled)
{
    if (stalled != queue->stalled) {
        queue->stalled = stalled;
        __atomic_store_n(&module->stalled_count, module->stalled_count + (stalled ? 1 : -1u),
                         __ATOMIC_RELAXED);
    }
}

/* After each change: frees it when nothing is under way any more. */
static void queue_look(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_queue *queue)
{
    set_stalled(module, queue, queue->waiting > 0 && 0 == queue->posted);
    if (queue->waiting > 0 || queue->posted > 0) {
        return;
    }
    if (NULL != queue->next) {
        queue->next->prev = queue->prev;
    }
    *(NULL != queue->prev ? &queue->prev->next : &module->queues) = queue->next;
    if (NULL != queue->endpoint) {
        queue->endpoint->queue = NULL;
    }
    module->queue_count--;
    free(queue);
}

static void append(struct mca_btl_diwarp_queue *queue, struct mca_btl_diwarp_work *work)
{
    work->next = NULL;
    *(NULL != queue->first ? &queue->last->next : &queue->first) = work;
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

bool mca_btl_diwarp_work_may_buffer(const struct mca_btl_diwarp_module *module, unsigned posted)
{
    return posted < (mca_btl_diwarp_in_progress(module) ? BUFFERED_CALLBACKS_MAX : BUFFERED_MAX);
}

/* As mca_btl_diwarp_work_post(). */
static int post_or_append(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_queue *queue,
                          struct mca_btl_diwarp_work *work)
{
    bool buffered;
    int rc = -ENOMEM;

    work->buffered = work->buffered && mca_btl_diwarp_work_may_buffer(module, queue->posted);
    buffered = work->buffered; /* posted, it may be no more */
    work->queue = queue;
    if (OPAL_LIKELY(NULL == queue->first)) {
        rc = work->ops->post(module, work);
    }
    if (OPAL_UNLIKELY(-ENOMEM == rc)) {
        work->buffered = false;
        append(queue, work);
        module->counters.waiting_for_room++;
        return 0;
    }
    queue->posted += 0 == rc;
    return 0 == rc && buffered ? 2 : rc;
}

int mca_btl_diwarp_work_post(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work)
{
    struct mca_btl_diwarp_queue *queue;
    int rc = -ENOBUFS;

    OPAL_THREAD_LOCK(&module->waiting_lock);
    queue = queue_of(module, work->endpoint);
    if (OPAL_LIKELY(NULL != queue)) {
        rc = post_or_append(module, queue, work);
        queue_look(module, queue);
    }
    OPAL_THREAD_UNLOCK(&module->waiting_lock);
    return rc;
}

/* Without the lock, which is taken again; the work keeps the queue. */
static void tell(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_queue *queue,
                 struct mca_btl_diwarp_work *work, enum ibv_wc_status status,
                 const struct diwarp_wc *wc)
{
    if (OPAL_UNLIKELY(NULL == queue->endpoint)) {
        work->endpoint = NULL;
    }
    OPAL_THREAD_UNLOCK(&module->waiting_lock);
    work->ops->on_complete(module, work, status, wc);
    OPAL_THREAD_LOCK(&module->waiting_lock);
}

/* What a work that waited ends with when it is posted. */
static enum ibv_wc_status status_of_post(int rc)
{
    return rc > 0                ? IBV_WC_SUCCESS
           : -EHOSTUNREACH == rc ? IBV_WC_RETRY_EXC_ERR
                                 : IBV_WC_LOC_QP_OP_ERR;
}

static void post_waiting(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_queue *queue)
{
    while (NULL != queue->first && NULL != queue->endpoint) {
        struct mca_btl_diwarp_work *work = queue->first;
        int rc = work->ops->post(module, work);

        if (-ENOMEM == rc) {
            return;
        }
        (void)remove_first(queue);
        queue->posted++;
        if (0 != rc) {
            tell(module, queue, work, status_of_post(rc), NULL);
            queue->posted--;
        }
    }
}

void mca_btl_diwarp_work_end(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work,
                             enum ibv_wc_status status, const struct diwarp_wc *wc)
{
    struct mca_btl_diwarp_queue *queue;

    OPAL_THREAD_LOCK(&module->waiting_lock);
    queue = work->queue;
    tell(module, queue, work, status, wc);
    post_waiting(module, queue);
    queue->posted--;
    queue_look(module, queue);
    OPAL_THREAD_UNLOCK(&module->waiting_lock);
}

void mca_btl_diwarp_work_post_waiting(struct mca_btl_diwarp_module *module,
                                      mca_btl_base_endpoint_t *endpoint)
{
    struct mca_btl_diwarp_queue *queue;

    OPAL_THREAD_LOCK(&module->waiting_lock);
    queue = endpoint->queue;
    if (NULL != queue) {
        post_waiting(module, queue);
        queue_look(module, queue);
    }
    OPAL_THREAD_UNLOCK(&module->waiting_lock);
}

void mca_btl_diwarp_work_post_stalled(struct mca_btl_diwarp_module *module)
{
    struct mca_btl_diwarp_queue *queue, *next;

    if (OPAL_LIKELY(0 == __atomic_load_n(&module->stalled_count, __ATOMIC_RELAXED))) {
        return;
    }
    OPAL_THREAD_LOCK(&module->waiting_lock);
    for (queue = module->queues; NULL != queue; queue = next) {
        queue->posted++; /* whatever callbacks do, it stays */
        if (queue->stalled) {
            post_waiting(module, queue);
        }
        next = queue->next;
        queue->posted--;
        queue_look(module, queue);
    }
    OPAL_THREAD_UNLOCK(&module->waiting_lock);
}

void mca_btl_diwarp_work_forget(struct mca_btl_diwarp_module *module,
                                mca_btl_base_endpoint_t *endpoint)
{
    struct mca_btl_diwarp_queue *queue;

    OPAL_THREAD_LOCK(&module->waiting_lock);
    queue = endpoint->queue;
    if (NULL != queue) {
        queue->endpoint = NULL;
        queue->posted++; /* until all have been told */
        while (NULL != queue->first) {
            tell(module, queue, remove_first(queue), IBV_WC_WR_FLUSH_ERR, NULL);
        }
        queue->posted--;
        queue_look(module, queue);
    }
    OPAL_THREAD_UNLOCK(&module->waiting_lock);
}

void mca_btl_diwarp_work_forget_all(struct mca_btl_diwarp_module *module)
{
    struct mca_btl_diwarp_queue *queue;

    while (NULL != (queue = module->queues)) {
        queue->waiting = queue->posted = 0;
        queue_look(module, queue);
    }
}

/* Some of its requests wait already, as many as may. */
static bool is_crowded(struct mca_btl_diwarp_module *module,
                       const mca_btl_base_endpoint_t *endpoint)
{
    bool crowded;

    OPAL_THREAD_LOCK(&module->waiting_lock);
    crowded = NULL != endpoint->queue && endpoint->queue->waiting >= WAITING_MAX;
    OPAL_THREAD_UNLOCK(&module->waiting_lock);
    return crowded;
}

static int rdma_post(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work)
{
    mca_btl_diwarp_rdma_t *rdma = MCA_BTL_DIWARP_OWNER(work, mca_btl_diwarp_rdma_t, work);

    return diwarp_post_send(module->qp, &rdma->wr);
}

void mca_btl_diwarp_rdma_on_complete(struct mca_btl_diwarp_module *module,
                                     struct mca_btl_diwarp_work *work, enum ibv_wc_status status,
                                     const struct diwarp_wc *wc)
{
    (void)wc;
    mca_btl_diwarp_rdma_end(module, MCA_BTL_DIWARP_OWNER(work, mca_btl_diwarp_rdma_t, work),
                            status);
}

static const struct mca_btl_diwarp_work_ops rdma_ops = {
    .post = rdma_post, .on_complete = mca_btl_diwarp_rdma_on_complete};

mca_btl_diwarp_rdma_t *mca_btl_diwarp_rdma_alloc(struct mca_btl_diwarp_module *module,
                                                 const struct mca_btl_diwarp_rdma_args *args)
{
    mca_btl_diwarp_rdma_t *rdma;

    /* A caller that is turned away makes progress and tries again, which a callback cannot. */
    if (OPAL_UNLIKELY(is_crowded(module, args->endpoint)) && !mca_btl_diwarp_in_progress(module)) {
        return NULL;
    }
    rdma = (mca_btl_diwarp_rdma_t *)opal_free_list_get(&module->rdmas);
    if (OPAL_UNLIKELY(NULL == rdma)) {
        return NULL;
    }
    rdma->work.ops = &rdma_ops;
    rdma->work.buffered = false;
    rdma->work.endpoint = args->endpoint;
    rdma->local_address = args->local_address;
    rdma->local_handle = args->local_handle;
    rdma->cbfunc = args->cbfunc;
    rdma->cbcontext = args->cbcontext;
    rdma->cbdata = args->cbdata;
    rdma->sge = (struct ibv_sge){.addr = (uintptr_t)args->local_address,
                                 .length = (uint32_t)args->size,
                                 .lkey = mca_btl_diwarp_stag(args->local_handle)};
    rdma->wr.ah = args->endpoint->ah;
    rdma->wr.wr.wr_id = (uintptr_t)&rdma->work;
    rdma->wr.wr.next = NULL;
    rdma->wr.wr.sg_list = &rdma->sge;
    rdma->wr.wr.num_sge = 1;
    rdma->wr.wr.send_flags = IBV_SEND_SIGNALED;
    return rdma;
}

int mca_btl_diwarp_rdma_start(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rdma_t *rdma)
{
    int rc = mca_btl_diwarp_work_post(module, &rdma->work);

    if (OPAL_LIKELY(rc >= 0)) {
        return OPAL_SUCCESS;
    }
    opal_free_list_return(&module->rdmas, &rdma->super);
    return -EHOSTUNREACH == rc ? OPAL_ERR_UNREACH : OPAL_ERROR;
}

static const char *reason(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
        return "refused, nothing is registered there with such rights";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "refused, there is no memory to serve it";
    case IBV_WC_REM_ABORT_ERR:
        return "refused, the memory there was deregistered meanwhile";
    default:
        return "the request cannot be carried out";
    }
}

/*
 * osc/rdma does not look at the status: untold, what a get brought would just be wrong. Help
 * messages get lost now and then (Open MPI's PMIx), so there is a line besides. Only the first is
 * told of.
 */
static void note_failed(struct mca_btl_diwarp_module *module, const mca_btl_diwarp_rdma_t *rdma,
                        enum ibv_wc_status status)
{
    enum ibv_wr_opcode opcode = rdma->wr.wr.opcode;
    const char *kind = IBV_WR_RDMA_READ == opcode    ? "read"
                       : IBV_WR_RDMA_WRITE == opcode ? "write"
                                                     : "atomic";
    const char *host = NULL;
    struct diwarp_name name;
    opal_proc_t *proc;

    (void)__atomic_fetch_add(&module->counters.failed_accesses, 1, __ATOMIC_RELAXED);
    if (__atomic_exchange_n(&module->failure_told, true, __ATOMIC_RELAXED)) {
        return;
    }
    name = mca_btl_diwarp_peer_name(rdma->work.endpoint);
    proc = opal_proc_for_name((opal_process_name_t){.jobid = name.job, .vpid = name.rank});
    if (NULL != proc) {
        host = opal_get_proc_hostname(proc);
    }
    if (NULL == host) {
        host = "unknown";
    }
    opal_output(0, "diwarp: an access to rank %u on host %s failed, a %s of %u bytes: %s",
                name.rank, host, kind, (unsigned)rdma->sge.length, reason(status));
    opal_show_help(MCA_BTL_DIWARP_HELP_FILE, "access failed", true, opal_process_info.nodename,
                   OPAL_PROC_MY_NAME.vpid, host, name.rank, kind, (unsigned)rdma->sge.length,
                   reason(status));
}

void mca_btl_diwarp_rdma_end(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rdma_t *rdma,
                             enum ibv_wc_status status)
{
    if (OPAL_UNLIKELY(NULL == rdma->work.endpoint)) {
        opal_free_list_return(&module->rdmas, &rdma->super);
        return;
    }
    if (OPAL_UNLIKELY(IBV_WC_RETRY_EXC_ERR == status)) {
        struct diwarp_name name = mca_btl_diwarp_peer_name(rdma->work.endpoint);

        /* Told before, with the reason, unless that completion is still to come. */
        mca_btl_diwarp_peer_on_gone(module, &name, "nothing is sent to it any more");
    } else if (OPAL_UNLIKELY(IBV_WC_SUCCESS != status && IBV_WC_WR_FLUSH_ERR != status)) {
        note_failed(module, rdma, status);
    }
    rdma->cbfunc(&module->super, rdma->work.endpoint, rdma->local_address, rdma->local_handle,
                 rdma->cbcontext, rdma->cbdata, mca_btl_diwarp_status(status));
    opal_free_list_return(&module->rdmas, &rdma->super);
}
