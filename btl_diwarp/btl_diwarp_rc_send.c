/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends over RC. A message is done from the PML's point of view when TCP has taken all of it; else
 * its descriptor stays with the core, or with the endpoint, until then. What is short is done
 * once the core has it.
 */
#include "btl_diwarp/btl_diwarp_rc.h"

#include <errno.h>

/* Header and payload lie behind each other. */
static int frag_post(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work)
{
    mca_btl_diwarp_frag_t *frag = MCA_BTL_DIWARP_OWNER(work, mca_btl_diwarp_frag_t, work);
    struct ibv_sge sge = {.addr = (uintptr_t)frag->header,
                          .length =
                              MCA_BTL_DIWARP_HEADER_BYTES + (uint32_t)frag->segments[0].seg_len,
                          .lkey = 0};
    struct ibv_send_wr wr = {.wr_id = (uintptr_t)work,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED | (unsigned)DIWARP_SEND_BUFFERED};
    mca_btl_diwarp_rc_endpoint_t *endpoint = mca_btl_diwarp_rc_endpoint(frag->work.endpoint);

    if (MCA_BTL_DIWARP_PACE_UNKNOWN == frag->pace) {
        frag->pace = mca_btl_diwarp_rc_pace(module, endpoint);
    }
    return mca_btl_diwarp_rc_post(module, endpoint, &wr, frag->pace);
}

static const struct mca_btl_diwarp_work_ops frag_ops = {
    .post = frag_post, .on_complete = mca_btl_diwarp_frag_on_complete};

int mca_btl_diwarp_rc_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                           mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    mca_btl_diwarp_frag_t *frag = (mca_btl_diwarp_frag_t *)descriptor;
    int rc;

    frag->work.endpoint = endpoint;
    frag->header[0] = tag;
    frag->work.ops = &frag_ops;
    if (MCA_BTL_DIWARP_TAG_FIN == tag) {
        (void)__atomic_fetch_add(&module->counters.fin_msgs_on_wire, 1, __ATOMIC_RELAXED);
    }
    mca_btl_diwarp_frag_buffer(module, frag);
    rc = mca_btl_diwarp_rc_work_post(module, mca_btl_diwarp_rc_endpoint(endpoint), &frag->work);
    if (2 == rc && NULL == module->helper) {
        diwarp_rc_flush(module->cq); /* nobody else would, should the program compute now */
    }
    return rc >= 0 ? mca_btl_diwarp_frag_posted(module, frag, rc) : OPAL_ERR_UNREACH;
}

/* From where it lies, or not at all. 0: TCP has it. Else *pace is set where it was asked for. */
static int send_gathered(struct mca_btl_diwarp_module *module,
                         mca_btl_diwarp_rc_endpoint_t *endpoint, opal_convertor_t *convertor,
                         void *header, size_t header_size, size_t payload_size,
                         mca_btl_base_tag_t tag, enum mca_btl_diwarp_pace *pace)
{
    const unsigned char lead[MCA_BTL_DIWARP_HEADER_BYTES] = {tag};
    struct ibv_sge sge[3] = {{.addr = (uintptr_t)lead, .length = sizeof(lead)},
                             {.addr = (uintptr_t)header, .length = (uint32_t)header_size}};
    const struct ibv_send_wr wr = {.sg_list = sge,
                                   .num_sge = payload_size > 0 ? 3 : 2,
                                   .opcode = IBV_WR_SEND,
                                   .send_flags = IBV_SEND_INLINE};
    void *from;
    int rc = -EAGAIN;

    if (payload_size > 0) {
        if (OPAL_UNLIKELY(opal_convertor_need_buffers(convertor))) {
            return rc;
        }
        opal_convertor_get_current_pointer(convertor, &from);
        sge[2] = (struct ibv_sge){.addr = (uintptr_t)from, .length = (uint32_t)payload_size};
    }
    OPAL_THREAD_LOCK(&module->rc->lock);
    if (OPAL_LIKELY(MCA_BTL_DIWARP_RC_CONNECTED == endpoint->state &&
                    NULL == endpoint->waiting_first)) {
        *pace = mca_btl_diwarp_rc_pace(module, endpoint);
        if (MCA_BTL_DIWARP_PACE_ALONE == *pace) {
            rc = mca_btl_diwarp_rc_post(module, endpoint, &wr, *pace);
        }
    }
    OPAL_THREAD_UNLOCK(&module->rc->lock);
    return rc;
}

int mca_btl_diwarp_rc_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                            opal_convertor_t *convertor, void *header, size_t header_size,
                            size_t payload_size, uint8_t order, uint32_t flags,
                            mca_btl_base_tag_t tag, mca_btl_base_descriptor_t **descriptor)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    const size_t size = header_size + payload_size;
    enum mca_btl_diwarp_pace pace = MCA_BTL_DIWARP_PACE_UNKNOWN;

    if (OPAL_LIKELY(size <= btl->btl_eager_limit) &&
        OPAL_LIKELY(0 == send_gathered(module, mca_btl_diwarp_rc_endpoint(endpoint), convertor,
                                       header, header_size, payload_size, tag, &pace))) {
        return OPAL_SUCCESS;
    }
    /* The caller packs and sends what it gets here; without, it falls back by itself. */
    if (NULL != descriptor) {
        *descriptor = mca_btl_diwarp_alloc(btl, endpoint, order, size, flags);
        if (NULL != *descriptor) {
            ((mca_btl_diwarp_frag_t *)*descriptor)->pace = pace;
        }
    }
    return OPAL_ERR_OUT_OF_RESOURCE;
}
