/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers: their names and addresses, how many there are, and what the user and the PML are told when
 * one cannot be reached or is gone. */
#include "btl_diwarp/btl_diwarp.h"

#include <stdio.h>
#include <stdlib.h>

struct diwarp_name mca_btl_diwarp_peer_name(const mca_btl_base_endpoint_t *endpoint)
{
    return (struct diwarp_name){.job = endpoint->proc->proc_name.jobid,
                                .rank = endpoint->proc->proc_name.vpid};
}

const char *mca_btl_diwarp_peer_host(const struct diwarp_name *name)
{
    const opal_process_name_t proc_name = {.jobid = name->job, .vpid = name->rank};
    opal_proc_t *proc = opal_proc_for_name(proc_name);
    const char *host = proc ? opal_get_proc_hostname(proc) : NULL;
    return host ? host : "unknown";
}

static void format_address(const struct diwarp_address *address, char text[512])
{
    mca_btl_diwarp_format_interfaces(address->interfaces, address->interface_count, text, 512);
}

void mca_btl_diwarp_peer_show_unreachable(const struct mca_btl_diwarp_module *module,
                                          const opal_proc_t *proc,
                                          const struct diwarp_address *peer)
{
    const char *host = opal_get_proc_hostname(proc);
    char mine_text[512], peer_text[512];
    const struct diwarp_address *mine = &module->address;
    /* All interfaces of a process are of one. */
    const bool families_differ = mine->interface_count > 0 && peer->interface_count > 0 &&
                                 mine->interfaces[0].family != peer->interfaces[0].family;
    format_address(mine, mine_text);
    format_address(peer, peer_text);
    MCA_BTL_DIWARP_SAY("not used: no way from %s (%s) to %s (%s)%s", opal_process_info.nodename,
                       mine_text, host, peer_text,
                       families_differ
                           ? "; one uses IPv4, the other IPv6: btl_diwarp_if_include chooses"
                           : "; if they share a host, btl_diwarp_same_host on says so");
    MCA_BTL_DIWARP_HELP("no reachable pair", mine_text, host, peer_text);
}

bool mca_btl_diwarp_peer_address(const struct mca_btl_diwarp_module *module,
                                 const opal_proc_t *proc, struct diwarp_address *address)
{
    if (opal_compare_proc(proc->proc_name, OPAL_PROC_MY_NAME))
        return mca_btl_diwarp_modex_recv(module, proc, address);
    *address = module->address;
    return true;
}

void mca_btl_diwarp_fail(struct mca_btl_diwarp_module *module, opal_proc_t *proc, char *info)
{
    if (!module->error_cb) {
        opal_output(0, "%s", info);
        abort();
    }
    module->error_cb(&module->super, MCA_BTL_ERROR_FLAGS_FATAL, proc, info);
}

void mca_btl_diwarp_peer_on_gone(struct mca_btl_diwarp_module *module,
                                 const struct diwarp_name *name, const char *why)
{
    const opal_process_name_t proc_name = {.jobid = name->job, .vpid = name->rank};
    const bool connected = module->rc;
    char where[512] = "unknown", info[512], silent[64];
    struct diwarp_address address;
    const char *host;
    opal_proc_t *proc;
    if (__atomic_exchange_n(&module->gone_told, true, __ATOMIC_RELAXED))
        return;
    host = mca_btl_diwarp_peer_host(name);
    proc = opal_proc_for_name(proc_name);
    if (proc && mca_btl_diwarp_peer_address(module, proc, &address))
        format_address(&address, where);
    /* Help messages get lost, and cannot be read without a file descriptor: the reason is in the
     * line besides, too. */
    if (!why) {
        snprintf(silent, sizeof silent, "silent for %u seconds (btl_diwarp_peer_timeout)",
                 mca_btl_diwarp_params.peer_timeout_s);
        why = silent;
    }
    snprintf(info, sizeof info, "diwarp: rank %u on host %s %s: %s", name->rank, host,
             connected ? "is not connected any more" : "does not answer", why);
    MCA_BTL_DIWARP_HELP(connected ? "connection lost" : "peer gone", OPAL_PROC_MY_NAME.vpid, host,
                        name->rank, where, why);
    mca_btl_diwarp_fail(module, proc, info);
}

void mca_btl_diwarp_peer_on_unsent(struct mca_btl_diwarp_module *module,
                                   const mca_btl_base_endpoint_t *endpoint)
{
    const struct diwarp_name name = mca_btl_diwarp_peer_name(endpoint);
    /* Told before, with the reason, unless that completion is still to come. */
    mca_btl_diwarp_peer_on_gone(module, &name, "nothing is sent to it any more");
}
