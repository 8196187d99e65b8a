/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: from a process to an address handle. */
#include "btl_diwarp/btl_diwarp_work.h"

#include <errno.h>
#include <stdlib.h>

int mca_btl_diwarp_endpoint_create(struct mca_btl_diwarp_module *module, opal_proc_t *proc,
                                   mca_btl_base_endpoint_t **endpoint)
{
    struct diwarp_address address;
    mca_btl_base_endpoint_t *made;
    int rc = mca_btl_diwarp_peer_address(module, proc, &address);

    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    made = malloc(sizeof(*made));
    if (NULL == made) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    made->proc = proc;
    made->queue = NULL;
    rc = diwarp_create_ah(module->qp, &address, &made->ah);
    if (rc < 0) {
        free(made);
        if (-ENETUNREACH == rc) {
            mca_btl_diwarp_peer_show_unreachable(module, proc, &address);
        }
        return -ENOMEM == rc ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_ERR_UNREACH;
    }
    mca_btl_diwarp_endpoint_added(module);
    *endpoint = made;
    return OPAL_SUCCESS;
}

void mca_btl_diwarp_endpoint_added(struct mca_btl_diwarp_module *module)
{
    (void)__atomic_add_fetch(&module->endpoints, 1, __ATOMIC_RELAXED);
}

void mca_btl_diwarp_endpoint_removed(struct mca_btl_diwarp_module *module)
{
    if (0 == __atomic_sub_fetch(&module->endpoints, 1, __ATOMIC_RELAXED) &&
        !mca_btl_diwarp_in_progress(module)) {
        mca_btl_diwarp_polling_wait(module);
        mca_btl_diwarp_polling_end(module);
    }
}

void mca_btl_diwarp_endpoint_destroy(struct mca_btl_diwarp_module *module,
                                     mca_btl_base_endpoint_t *endpoint)
{
    const bool within = mca_btl_diwarp_in_progress(module);

    /* No other thread is to be within a callback that knows it. */
    if (!within) {
        mca_btl_diwarp_polling_wait(module);
        mca_btl_diwarp_work_post_waiting(module, endpoint);
    }
    mca_btl_diwarp_work_forget(module, endpoint);
    if (!within) {
        mca_btl_diwarp_polling_end(module);
    }
    mca_btl_diwarp_endpoint_removed(module);
    diwarp_destroy_ah(endpoint->ah);
    free(endpoint);
}
