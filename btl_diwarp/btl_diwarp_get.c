/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * btl_get: an RDMA read, and the release that ends it.
 *
 * When a get completes, ob1 sends a FIN to the source from the completion callback. The source
 * needs to hear of the end of the read anyway, in record-complete, so the FIN rides there: it is
 * captured (btl_diwarp_send.c) and unpacked as a receive at the source (btl_diwarp_progress.c).
 */
#include "btl_diwarp/btl_diwarp_work.h"

#include <string.h>

static int get_post(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work)
{
    return diwarp_post_send(module->qp,
                            &MCA_BTL_DIWARP_OWNER(work, mca_btl_diwarp_rdma_t, work)->wr);
}

static void get_on_complete(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work,
                            enum ibv_wc_status status, const struct diwarp_wc *wc)
{
    mca_btl_diwarp_rdma_t *rdma = MCA_BTL_DIWARP_OWNER(work, mca_btl_diwarp_rdma_t, work);
    struct mca_btl_diwarp_ending_read read = {.endpoint = rdma->work.endpoint, .len = 0};
    mca_btl_base_endpoint_t *endpoint = rdma->work.endpoint;

    /* A read in error may have no source left to carry the release to: its FIN, with the error,
     * goes as a message. */
    if (OPAL_LIKELY(IBV_WC_SUCCESS == status)) {
        module->ending = &read;
    }
    mca_btl_diwarp_rdma_end(module, rdma, status);
    module->ending = NULL;
    if (OPAL_UNLIKELY(NULL == wc)) {
        return;
    }
    if (OPAL_UNLIKELY(diwarp_post_release(module->qp, wc->read_id, read.release, read.len) < 0) &&
        read.len > 0) {
        (void)__atomic_sub_fetch(&module->counters.fin_in_release, 1, __ATOMIC_RELAXED);
        (void)__atomic_add_fetch(&module->counters.fin_msgs_on_wire, 1, __ATOMIC_RELAXED);
        (void)mca_btl_diwarp_send_copy(module, endpoint, read.release[0], read.release + 1,
                                       read.len - 1);
    }
}

static const struct mca_btl_diwarp_work_ops get_ops = {.post = get_post,
                                                       .on_complete = get_on_complete};

int mca_btl_diwarp_get(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
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
    if (OPAL_UNLIKELY(size > btl->btl_get_limit)) {
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
    rdma->work.ops = &get_ops;
    rdma->wr.wr.opcode = IBV_WR_RDMA_READ;
    rdma->wr.wr.send_flags |= DIWARP_SEND_HOLD;
    rdma->wr.wr.wr.rdma.remote_addr = remote_address;
    rdma->wr.wr.wr.rdma.rkey = mca_btl_diwarp_stag(remote_handle);
    return mca_btl_diwarp_rdma_start(module, rdma);
}
