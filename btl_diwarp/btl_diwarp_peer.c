/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers: names, addresses by Open MPI's modex, and what is told of those that cannot be reached. */
#include "btl_diwarp/btl_diwarp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 512

/* What follows the address, in network order: what must be alike to reach it, and where it runs. */
struct settings {
    uint32_t rc;         /* or RD; the side that receives chooses between rc and rc-srq */
    uint32_t recv_bytes; /* longest Send; over RC, of its receives */
    uint32_t crc;        /* over RC 1, for that comes to terms by itself */
    uint32_t cores_id;
};

static struct settings my_settings(const struct mca_btl_diwarp_module *module)
{
    const struct mca_btl_diwarp_params *params = &mca_btl_diwarp_params;
    const bool rc = params->transport != MCA_BTL_DIWARP_RD;
    return (struct settings){
        .rc = htonl(rc),
        .recv_bytes = htonl(rc ? params->rc_recv_bytes : mca_btl_diwarp_longest_send(module)),
        .crc = htonl(rc || params->device.crc != DIWARP_OFF),
        .cores_id = module->cores_id};
}

static void settings_format(const struct settings *settings, const struct diwarp_address *address,
                            char *buf, size_t len)
{
    static const char *const auths[] = {
        [DIWARP_AUTH_OFF] = "off", [DIWARP_AUTH_GMAC] = "gmac", [DIWARP_AUTH_AES_GCM] = "aes-gcm"};
    char key[32] = "";
    if (address->auth_key_id)
        snprintf(key, sizeof key, " with key file %08x", address->auth_key_id);
    if (settings->rc)
        snprintf(buf, len, "rc, with btl_diwarp_rc_recv_bytes %u", ntohl(settings->recv_bytes));
    else
        snprintf(buf, len, "rd, crc %s, auth %s%s, messages of up to %u B eager",
                 settings->crc ? "on" : "off", auths[address->auth], key,
                 ntohl(settings->recv_bytes));
}

/* False, and the user was told: no message of one would get through to the other. */
static bool settings_fit(const struct mca_btl_diwarp_module *module, const opal_proc_t *proc,
                         const struct settings *theirs, const struct diwarp_address *address)
{
    const struct settings mine = my_settings(module);
    const struct diwarp_address *my_address = &module->address;
    char mine_text[128], theirs_text[128];
    if (memcmp(&mine, theirs, offsetof(struct settings, cores_id)) == 0 &&
        address->auth == my_address->auth && address->auth_key_id == my_address->auth_key_id)
        return true;
    settings_format(&mine, my_address, mine_text, sizeof mine_text);
    settings_format(theirs, address, theirs_text, sizeof theirs_text);
    MCA_BTL_DIWARP_SAY("not used between %s (btl_diwarp_transport %s) and %s (%s)",
                       opal_process_info.nodename, mine_text, OPAL_NAME_PRINT(proc->proc_name),
                       theirs_text);
    MCA_BTL_DIWARP_HELP("transports differ", mine_text, opal_get_proc_hostname(proc),
                        OPAL_NAME_PRINT(proc->proc_name), theirs_text);
    return false;
}

int mca_btl_diwarp_modex_send(const struct mca_btl_diwarp_module *module)
{
    unsigned char packed[DIWARP_ADDRESS_MAX_BYTES + sizeof(struct settings)];
    const struct settings settings = my_settings(module);
    int len = diwarp_address_pack(&module->address, packed, DIWARP_ADDRESS_MAX_BYTES), rc;
    if (len < 0)
        return OPAL_ERROR;
    memcpy(packed + len, &settings, sizeof settings);
    OPAL_MODEX_SEND(rc, MCA_BTL_DIWARP_MODEX_GLOBAL, &module->super.btl_component->btl_version,
                    packed, (size_t)len + sizeof settings);
    return rc;
}

/* 0 or negative errno: as mca_btl_diwarp_modex_recv(); -EPROTO, -EPROTONOSUPPORT. */
static int recv_packed(const struct mca_btl_diwarp_module *module, const opal_proc_t *proc,
                       struct diwarp_address *address, struct settings *settings)
{
    unsigned char *packed;
    size_t len;
    int rc =
        mca_btl_diwarp_modex_recv(&module->super.btl_component->btl_version, proc, &packed, &len);
    if (rc)
        return rc;
    const size_t own = len > sizeof *settings ? len - sizeof *settings : 0;
    rc = own ? diwarp_address_unpack(address, packed, own) : -EPROTO;
    if (!rc)
        memcpy(settings, packed + own, sizeof *settings);
    free(packed);
    return rc;
}

uint32_t mca_btl_diwarp_modex_cores_id(const struct mca_btl_diwarp_module *module,
                                       const opal_proc_t *proc)
{
    struct settings settings;
    struct diwarp_address address;
    return !recv_packed(module, proc, &address, &settings) ? settings.cores_id : 0;
}

int mca_btl_diwarp_peer_address(const struct mca_btl_diwarp_module *module, const opal_proc_t *proc,
                                struct diwarp_address *address)
{
    struct settings settings;
    const bool is_me = !opal_compare_proc(proc->proc_name, OPAL_PROC_MY_NAME);
    const int rc = is_me ? 0 : recv_packed(module, proc, address, &settings);
    if (is_me || rc == -ESHUTDOWN) {
        *address = module->address;
        address->name = (struct diwarp_name){proc->proc_name.jobid, proc->proc_name.vpid};
    }
    if (is_me || rc == -ENOENT || rc == -ESHUTDOWN)
        return rc;
    if (!rc)
        return settings_fit(module, proc, &settings, address) ? 0 : -EPROTO;
    const char *topic = rc == -EPROTONOSUPPORT ? "version mismatch" : "bad address";
    MCA_BTL_DIWARP_SAY("not used between %s and %s: %s", opal_process_info.nodename,
                       OPAL_NAME_PRINT(proc->proc_name), topic);
    MCA_BTL_DIWARP_HELP(topic, opal_get_proc_hostname(proc), OPAL_NAME_PRINT(proc->proc_name));
    return rc;
}

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

/* "eth0 10.0.0.1/24 MTU 1500, lo 127.0.0.1/8 MTU 65536", cut to what there is room for. */
static void format_address(const struct diwarp_address *address, char text[TEXT_BYTES])
{
    size_t used = 0;
    snprintf(text, TEXT_BYTES, "none");
    for (unsigned i = 0; i < address->interface_count && used < TEXT_BYTES; i++) {
        const struct diwarp_interface *interface = &address->interfaces[i];
        char ip[INET6_ADDRSTRLEN] = "?";
        inet_ntop(interface->family, interface->ip, ip, sizeof ip);
        /* Names stay at home: a peer's address has none. */
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%.*s%s%s/%u MTU %u",
                                 i > 0 ? ", " : "", (int)sizeof interface->name, interface->name,
                                 interface->name[0] != '\0' ? " " : "", ip, interface->prefix_bits,
                                 interface->mtu_bytes);
    }
}

void mca_btl_diwarp_show_opened(const struct mca_btl_diwarp_module *module, const char *how)
{
    struct diwarp_device_info device;
    char interfaces[TEXT_BYTES];
    diwarp_query_device(module->device, &device);
    format_address(&module->address, interfaces);
    MCA_BTL_DIWARP_VERBOSE(20, "port %u on %s; %s", module->address.port, interfaces, how);
    if (device.left_out_count > 0)
        MCA_BTL_DIWARP_VERBOSE(1, "%u interfaces are left out: btl_diwarp_if_include says which",
                               device.left_out_count);
}

void mca_btl_diwarp_peer_note(struct mca_btl_diwarp_module *module, const opal_proc_t *proc,
                              const struct diwarp_address *address)
{
    char where[TEXT_BYTES];
    if (OPAL_PROC_MY_NAME.vpid != 0 || !opal_compare_proc(proc->proc_name, OPAL_PROC_MY_NAME))
        return;
    format_address(address, where);
    OPAL_THREAD_LOCK(&module->lock);
    const size_t used = strlen(module->peers), room = sizeof module->peers - used;
    if ((size_t)snprintf(module->peers + used, room, "; %s at %s port %u",
                         OPAL_NAME_PRINT(proc->proc_name), where, address->port) >= room)
        strcpy(module->peers + sizeof module->peers - sizeof " ...", " ...");
    OPAL_THREAD_UNLOCK(&module->lock);
}

void mca_btl_diwarp_show_job(const struct mca_btl_diwarp_module *module, const char *transport)
{
    char where[TEXT_BYTES];
    format_address(&module->address, where);
    if (OPAL_PROC_MY_NAME.vpid == 0)
        MCA_BTL_DIWARP_VERBOSE(10, "%s; rank 0 at %s port %u; its peers%s", transport, where,
                               module->address.port, module->peers);
}

static bool has_family_of(const struct diwarp_address *one, const struct diwarp_address *other)
{
    for (unsigned i = 0; i < one->interface_count; i++)
        for (unsigned j = 0; j < other->interface_count; j++)
            if (one->interfaces[i].family == other->interfaces[j].family)
                return true;
    return false;
}

void mca_btl_diwarp_peer_show_unreachable(const struct mca_btl_diwarp_module *module,
                                          const opal_proc_t *proc,
                                          const struct diwarp_address *peer)
{
    const char *host = opal_get_proc_hostname(proc);
    char mine_text[TEXT_BYTES], peer_text[TEXT_BYTES];
    const struct diwarp_address *mine = &module->address;
    const char *remedy = has_family_of(mine, peer)
                             ? "if they share a host, btl_diwarp_same_host on says so"
                             : "one uses IPv4, the other IPv6: btl_diwarp_if_include chooses";
    format_address(mine, mine_text);
    format_address(peer, peer_text);
    MCA_BTL_DIWARP_SAY("not used: no way from %s (%s) to %s (%s); %s", opal_process_info.nodename,
                       mine_text, host, peer_text, remedy);
    MCA_BTL_DIWARP_HELP("no reachable pair", mine_text, host, peer_text);
}

void mca_btl_diwarp_peer_on_gone(struct mca_btl_diwarp_module *module,
                                 const struct diwarp_name *name, const char *topic, const char *why)
{
    const opal_process_name_t proc_name = {.jobid = name->job, .vpid = name->rank};
    char where[TEXT_BYTES] = "unknown", info[TEXT_BYTES + 256], silent[64];
    struct diwarp_address address;
    const bool goes_on = mca_btl_diwarp_job_goes_on();
    if (__atomic_exchange_n(&module->gone_told, true, __ATOMIC_RELAXED) && !goes_on)
        return;
    const char *host = mca_btl_diwarp_peer_host(name);
    opal_proc_t *proc = opal_proc_for_name(proc_name);
    if (proc && !mca_btl_diwarp_peer_address(module, proc, &address))
        format_address(&address, where);
    if (!strcmp(host, "unknown")) /* Open MPI may say so of processes that came later */
        host = where;
    snprintf(silent, sizeof silent, "silent for %u seconds (btl_diwarp_peer_timeout)",
             mca_btl_diwarp_params.peer_timeout_s);
    why = why ? why : silent;
    /* Help messages get lost, and cannot be read without a file descriptor: this line, too. */
    snprintf(info, sizeof info, "diwarp: rank %u on host %s %s: %s", name->rank, host,
             module->rc ? "is not connected any more" : "does not answer", why);
    if (!goes_on)
        MCA_BTL_DIWARP_HELP(topic, OPAL_PROC_MY_NAME.vpid, host, name->rank, where, why);
    mca_btl_diwarp_fail(module, proc, info);
}

int mca_btl_diwarp_peer_status(struct mca_btl_diwarp_module *module,
                               const mca_btl_base_endpoint_t *endpoint, enum ibv_wc_status status)
{
    if (OPAL_UNLIKELY(mca_btl_diwarp_known_lost(endpoint->proc)))
        return OPAL_ERR_UNREACH; /* the PML has ended the request, though an ACK may have come */
    if (OPAL_LIKELY(status == IBV_WC_SUCCESS))
        return OPAL_SUCCESS;
    if (status != IBV_WC_RETRY_EXC_ERR)
        return OPAL_ERROR;
    const struct diwarp_name name = mca_btl_diwarp_peer_name(endpoint);
    /* DIWARP_WC_PEER_GONE, or RC's end of the connection, tells of the peer with the reason. It may
     * be still to come, while the PML that hears of an error may end the job without one. */
    if (!mca_btl_diwarp_job_goes_on())
        mca_btl_diwarp_peer_on_gone(module, &name, module->rc ? "connection lost" : "peer gone",
                                    "nothing is sent to it any more");
    return OPAL_ERR_UNREACH;
}
