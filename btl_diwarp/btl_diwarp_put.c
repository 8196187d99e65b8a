/* SPDX-License-Identifier: BSD-3-Clause */
/* btl_put: an RDMA write whose completion means that the data lies in the peer's memory. */
#include "btl_diwarp/btl_diwarp_work.h"

int mca_btl_diwarp_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                       void *local_address, uint64_t remote_address,
                       mca_btl_base_registration_handle_t *local_handle,
                       mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                       int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                       void *cbdata)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    mca_btl_diwarp_rdma_t *rdma;

    (void)flags;
    (void)order;
    if (OPAL_UNLIKELY(size > btl->btl_put_limit)) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    rdma = mca_btl_diwarp_rdma_alloc(
        module, &(struct mca_btl_diwarp_rdma_args){.endpoint = endpoint,
                                                   .local_address = local_address,
                                                   .local_handle = local_handle,
                                                   .size = size,
                                                   .cbfunc = cbfunc,
                                                   .cbcontext = cbcontext,
                                                   .cbdata = cbdata});
    if (OPAL_UNLIKELY(NULL == rdma)) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    rdma->wr.wr.opcode = IBV_WR_RDMA_WRITE;
    rdma->wr.wr.wr.rdma.remote_addr = remote_address;
    rdma->wr.wr.wr.rdma.rkey = mca_btl_diwarp_stag(remote_handle);
    return mca_btl_diwarp_rdma_start(module, rdma);
}
