/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory registration: an STag for peers. Nothing is pinned, so it costs little. */
#include "btl_diwarp/btl_diwarp.h"

#include <string.h>

OBJ_CLASS_INSTANCE(mca_btl_diwarp_reg_t, opal_free_list_item_t, NULL, NULL);

_Static_assert(sizeof(mca_btl_base_registration_handle_t) % 8 == 0,
               "osc/rdma aligns its state by the size of a handle");

/* Verbs asks for local write wherever a peer may write. */
static int access_of(uint32_t flags)
{
    int access = 0;

    if (flags & MCA_BTL_REG_FLAG_REMOTE_READ) {
        access |= IBV_ACCESS_REMOTE_READ;
    }
    if (flags & MCA_BTL_REG_FLAG_REMOTE_WRITE) {
        access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
    }
    if (flags & MCA_BTL_REG_FLAG_REMOTE_ATOMIC) {
        access |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
    }
    if (flags & MCA_BTL_REG_FLAG_LOCAL_WRITE) {
        access |= IBV_ACCESS_LOCAL_WRITE;
    }
    return access;
}

mca_btl_base_registration_handle_t *mca_btl_diwarp_register_mem(mca_btl_base_module_t *btl,
                                                                mca_btl_base_endpoint_t *endpoint,
                                                                void *base, size_t size,
                                                                uint32_t flags)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    mca_btl_diwarp_reg_t *reg = (mca_btl_diwarp_reg_t *)opal_free_list_get(&module->regs);

    if (OPAL_UNLIKELY(NULL == reg)) {
        return NULL;
    }
    /* Without btl_get ob1 registers the sink of a put with the flags meant for the source of a get.
     */
    if (OPAL_UNLIKELY(!(btl->btl_flags & MCA_BTL_FLAGS_GET)) &&
        (flags & MCA_BTL_REG_FLAG_REMOTE_READ)) {
        flags |= MCA_BTL_REG_FLAG_REMOTE_WRITE;
    }
    reg->mr = diwarp_reg_mr(module->pd, base, size, access_of(flags));
    if (OPAL_UNLIKELY(NULL == reg->mr)) {
        opal_free_list_return(&module->regs, &reg->super);
        return NULL;
    }
    if (NULL != endpoint && MCA_BTL_ENDPOINT_ANY != endpoint) {
        diwarp_bind_mr(reg->mr, mca_btl_diwarp_peer_name(endpoint));
    }
    reg->handle.stag = reg->mr->stag;
    reg->handle.reserved = 0;
    return &reg->handle;
}

int mca_btl_diwarp_deregister_mem(mca_btl_base_module_t *btl,
                                  mca_btl_base_registration_handle_t *handle)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    mca_btl_diwarp_reg_t *reg = MCA_BTL_DIWARP_OWNER(handle, mca_btl_diwarp_reg_t, handle);

    diwarp_dereg_mr(reg->mr);
    reg->mr = NULL;
    opal_free_list_return(&module->regs, &reg->super);
    return OPAL_SUCCESS;
}

uint32_t mca_btl_diwarp_stag(const mca_btl_base_registration_handle_t *handle)
{
    uint32_t stag = 0;

    if (NULL != handle) {
        memcpy(&stag, &handle->stag, sizeof(stag));
    }
    return stag;
}
