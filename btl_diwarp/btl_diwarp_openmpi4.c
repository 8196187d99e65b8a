/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages to whoever registered their tag, as Open MPI 4.1 has it. */
#include "btl_diwarp/btl_diwarp.h"

void mca_btl_diwarp_deliver(struct mca_btl_diwarp_module *module, mca_btl_base_endpoint_t *endpoint,
                            uint32_t tag, void *data, size_t len)
{
    (void)endpoint;
    mca_btl_base_segment_t segment = {.seg_addr.pval = data, .seg_len = len};
    mca_btl_base_descriptor_t descriptor = {.des_segments = &segment, .des_segment_count = 1};
    const mca_btl_active_message_callback_t *callback =
        tag < MCA_BTL_TAG_MAX ? &mca_btl_base_active_message_trigger[tag] : NULL;
    if (OPAL_LIKELY(callback && callback->cbfunc))
        callback->cbfunc(&module->super, (mca_btl_base_tag_t)tag, &descriptor, callback->cbdata);
    else
        module->counters.rx_unknown_tag++;
}
