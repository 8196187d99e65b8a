/* SPDX-License-Identifier: BSD-3-Clause */
/* Host ids: hashes of what /proc says of this network namespace, and of how its interfaces look. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/llp/interface.h"

#define FNV_BASIS UINT64_C(0xcbf29ce484222325)

static uint64_t fnv1a(uint64_t hash, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* 0: /proc does not say. */
static uint64_t namespace_hash(void)
{
    char boot_id[64];
    struct stat netns;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    bool known =
        file && fgets(boot_id, sizeof boot_id, file) && stat("/proc/self/ns/net", &netns) == 0;
    if (file)
        fclose(file);
    if (!known)
        return 0;
    uint64_t hash = fnv1a(FNV_BASIS, boot_id, strlen(boot_id));
    hash = fnv1a(hash, &netns.st_dev, sizeof netns.st_dev);
    return fnv1a(hash, &netns.st_ino, sizeof netns.st_ino);
}

/* Of all interfaces that are up, whatever is used of them, in any order. The bridges of containers
 * have the same IP address on every host, but each a hardware address of its own. */
static uint64_t looks_hash(void)
{
    uint64_t sum = FNV_BASIS;
    struct diwarp_interface *list = calloc(DW_INTERFACES_LISTED, sizeof *list);
    int count = list ? dw_interface_list(NULL, NULL, list, NULL) : 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* of whatever family */
    for (int i = 0; i < count; i++) {
        struct ifreq request = {0};
        if (list[i].loopback)
            continue;
        memcpy(request.ifr_name, list[i].name, sizeof request.ifr_name);
        if (ioctl(fd, SIOCGIFHWADDR, &request) < 0)
            memset(&request.ifr_hwaddr, 0, sizeof request.ifr_hwaddr);
        sum +=
            fnv1a(fnv1a(FNV_BASIS, request.ifr_hwaddr.sa_data, 6), list[i].ip, sizeof list[i].ip);
    }
    if (fd >= 0)
        close(fd);
    free(list);
    return sum;
}

uint64_t dw_host_id(void)
{
    uint64_t looks = looks_hash(), namespace = namespace_hash();
    uint64_t host = namespace ? namespace : looks;
    return (host & ~DW_HOST_ID_LOOKS) | looks >> 48;
}
