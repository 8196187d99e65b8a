/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RC transport of the module: listener, messages and writes, and what completes.
 *
 * A message is done from the PML's point of view when TCP has taken all of it; else its descriptor
 * stays with the core, or waits at the endpoint, until then. What is short is done once the core
 * has it. A put, too, completes once TCP has taken it, for what is sent after it, as the FIN that
 * the PML sends then, arrives after it.
 */
#include "btl_diwarp/btl_diwarp_rc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Messages to a peer that are posted no further apart are a burst: half as long, and fewer of them
 * share a send call; twice as long, and one that follows another by chance waits for a poll. */
#define BURST_NS 2000

/* ---- sends ---------------------------------------------------------------------------------- */

/* Under the lock: whether a request follows right after another, with no poll between, or is posted
 * by a callback. These share send calls: they leave with the next poll, those of callbacks when
 * these are over. A message on its own leaves at once: its sender may compute before it polls
 * again. One that may go by a descriptor instead (inline) does so without a look at the clock. */
static bool in_burst(const struct mca_btl_diwarp_module *module,
                     mca_btl_diwarp_rc_endpoint_t *endpoint, bool inlined)
{
    const uint64_t last_ns = endpoint->sent_ns;
    if (!mca_btl_diwarp_params.rc_coalesce)
        return false;
    if (mca_btl_diwarp_in_progress(module))
        return true;
    if (endpoint->sent_at_poll != __atomic_load_n(&module->polls, __ATOMIC_RELAXED))
        return false;
    if (inlined)
        return true;
    endpoint->sent_ns = mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC);
    return endpoint->sent_ns - last_ns < BURST_NS;
}

static int post_send(struct mca_btl_diwarp_module *module, mca_btl_base_endpoint_t *base,
                     const struct diwarp_send_wr *wr)
{
    mca_btl_diwarp_rc_endpoint_t *endpoint = mca_btl_diwarp_rc_endpoint(base);
    struct ibv_send_wr posted = wr->wr;
    if (OPAL_UNLIKELY(endpoint->state != MCA_BTL_DIWARP_RC_CONNECTED))
        return endpoint->state == MCA_BTL_DIWARP_RC_GONE ? -EHOSTUNREACH : -ENOTCONN;
    const bool inlined = posted.send_flags & IBV_SEND_INLINE;
    const bool burst = in_burst(module, endpoint, inlined);
    if (burst && inlined)
        return -EAGAIN;
    if (burst) {
        posted.send_flags |= (unsigned)DIWARP_SEND_LAZY;
        module->rc->unflushed = module->rc->unflushed || mca_btl_diwarp_in_progress(module);
    }
    const int rc = diwarp_rc_post_send(endpoint->qp, &posted);
    if (rc > 0 || (!rc && inlined)) /* TCP has it */
        __atomic_store_n(&endpoint->unused, false, __ATOMIC_RELAXED);
    if (!burst && rc >= 0 && mca_btl_diwarp_params.rc_coalesce) {
        endpoint->sent_at_poll = __atomic_load_n(&module->polls, __ATOMIC_RELAXED);
        endpoint->sent_ns = mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC);
    }
    return rc;
}

/* From where the message lies, or not at all. What may be part of a burst goes by a descriptor. */
static int rc_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
                    opal_convertor_t *convertor, void *header, size_t header_size,
                    size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                    mca_btl_base_descriptor_t **descriptor)
{
    struct mca_btl_diwarp_module *module = (struct mca_btl_diwarp_module *)btl;
    const size_t size = header_size + payload_size;
    const unsigned char lead[MCA_BTL_DIWARP_HEADER_BYTES] = {tag};
    void *from = NULL;
    int rc = -EAGAIN;
    if (OPAL_LIKELY(size <= btl->btl_eager_limit &&
                    (!payload_size || !opal_convertor_need_buffers(convertor)))) {
        if (payload_size > 0)
            opal_convertor_get_current_pointer(convertor, &from);
        struct ibv_sge sge[3] = {{.addr = (uintptr_t)lead, .length = sizeof lead},
                                 {.addr = (uintptr_t)header, .length = (uint32_t)header_size},
                                 {.addr = (uintptr_t)from, .length = (uint32_t)payload_size}};
        const struct diwarp_send_wr wr = {.wr = {.sg_list = sge,
                                                 .num_sge = payload_size > 0 ? 3 : 2,
                                                 .opcode = IBV_WR_SEND,
                                                 .send_flags = IBV_SEND_INLINE}};
        OPAL_THREAD_LOCK(&module->lock);
        if (!endpoint->waiting)
            rc = post_send(module, endpoint, &wr);
        OPAL_THREAD_UNLOCK(&module->lock);
    }
    /* Otherwise the caller packs and sends what it gets here; without, it falls back by itself. */
    if (OPAL_UNLIKELY(rc) && descriptor)
        *descriptor = mca_btl_diwarp_alloc(btl, endpoint, order, size, flags);
    return OPAL_LIKELY(!rc) ? OPAL_SUCCESS : OPAL_ERR_OUT_OF_RESOURCE;
}

/* ---- completions ---------------------------------------------------------------------------- */

/* A request that the end of its connection flushed waits for what comes of that. */
static void on_sent(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    struct mca_btl_diwarp_work *work = (struct mca_btl_diwarp_work *)(uintptr_t)wc->wc.wr_id;
    mca_btl_diwarp_rc_endpoint_t *endpoint = diwarp_rc_qp_context(wc->rc_qp);
    if (wc->wc.status == IBV_WC_SUCCESS)
        __atomic_store_n(&endpoint->unused, false, __ATOMIC_RELAXED);
    if (work && wc->wc.status == IBV_WC_WR_FLUSH_ERR)
        mca_btl_diwarp_work_wait_again(module, work);
    else if (work)
        mca_btl_diwarp_work_end(module, work, wc->wc.status, wc);
    mca_btl_diwarp_rc_leave_if_due(module, endpoint);
}

/* Handed to the PML where it lies. The bytes come from a peer and may be anything. */
static void deliver(struct mca_btl_diwarp_module *module, mca_btl_diwarp_rc_endpoint_t *endpoint,
                    unsigned char *message, uint32_t bytes)
{
    __atomic_store_n(&endpoint->unused, false, __ATOMIC_RELAXED);
    if (OPAL_UNLIKELY(bytes < MCA_BTL_DIWARP_HEADER_BYTES)) {
        module->counters.rx_unknown_tag++;
    } else if (OPAL_UNLIKELY(message[0] == MCA_BTL_DIWARP_RC_TAG_GOODBYE)) {
        mca_btl_diwarp_rc_on_goodbye(module, endpoint);
    } else if (OPAL_LIKELY(!module->rc->closing)) { /* else the PML is gone */
        mca_btl_diwarp_deliver(module, &endpoint->super, &endpoint->name, message[0],
                               message + MCA_BTL_DIWARP_HEADER_BYTES,
                               bytes - MCA_BTL_DIWARP_HEADER_BYTES);
    }
}

/* Posted again as soon as the PML has seen it. */
static void on_recv(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    unsigned char *buffer = (unsigned char *)(uintptr_t)(wc->wc.wr_id & ~(uint64_t)1);
    if (OPAL_LIKELY(wc->wc.status == IBV_WC_SUCCESS))
        deliver(module, diwarp_rc_qp_context(wc->rc_qp), buffer, wc->wc.byte_len);
    else if (!module->rc->srq)
        return; /* the connection ends, and its buffers with it */
    (void)mca_btl_diwarp_rc_buffer_post(module->rc, buffer, wc->rc_qp);
}

static void on_completions(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc,
                           int count)
{
    for (int i = 0; i < count; i++)
        if ((unsigned)wc[i].wc.opcode >= DIWARP_WC_CONNECT_REQUEST)
            mca_btl_diwarp_rc_on_event(module, &wc[i]);
        else if (wc[i].wc.wr_id & 1u) /* which is all that verbs leaves to tell them in an error */
            on_recv(module, &wc[i]);
        else
            on_sent(module, &wc[i]);
    mca_btl_diwarp_work_post_next_waiting(module);
    if (module->rc->unflushed) {
        module->rc->unflushed = false;
        diwarp_rc_flush(module->cq);
    }
}

static void on_nothing(struct mca_btl_diwarp_module *module)
{
    static bool told;
    /* A caller that waits because we have no descriptor for it knows no reason. */
    if (!told && diwarp_query_rc_counters(module->cq)->rc_no_descriptor) {
        told = true;
        MCA_BTL_DIWARP_SAY("rank %u on %s has no file descriptor left for a connection, which "
                           "waits until there is one: look at \"ulimit -n\"",
                           OPAL_PROC_MY_NAME.vpid, opal_process_info.nodename);
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

static int open_rc(struct mca_btl_diwarp_module *module, const char **what,
                   struct diwarp_diagnosis *why)
{
    mca_btl_base_module_t *btl = &module->super;
    struct mca_btl_diwarp_rc *rc = calloc(1, sizeof *rc);
    int error = 0;
    *what = "setting up connections";
    if (!rc)
        return -ENOMEM;
    OBJ_CONSTRUCT(&rc->endpoints, opal_hash_table_t);
    module->rc = rc;
    if (opal_hash_table_init(&rc->endpoints, 64) != OPAL_SUCCESS)
        return -ENOMEM;
    *what = "posting shared receives";
    if (mca_btl_diwarp_params.transport == MCA_BTL_DIWARP_RC_SRQ) {
        rc->srq = diwarp_create_srq(module->pd, mca_btl_diwarp_params.rc_srq_buffers, 1);
        error = rc->srq ? mca_btl_diwarp_rc_buffers_make(rc, &rc->srq_buffers, NULL) : -ENOMEM;
    }
    if (error < 0)
        return error;
    *what = "listening for connections";
    error = diwarp_listen(module->pd, module->cq, &rc->listener, why);
    if (error < 0)
        return error;
    diwarp_query_listener(rc->listener, &module->address);
    /* No reads, no atomics, and what is sent is packed, or goes by sendi. */
    btl->btl_sendi = rc_sendi;
    btl->btl_get = NULL;
    btl->btl_atomic_fop = NULL;
    btl->btl_atomic_cswap = NULL;
    btl->btl_flags &= ~(uint32_t)(MCA_BTL_FLAGS_GET | MCA_BTL_FLAGS_ATOMIC_FOPS |
                                  MCA_BTL_FLAGS_SEND_INPLACE | MCA_BTL_DIWARP_RDMA_FLAGS);
    btl->btl_atomic_flags = 0;
    mca_btl_diwarp_show_opened(module, rc->srq ? "rc-srq" : "rc");
    return 0;
}

/* Until everything sent is with TCP and every peer has closed, too: a connection that is closed
 * with bytes unread would be reset, and what the peer has not read yet with it. */
static void close_connections(struct mca_btl_diwarp_module *module)
{
    const uint64_t until_ns = mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC) +
                              mca_btl_diwarp_params.finalize_timeout_ms * 1000000ull;
    /* In each turn those leave for which nothing waits any more. */
    for (mca_btl_diwarp_rc_leave_all(module);
         module->rc->connections > 0 && mca_btl_diwarp_clock_ns(CLOCK_MONOTONIC) < until_ns;
         mca_btl_diwarp_rc_leave_all(module)) {
        mca_btl_diwarp_polling_wait(module);
        const int count = mca_btl_diwarp_poll_and_call_back(module);
        opal_atomic_unlock(&module->polling);
        if (!count)
            (void)diwarp_block_cq(module->cq, MCA_BTL_DIWARP_SLEEP_NS);
    }
}

static void close_rc(struct mca_btl_diwarp_module *module)
{
    struct mca_btl_diwarp_rc *rc = module->rc;
    if (!rc)
        return;
    if (rc->listener) {
        mca_btl_diwarp_show_job(module, rc->srq ? "RC over TCP, shared receives" : "RC over TCP");
        close_connections(module);
        if (mca_btl_diwarp_params.stats)
            mca_btl_diwarp_counters_dump(module);
    }
    mca_btl_diwarp_rc_endpoints_free(module);
    if (rc->listener)
        diwarp_destroy_listener(rc->listener);
    mca_btl_diwarp_rc_buffers_free(rc, &rc->srq_buffers);
    if (rc->srq)
        diwarp_destroy_srq(rc->srq);
    OBJ_DESTRUCT(&rc->endpoints);
    free(rc);
    module->rc = NULL;
}

const struct mca_btl_diwarp_transport mca_btl_diwarp_transport_rc = {
    .open = open_rc,
    .close = close_rc,
    .endpoint_create = mca_btl_diwarp_rc_endpoint_create,
    .endpoint_destroy = mca_btl_diwarp_rc_endpoint_destroy,
    .on_completions = on_completions,
    .on_nothing = on_nothing,
    .connect = mca_btl_diwarp_rc_connect,
    .post_send = post_send,
};
