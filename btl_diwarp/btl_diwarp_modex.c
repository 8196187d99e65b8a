/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses, to and from peers through Open MPI's modex, and in text. */
#include "btl_diwarp/btl_diwarp.h"

#include "opal/mca/pmix/pmix.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What follows the address, as words of 32 bits: what must be alike to reach it, and where it runs.
 */
enum setting {
    CONNECTED,  /* 0: RD, 1: RC; the side that receives chooses between rc and rc-srq */
    RECV_BYTES, /* longest Send; over RC, of its receives */
    CRC,        /* 0: without; RC comes to terms by itself, and it is 1 */
    CORES_ID,
    SETTINGS
};

struct settings {
    uint32_t words[SETTINGS];
};

static struct settings my_settings(const struct mca_btl_diwarp_module *module)
{
    const struct mca_btl_diwarp_params *params = &mca_btl_diwarp_params;
    const bool rc = params->transport != MCA_BTL_DIWARP_RD;
    return (struct settings){
        .words = {[CONNECTED] = rc,
                  [RECV_BYTES] = rc ? params->rc_recv_bytes : mca_btl_diwarp_longest_send(module),
                  [CRC] = rc || params->device.crc != DIWARP_OFF,
                  [CORES_ID] = module->cores.id}};
}

static void settings_format(const struct settings *settings, char *buf, size_t len)
{
    const uint32_t *words = settings->words;
    if (!words[CONNECTED]) {
        snprintf(buf, len, "rd, crc %s, messages of up to %u B eager", words[CRC] ? "on" : "off",
                 words[RECV_BYTES]);
    } else {
        snprintf(buf, len, "rc, with btl_diwarp_rc_recv_bytes %u", words[RECV_BYTES]);
    }
}

/* False, and the user was told: no message of one would get through to the other. */
static bool settings_fit(const struct mca_btl_diwarp_module *module, const opal_proc_t *proc,
                         const struct settings *theirs)
{
    const struct settings mine = my_settings(module);
    char mine_text[64], theirs_text[64];
    if (memcmp(mine.words, theirs->words, CORES_ID * sizeof mine.words[0]) == 0)
        return true;
    settings_format(&mine, mine_text, sizeof mine_text);
    settings_format(theirs, theirs_text, sizeof theirs_text);
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
    struct settings settings = my_settings(module);
    int len = diwarp_address_pack(&module->address, packed, DIWARP_ADDRESS_MAX_BYTES), rc;
    if (len < 0)
        return OPAL_ERROR;
    for (unsigned i = 0; i < SETTINGS; i++)
        settings.words[i] = htonl(settings.words[i]);
    memcpy(packed + len, &settings, sizeof settings);
    OPAL_MODEX_SEND(rc, OPAL_PMIX_GLOBAL, &module->super.btl_component->btl_version, packed,
                    (size_t)len + sizeof settings);
    return rc;
}

/* 0 or negative errno: -ENOENT, the process does not use diwarp; -EPROTO, -EPROTONOSUPPORT. */
static int recv_packed(const struct mca_btl_diwarp_module *module, const opal_proc_t *proc,
                       struct diwarp_address *address, struct settings *settings)
{
    unsigned char *packed = NULL;
    int32_t len = 0;
    int rc;
    OPAL_MODEX_RECV(rc, &module->super.btl_component->btl_version, &proc->proc_name, &packed, &len);
    if (rc != OPAL_SUCCESS || !packed) {
        rc = -ENOENT;
    } else if (len <= (int32_t)sizeof *settings) {
        rc = -EPROTO;
    } else {
        len -= (int32_t)sizeof *settings;
        rc = diwarp_address_unpack(address, packed, (size_t)len);
        memcpy(settings, packed + len, sizeof *settings);
        for (unsigned i = 0; i < SETTINGS; i++)
            settings->words[i] = ntohl(settings->words[i]);
    }
    free(packed);
    return rc < 0 ? rc : 0;
}

uint32_t mca_btl_diwarp_modex_cores_id(const struct mca_btl_diwarp_module *module,
                                       const opal_proc_t *proc)
{
    struct settings settings;
    struct diwarp_address address;
    return !recv_packed(module, proc, &address, &settings) ? settings.words[CORES_ID] : 0;
}

bool mca_btl_diwarp_modex_recv(const struct mca_btl_diwarp_module *module, const opal_proc_t *proc,
                               struct diwarp_address *address)
{
    struct settings settings;
    const int rc = recv_packed(module, proc, address, &settings);
    const bool other_version = rc == -EPROTONOSUPPORT;
    if (!rc)
        return settings_fit(module, proc, &settings);
    if (rc != -ENOENT) {
        MCA_BTL_DIWARP_SAY("not used between %s and %s: %s", opal_process_info.nodename,
                           OPAL_NAME_PRINT(proc->proc_name),
                           other_version ? "versions differ" : "bad address");
        MCA_BTL_DIWARP_HELP(other_version ? "version mismatch" : "bad address",
                            opal_get_proc_hostname(proc), OPAL_NAME_PRINT(proc->proc_name));
    }
    return false;
}

void mca_btl_diwarp_format_interfaces(const struct diwarp_interface *interfaces, unsigned count,
                                      char *buf, size_t len)
{
    size_t used = 0;
    snprintf(buf, len, "none");
    for (unsigned i = 0; i < count && used < len; i++) {
        const struct diwarp_interface *interface = &interfaces[i];
        char ip[INET6_ADDRSTRLEN] = "?";
        int n;
        inet_ntop(interface->family, interface->ip, ip, sizeof ip);
        /* Names stay at home: a peer's address has none. */
        n = snprintf(buf + used, len - used, "%s%.*s%s%s/%u", i > 0 ? ", " : "",
                     (int)sizeof interface->name, interface->name,
                     interface->name[0] != '\0' ? " " : "", ip, interface->prefix_bits);
        used += n > 0 ? (size_t)n : 0;
    }
}

void mca_btl_diwarp_show_opened(const struct mca_btl_diwarp_module *module, const char *how)
{
    struct diwarp_device_info device;
    char interfaces[512];
    diwarp_query_device(module->device, &device);
    mca_btl_diwarp_format_interfaces(device.interfaces, device.interface_count, interfaces,
                                     sizeof interfaces);
    MCA_BTL_DIWARP_VERBOSE(20, "port %u on %s; %s", module->address.port, interfaces, how);
    if (device.left_out_count > 0) {
        MCA_BTL_DIWARP_VERBOSE(1,
                               "%u interfaces are left out, for no more than %u can be used; "
                               "btl_diwarp_if_include says which",
                               device.left_out_count, device.interface_count);
    }
}
