/* SPDX-License-Identifier: BSD-3-Clause */
/* The RD transport of the module: its queue pair, endpoints that are address handles, and what
 * completes. */
#include "btl_diwarp/btl_diwarp_work.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int endpoint_create(struct mca_btl_diwarp_module *module, opal_proc_t *proc,
                           const struct diwarp_address *address, mca_btl_base_endpoint_t **endpoint)
{
    mca_btl_base_endpoint_t *made = calloc(1, sizeof *made);
    const int rc = made ? diwarp_create_ah(module->qp, address, &made->ah) : -ENOMEM;
    if (rc < 0) {
        free(made);
        return rc;
    }
    made->proc = proc;
    made->waiting = NULL;
    *endpoint = made;
    return 0;
}

static void endpoint_destroy(struct mca_btl_diwarp_module *module,
                             mca_btl_base_endpoint_t *endpoint)
{
    mca_btl_diwarp_work_forget(module, endpoint);
    diwarp_destroy_ah(endpoint->ah);
    free(endpoint);
}

static int endpoint_give_up(mca_btl_base_endpoint_t *endpoint)
{
    return diwarp_give_up_ah(endpoint->ah);
}

static int post_send(struct mca_btl_diwarp_module *module, mca_btl_base_endpoint_t *endpoint,
                     const struct diwarp_send_wr *wr)
{
    (void)endpoint;
    return diwarp_post_send(module->qp, wr);
}

/* The PML's headers need alignment, which the message behind the tag lacks. */
static void on_release(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    _Alignas(16) unsigned char message[DIWARP_RELEASE_MAX_BYTES];
    const unsigned char *release = wc->data;
    size_t len = wc->wc.byte_len;
    if (!len || len > sizeof message)
        return;
    memcpy(message, release + 1, len - 1);
    mca_btl_diwarp_deliver(module, NULL, &wc->src, release[0], message, len - 1);
}

/* Why a peer is silent or gone (NULL: nothing is known, or reason() says it with a number), and the
 * help text of its end. */
static const struct {
    const char *text, *topic;
} causes[] = {
    [DIWARP_GONE_SILENT] = {NULL, "peer gone"},
    [DIWARP_GONE_UNREACHABLE] =
        {"its host says that no process has its port (ICMP port unreachable)", "peer ended"},
    [DIWARP_GONE_PROHIBITED] =
        {"a firewall says that it lets nothing through to it (ICMP communication prohibited)",
         "refused"},
    [DIWARP_GONE_NO_ROOM] = {"it asks, and takes none of the answers", "peer gone"},
    [DIWARP_GONE_TOO_LARGE] = {NULL, "large lost"},
    [DIWARP_GONE_NOT_SENT] = {NULL, "cannot send"},
    [DIWARP_GONE_GIVEN_UP] = {NULL, NULL}, /* on_given_up() */
    [DIWARP_GONE_RESTARTED] = {"it ended, and another process has started under its rank",
                               "peer ended"},
};

static const char *reason(const struct diwarp_wc *wc, char *text, size_t len)
{
    if (wc->wc.vendor_err == DIWARP_GONE_TOO_LARGE)
        snprintf(text, len,
                 "what it is sent in datagrams of %u bytes does not get through, small ones do: "
                 "see the MTU of the hosts and of switches between, or set "
                 "btl_diwarp_datagram_max",
                 wc->wc.byte_len);
    else if (wc->wc.vendor_err == DIWARP_GONE_NOT_SENT)
        snprintf(text, len, "this host cannot send to it: %s", strerror((int)wc->wc.byte_len));
    else
        return causes[wc->wc.vendor_err].text;
    return text;
}

/* By us, as Open MPI knows that it is lost, or as it had ended when it was added. */
static void on_given_up(struct mca_btl_diwarp_module *module, const struct diwarp_name *name,
                        opal_proc_t *proc)
{
    char info[128];
    if (mca_btl_diwarp_known_lost(proc))
        return;
    snprintf(info, sizeof info, "diwarp: rank %u on host %s has ended before it was spoken with",
             name->rank, mca_btl_diwarp_peer_host(name));
    mca_btl_diwarp_fail(module, proc, info);
}

/* A process of another job that has disconnected may have ended well. */
static bool has_left(opal_process_name_t name)
{
    return mca_btl_diwarp_job_goes_on() && name.jobid != OPAL_PROC_MY_NAME.jobid &&
           !mca_btl_diwarp_in_communicator(name);
}

static void on_gone(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    const opal_process_name_t name = {.jobid = wc->src.job, .vpid = wc->src.rank};
    char text[256];
    if (wc->wc.vendor_err == DIWARP_GONE_GIVEN_UP)
        on_given_up(module, &wc->src, opal_proc_for_name(name));
    else if (!has_left(name))
        mca_btl_diwarp_peer_on_gone(module, &wc->src, causes[wc->wc.vendor_err].topic,
                                    reason(wc, text, sizeof text));
}

/* One of the first is enough: what is wrong is mostly so for all. */
static void on_silent(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    char ways[512], text[256];
    if (module->silent_told || diwarp_explain_peer(module->qp, wc->src, ways, sizeof ways))
        return;
    module->silent_told = true;
    const char *why = reason(wc, text, sizeof text);
    MCA_BTL_DIWARP_HELP("nothing heard", OPAL_PROC_MY_NAME.vpid, mca_btl_diwarp_peer_host(&wc->src),
                        wc->src.rank, ways,
                        why ? why : "nothing tells; a firewall may drop UDP without a word");
}

static void on_wc(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc)
{
    const unsigned opcode = (unsigned)wc->wc.opcode;
    if (OPAL_LIKELY(opcode == IBV_WC_RECV))
        /* The PML reads and never writes; its segments just lack the const. */
        mca_btl_diwarp_deliver(module, NULL, &wc->src,
                               wc->wc.wc_flags & IBV_WC_WITH_IMM ? wc->wc.imm_data
                                                                 : MCA_BTL_TAG_MAX,
                               (void *)(uintptr_t)wc->data, wc->wc.byte_len);
    else if (opcode == DIWARP_WC_RELEASE)
        on_release(module, wc);
    else if (opcode == DIWARP_WC_PEER_GONE)
        on_gone(module, wc);
    else if (opcode == DIWARP_WC_PEER_SILENT)
        on_silent(module, wc);
    else if (!(opcode & IBV_WC_RECV)) /* immediate data alone, which no rank sends */
        /* A request of ours, whatever its opcode: verbs leaves that undefined in an error. */
        mca_btl_diwarp_work_end(module, (struct mca_btl_diwarp_work *)(uintptr_t)wc->wc.wr_id,
                                wc->wc.status, wc);
}

static void on_completions(struct mca_btl_diwarp_module *module, const struct diwarp_wc *wc,
                           int count)
{
    for (int i = 0; i < count; i++)
        on_wc(module, &wc[i]);
    mca_btl_diwarp_work_post_next_waiting(module);
}

static int open_rd(struct mca_btl_diwarp_module *module, const char **what,
                   struct diwarp_diagnosis *why)
{
    const unsigned asked = mca_btl_diwarp_params.device.rcvbuf_bytes;
    const bool gro_later = mca_btl_diwarp_params.device.gro == DIWARP_AUTO;
    struct diwarp_device_info device;
    struct diwarp_qp_attr attr;
    struct diwarp_qp_info qp;
    char how[128];
    *what = "creating the queue pair";
    diwarp_qp_attr_init(&attr);
    attr.type = DIWARP_QPT_RD;
    attr.cq = module->cq;
    attr.max_send_wr = MCA_BTL_DIWARP_QUEUE_WRS;
    attr.max_msg_bytes = mca_btl_diwarp_longest_send(module);
    int rc = diwarp_create_qp(module->pd, &attr, &module->qp, why);
    if (rc)
        return rc;
    diwarp_query_address(module->qp, &module->address);
    diwarp_query_device(module->device, &device);
    diwarp_query_qp(module->qp, &qp);
    if (qp.rcvbuf_bytes < 64u << 10) { /* it loses a burst of even two large datagrams */
        MCA_BTL_DIWARP_HELP("socket buffer small", qp.rcvbuf_bytes, device.rmem_max_bytes);
    } else if (qp.rcvbuf_bytes < asked) {
        MCA_BTL_DIWARP_VERBOSE(1,
                               "receive buffer of %u B granted (asked for %u, net.core.rmem_max is "
                               "%u); a larger one loses less under load",
                               qp.rcvbuf_bytes, asked, device.rmem_max_bytes);
    }
    snprintf(how, sizeof how, "rd, gso %s, gro %s, crc %s, rcvbuf %u, sndbuf %u",
             qp.gso ? "on" : "off",
             qp.gro      ? "on"
             : gro_later ? "on demand"
                         : "off",
             device.crc_path, qp.rcvbuf_bytes, qp.sndbuf_bytes);
    mca_btl_diwarp_show_opened(module, how);
    return 0;
}

static void close_rd(struct mca_btl_diwarp_module *module)
{
    if (!module->qp)
        return;
    mca_btl_diwarp_show_job(module, "RD over UDP");
    (void)diwarp_drain_qp(module->qp, mca_btl_diwarp_params.finalize_timeout_ms * 1000000ull);
    if (mca_btl_diwarp_params.stats)
        mca_btl_diwarp_counters_dump(module);
    diwarp_destroy_qp(module->qp);
    module->qp = NULL;
}

const struct mca_btl_diwarp_transport mca_btl_diwarp_transport_rd = {
    .open = open_rd,
    .close = close_rd,
    .endpoint_create = endpoint_create,
    .endpoint_destroy = endpoint_destroy,
    .endpoint_give_up = endpoint_give_up,
    .on_completions = on_completions,
    .post_send = post_send,
};
