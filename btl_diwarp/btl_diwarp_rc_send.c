/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests over RC. A message is done from the PML's point of view when TCP has taken all of
 * it; else its descriptor stays with the core, or waits at the endpoint, until then. What is short
 * is done once the core has it. A put, too, completes once TCP has taken it, for what is sent after
 * it, as the FIN that the PML sends then, arrives after it.
 */
#include "btl_diwarp/btl_diwarp_rc.h"

#include <errno.h>

/* Messages to a peer that are posted no further apart are a burst: half as long, and fewer of them
 * share a send call; twice as long, and one that follows another by chance waits for a poll. */
#define BURST_NS 2000

/* Under the lock, for a request: BURST for what follows right after another, with no poll between,
 * and for what callbacks post, which leaves when they are over. That shares send calls. A message
 * on its own leaves at once: its sender may compute before it polls again. */
static enum mca_btl_diwarp_pace pace_of(const struct mca_btl_diwarp_module *module,
                                        mca_btl_diwarp_rc_endpoint_t *endpoint)
{
    unsigned long polls;
    uint64_t now_ns;
    bool burst;
    if (!mca_btl_diwarp_params.rc_coalesce)
        return MCA_BTL_DIWARP_PACE_ALONE;
    if (mca_btl_diwarp_in_progress(module))
        return MCA_BTL_DIWARP_PACE_BURST;
    polls = __atomic_load_n(&module->polls, __ATOMIC_RELAXED);
    now_ns = mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC);
    burst = endpoint->sent_at_poll == polls && now_ns - endpoint->sent_ns < BURST_NS;
    endpoint->sent_at_poll = polls;
    endpoint->sent_ns = now_ns;
    return burst ? MCA_BTL_DIWARP_PACE_BURST : MCA_BTL_DIWARP_PACE_ALONE;
}

/* Under the lock: posts at that pace, which is set where it was unknown. */
static int post(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rc_endpoint_t *endpoint,
                const struct ibv_send_wr *wr, enum mca_btl_diwarp_pace *pace)
{
    struct ibv_send_wr lazy = *wr;
    int rc;
    if (OPAL_UNLIKELY(endpoint->state != MCA_BTL_DIWARP_RC_CONNECTED))
        return endpoint->state == MCA_BTL_DIWARP_RC_GONE ? -EHOSTUNREACH : -ENOTCONN;
    if (*pace == MCA_BTL_DIWARP_PACE_UNKNOWN)
        *pace = pace_of(module, endpoint);
    if (*pace == MCA_BTL_DIWARP_PACE_BURST && (wr->send_flags & IBV_SEND_INLINE))
        return -EAGAIN;
    __atomic_store_n(&endpoint->unused, false, __ATOMIC_RELAXED);
    if (*pace == MCA_BTL_DIWARP_PACE_BURST) {
        lazy.send_flags |= (unsigned)DIWARP_SEND_LAZY;
        module->rc->unflushed = module->rc->unflushed || mca_btl_diwarp_in_progress(module);
        return diwarp_rc_post_send(endpoint->qp, &lazy);
    }
    rc = diwarp_rc_post_send(endpoint->qp, wr);
    if (mca_btl_diwarp_params.rc_coalesce)
        endpoint->sent_ns = mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC);
    return rc;
}

/* Header and payload lie behind each other. */
int mca_btl_diwarp_rc_frag_post(struct mca_btl_diwarp_module *module,
                                struct mca_btl_diwarp_work *work)
{
    mca_btl_diwarp_frag_t *frag = MCA_BTL_DIWARP_OWNER(work, mca_btl_diwarp_frag_t, work);
    struct ibv_sge sge = {.addr = (uintptr_t)frag->header,
                          .length =
                              MCA_BTL_DIWARP_HEADER_BYTES + (uint32_t)frag->segments[0].seg_len,
                          .lkey = 0};
    const struct ibv_send_wr wr = {.wr_id = (uintptr_t)work,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_SEND,
                                   .send_flags =
                                       IBV_SEND_SIGNALED | (unsigned)DIWARP_SEND_BUFFERED};
    return post(module, mca_btl_diwarp_rc_endpoint(work->endpoint), &wr, &frag->pace);
}

int mca_btl_diwarp_rc_rdma_post(struct mca_btl_diwarp_module *module,
                                struct mca_btl_diwarp_work *work)
{
    mca_btl_diwarp_rdma_t *rdma = MCA_BTL_DIWARP_OWNER(work, mca_btl_diwarp_rdma_t, work);
    enum mca_btl_diwarp_pace pace = MCA_BTL_DIWARP_PACE_UNKNOWN;
    return post(module, mca_btl_diwarp_rc_endpoint(work->endpoint), &rdma->wr.wr, &pace);
}

int mca_btl_diwarp_rc_post(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint = mca_btl_diwarp_rc_endpoint(work->endpoint);
    const int rc = mca_btl_diwarp_work_post(module, work);
    int called = 0;
    if (OPAL_UNLIKELY(endpoint->state == MCA_BTL_DIWARP_RC_IDLE)) {
        OPAL_THREAD_LOCK(&module->lock);
        if (endpoint->state == MCA_BTL_DIWARP_RC_IDLE && !endpoint->qp)
            called = mca_btl_diwarp_rc_call(module, endpoint);
        OPAL_THREAD_UNLOCK(&module->lock);
        mca_btl_diwarp_rc_on_lost(module, endpoint, called);
    }
    if (rc == 2 && !module->helper)
        diwarp_rc_flush(module->cq); /* nobody else would, should the program compute now */
    return rc;
}

/* A request that the end of its connection flushed waits for what comes of that. */
void mca_btl_diwarp_rc_work_on_wc(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    struct mca_btl_diwarp_work *work = (struct mca_btl_diwarp_work *)(uintptr_t)wc->wc.wr_id;
    mca_btl_diwarp_rc_endpoint_t *endpoint = diwarp_rc_qp_context(wc->rc_qp);
    if (work && wc->wc.status == IBV_WC_WR_FLUSH_ERR)
        mca_btl_diwarp_work_wait_again(module, work);
    else if (work)
        mca_btl_diwarp_work_end(module, work, wc->wc.status, wc);
    if (OPAL_UNLIKELY(endpoint->deleted || module->rc->closing))
        mca_btl_diwarp_rc_leave_if_due(module, endpoint);
}

/* From where it lies, or not at all. 0: TCP has it. Else *pace is set where it was asked for. */
static int send_gathered(struct mca_btl_diwarp_module *module,
                         mca_btl_diwarp_rc_endpoint_t *endpoint, const struct ibv_send_wr *wr,
                         enum mca_btl_diwarp_pace *pace)
{
    int rc;
    OPAL_THREAD_LOCK(&module->lock);
    rc = mca_btl_diwarp_rc_waits(endpoint) ? -EAGAIN : post(module, endpoint, wr, pace);
    OPAL_THREAD_UNLOCK(&module->lock);
    return rc;
}

int mca_btl_diwarp_rc_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                            opal_convertor_t *convertor, void *header, size_t header_size,
                            size_t payload_size, uint8_t order, uint32_t flags,
                            mca_btl_base_tag_t tag, mca_btl_base_descriptor_t **descriptor)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    const size_t size = header_size + payload_size;
    const unsigned char lead[MCA_BTL_DIWARP_HEADER_BYTES] = {tag};
    struct ibv_sge sge[3] = {{.addr = (uintptr_t)lead, .length = sizeof lead},
                             {.addr = (uintptr_t)header, .length = (uint32_t)header_size},
                             {.length = (uint32_t)payload_size}};
    const struct ibv_send_wr wr = {.sg_list = sge,
                                   .num_sge = payload_size > 0 ? 3 : 2,
                                   .opcode = IBV_WR_SEND,
                                   .send_flags = IBV_SEND_INLINE};
    enum mca_btl_diwarp_pace pace = MCA_BTL_DIWARP_PACE_UNKNOWN;
    if (OPAL_LIKELY(size <= btl->btl_eager_limit &&
                    (!payload_size || !opal_convertor_need_buffers(convertor)))) {
        void *from = NULL;
        if (payload_size > 0)
            opal_convertor_get_current_pointer(convertor, &from);
        sge[2].addr = (uintptr_t)from;
        if (OPAL_LIKELY(!send_gathered(module, mca_btl_diwarp_rc_endpoint(endpoint), &wr, &pace)))
            return OPAL_SUCCESS;
    }
    /* The caller packs and sends what it gets here; without, it falls back by itself. */
    if (descriptor) {
        *descriptor = mca_btl_diwarp_alloc(btl, endpoint, order, size, flags);
        if (*descriptor)
            ((mca_btl_diwarp_frag_t *)*descriptor)->pace = pace;
    }
    return OPAL_ERR_OUT_OF_RESOURCE;
}
