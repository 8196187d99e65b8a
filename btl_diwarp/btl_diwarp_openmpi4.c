/* SPDX-License-Identifier: BSD-3-Clause */
/* How Open MPI 4.1 takes messages, and how its PML is told of an error. */
#include "btl_diwarp/btl_diwarp.h"

#include <errno.h>
#include <stdlib.h>

int mca_btl_diwarp_modex_recv(const mca_base_component_t *component, const opal_proc_t *proc,
                              unsigned char **bytes, size_t *len)
{
    int32_t length = 0;
    int rc;
    *bytes = NULL;
    OPAL_MODEX_RECV(rc, component, &proc->proc_name, bytes, &length);
    *len = (size_t)length;
    return rc == OPAL_SUCCESS && *bytes ? 0 : -ENOENT;
}

void mca_btl_diwarp_deliver(struct mca_btl_diwarp_module *module, mca_btl_base_endpoint_t *endpoint,
                            const struct diwarp_name *from, uint32_t tag, void *data, size_t len)
{
    (void)endpoint;
    (void)from;
    mca_btl_base_segment_t segment = {.seg_addr.pval = data, .seg_len = len};
    mca_btl_base_descriptor_t descriptor = {.des_segments = &segment, .des_segment_count = 1};
    const mca_btl_active_message_callback_t *callback =
        tag < MCA_BTL_TAG_MAX ? &mca_btl_base_active_message_trigger[tag] : NULL;
    if (OPAL_LIKELY(callback && callback->cbfunc))
        callback->cbfunc(&module->super, (mca_btl_base_tag_t)tag, &descriptor, callback->cbdata);
    else
        module->counters.rx_unknown_tag++;
}

void mca_btl_diwarp_fail(struct mca_btl_diwarp_module *module, opal_proc_t *proc, char *info)
{
    if (!module->error_cb) {
        opal_output(0, "%s", info);
        abort();
    }
    module->error_cb(&module->super, MCA_BTL_ERROR_FLAGS_FATAL, proc, info);
}
