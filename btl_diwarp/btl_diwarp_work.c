/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests: posting, waiting for room in the send queue, and what puts, gets and atomics have
 * in common. The service is unordered, so a request that waits does not hold back later ones.
 */
#include "btl_diwarp/btl_diwarp_work.h"

#include "opal/util/output.h"
#include "opal/util/show_help.h"

#include <errno.h>

/* Bound of waiting requests beyond which one-sided callers are turned away. Sends are not: their
 * number is bounded by the upper layer's own requests, and it has nowhere else to put them. */
#define WAITING_MAX 4096

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

/* Under the lock; read without it. */
static void waiting_add(struct mca_btl_diwarp_module *module, int more)
{
    __atomic_store_n(&module->waiting_count, module->waiting_count + (unsigned)more,
                     __ATOMIC_RELAXED);
}

static void waiting_append(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work)
{
    OPAL_THREAD_LOCK(&module->waiting_lock);
    work->next = NULL;
    if (NULL == module->waiting_first) {
        module->waiting_first = work;
    } else {
        module->waiting_last->next = work;
    }
    module->waiting_last = work;
    waiting_add(module, 1);
    module->counters.waiting_for_room++;
    OPAL_THREAD_UNLOCK(&module->waiting_lock);
}

static struct mca_btl_diwarp_work *waiting_remove_first(struct mca_btl_diwarp_module *module)
{
    struct mca_btl_diwarp_work *work;

    OPAL_THREAD_LOCK(&module->waiting_lock);
    work = module->waiting_first;
    if (NULL != work) {
        module->waiting_first = work->next;
        waiting_add(module, -1);
    }
    OPAL_THREAD_UNLOCK(&module->waiting_lock);
    return work;
}

static void waiting_put_back(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work)
{
    OPAL_THREAD_LOCK(&module->waiting_lock);
    work->next = module->waiting_first;
    if (NULL == module->waiting_first) {
        module->waiting_last = work;
    }
    module->waiting_first = work;
    waiting_add(module, 1);
    OPAL_THREAD_UNLOCK(&module->waiting_lock);
}

unsigned mca_btl_diwarp_work_waiting(const struct mca_btl_diwarp_module *module)
{
    return __atomic_load_n(&module->waiting_count, __ATOMIC_RELAXED);
}

int mca_btl_diwarp_work_post(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work)
{
    const bool buffered = work->buffered; /* posted, it may be no more */
    int rc = work->ops->post(module, work);

    if (OPAL_UNLIKELY(-ENOMEM == rc)) {
        work->buffered = false;
        waiting_append(module, work);
        return 0;
    }
    return 0 == rc && buffered ? 2 : rc;
}

void mca_btl_diwarp_work_post_waiting(struct mca_btl_diwarp_module *module)
{
    struct mca_btl_diwarp_work *work;

    while (NULL != (work = waiting_remove_first(module))) {
        int rc = work->ops->post(module, work);

        if (-ENOMEM == rc) {
            waiting_put_back(module, work);
            return;
        }
        if (rc < 0) {
            work->ops->on_complete(
                module, work, -EHOSTUNREACH == rc ? IBV_WC_RETRY_EXC_ERR : IBV_WC_LOC_QP_OP_ERR,
                NULL);
        } else if (rc > 0) {
            work->ops->on_complete(module, work, IBV_WC_SUCCESS, NULL);
        }
    }
}

void mca_btl_diwarp_work_forget_waiting(struct mca_btl_diwarp_module *module,
                                        const mca_btl_base_endpoint_t *endpoint)
{
    struct mca_btl_diwarp_work *kept = NULL, *work, *next;

    OPAL_THREAD_LOCK(&module->waiting_lock);
    work = module->waiting_first;
    module->waiting_first = NULL;
    for (; NULL != work; work = next) {
        next = work->next;
        if (work->endpoint == endpoint) {
            waiting_add(module, -1);
            continue;
        }
        work->next = NULL;
        if (NULL == kept) {
            module->waiting_first = work;
        } else {
            kept->next = work;
        }
        module->waiting_last = kept = work;
    }
    OPAL_THREAD_UNLOCK(&module->waiting_lock);
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
    if (OPAL_UNLIKELY(mca_btl_diwarp_work_waiting(module) >= WAITING_MAX) &&
        !mca_btl_diwarp_in_progress(module)) {
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

    if (__atomic_fetch_add(&module->counters.failed_accesses, 1, __ATOMIC_RELAXED) > 0) {
        return;
    }
    name = mca_btl_diwarp_endpoint_name(rdma->work.endpoint);
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
    if (OPAL_UNLIKELY(IBV_WC_RETRY_EXC_ERR == status)) {
        struct diwarp_name name = mca_btl_diwarp_endpoint_name(rdma->work.endpoint);

        /* Told before, with the reason, unless that completion is still to come. */
        mca_btl_diwarp_endpoint_on_gone(module, &name, "nothing is sent to it any more");
    } else if (OPAL_UNLIKELY(IBV_WC_SUCCESS != status && IBV_WC_WR_FLUSH_ERR != status)) {
        note_failed(module, rdma, status);
    }
    rdma->cbfunc(&module->super, rdma->work.endpoint, rdma->local_address, rdma->local_handle,
                 rdma->cbcontext, rdma->cbdata, mca_btl_diwarp_status(status));
    opal_free_list_return(&module->rdmas, &rdma->super);
}
