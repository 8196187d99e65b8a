/* SPDX-License-Identifier: BSD-3-Clause */
/* What is ours, and what is not: the device, and libibverbs itself, behind us. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_diwarp/front.h"

/* Some providers, given any device, read beyond what the header declares of it. */
static union {
    struct ibv_device device;
    char room[8192];
} the_device = {
    .device = {.node_type = IBV_NODE_CA,
               .transport_type = IBV_TRANSPORT_IB,
               .name = "diwarp0",
               .dev_name = "diwarp0",
               .dev_path = "/sys/class/infiniband_verbs/diwarp0",
               .ibdev_path = "/sys/class/infiniband/diwarp0"},
};

struct ibv_device *const dv_device = &the_device.device;

/* What diwarp-verbs(1) sets: programs such as UCX refuse the iWARP card that the device is. */
static void __attribute__((constructor)) choose_transport(void)
{
    const char *transport = getenv("DIWARP_VERBS_TRANSPORT");
    if (!transport || !strcmp(transport, "ib"))
        return;
    if (!strcmp(transport, "iwarp")) {
        dv_device->node_type = IBV_NODE_RNIC;
        dv_device->transport_type = IBV_TRANSPORT_IWARP;
        return;
    }
    fprintf(stderr, "diwarp: DIWARP_VERBS_TRANSPORT is \"%s\", not ib or iwarp: ib it is\n",
            transport);
}

#define SONAME "libibverbs.so.1"

static void *library;

static void load(void)
{
    library = dv_open_real(SONAME);
}

/* Not RTLD_NEXT: a program that loads libibverbs late does so out of everybody's sight. */
void *dv_real(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    void *function = library ? dlsym(library, name) : NULL;
    if (!function) {
        const char *why = dlerror(); /* NULL where another thread was told */
        fprintf(stderr, "diwarp: %s: %s\n", name, why ? why : "no " SONAME);
        abort();
    }
    return function;
}
