/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/tools/ping_host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/wire/llp_header.h"

/* A device has interfaces of one family. */
static int add_interfaces(struct ping_host *host, const char *include, const char *exclude,
                          struct diwarp_diagnosis *why)
{
    struct diwarp_device_attr attr;
    struct diwarp_device *device;
    struct diwarp_device_info info;
    diwarp_device_attr_init(&attr);
    attr.if_include = include;
    attr.if_exclude = exclude;
    const int rc = diwarp_open_device(&attr, &device, why);
    if (rc)
        return rc;
    diwarp_query_device(device, &info);
    diwarp_close_device(device);
    memcpy(host->interfaces + host->interface_count, info.interfaces,
           info.interface_count * sizeof *info.interfaces);
    host->interface_count += info.interface_count;
    host->rmem_max_bytes = info.rmem_max_bytes;
    host->wmem_max_bytes = info.wmem_max_bytes;
    return 0;
}

int ping_this_host(const struct ping_options *options, struct ping_host *host,
                   struct diwarp_diagnosis *why)
{
    static const char *const families[] = {"::/0", "0.0.0.0/0"};
    const char *exclude = options->if_exclude;
    *host = (struct ping_host){.wire_version = DW_WIRE_VERSION};
    if (gethostname(host->name, sizeof host->name - 1))
        snprintf(host->name, sizeof host->name, "?");
    if (options->if_include)
        return add_interfaces(host, options->if_include, NULL, why);
    for (unsigned i = 0; i < 2; i++) {
        char list[1024];
        const int len =
            snprintf(list, sizeof list, "%s%s%s", exclude, exclude[0] ? "," : "", families[i]);
        const int rc =
            (size_t)len < sizeof list ? add_interfaces(host, NULL, list, why) : -ENAMETOOLONG;
        if (rc && rc != -ENODEV)
            return rc;
    }
    return host->interface_count ? 0 : -ENODEV;
}
