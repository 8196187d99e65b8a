/* SPDX-License-Identifier: BSD-3-Clause */
/* How Open MPI 5.0 takes messages, and how its PML is told of an error. */
#include "btl_diwarp/btl_diwarp.h"

#include "ompi/runtime/params.h"

#include <stdlib.h>

void mca_btl_diwarp_deliver(struct mca_btl_diwarp_module *module, mca_btl_base_endpoint_t *endpoint,
                            uint32_t tag, void *data, size_t len)
{
    const mca_btl_base_segment_t segment = {.seg_addr.pval = data, .seg_len = len};
    const mca_btl_active_message_callback_t *callback =
        tag < MCA_BTL_TAG_MAX ? &mca_btl_base_active_message_trigger[tag] : NULL;
    const mca_btl_base_receive_descriptor_t descriptor = {.endpoint = endpoint,
                                                          .des_segments = &segment,
                                                          .des_segment_count = 1,
                                                          .tag = (mca_btl_base_tag_t)tag,
                                                          .cbdata =
                                                              callback ? callback->cbdata : NULL};
    if (OPAL_LIKELY(callback && callback->cbfunc))
        callback->cbfunc(&module->super, &descriptor);
    else
        module->counters.rx_unknown_tag++;
}

bool mca_btl_diwarp_job_goes_on(void)
{
#if OPAL_ENABLE_FT_MPI
    return ompi_ftmpi_enabled;
#else
    return false;
#endif
}

void mca_btl_diwarp_fail(struct mca_btl_diwarp_module *module, opal_proc_t *proc, char *info)
{
    /* The PML prints info within a help message, which is lost where no file descriptor is left. */
    opal_output(0, "%s", info);
    if (!module->error_cb)
        abort();
    module->error_cb(&module->super, MCA_BTL_ERROR_FLAGS_FATAL, proc, info);
}
