/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening a device. */
#include "common/rnic/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/siphash.h"
#include "common/llp/interface.h"
#include "common/llp/socket.h"
#include "common/rel/recvwin.h"
#include "common/rnic/secret.h"
#include "common/wire/crc32c.h"
#include "common/wire/llp_header.h"

/* Waking a peer costs less than a microsecond, so it need not be idle for long. */
#define REST_NS 20000000
/* Longer than any datagram is on its way (half would trust that less). Less would gain memory, some
 * 200 bytes for each client that a server has met in so long. */
#define FORGET_NS 10000000000u

void diwarp_device_attr_init(struct diwarp_device_attr *attr)
{
    *attr = (struct diwarp_device_attr){
        .if_exclude = DIWARP_IF_EXCLUDE_DEFAULT,
        .flows = 1,
        .rcvbuf_bytes = 4u << 20,
        .sndbuf_bytes = 4u << 20,
        .gso = DIWARP_AUTO,
        .gro = DIWARP_AUTO,
        .crc = DIWARP_ON,
        .same_host = DIWARP_AUTO,
        .ack_delay_ns = 200000,
        .rto_min_ns = 2000000,
        .peer_timeout_ns = 600ull * 1000000000,
        .queue_delay_ns = 1000000,
        .send_window_datagrams = DW_WINDOW_DATAGRAMS,
        .send_pool_bytes = 3u << 19,
    };
}

static uint64_t real_now_ns(void *arg)
{
    (void)arg;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t dw_device_now_ns(const struct diwarp_device *device)
{
    return device->env.now_ns(device->env.arg);
}

/* A pseudo-random function of a counter: peers see tokens and some STags, and must not be able to
 * tell the other STags from them (RFC 5042). */
uint64_t dw_device_random(struct diwarp_device *device)
{
    uint64_t z = 0;
    while (!z)
        z = dw_siphash(device->random_key,
                       __atomic_fetch_add(&device->random_count, 1, __ATOMIC_RELAXED));
    return z;
}

static int check_attr(const struct diwarp_device_attr *attr, struct diwarp_diagnosis *why)
{
    const struct {
        bool wrong;
        const char *fault;
    } checks[] = {
        {attr->flows < 1 || attr->flows > DIWARP_MAX_FLOWS, "flows must be 1 to 8"},
        {attr->send_window_datagrams < 1 || attr->send_window_datagrams > DW_WINDOW_DATAGRAMS,
         "send_window_datagrams must be 1 to 256"},
        {attr->send_pool_bytes < 256u << 10, "send_pool_bytes must be at least 256 KiB"},
        {attr->datagram_max_bytes && attr->datagram_max_bytes < 512,
         "datagram_max_bytes must be at least 512 (or 0)"},
        {attr->port_max && attr->port_max < attr->port_min, "port_max is less than port_min"},
        {attr->token & 0xff, "the last byte of token must be 0"},
        {attr->rto_min_ns < 10000, "rto_min_ns must be at least 10000"},
        {attr->queue_delay_ns > UINT32_MAX, "queue_delay_ns must be less than 4.3 s"},
    };
    for (unsigned i = 0; i < sizeof checks / sizeof *checks; i++)
        if (checks[i].wrong) {
            dw_explain(why, "%s", checks[i].fault);
            return -EINVAL;
        }
    return 0;
}

/* 2: there is an interface of that family that leads to other hosts; 1: a loopback one; 0: none. */
static unsigned reach_of(const struct diwarp_interface *list, unsigned n, uint8_t family)
{
    unsigned reach = 0;
    for (unsigned i = 0; i < n && reach < 2; i++)
        if (list[i].family == family && list[i].mtu_bytes >= DW_MTU_MIN_BYTES)
            reach = list[i].loopback ? 1 : 2;
    return reach;
}

/* Those of `list` that are used, as many as there is room for. No peer takes an address with a
 * small MTU. A socket for both families is only taken where both lead to other hosts. */
static int keep_interfaces(struct diwarp_device *device, const struct diwarp_interface *list,
                           unsigned n, struct diwarp_diagnosis *why)
{
    const unsigned v4 = reach_of(list, n, AF_INET), v6 = reach_of(list, n, AF_INET6);
    for (unsigned i = 0; i < n; i++) {
        const bool used = list[i].family == AF_INET ? v4 == 2 || v6 < 2 : v6 == 2 || !v4;
        if (list[i].mtu_bytes < DW_MTU_MIN_BYTES || !used)
            continue;
        if (device->interface_count < DIWARP_MAX_INTERFACES)
            device->interfaces[device->interface_count++] = list[i];
        else
            device->left_out_count++;
    }
    if (device->interface_count)
        return 0;
    dw_explain(why, "no interface has an MTU of %u bytes or more", DW_MTU_MIN_BYTES);
    return -ENODEV;
}

static int list_interfaces(struct diwarp_device *device, struct diwarp_diagnosis *why)
{
    const struct diwarp_device_attr *attr = &device->attr;
    const struct dw_env *env = &device->env;
    if (env->interfaces)
        return keep_interfaces(device, env->interfaces, env->interface_count, why);
    device->host_id = dw_host_id();
    /* Too large for the stacks of some threads. */
    struct diwarp_interface *list = malloc(DW_INTERFACES_LISTED * sizeof *list);
    int rc = list ? dw_interface_list(attr->if_include, attr->if_exclude, list, why) : -ENOMEM;
    if (rc >= 0)
        rc = keep_interfaces(device, list, (unsigned)rc, why);
    free(list);
    return rc;
}

static int seed_random(struct diwarp_device *device, struct diwarp_diagnosis *why)
{
    device->random_key[0] = device->env.seed;
    return device->env.seed ? 0
                            : dw_secret_draw(device->random_key, sizeof device->random_key, why);
}

int dw_device_create(const struct diwarp_device_attr *attr, const struct dw_env *env,
                     const struct dw_service *const *services, struct diwarp_device **device,
                     struct diwarp_diagnosis *why)
{
    dw_explain(why, "out of memory"); /* unless something else is said */
    struct diwarp_device *new = calloc(1, sizeof *new);
    if (!new)
        return -ENOMEM;
    new->attr = *attr;
    new->services = services;
    if (env)
        new->env = *env;
    if (!new->env.now_ns)
        new->env.now_ns = real_now_ns;
    if (!new->env.open_llp)
        new->env.open_llp = dw_udp_open;
    if (!new->env.rest_ns)
        new->env.rest_ns = REST_NS;
    if (!new->env.forget_ns)
        new->env.forget_ns = FORGET_NS;
    dw_list_init(&new->runners);
    dw_list_init(&new->sleepers);
    int rc = check_attr(attr, why);
    if (!rc)
        rc = seed_random(new, why);
    if (!rc)
        rc = dw_secret_get(attr, new->file_key, &new->file_key_id, why);
    if (!rc)
        rc = list_interfaces(new, why);
    if (rc) {
        explicit_bzero(new->file_key, sizeof new->file_key);
        free(new);
        return rc;
    }
    if (why)
        why->text[0] = '\0';
    /* Were borrowed. */
    new->attr.if_include = new->attr.if_exclude = new->attr.auth_key_file = NULL;
    pthread_mutex_init(&new->lock, NULL);
    *device = new;
    return 0;
}

struct dw_llp_addr dw_device_listens_at(const struct diwarp_device *device)
{
    struct dw_llp_addr at = {.family = AF_INET};
    for (unsigned i = 0; i < device->interface_count; i++)
        if (device->interfaces[i].family == AF_INET6)
            at.family = AF_INET6;
    if (device->interface_count == 1)
        memcpy(at.ip, device->interfaces[0].ip, sizeof at.ip);
    return at;
}

void diwarp_close_device(struct diwarp_device *device)
{
    pthread_mutex_destroy(&device->lock);
    explicit_bzero(device->file_key, sizeof device->file_key);
    free(device);
}

static uint32_t read_sysctl(const char *path)
{
    unsigned value = 0;
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%u", &value) != 1)
        value = 0;
    if (file)
        fclose(file);
    return value;
}

void diwarp_query_device(const struct diwarp_device *device, struct diwarp_device_info *info)
{
    *info = (struct diwarp_device_info){
        .interface_count = device->interface_count,
        .left_out_count = device->left_out_count,
        .crc_path = device->attr.auth == DIWARP_AUTH_GMAC      ? "gmac"
                    : device->attr.auth == DIWARP_AUTH_AES_GCM ? "aes-gcm"
                    : device->attr.crc == DIWARP_OFF           ? "off"
                                                               : dw_crc32c_path(),
        .rmem_max_bytes = read_sysctl("/proc/sys/net/core/rmem_max"),
        .wmem_max_bytes = read_sysctl("/proc/sys/net/core/wmem_max"),
    };
    memcpy(info->interfaces, device->interfaces, sizeof info->interfaces);
}
