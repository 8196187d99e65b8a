/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses to and from peers through Open MPI's modex. */
#include "btl_diwarp/btl_diwarp.h"

#include "opal/mca/pmix/pmix.h"
#include "opal/util/show_help.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What follows the address: what must be alike to reach it, and where it runs. */
struct settings {
    uint32_t connected;  /* 0: RD, 1: RC; the side that receives chooses between rc and rc-srq */
    uint32_t recv_bytes; /* longest Send; over RC, of its receives */
    uint32_t crc;        /* 0: without; RC comes to terms by itself, and it is 1 */
    uint32_t cores_id;
};

#define SETTINGS_WORDS 4
#define SETTINGS_BYTES (4 * SETTINGS_WORDS)

static struct settings my_settings(const struct mca_btl_diwarp_module *module)
{
    const struct mca_btl_diwarp_params *params = &mca_btl_diwarp_params;
    struct settings settings = {
        .recv_bytes = mca_btl_diwarp_longest_send(module),
        .crc = DIWARP_OFF != params->crc,
        .cores_id = module->cores.id,
    };

    if (MCA_BTL_DIWARP_RD != params->transport) {
        settings.connected = 1;
        settings.recv_bytes = params->rc_recv_bytes;
        settings.crc = 1;
    }
    return settings;
}

static void settings_pack(const struct settings *settings, unsigned char *to)
{
    const uint32_t words[SETTINGS_WORDS] = {htonl(settings->connected), htonl(settings->recv_bytes),
                                            htonl(settings->crc), htonl(settings->cores_id)};

    memcpy(to, words, SETTINGS_BYTES);
}

static struct settings settings_unpack(const unsigned char *from)
{
    uint32_t words[SETTINGS_WORDS];

    memcpy(words, from, SETTINGS_BYTES);
    return (struct settings){.connected = ntohl(words[0]),
                             .recv_bytes = ntohl(words[1]),
                             .crc = ntohl(words[2]),
                             .cores_id = ntohl(words[3])};
}

static void settings_format(const struct settings *settings, char *buf, size_t len)
{
    if (0 == settings->connected) {
        snprintf(buf, len, "rd, crc %s, messages of up to %u B eager", settings->crc ? "on" : "off",
                 settings->recv_bytes);
    } else {
        snprintf(buf, len, "rc, with btl_diwarp_rc_recv_bytes %u", settings->recv_bytes);
    }
}

/* False, and the user was told: no message of one would get through to the other. */
static bool settings_fit(const struct mca_btl_diwarp_module *module, const opal_proc_t *proc,
                         const struct settings *theirs)
{
    const struct settings mine = my_settings(module);
    char mine_text[64], theirs_text[64];

    if (mine.connected == theirs->connected && mine.recv_bytes == theirs->recv_bytes &&
        mine.crc == theirs->crc) {
        return true;
    }
    settings_format(&mine, mine_text, sizeof(mine_text));
    settings_format(theirs, theirs_text, sizeof(theirs_text));
    MCA_BTL_DIWARP_SAY("not used between %s (btl_diwarp_transport %s) and %s (%s)",
                       opal_process_info.nodename, mine_text, OPAL_NAME_PRINT(proc->proc_name),
                       theirs_text);
    opal_show_help(MCA_BTL_DIWARP_HELP_FILE, "transports differ", true, opal_process_info.nodename,
                   mine_text, opal_get_proc_hostname(proc), OPAL_NAME_PRINT(proc->proc_name),
                   theirs_text);
    return false;
}

int mca_btl_diwarp_modex_send(const struct mca_btl_diwarp_module *module)
{
    struct diwarp_address address;
    unsigned char packed[DIWARP_ADDRESS_MAX_BYTES + SETTINGS_BYTES];
    const struct settings settings = my_settings(module);
    int len, rc;

    module->transport->query_address(module, &address);
    len = diwarp_address_pack(&address, packed, DIWARP_ADDRESS_MAX_BYTES);
    if (len < 0) {
        return OPAL_ERROR;
    }
    settings_pack(&settings, packed + len);
    OPAL_MODEX_SEND(rc, OPAL_PMIX_GLOBAL, &module->super.btl_component->btl_version, packed,
                    (size_t)len + SETTINGS_BYTES);
    return rc;
}

/* malloc'd; NULL: the process does not use diwarp. */
static void *recv_packed(const struct mca_btl_diwarp_module *module, const opal_proc_t *proc,
                         int32_t *len)
{
    void *packed = NULL;
    int rc;

    *len = 0;
    OPAL_MODEX_RECV(rc, &module->super.btl_component->btl_version, &proc->proc_name, &packed, len);
    if (OPAL_SUCCESS != rc || *len < 0) {
        free(packed);
        return NULL;
    }
    return packed;
}

uint32_t mca_btl_diwarp_modex_cores_id(const struct mca_btl_diwarp_module *module,
                                       const opal_proc_t *proc)
{
    int32_t len;
    unsigned char *packed = recv_packed(module, proc, &len);
    uint32_t id = 0;

    if (NULL != packed && len > SETTINGS_BYTES) {
        id = settings_unpack(packed + len - SETTINGS_BYTES).cores_id;
    }
    free(packed);
    return id;
}

int mca_btl_diwarp_modex_recv(const struct mca_btl_diwarp_module *module, const opal_proc_t *proc,
                              struct diwarp_address *address)
{
    struct settings settings = {.connected = 0};
    int32_t len;
    void *packed = recv_packed(module, proc, &len);
    int rc;

    if (NULL == packed) {
        return OPAL_ERR_NOT_FOUND;
    }
    rc = -EPROTO;
    if (len > SETTINGS_BYTES) {
        rc = diwarp_address_unpack(address, packed, (size_t)(len - SETTINGS_BYTES));
        settings = settings_unpack((unsigned char *)packed + len - SETTINGS_BYTES);
    }
    free(packed);
    if (rc >= 0) {
        return settings_fit(module, proc, &settings) ? OPAL_SUCCESS : OPAL_ERR_NOT_SUPPORTED;
    }
    MCA_BTL_DIWARP_SAY("not used between %s and %s: %s", opal_process_info.nodename,
                       OPAL_NAME_PRINT(proc->proc_name),
                       -EPROTONOSUPPORT == rc ? "versions differ" : "bad address");
    if (-EPROTONOSUPPORT == rc) {
        opal_show_help(MCA_BTL_DIWARP_HELP_FILE, "version mismatch", true,
                       opal_process_info.nodename, opal_get_proc_hostname(proc),
                       OPAL_NAME_PRINT(proc->proc_name));
    } else {
        opal_show_help(MCA_BTL_DIWARP_HELP_FILE, "bad address", true, opal_process_info.nodename,
                       opal_get_proc_hostname(proc), OPAL_NAME_PRINT(proc->proc_name),
                       (unsigned)len);
    }
    return OPAL_ERR_NOT_SUPPORTED;
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

        inet_ntop(interface->family, interface->ip, ip, sizeof(ip));
        /* Names stay at home: a peer's address has none. */
        n = snprintf(buf + used, len - used, "%s%.*s%s%s/%u", i > 0 ? ", " : "",
                     (int)sizeof(interface->name), interface->name,
                     interface->name[0] != '\0' ? " " : "", ip, interface->prefix_bits);
        used += n > 0 ? (size_t)n : 0;
    }
}
