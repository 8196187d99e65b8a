/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fetching atomics on 64-bit words: add and compare-and-swap, as verbs has them.
 *
 * osc/rdma registers nothing for windows that this process has mapped (its own, or shared within
 * the host), yet sends compare-and-swap on them here, without a remote handle and with an address
 * of this process. Those are done at once, by the CPU: the same atomics that targets execute.
 */
#include "btl_diwarp/btl_diwarp_work.h"

#include <string.h>

static int mapped_end(struct mca_btl_diwarp_module *module,
                      const struct mca_btl_diwarp_rdma_args *args, uint64_t fetched)
{
    memcpy(args->local_address, &fetched, sizeof(fetched));
    args->cbfunc(&module->super, args->endpoint, args->local_address, args->local_handle,
                 args->cbcontext, args->cbdata, OPAL_SUCCESS);
    return OPAL_SUCCESS;
}

static int mapped_add(struct mca_btl_diwarp_module *module,
                      const struct mca_btl_diwarp_rdma_args *args, uint64_t operand)
{
    uint64_t *word = (uint64_t *)(uintptr_t)args->remote_address;

    return mapped_end(module, args, __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST));
}

static int mapped_cswap(struct mca_btl_diwarp_module *module,
                        const struct mca_btl_diwarp_rdma_args *args, uint64_t compare,
                        uint64_t value)
{
    uint64_t *word = (uint64_t *)(uintptr_t)args->remote_address;

    (void)__atomic_compare_exchange_n(word, &compare, value, false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST);
    return mapped_end(module, args, compare);
}

/* NULL: the caller shall try again later. */
static mca_btl_diwarp_rdma_t *atomic_alloc(struct mca_btl_diwarp_module *module,
                                           const struct mca_btl_diwarp_rdma_args *args)
{
    mca_btl_diwarp_rdma_t *rdma = mca_btl_diwarp_rdma_alloc(module, args);

    if (OPAL_LIKELY(NULL != rdma)) {
        rdma->wr.wr.wr.atomic.remote_addr = args->remote_address;
        rdma->wr.wr.wr.atomic.rkey = mca_btl_diwarp_stag(args->remote_handle);
        rdma->wr.wr.wr.atomic.swap = 0;
    }
    return rdma;
}

int mca_btl_diwarp_atomic_fop(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                              void *local_address, uint64_t remote_address,
                              mca_btl_base_registration_handle_t *local_handle,
                              mca_btl_base_registration_handle_t *remote_handle,
                              mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                              mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                              void *cbdata)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    const struct mca_btl_diwarp_rdma_args args = {.endpoint = endpoint,
                                                  .local_address = local_address,
                                                  .remote_address = remote_address,
                                                  .local_handle = local_handle,
                                                  .remote_handle = remote_handle,
                                                  .size = sizeof(uint64_t),
                                                  .cbfunc = cbfunc,
                                                  .cbcontext = cbcontext,
                                                  .cbdata = cbdata};
    mca_btl_diwarp_rdma_t *rdma;

    (void)order;
    /* osc/rdma asks for whatever it can use; at NOT_SUPPORTED it takes another way, at others it
     * asks again, for ever. */
    if (OPAL_UNLIKELY(MCA_BTL_ATOMIC_ADD != op || 0 != flags)) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    if (NULL == remote_handle) {
        return mapped_add(module, &args, operand);
    }
    rdma = atomic_alloc(module, &args);
    if (OPAL_UNLIKELY(NULL == rdma)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    rdma->wr.wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    rdma->wr.wr.wr.atomic.compare_add = operand;
    return mca_btl_diwarp_rdma_start(module, rdma);
}

int mca_btl_diwarp_atomic_cswap(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                                void *local_address, uint64_t remote_address,
                                mca_btl_base_registration_handle_t *local_handle,
                                mca_btl_base_registration_handle_t *remote_handle, uint64_t compare,
                                uint64_t value, int flags, int order,
                                mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                                void *cbdata)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    const struct mca_btl_diwarp_rdma_args args = {.endpoint = endpoint,
                                                  .local_address = local_address,
                                                  .remote_address = remote_address,
                                                  .local_handle = local_handle,
                                                  .remote_handle = remote_handle,
                                                  .size = sizeof(uint64_t),
                                                  .cbfunc = cbfunc,
                                                  .cbcontext = cbcontext,
                                                  .cbdata = cbdata};
    mca_btl_diwarp_rdma_t *rdma;

    (void)order;
    if (OPAL_UNLIKELY(0 != flags)) {
        return OPAL_ERR_NOT_SUPPORTED;
    }
    if (NULL == remote_handle) {
        return mapped_cswap(module, &args, compare, value);
    }
    rdma = atomic_alloc(module, &args);
    if (OPAL_UNLIKELY(NULL == rdma)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    rdma->wr.wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    rdma->wr.wr.wr.atomic.compare_add = compare;
    rdma->wr.wr.wr.atomic.swap = value;
    return mca_btl_diwarp_rdma_start(module, rdma);
}
