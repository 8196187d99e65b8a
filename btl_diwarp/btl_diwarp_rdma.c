/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided: puts, whose completion over RD means that the data lies in the peer's memory, gets,
 * and fetching atomics on 64-bit words, as verbs has them.
 *
 * When a get completes, ob1 sends a FIN to the source from the completion callback. The source
 * needs to hear of the end of the read anyway, in record-complete, so the FIN rides there: it is
 * captured (btl_diwarp_send.c) and unpacked as a receive at the source (btl_diwarp_rd.c).
 *
 * Where other hosts have a part in a window, osc/rdma comes here for this process's memory, too, by
 * the endpoint of itself: for its locks, its part of the window and, in the first process of a
 * host, those of the others there. For windows shared within the host it registers nothing, and
 * sends compare-and-swap without a remote handle, with an address of this process. All these are
 * done at once, by the CPU, with the atomics that targets execute.
 */
#include "btl_diwarp/btl_diwarp_work.h"

#include <errno.h>
#include <string.h>

OBJ_CLASS_INSTANCE(mca_btl_diwarp_rdma_t, opal_free_list_item_t, NULL, NULL);

#define ARGS                                                                                  \
    (&(const struct mca_btl_diwarp_rdma_args){endpoint, local_address, remote_address,        \
                                              local_handle, remote_handle, cbfunc, cbcontext, \
                                              cbdata})

/* ---- registrations: an STag for peers. Nothing is pinned, so it costs little. --------------- */

_Static_assert(sizeof(mca_btl_base_registration_handle_t) % 8 == 0,
               "osc/rdma aligns its state by the size of a handle");
_Static_assert(offsetof(struct diwarp_mr, stag) + sizeof(mca_btl_base_registration_handle_t) <=
                   sizeof(struct diwarp_mr),
               "a handle is the part of a region that begins with its STag");

/* Verbs asks for local write wherever a peer may write. */
static int access_of(uint32_t flags)
{
    const uint32_t writes = MCA_BTL_REG_FLAG_REMOTE_WRITE | MCA_BTL_REG_FLAG_REMOTE_ATOMIC |
                            MCA_BTL_REG_FLAG_LOCAL_WRITE;
    return (flags & MCA_BTL_REG_FLAG_REMOTE_READ ? IBV_ACCESS_REMOTE_READ : 0) |
           (flags & MCA_BTL_REG_FLAG_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0) |
           (flags & MCA_BTL_REG_FLAG_REMOTE_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC : 0) |
           (flags & writes ? IBV_ACCESS_LOCAL_WRITE : 0);
}

static mca_btl_base_registration_handle_t *btl_register_mem(mca_btl_base_module_t *btl,
                                                            mca_btl_base_endpoint_t *endpoint,
                                                            void *base, size_t size, uint32_t flags)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    /* Without btl_get ob1 registers the sink of a put with the flags meant for a get's source. */
    if (OPAL_UNLIKELY(!(btl->btl_flags & MCA_BTL_FLAGS_GET)) &&
        (flags & MCA_BTL_REG_FLAG_REMOTE_READ))
        flags |= MCA_BTL_REG_FLAG_REMOTE_WRITE;
    struct diwarp_mr *mr = diwarp_reg_mr(module->pd, base, size, access_of(flags));
    if (OPAL_UNLIKELY(!mr))
        return NULL;
    if (endpoint && endpoint != MCA_BTL_ENDPOINT_ANY)
        diwarp_bind_mr(mr, mca_btl_diwarp_peer_name(endpoint));
    return (mca_btl_base_registration_handle_t *)&mr->stag;
}

static int btl_deregister_mem(mca_btl_base_module_t *btl,
                              mca_btl_base_registration_handle_t *handle)
{
    (void)btl;
    diwarp_dereg_mr(MCA_BTL_DIWARP_OWNER(handle, struct diwarp_mr, stag));
    return OPAL_SUCCESS;
}

/* The STag of a handle that may lie unaligned in a packet; NULL: of unregistered local memory. */
static uint32_t stag_of(const mca_btl_base_registration_handle_t *handle)
{
    uint32_t stag = 0;
    if (handle)
        memcpy(&stag, &handle->stag, sizeof stag);
    return stag;
}

/* osc/rdma does not look at the status: untold, what a get brought would just be wrong. Help
 * messages get lost now and then (Open MPI's PMIx), so there is a line besides. Only the first is
 * told of. */
static void note_failed(struct mca_btl_diwarp_module *module, const mca_btl_diwarp_rdma_t *rdma,
                        enum ibv_wc_status status)
{
    static const char *const refusals[] = {
        [IBV_WC_REM_ACCESS_ERR] = "refused, nothing is registered there with such rights",
        [IBV_WC_RNR_RETRY_EXC_ERR] = "refused, there is no memory to serve it",
        [IBV_WC_REM_ABORT_ERR] = "refused, the memory there was deregistered meanwhile",
    };
    const char *why = status <= IBV_WC_REM_ABORT_ERR ? refusals[status] : NULL;
    const enum ibv_wr_opcode opcode = rdma->wr.wr.opcode;
    const char *kind = opcode == IBV_WR_RDMA_READ    ? "read"
                       : opcode == IBV_WR_RDMA_WRITE ? "write"
                                                     : "atomic";
    const struct diwarp_name name = mca_btl_diwarp_peer_name(rdma->work.endpoint);
    (void)__atomic_fetch_add(&module->counters.failed_accesses, 1, __ATOMIC_RELAXED);
    if (__atomic_exchange_n(&module->failure_told, true, __ATOMIC_RELAXED))
        return;
    const char *host = mca_btl_diwarp_peer_host(&name);
    why = why ? why : "the request cannot be carried out";
    opal_output(0, "diwarp: an access to rank %u on host %s failed, a %s of %u bytes: %s",
                name.rank, host, kind, rdma->sge.length, why);
    MCA_BTL_DIWARP_HELP("access failed", OPAL_PROC_MY_NAME.vpid, host, name.rank, kind,
                        rdma->sge.length, why);
}

/* What an atomic on a process that is gone brings: as if the word had been 0, or the swap been
 * made. osc/rdma, which does not look at the status, else waits for ever for a lock in its memory.
 */
static void set_failed_result(const struct ibv_send_wr *wr, void *result)
{
    const uint64_t was = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? wr->wr.atomic.compare_add : 0;
    if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        memcpy(result, &was, sizeof was);
}

/* What a put or get with a lost process returns. ob1 ends its request itself and reuses it, so that
 * a callback would hit another message: OPAL_SUCCESS, and none comes. Others: OPAL_ERR_UNREACH. */
static int lost(struct mca_btl_diwarp_module *module, const struct mca_btl_diwarp_rdma_args *args)
{
    return mca_btl_diwarp_of_pml(module, args->endpoint->proc, args->cbcontext) ? OPAL_SUCCESS
                                                                                : OPAL_ERR_UNREACH;
}

static void rdma_on_complete(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work,
                             enum ibv_wc_status status, const struct diwarp_wc *wc)
{
    mca_btl_diwarp_rdma_t *rdma = MCA_BTL_DIWARP_OWNER(work, mca_btl_diwarp_rdma_t, work);
    const struct mca_btl_diwarp_rdma_args *args = &rdma->args;
    (void)wc;
    if (OPAL_LIKELY(work->endpoint)) {
        const int rc = mca_btl_diwarp_peer_status(module, work->endpoint, status);
        if (OPAL_UNLIKELY(rc == OPAL_ERROR && status != IBV_WC_WR_FLUSH_ERR))
            note_failed(module, rdma, status);
        if (OPAL_UNLIKELY(rc == OPAL_ERR_UNREACH))
            set_failed_result(&rdma->wr.wr, args->local_address);
        if (OPAL_LIKELY(rc != OPAL_ERR_UNREACH || lost(module, args)))
            args->cbfunc(&module->super, work->endpoint, args->local_address, args->local_handle,
                         args->cbcontext, args->cbdata, rc);
    }
    opal_free_list_return(&module->lists[MCA_BTL_DIWARP_RDMAS], &rdma->super);
}

/* A read in error may have no source left to carry the release to: its FIN, with the error, goes as
 * a message. */
static void get_on_complete(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work,
                            enum ibv_wc_status status, const struct diwarp_wc *wc)
{
    struct mca_btl_diwarp_ending_read read = {.endpoint = work->endpoint, .len = 0};
    if (OPAL_LIKELY(status == IBV_WC_SUCCESS))
        module->ending = &read;
    rdma_on_complete(module, work, status, wc);
    module->ending = NULL;
    if (OPAL_LIKELY(wc)) /* in error the peer is gone, of which DIWARP_WC_PEER_GONE tells */
        (void)diwarp_post_release(module->qp, wc->read_id, read.release, read.len);
}

static int rdma_post(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work)
{
    return module->transport->post_send(
        module, work->endpoint, &MCA_BTL_DIWARP_OWNER(work, mca_btl_diwarp_rdma_t, work)->wr);
}

/* An OPAL code. A caller that is turned away since too many wait makes progress and tries again,
 * which a callback cannot. Sends are not turned away: their number is bounded by the upper layer's
 * own requests, and it has nowhere else to put them. */
static int start(mca_btl_base_module_t *btl, const struct mca_btl_diwarp_rdma_args *args,
                 size_t size, const struct ibv_send_wr *wr)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    const bool read = wr->opcode == IBV_WR_RDMA_READ;
    mca_btl_diwarp_rdma_t *rdma = NULL;
    if (OPAL_UNLIKELY(size > MCA_BTL_DIWARP_RDMA_MAX_BYTES))
        return OPAL_ERR_NOT_AVAILABLE;
    /* osc/rdma does not ask, and may hold the accumulate lock of its host's ranks meanwhile. */
    if (OPAL_UNLIKELY(mca_btl_diwarp_known_lost(args->endpoint->proc)))
        return lost(module, args);
    if (OPAL_LIKELY(__atomic_load_n(&args->endpoint->waiting_count, __ATOMIC_RELAXED) <
                        MCA_BTL_DIWARP_QUEUE_WRS ||
                    mca_btl_diwarp_in_progress(module)))
        rdma = (mca_btl_diwarp_rdma_t *)opal_free_list_get(&module->lists[MCA_BTL_DIWARP_RDMAS]);
    if (OPAL_UNLIKELY(!rdma))
        return OPAL_ERR_OUT_OF_RESOURCE;
    rdma->args = *args;
    rdma->work =
        (struct mca_btl_diwarp_work){.post = rdma_post,
                                     .on_complete = read ? get_on_complete : rdma_on_complete,
                                     .endpoint = args->endpoint};
    rdma->sge = (struct ibv_sge){.addr = (uintptr_t)args->local_address,
                                 .length = (uint32_t)size,
                                 .lkey = stag_of(args->local_handle)};
    rdma->wr = (struct diwarp_send_wr){.wr = *wr, .ah = args->endpoint->ah};
    rdma->wr.wr.wr_id = (uintptr_t)&rdma->work;
    rdma->wr.wr.sg_list = &rdma->sge;
    rdma->wr.wr.num_sge = 1;
    rdma->wr.wr.send_flags = IBV_SEND_SIGNALED | (read ? (unsigned)DIWARP_SEND_HOLD : 0);
    int rc = mca_btl_diwarp_work_post(module, &rdma->work);
    if (OPAL_LIKELY(rc >= 0))
        return OPAL_SUCCESS;
    opal_free_list_return(&module->lists[MCA_BTL_DIWARP_RDMAS], &rdma->super);
    return rc == -EHOSTUNREACH ? lost(module, args) : OPAL_ERROR;
}

static bool is_own(const struct mca_btl_diwarp_rdma_args *args)
{
    return OPAL_UNLIKELY(args->endpoint->proc == opal_proc_local_get());
}

static int done(mca_btl_base_module_t *btl, const struct mca_btl_diwarp_rdma_args *args, int rc)
{
    args->cbfunc(btl, args->endpoint, args->local_address, args->local_handle, args->cbcontext,
                 args->cbdata, rc);
    return OPAL_SUCCESS;
}

static int transfer(mca_btl_base_module_t *btl, const struct mca_btl_diwarp_rdma_args *args,
                    size_t size, enum ibv_wr_opcode opcode)
{
    const struct ibv_send_wr wr = {
        .opcode = opcode,
        .wr.rdma = {.remote_addr = args->remote_address, .rkey = stag_of(args->remote_handle)}};
    void *mapped = (void *)(uintptr_t)args->remote_address;
    if (!is_own(args))
        return start(btl, args, size, &wr);
    /* Who waits for its own memory to change would otherwise never poll. */
    mca_btl_diwarp_look((struct mca_btl_diwarp_module *)btl);
    if (opcode == IBV_WR_RDMA_READ)
        memmove(args->local_address, mapped, size);
    else
        memmove(mapped, args->local_address, size);
    return done(btl, args, OPAL_SUCCESS);
}

static int btl_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                   void *local_address, uint64_t remote_address,
                   mca_btl_base_registration_handle_t *local_handle,
                   mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                   int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                   void *cbdata)
{
    (void)flags;
    (void)order;
    return transfer(btl, ARGS, size, IBV_WR_RDMA_WRITE);
}

static int btl_get(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                   void *local_address, uint64_t remote_address,
                   mca_btl_base_registration_handle_t *local_handle,
                   mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                   int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                   void *cbdata)
{
    (void)flags;
    (void)order;
    return transfer(btl, ARGS, size, IBV_WR_RDMA_READ);
}

static int atomic(mca_btl_base_module_t *btl, const struct mca_btl_diwarp_rdma_args *args,
                  enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap)
{
    const struct ibv_send_wr wr = {.opcode = opcode,
                                   .wr.atomic = {.remote_addr = args->remote_address,
                                                 .compare_add = compare_add,
                                                 .swap = swap,
                                                 .rkey = stag_of(args->remote_handle)}};
    uint64_t *mapped = (uint64_t *)(uintptr_t)args->remote_address;
    if (OPAL_LIKELY(args->remote_handle) && !is_own(args)) {
        const int rc = start(btl, args, sizeof swap, &wr);
        if (OPAL_LIKELY(rc != OPAL_ERR_UNREACH))
            return rc;
        /* If this returned an error, osc/rdma would abort on unlocking, or await the callback. */
        set_failed_result(&wr, args->local_address);
        return done(btl, args, rc);
    }
    /* osc/rdma polls only while it holds a lock. Without a look before it takes its own, others
     * would never find that free. */
    if (args->remote_handle)
        mca_btl_diwarp_look((struct mca_btl_diwarp_module *)btl);
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        compare_add = __atomic_fetch_add(mapped, compare_add, __ATOMIC_SEQ_CST);
    else
        (void)__atomic_compare_exchange_n(mapped, &compare_add, swap, false, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST);
    memcpy(args->local_address, &compare_add, sizeof compare_add); /* what it was */
    return done(btl, args, OPAL_SUCCESS);
}

/* osc/rdma asks for whatever it can use; at NOT_SUPPORTED it takes another way, at others it asks
 * again, for ever. */
static int btl_fop(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                   void *local_address, uint64_t remote_address,
                   mca_btl_base_registration_handle_t *local_handle,
                   mca_btl_base_registration_handle_t *remote_handle, mca_btl_base_atomic_op_t op,
                   uint64_t operand, int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc,
                   void *cbcontext, void *cbdata)
{
    (void)order;
    return OPAL_LIKELY(op == MCA_BTL_ATOMIC_ADD && !flags)
               ? atomic(btl, ARGS, IBV_WR_ATOMIC_FETCH_AND_ADD, operand, 0)
               : OPAL_ERR_NOT_SUPPORTED;
}

static int btl_cswap(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                     void *local_address, uint64_t remote_address,
                     mca_btl_base_registration_handle_t *local_handle,
                     mca_btl_base_registration_handle_t *remote_handle, uint64_t compare,
                     uint64_t value, int flags, int order, mca_btl_base_rdma_completion_fn_t cbfunc,
                     void *cbcontext, void *cbdata)
{
    (void)order;
    return OPAL_LIKELY(!flags) ? atomic(btl, ARGS, IBV_WR_ATOMIC_CMP_AND_SWP, compare, value)
                               : OPAL_ERR_NOT_SUPPORTED;
}

/* btl_flush stays NULL: osc/rdma then counts its own operations, while a flush would have to wait
 * for every read in the module, ob1's included, and would make progress for this BTL only.
 * btl_atomic_op stays NULL: osc/rdma uses the fetching form. */
void mca_btl_diwarp_rdma_set_functions(mca_btl_base_module_t *btl)
{
    btl->btl_put = btl_put;
    btl->btl_get = btl_get;
    btl->btl_atomic_fop = btl_fop;
    btl->btl_atomic_cswap = btl_cswap;
    btl->btl_register_mem = btl_register_mem;
    btl->btl_deregister_mem = btl_deregister_mem;
}
