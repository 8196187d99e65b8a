/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses to and from peers through Open MPI's modex. */
#include "btl_diwarp/btl_diwarp.h"

#include "opal/mca/pmix/pmix.h"
#include "opal/util/show_help.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

int mca_btl_diwarp_modex_send(const struct mca_btl_diwarp_module *module)
{
    struct diwarp_address address;
    unsigned char packed[DIWARP_ADDRESS_MAX_BYTES];
    int len, rc;

    diwarp_query_address(module->qp, &address);
    len = diwarp_address_pack(&address, packed, sizeof(packed));
    if (len < 0) {
        return OPAL_ERROR;
    }
    OPAL_MODEX_SEND(rc, OPAL_PMIX_GLOBAL, &mca_btl_diwarp_component.super.btl_version, packed,
                    (size_t)len);
    return rc;
}

int mca_btl_diwarp_modex_recv(const opal_proc_t *proc, struct diwarp_address *address)
{
    void *packed = NULL;
    int32_t len = 0;
    int rc;

    OPAL_MODEX_RECV(rc, &mca_btl_diwarp_component.super.btl_version, &proc->proc_name, &packed,
                    &len);
    if (OPAL_SUCCESS != rc || NULL == packed || len < 0) {
        free(packed);
        return OPAL_ERR_NOT_FOUND;
    }
    rc = diwarp_address_unpack(address, packed, (size_t)len);
    free(packed);
    if (rc >= 0) {
        return OPAL_SUCCESS;
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
