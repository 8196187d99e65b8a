/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: from a process to an address handle, and what happens when a peer is gone. */
#include "btl_diwarp/btl_diwarp_work.h"

#include "opal/util/show_help.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* All interfaces of a process are of one family. */
static bool families_differ(const struct diwarp_address *a, const struct diwarp_address *b)
{
    return a->interface_count > 0 && b->interface_count > 0 &&
           a->interfaces[0].family != b->interfaces[0].family;
}

void mca_btl_diwarp_endpoint_show_unreachable(const struct mca_btl_diwarp_module *module,
                                              const opal_proc_t *proc,
                                              const struct diwarp_address *peer)
{
    struct diwarp_address mine;
    char mine_text[512], peer_text[512];

    module->transport->query_address(module, &mine);
    mca_btl_diwarp_format_interfaces(mine.interfaces, mine.interface_count, mine_text,
                                     sizeof(mine_text));
    mca_btl_diwarp_format_interfaces(peer->interfaces, peer->interface_count, peer_text,
                                     sizeof(peer_text));
    MCA_BTL_DIWARP_SAY("not used: no way from %s (%s) to %s (%s)%s", opal_process_info.nodename,
                       mine_text, opal_get_proc_hostname(proc), peer_text,
                       families_differ(&mine, peer)
                           ? "; one uses IPv4, the other IPv6: btl_diwarp_if_include chooses"
                           : "; if they share a host, btl_diwarp_same_host on says so");
    opal_show_help(MCA_BTL_DIWARP_HELP_FILE, "no reachable pair", true, opal_process_info.nodename,
                   mine_text, opal_get_proc_hostname(proc), peer_text);
}

int mca_btl_diwarp_endpoint_address(const struct mca_btl_diwarp_module *module,
                                    const opal_proc_t *proc, struct diwarp_address *address)
{
    if (0 == opal_compare_proc(proc->proc_name, OPAL_PROC_MY_NAME)) {
        module->transport->query_address(module, address);
        return OPAL_SUCCESS;
    }
    return mca_btl_diwarp_modex_recv(module, proc, address);
}

int mca_btl_diwarp_endpoint_create(struct mca_btl_diwarp_module *module, opal_proc_t *proc,
                                   mca_btl_base_endpoint_t **endpoint)
{
    struct diwarp_address address;
    mca_btl_base_endpoint_t *made;
    int rc = mca_btl_diwarp_endpoint_address(module, proc, &address);

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
            mca_btl_diwarp_endpoint_show_unreachable(module, proc, &address);
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

struct diwarp_name mca_btl_diwarp_endpoint_name(const mca_btl_base_endpoint_t *endpoint)
{
    return (struct diwarp_name){.job = endpoint->proc->proc_name.jobid,
                                .rank = endpoint->proc->proc_name.vpid};
}

static bool is_noted(const struct mca_btl_diwarp_module *module, const struct diwarp_name *name)
{
    for (unsigned i = 0; i < module->gone_count; i++) {
        if (module->gone[i].job == name->job && module->gone[i].rank == name->rank) {
            return true;
        }
    }
    return false;
}

/* True the first time a name is given. Without memory a peer may be reported twice. */
static bool note_gone(struct mca_btl_diwarp_module *module, const struct diwarp_name *name)
{
    struct diwarp_name *grown = NULL;
    bool first;

    OPAL_THREAD_LOCK(&module->waiting_lock);
    first = !is_noted(module, name);
    if (first) {
        grown = realloc(module->gone, (module->gone_count + 1) * sizeof(*grown));
    }
    if (NULL != grown) {
        module->gone = grown;
        grown[module->gone_count++] = *name;
    }
    OPAL_THREAD_UNLOCK(&module->waiting_lock);
    return first;
}

void mca_btl_diwarp_endpoint_on_gone(struct mca_btl_diwarp_module *module,
                                     const struct diwarp_name *name, const char *why)
{
    opal_process_name_t proc_name = {.jobid = name->job, .vpid = name->rank};
    struct diwarp_address address;
    const bool connected = NULL != module->rc;
    char where[512] = "unknown", info[512], silent[64];
    const char *host = NULL;
    opal_proc_t *proc;

    if (!note_gone(module, name)) {
        return;
    }
    proc = opal_proc_for_name(proc_name);
    if (NULL != proc) {
        host = opal_get_proc_hostname(proc);
        if (OPAL_SUCCESS == mca_btl_diwarp_endpoint_address(module, proc, &address)) {
            mca_btl_diwarp_format_interfaces(address.interfaces, address.interface_count, where,
                                             sizeof(where));
        }
    }
    if (NULL == host) {
        host = "unknown";
    }
    /* Help messages get lost, and cannot be read without a file descriptor: the reason is in the
     * line besides, too. */
    if (NULL == why) {
        snprintf(silent, sizeof(silent), "silent for %u seconds (btl_diwarp_peer_timeout)",
                 mca_btl_diwarp_params.peer_timeout_s);
        why = silent;
    }
    snprintf(info, sizeof(info), "diwarp: rank %u on host %s %s: %s", name->rank, host,
             connected ? "is not connected any more" : "does not answer", why);
    opal_show_help(MCA_BTL_DIWARP_HELP_FILE, connected ? "connection lost" : "peer gone", true,
                   opal_process_info.nodename, OPAL_PROC_MY_NAME.vpid, host, name->rank, where,
                   why);
    mca_btl_diwarp_fail(module, proc, info);
}
