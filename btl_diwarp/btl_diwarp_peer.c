/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers: their names and addresses, and what the user and the PML are told when one cannot be
 * reached or is gone. */
#include "btl_diwarp/btl_diwarp.h"

#include "opal/util/show_help.h"

#include <stdio.h>
#include <stdlib.h>

struct diwarp_name mca_btl_diwarp_peer_name(const mca_btl_base_endpoint_t *endpoint)
{
    return (struct diwarp_name){.job = endpoint->proc->proc_name.jobid,
                                .rank = endpoint->proc->proc_name.vpid};
}

/* All interfaces of a process are of one family. */
static bool families_differ(const struct diwarp_address *a, const struct diwarp_address *b)
{
    return a->interface_count > 0 && b->interface_count > 0 &&
           a->interfaces[0].family != b->interfaces[0].family;
}

void mca_btl_diwarp_peer_show_unreachable(const struct mca_btl_diwarp_module *module,
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

int mca_btl_diwarp_peer_address(const struct mca_btl_diwarp_module *module, const opal_proc_t *proc,
                                struct diwarp_address *address)
{
    if (0 == opal_compare_proc(proc->proc_name, OPAL_PROC_MY_NAME)) {
        module->transport->query_address(module, address);
        return OPAL_SUCCESS;
    }
    return mca_btl_diwarp_modex_recv(module, proc, address);
}

void mca_btl_diwarp_fail(struct mca_btl_diwarp_module *module, opal_proc_t *proc, char *info)
{
    if (NULL == module->error_cb) {
        opal_output(0, "%s", info);
        abort();
    }
    module->error_cb(&module->super, MCA_BTL_ERROR_FLAGS_FATAL, proc, info);
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

void mca_btl_diwarp_peer_on_gone(struct mca_btl_diwarp_module *module,
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
        if (OPAL_SUCCESS == mca_btl_diwarp_peer_address(module, proc, &address)) {
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
