/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends. Payload is copied into the core's datagrams while the core has room, and is then done from
 * the PML's point of view; else the descriptor stays with the core until there is room. What is
 * short and packed counts as done even then.
 */
#include "btl_diwarp/btl_diwarp_work.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

OBJ_CLASS_INSTANCE(mca_btl_diwarp_frag_t, mca_btl_base_descriptor_t, NULL, NULL);

/* ob1's number of a message among those of a communicator, hdr_seq and hdr_ctx of its
 * mca_pml_ob1_match_hdr_t, which leads MATCH, RNDV and RGET, and in Open MPI 5.0 and later follows
 * a mca_pml_ob1_cid_hdr_t. */
struct place {
    bool there;
    uint16_t communicator, number;
};

static struct place place_of(uint32_t tag, const void *header, size_t bytes)
{
    enum {
        MATCH = MCA_BTL_TAG_PML + 1,
        RGET = MCA_BTL_TAG_PML + 3,
        CID = MCA_BTL_TAG_PML + 10,
        CID_BYTES = 32,
        CTX_AT = 2,
        SEQ_AT = 12
    };
    const size_t at = tag == CID ? CID_BYTES : 0;
    struct place place = {.there = ((tag >= MATCH && tag <= RGET) || tag == CID) &&
                                   bytes >= at + SEQ_AT + sizeof place.number};
    if (place.there) {
        memcpy(&place.communicator, (const char *)header + at + CTX_AT, sizeof place.communicator);
        memcpy(&place.number, (const char *)header + at + SEQ_AT, sizeof place.number);
    }
    return place;
}

/* In endpoint->unnumbered. */
static uint64_t bit_of(struct place place)
{
    return UINT64_C(1) << (place.communicator % 64);
}

/* The list in which ob1 keeps messages that come early goes wrong where it has numbers from before
 * and from after their rollover, 65535 to 0 (append_frag_to_ordered_list(), in 4.1 to 6.0): a
 * message is never matched, or in another's place. So what is posted before number 0 is to come
 * before it; threads that post at the same time may still cross. On a communicator with
 * mpi_assert_allow_overtaking all have the number 0: of these only the first is taken for such a
 * beginning, and the first after one of another communicator with the same lowest bits. */
static bool begins_anew(const mca_btl_base_endpoint_t *endpoint, struct place place)
{
    return place.there && !place.number &&
           !(__atomic_load_n(&endpoint->unnumbered, __ATOMIC_RELAXED) & bit_of(place));
}

static void note_place(mca_btl_base_endpoint_t *endpoint, struct place place)
{
    const bool known = __atomic_load_n(&endpoint->unnumbered, __ATOMIC_RELAXED) & bit_of(place);
    if (place.there && !place.number && !known)
        (void)__atomic_fetch_or(&endpoint->unnumbered, bit_of(place), __ATOMIC_RELAXED);
    else if (place.there && place.number && known)
        (void)__atomic_fetch_and(&endpoint->unnumbered, ~bit_of(place), __ATOMIC_RELAXED);
}

/* What is in place leaves the user's buffer now, or, as what is packed, once there is room. Over RC
 * the header leads the payload; over RD the tag is immediate data. */
static int frag_post(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work)
{
    mca_btl_diwarp_frag_t *frag = MCA_BTL_DIWARP_OWNER(work, mca_btl_diwarp_frag_t, work);
    const mca_btl_base_segment_t *segments = frag->segments;
    const size_t lead = module->rc ? MCA_BTL_DIWARP_HEADER_BYTES : 0;
    struct ibv_sge sge[2] = {
        {.addr = (uintptr_t)segments[0].seg_addr.pval - lead,
         .length = (uint32_t)(segments[0].seg_len + lead)},
        {.addr = (uintptr_t)segments[1].seg_addr.pval, .length = (uint32_t)segments[1].seg_len}};
    struct diwarp_send_wr wr = {
        .wr = {.wr_id = (uintptr_t)work,
               .sg_list = sge,
               .num_sge = (int)frag->base.des_segment_count,
               .opcode = lead > 0 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM,
               .send_flags = IBV_SEND_SIGNALED | (unsigned)DIWARP_SEND_BUFFERED,
               .imm_data = frag->header[0]},
        .ah = work->endpoint->ah,
    };
    if (!lead && work->fence)
        wr.wr.send_flags |= IBV_SEND_FENCE;
    if (wr.wr.num_sge > 1) {
        struct diwarp_send_wr now = wr;
        now.wr.send_flags = IBV_SEND_INLINE | (wr.wr.send_flags & IBV_SEND_FENCE);
        if (OPAL_LIKELY(!module->transport->post_send(module, work->endpoint, &now)))
            return 1;
    }
    return module->transport->post_send(module, work->endpoint, &wr);
}

static int btl_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor)
{
    (void)btl;
    opal_free_list_return(((mca_btl_diwarp_frag_t *)descriptor)->list, &descriptor->super);
    return OPAL_SUCCESS;
}

/* The callback may free or reuse the descriptor, so ownership is read before it. */
static void frag_end(struct mca_btl_diwarp_module *module, mca_btl_diwarp_frag_t *frag,
                     bool call_back, int status)
{
    mca_btl_base_endpoint_t *endpoint = frag->work.endpoint;
    const bool owned = !endpoint || (frag->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
    if (call_back)
        frag->base.des_cbfunc(&module->super, endpoint, &frag->base, status);
    if (owned)
        (void)btl_free(&module->super, &frag->base);
}

static void frag_on_complete(struct mca_btl_diwarp_module *module, struct mca_btl_diwarp_work *work,
                             enum ibv_wc_status status, const struct diwarp_wc *wc)
{
    mca_btl_diwarp_frag_t *frag = MCA_BTL_DIWARP_OWNER(work, mca_btl_diwarp_frag_t, work);
    const bool told = work->endpoint;
    const int rc = told ? mca_btl_diwarp_peer_status(module, work->endpoint, status) : OPAL_SUCCESS;
    /* Where the job goes on without the peer, the PML has ended the request: twice is fatal. */
    const bool ended = rc == OPAL_ERR_UNREACH && mca_btl_diwarp_job_goes_on();
    (void)wc;
    frag_end(module, frag, told && !ended && !work->buffered && frag->base.des_cbfunc, rc);
}

mca_btl_base_descriptor_t *mca_btl_diwarp_alloc(mca_btl_base_module_t *btl,
                                                mca_btl_base_endpoint_t *endpoint, uint8_t order,
                                                size_t size, uint32_t flags)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    const enum mca_btl_diwarp_list kind =
        size <= MCA_BTL_DIWARP_SMALL_BYTES    ? MCA_BTL_DIWARP_FRAG_SMALL
        : size <= MCA_BTL_DIWARP_MEDIUM_BYTES ? MCA_BTL_DIWARP_FRAG_MEDIUM
                                              : MCA_BTL_DIWARP_FRAG_LARGE;
    (void)order;
    if (OPAL_UNLIKELY(size > mca_btl_diwarp_longest_send(module)))
        return NULL;
    mca_btl_diwarp_frag_t *frag = (mca_btl_diwarp_frag_t *)opal_free_list_get(&module->lists[kind]);
    if (OPAL_UNLIKELY(!frag))
        return NULL;
    frag->list = &module->lists[kind];
    frag->work = (struct mca_btl_diwarp_work){
        .post = frag_post, .on_complete = frag_on_complete, .endpoint = endpoint};
    memset(frag->header, 0, sizeof frag->header);
    frag->segments[0] = (mca_btl_base_segment_t){.seg_addr.pval = frag + 1, .seg_len = size};
    frag->segments[1] = (mca_btl_base_segment_t){.seg_len = 0};
    frag->base.des_segments = frag->segments;
    frag->base.des_segment_count = 1;
    frag->base.des_cbfunc = NULL;
    frag->base.des_flags = flags;
    frag->base.order = MCA_BTL_NO_ORDER;
    return &frag->base;
}

static mca_btl_base_descriptor_t *btl_prepare_src(mca_btl_base_module_t *btl,
                                                  mca_btl_base_endpoint_t *endpoint,
                                                  opal_convertor_t *convertor, uint8_t order,
                                                  size_t reserve, size_t *size, uint32_t flags)
{
    const size_t limit = mca_btl_diwarp_longest_send((struct mca_btl_diwarp_module *)btl);
    struct iovec iov = {.iov_base = NULL}; /* for the convertor to tell where the data lies */
    uint32_t iov_count = 1;
    if (OPAL_UNLIKELY(reserve > limit))
        return NULL;
    if (*size > limit - reserve)
        *size = limit - reserve;
    const bool in_place = *size > MCA_BTL_DIWARP_SMALL_BYTES &&
                          !opal_convertor_need_buffers(convertor) &&
                          (btl->btl_flags & MCA_BTL_FLAGS_SEND_INPLACE);
    mca_btl_base_descriptor_t *descriptor =
        mca_btl_diwarp_alloc(btl, endpoint, order, in_place ? reserve : reserve + *size, flags);
    if (OPAL_UNLIKELY(!descriptor))
        return NULL;
    if (!in_place)
        iov.iov_base = (char *)descriptor->des_segments[0].seg_addr.pval + reserve;
    iov.iov_len = *size;
    if (OPAL_UNLIKELY(opal_convertor_pack(convertor, &iov, &iov_count, size) < 0)) {
        (void)btl_free(btl, descriptor);
        return NULL;
    }
    if (in_place) {
        descriptor->des_segments[1] =
            (mca_btl_base_segment_t){.seg_addr.pval = iov.iov_base, .seg_len = *size};
        descriptor->des_segment_count = 2;
    } else {
        descriptor->des_segments[0].seg_len = reserve + *size;
    }
    return descriptor;
}

/* Inside the completion callback of a get, in its thread: takes a FIN for the same peer into the
 * get's release, so that it travels inside record-complete. False: it goes as a message. */
static bool release_capture(struct mca_btl_diwarp_module *module,
                            const mca_btl_base_endpoint_t *endpoint, const void *fin, size_t len)
{
    struct mca_btl_diwarp_ending_read *read =
        mca_btl_diwarp_in_progress(module) ? module->ending : NULL;
    if (!read || read->len > 0 || read->endpoint != endpoint || len > sizeof read->release - 1) {
        (void)__atomic_fetch_add(&module->counters.fin_msgs_on_wire, 1, __ATOMIC_RELAXED);
        return false;
    }
    read->release[0] = MCA_BTL_DIWARP_TAG_FIN;
    memcpy(read->release + 1, fin, len);
    read->len = 1 + len;
    module->counters.fin_in_release++;
    return true;
}

static int btl_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                    mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    mca_btl_diwarp_frag_t *frag = (mca_btl_diwarp_frag_t *)descriptor;
    const bool owned = descriptor->des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP;
    const bool calls_back = descriptor->des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK;
    const mca_btl_base_segment_t *first = &frag->segments[0];
    const struct place place = place_of(tag, first->seg_addr.pval, first->seg_len);
    int rc = 1;
    frag->work.endpoint = endpoint;
    frag->work.fence = begins_anew(endpoint, place);
    note_place(endpoint, place);
    frag->header[0] = tag;
    /* A short message that we free and whose end nobody wants to hear of counts as sent though it
     * waits: osc/pt2pt answers swaps by blocking sends within a lock, and these must not make
     * progress, which would take the same lock. */
    frag->work.buffered = owned && !calls_back && descriptor->des_segment_count == 1 &&
                          frag->list == &module->lists[MCA_BTL_DIWARP_FRAG_SMALL];
    if (tag != MCA_BTL_DIWARP_TAG_FIN ||
        !release_capture(module, endpoint, first->seg_addr.pval, first->seg_len))
        rc = mca_btl_diwarp_work_post(module, &frag->work);
    if (OPAL_LIKELY(rc == 1))
        frag_end(module, frag, calls_back, OPAL_SUCCESS);
    return OPAL_LIKELY(rc >= 0) ? rc > 0 : rc == -EHOSTUNREACH ? OPAL_ERR_UNREACH : OPAL_ERROR;
}

static int btl_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                     opal_convertor_t *convertor, void *header, size_t header_size,
                     size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                     mca_btl_base_descriptor_t **descriptor)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    size_t size = header_size + payload_size, packed = payload_size;
    uint32_t iov_count = 1;
    void *from;
    /* Open MPI 5.0's way of a FIN; 4.1's is btl_send. */
    if (OPAL_UNLIKELY(tag == MCA_BTL_DIWARP_TAG_FIN) &&
        release_capture(module, endpoint, header, header_size))
        return OPAL_SUCCESS;
    const struct place place = place_of(tag, header, header_size);
    unsigned char *room = NULL;
    if (OPAL_LIKELY(!begins_anew(endpoint, place) &&
                    !__atomic_load_n(&endpoint->fence_waits, __ATOMIC_RELAXED)))
        room = diwarp_send_reserve(module->qp, endpoint->ah, size);
    if (OPAL_UNLIKELY(!room)) {
        /* The caller packs and sends what it gets here; without, it prepares by itself. */
        if (descriptor)
            *descriptor = mca_btl_diwarp_alloc(btl, endpoint, order, size, flags);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    struct iovec iov = {.iov_base = room + header_size, .iov_len = payload_size};
    note_place(endpoint, place);
    mca_btl_diwarp_look_soon(module);
    memcpy(room, header, header_size);
    if (payload_size > 0 && !opal_convertor_need_buffers(convertor)) {
        opal_convertor_get_current_pointer(convertor, &from);
        memcpy(room + header_size, from, payload_size);
    } else if (payload_size > 0) {
        (void)opal_convertor_pack(convertor, &iov, &iov_count, &packed);
        assert(packed == payload_size);
    }
    diwarp_send_commit(module->qp, endpoint->ah, tag);
    return OPAL_SUCCESS;
}

void mca_btl_diwarp_send_set_functions(mca_btl_base_module_t *btl)
{
    btl->btl_alloc = mca_btl_diwarp_alloc;
    btl->btl_free = btl_free;
    btl->btl_prepare_src = btl_prepare_src;
    btl->btl_send = btl_send;
    btl->btl_sendi = btl_sendi;
}
