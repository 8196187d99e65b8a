/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * btl_put over RC: an RDMA write. It completes once TCP has taken it, for what is sent after it, as
 * the FIN that the PML sends then, arrives after it.
 */
#include "btl_diwarp/btl_diwarp_rc.h"

static int put_post(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work)
{
    mca_btl_diwarp_rdma_t *rdma = MCA_BTL_DIWARP_OWNER(work, mca_btl_diwarp_rdma_t, work);
    mca_btl_diwarp_rc_endpoint_t *endpoint = mca_btl_diwarp_rc_endpoint(rdma->work.endpoint);

    return mca_btl_diwarp_rc_post(module, endpoint, &rdma->wr.wr,
                                  mca_btl_diwarp_rc_pace(module, endpoint));
}

static const struct mca_btl_diwarp_work_ops put_ops = {
    .post = put_post, .on_complete = mca_btl_diwarp_rdma_on_complete};

int mca_btl_diwarp_rc_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                          void *local_address, uint64_t remote_address,
                          mca_btl_base_registration_handle_t *local_handle,
                          mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                          int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                          void *cbdata)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    mca_btl_diwarp_rdma_t *rdma;
    int rc;

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
    rdma->work.ops = &put_ops;
    rdma->wr.wr.opcode = IBV_WR_RDMA_WRITE;
    rdma->wr.wr.wr.rdma.remote_addr = remote_address;
    rdma->wr.wr.wr.rdma.rkey = mca_btl_diwarp_stag(remote_handle);
    rc = mca_btl_diwarp_rc_work_post(module, mca_btl_diwarp_rc_endpoint(endpoint), &rdma->work);
    if (OPAL_LIKELY(rc >= 0)) {
        return OPAL_SUCCESS;
    }
    opal_free_list_return(&module->rdmas, &rdma->super);
    return OPAL_ERR_UNREACH;
}
