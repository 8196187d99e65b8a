/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening the device: configuration checked, interfaces listed, randomness seeded. */
#include "common/rnic/device.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/base/siphash.h"
#include "common/llp/interface.h"
#include "common/rel/recvwin.h"
#include "common/wire/crc32c.h"
#include "common/wire/llp_header.h"

/* Waking a peer costs less than a microsecond, so it need not be idle for long. */
#define REST_NS 20000000
/* Longer than any datagram is on its way (half would trust that less); all that is gained by less
 * is memory, some 200 bytes for each client that a server has met in so long. */
#define FORGET_NS 10000000000u

void diwarp_device_attr_init(struct diwarp_device_attr *attr)
{
    *attr = (struct diwarp_device_attr){
        .if_exclude = DIWARP_IF_EXCLUDE_DEFAULT,
        .rcvbuf_bytes = 4u << 20,
        .sndbuf_bytes = 4u << 20,
        .gso = DIWARP_AUTO,
        .gro = DIWARP_AUTO,
        .crc = DIWARP_ON,
        .same_host = DIWARP_AUTO,
        .connected = true,
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

static int real_open_llp(void *arg, const struct dw_llp_attr *attr,
                         struct diwarp_counters *counters, struct dw_llp **llp,
                         struct diwarp_diagnosis *why)
{
    (void)arg;
    return dw_llp_open(attr, counters, llp, why);
}

static int real_open_streams(void *arg, uint64_t silence_ns, struct dw_streams **streams)
{
    (void)arg;
    return dw_tcp_open(silence_ns, streams);
}

uint64_t dw_device_now_ns(const struct diwarp_device *device)
{
    return device->env.now_ns(device->env.arg);
}

/* A pseudo-random function of a counter, with a key of the kernel's: peers see tokens and some
 * STags, and must not be able to tell the other STags from them (RFC 5042). */
uint64_t dw_device_random(struct diwarp_device *device)
{
    uint64_t z;
    do
        z = dw_siphash(device->random_key,
                       __atomic_fetch_add(&device->random_count, 1, __ATOMIC_RELAXED));
    while (!z);
    return z;
}

static int check_attr(const struct diwarp_device_attr *attr, struct diwarp_diagnosis *why)
{
    const char *fault = NULL;
    if (attr->send_window_datagrams < 1 || attr->send_window_datagrams > DW_WINDOW_DATAGRAMS)
        fault = "send_window_datagrams must be 1 to 256";
    else if (attr->send_pool_bytes < 256u << 10)
        fault = "send_pool_bytes must be at least 256 KiB";
    else if (attr->datagram_max_bytes && attr->datagram_max_bytes < 512)
        fault = "datagram_max_bytes must be at least 512 (or 0)";
    else if (attr->port_max && attr->port_max < attr->port_min)
        fault = "port_max is less than port_min";
    else if (attr->rto_min_ns < 10000)
        fault = "rto_min_ns must be at least 10000";
    else if (attr->queue_delay_ns > UINT32_MAX)
        fault = "queue_delay_ns must be less than 4.3 s";
    if (!fault)
        return 0;
    snprintf(why->text, sizeof why->text, "%s", fault);
    return -EINVAL;
}

/* Interfaces of this host, before it is decided which are used. */
struct candidates {
    struct diwarp_interface list[DW_INTERFACES_LISTED];
    unsigned count;
};

static bool reaches_others(const struct candidates *candidates, uint8_t family)
{
    for (unsigned i = 0; i < candidates->count; i++)
        if (candidates->list[i].family == family && !candidates->list[i].loopback)
            return true;
    return false;
}

/* A QP has one socket, of one family: an address of the other could be neither reached nor
 * advertised. IPv4 wins, unless only IPv6 leads to other hosts. */
static void keep_one_family(struct candidates *candidates)
{
    bool v6 = reaches_others(candidates, AF_INET6) && !reaches_others(candidates, AF_INET);
    uint8_t family = v6 ? AF_INET6 : AF_INET;
    unsigned kept = 0;
    for (unsigned i = 0; i < candidates->count; i++)
        if (candidates->list[i].family == family)
            candidates->list[kept++] = candidates->list[i];
    if (kept)
        candidates->count = kept;
}

/* No peer takes an address with a smaller MTU. */
static int keep_large_mtus(struct candidates *candidates, struct diwarp_diagnosis *why)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < candidates->count; i++)
        if (candidates->list[i].mtu_bytes >= DW_MTU_MIN_BYTES)
            candidates->list[kept++] = candidates->list[i];
    candidates->count = kept;
    if (kept)
        return 0;
    snprintf(why->text, sizeof why->text, "no interface has an MTU of %u bytes or more",
             DW_MTU_MIN_BYTES);
    return -ENODEV;
}

/* Last of all, so that none takes the place of another and is not used then. */
static void keep_first(struct diwarp_device *device, const struct candidates *candidates)
{
    unsigned count = candidates->count;
    device->interface_count = count < DIWARP_MAX_INTERFACES ? count : DIWARP_MAX_INTERFACES;
    device->left_out_count = count - device->interface_count;
    memcpy(device->interfaces, candidates->list,
           device->interface_count * sizeof *device->interfaces);
}

static int list_candidates(struct diwarp_device *device, struct candidates *candidates,
                           struct diwarp_diagnosis *why)
{
    const struct dw_env *env = &device->env;
    if (env->interfaces) {
        assert(env->interface_count <= DW_INTERFACES_LISTED);
        candidates->count = env->interface_count;
        memcpy(candidates->list, env->interfaces, env->interface_count * sizeof *env->interfaces);
        return 0;
    }
    int n =
        dw_interface_list(device->attr.if_include, device->attr.if_exclude, candidates->list, why);
    if (n < 0)
        return n;
    candidates->count = (unsigned)n;
    device->host_id = dw_host_id();
    return 0;
}

static int choose_interfaces(struct diwarp_device *device, struct diwarp_diagnosis *why)
{
    /* Too large for the stacks of some threads. */
    struct candidates *candidates = malloc(sizeof *candidates);
    if (!candidates) {
        snprintf(why->text, sizeof why->text, "out of memory");
        return -ENOMEM;
    }
    int rc = list_candidates(device, candidates, why);
    rc = rc ? rc : keep_large_mtus(candidates, why);
    if (!rc) {
        keep_one_family(candidates);
        keep_first(device, candidates);
    }
    free(candidates);
    return rc;
}

/* What is not given is the real world's. */
static void set_env(struct dw_env *env, const struct dw_env *given)
{
    if (given)
        *env = *given;
    if (!env->now_ns)
        env->now_ns = real_now_ns;
    if (!env->open_llp)
        env->open_llp = real_open_llp;
    if (!env->open_streams)
        env->open_streams = real_open_streams;
    if (!env->rest_ns)
        env->rest_ns = REST_NS;
    if (!env->forget_ns)
        env->forget_ns = FORGET_NS;
}

int dw_device_create(const struct diwarp_device_attr *attr, const struct dw_env *env,
                     const struct dw_service *const *services, struct diwarp_device **device,
                     struct diwarp_diagnosis *why)
{
    struct diwarp_diagnosis ignored;
    if (!why)
        why = &ignored;
    why->text[0] = '\0';
    int rc = check_attr(attr, why);
    if (rc)
        return rc;
    struct diwarp_device *new = calloc(1, sizeof *new);
    if (!new) {
        snprintf(why->text, sizeof why->text, "out of memory");
        return -ENOMEM;
    }
    new->attr = *attr;
    new->services = services;
    dw_list_init(&new->runners);
    set_env(&new->env, env);
    new->random_key[0] = new->env.seed;
    if (!new->env.seed &&
        getrandom(new->random_key, sizeof new->random_key, 0) != sizeof new->random_key) {
        snprintf(why->text, sizeof why->text, "no random numbers from the kernel: %s",
                 strerror(errno));
        rc = -EIO;
        goto err_free;
    }
    rc = choose_interfaces(new, why);
    if (rc)
        goto err_free;
    new->attr.if_include = new->attr.if_exclude = NULL; /* were borrowed */
    pthread_mutex_init(&new->lock, NULL);
    dw_list_init(&new->sleepers);
    *device = new;
    return 0;

err_free:
    free(new);
    return rc;
}

void diwarp_close_device(struct diwarp_device *device)
{
    pthread_mutex_destroy(&device->lock);
    free(device);
}

static uint32_t read_sysctl(const char *path)
{
    unsigned long value = 0;
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%lu", &value) != 1)
            value = 0;
        fclose(file);
    }
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

void diwarp_query_device(const struct diwarp_device *device, struct diwarp_device_info *info)
{
    *info = (struct diwarp_device_info){
        .interface_count = device->interface_count,
        .left_out_count = device->left_out_count,
        .crc_path = device->attr.crc == DIWARP_OFF ? "off" : dw_crc32c_path(),
        .rmem_max_bytes = read_sysctl("/proc/sys/net/core/rmem_max"),
        .wmem_max_bytes = read_sysctl("/proc/sys/net/core/wmem_max"),
    };
    memcpy(info->interfaces, device->interfaces, sizeof info->interfaces);
}
