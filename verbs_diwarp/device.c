/* SPDX-License-Identifier: BSD-3-Clause */
/* The device, beside those that libibverbs finds, and its contexts. */
#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "verbs_diwarp/async.h"
#include "verbs_diwarp/bind_mw.h"
#include "verbs_diwarp/channel.h"
#include "verbs_diwarp/cq_ex.h"
#include "verbs_diwarp/dm.h"
#include "verbs_diwarp/domain.h"
#include "verbs_diwarp/graves.h"
#include "verbs_diwarp/memory.h"
#include "verbs_diwarp/mw.h"
#include "verbs_diwarp/poll.h"
#include "verbs_diwarp/post.h"
#include "verbs_diwarp/qp.h"
#include "verbs_diwarp/query.h"
#include "verbs_diwarp/srq.h"

/* ---- the list ---- */

/* Where a program's list has come from: libibverbs' own, that holds its devices. Guarded by
 * lists_mutex. */
struct list {
    LIST_ENTRY(list) link;
    struct ibv_device **devices, **real;
};

static LIST_HEAD(, list) lists;
static pthread_mutex_t lists_mutex = PTHREAD_MUTEX_INITIALIZER;

static void free_entry(struct ibv_device **devices)
{
    pthread_mutex_lock(&lists_mutex);
    struct list *list = LIST_FIRST(&lists);
    while (list && list->devices != devices)
        list = LIST_NEXT(list, link);
    if (list)
        LIST_REMOVE(list, link);
    pthread_mutex_unlock(&lists_mutex);
    if (list)
        DV_REAL(ibv_free_device_list)(list->real);
    free(list);
}

/* qperf ends its list by free(3), which libibverbs survives: so `devices` is no part of an entry.
 * That of one which ended so stays until a list lies where it lay. */
#undef ibv_get_device_list
struct ibv_device **ibv_get_device_list(int *count)
{
    int n = 0;
    struct ibv_device **real = DV_REAL(ibv_get_device_list)(&n);
    struct ibv_device **devices = calloc((size_t)n + 2, sizeof *devices);
    struct list *list = n ? calloc(1, sizeof *list) : NULL;
    const bool failed = !devices || (n && !list);
    if (real && (failed || !n))
        DV_REAL(ibv_free_device_list)(real);
    if (failed) {
        free(list);
        free(devices);
        return dv_fail(ENOMEM);
    }
    if (n)
        memcpy(devices, real, (size_t)n * sizeof *real);
    devices[n] = dv_device;
    free_entry(devices);
    if (list) {
        *list = (struct list){.devices = devices, .real = real};
        pthread_mutex_lock(&lists_mutex);
        LIST_INSERT_HEAD(&lists, list, link);
        pthread_mutex_unlock(&lists_mutex);
    }
    if (count)
        *count = n + 1;
    return devices;
}

void ibv_free_device_list(struct ibv_device **devices)
{
    free_entry(devices);
    free(devices);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device == dv_device ? device->name : DV_REAL(ibv_get_device_name)(device);
}

int ibv_get_device_index(struct ibv_device *device)
{
    return device == dv_device ? -1 : DV_REAL(ibv_get_device_index)(device);
}

/* ---- contexts ---- */

/* The port with that number, for as long as the socket is open: a name that only one in the network
 * namespace has. */
static int claim(uint32_t port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const int bytes =
        snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "diwarp-verbs-%u", port);
    const size_t len = offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)bytes;
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&name, (socklen_t)len)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* IPv4 first, which programs have always met at index 0: a process is named by that. */
static void add_gids(struct dv_context *context, const struct diwarp_device_info *info,
                     bool loopback)
{
    static const uint8_t families[] = {AF_INET, AF_INET6};
    for (unsigned k = 0; k < 2; k++)
        for (unsigned i = 0; i < info->interface_count; i++)
            if (info->interfaces[i].family == families[k] &&
                info->interfaces[i].loopback == loopback)
                context->gids[context->gid_count++] = info->interfaces[i];
}

static int find_gids(struct dv_context *context)
{
    struct diwarp_device_attr attr;
    struct diwarp_device_info info;
    struct diwarp_device *device;
    diwarp_device_attr_init(&attr);
    int rc = diwarp_open_device(&attr, &device, NULL);
    if (rc)
        return rc;
    diwarp_query_device(device, &info);
    diwarp_close_device(device);
    add_gids(context, &info, false);
    if (!context->gid_count)
        add_gids(context, &info, true);
    return context->gid_count ? 0 : -ENODEV;
}

/* No connection lingers longer. */
#define LINGER_MS 5000

/* Queue pairs of RC are called by TCP at the same port, which a program may have that has none of
 * UDP's. It may still take it while there is no queue pair. */
static int may_listen(struct dv_context *context)
{
    struct diwarp_listener *listener;
    const int rc = diwarp_listen(context->port_pd, context->core, &listener, NULL);
    if (!rc)
        diwarp_destroy_listener(listener);
    return rc == -EADDRINUSE ? rc : 0;
}

static int open_port(struct dv_context *context, uint32_t port)
{
    struct diwarp_device_attr attr;
    struct diwarp_qp_attr qp_attr;
    diwarp_device_attr_init(&attr);
    diwarp_qp_attr_init(&qp_attr);
    const union ibv_gid first = dv_gid_of(&context->gids[0]);
    attr.name = dv_name_of(&first, port);
    attr.token = dv_token_of(port);
    attr.port_min = attr.port_max = (uint16_t)port;
    attr.threaded = true;
    int rc = diwarp_open_device(&attr, &context->device, NULL);
    if (rc)
        return rc;
    context->core = diwarp_create_cq(context->device, 1);
    context->port_pd = diwarp_alloc_pd(context->device);
    qp_attr.type = DIWARP_QPT_UD;
    qp_attr.cq = context->core;
    qp_attr.qpn = context->slot << DV_INDEX_BITS | DV_INDEX_PORT;
    qp_attr.qkey = dv_random_qkey();
    rc = context->core && context->port_pd
             ? diwarp_create_qp(context->port_pd, &qp_attr, &context->port_qp, NULL)
             : -ENOMEM;
    if (rc)
        return rc;
    diwarp_query_address(context->port_qp, &context->address);
    /* Another one where a process of diwarp has the port already, and shares it. */
    return context->address.token == attr.token ? may_listen(context) : -EADDRINUSE;
}

/* Lets the other sides of connections that were closed read what was sent last. */
static void linger(struct dv_context *context)
{
    const struct diwarp_rc_counters *counters = diwarp_query_rc_counters(context->core);
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < LINGER_MS && counters && counters->rc_lingering; i++) {
        dv_lock(context);
        (void)dv_progress(context);
        dv_unlock(context);
        (void)nanosleep(&pause, NULL);
    }
}

static void close_port(struct dv_context *context)
{
    if (context->helper)
        diwarp_stop_helper(context->helper);
    if (context->core)
        linger(context);
    if (context->port_qp)
        diwarp_destroy_qp(context->port_qp);
    if (context->port_pd)
        diwarp_dealloc_pd(context->port_pd);
    if (context->core)
        diwarp_destroy_cq(context->core);
    if (context->device)
        diwarp_close_device(context->device);
    context->helper = NULL;
    context->port_qp = NULL;
    context->port_pd = NULL;
    context->core = NULL;
    context->device = NULL;
}

/* The first port that nobody has; other programs may have some. */
static int claim_and_open(struct dv_context *context)
{
    int rc = -EADDRINUSE;
    for (uint32_t slot = 0; slot < DV_PORTS && rc == -EADDRINUSE; slot++) {
        context->claim = claim(DV_PORT_FIRST + slot);
        if (context->claim < 0)
            continue;
        context->slot = slot;
        rc = open_port(context, DV_PORT_FIRST + slot);
        if (rc) {
            close_port(context);
            close(context->claim);
        }
    }
    return rc;
}

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, dv_context) open_contexts;

static void keep(struct dv_context *context)
{
    context->owner = getpid();
    pthread_mutex_lock(&open_lock);
    LIST_INSERT_HEAD(&open_contexts, context, link);
    pthread_mutex_unlock(&open_lock);
}

static void forget(struct dv_context *context)
{
    pthread_mutex_lock(&open_lock);
    LIST_REMOVE(context, link);
    pthread_mutex_unlock(&open_lock);
}

/* Who ends from a signal handler may have been interrupted with one of these locks. Others have it
 * for much less than this. */
#define LOCK_NS 100000000

static bool try_lock(pthread_mutex_t *lock)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOCK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return !pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &until);
}

/* Programs end right after what they waited for, and destroy nothing: over InfiniBand the card has
 * confirmed it by then. */
__attribute__((destructor)) static void leave_at_exit(void)
{
    struct dv_context *context;
    if (!try_lock(&open_lock))
        return;
    for (context = LIST_FIRST(&open_contexts); context; context = LIST_NEXT(context, link)) {
        context->left = context->owner == getpid() && try_lock(&context->lock);
        if (!context->left)
            continue;
        dv_leave_qps(context);
        dv_unlock(context);
    }
    for (context = LIST_FIRST(&open_contexts); context; context = LIST_NEXT(context, link))
        if (context->left)
            linger(context);
    pthread_mutex_unlock(&open_lock);
}

static const struct ibv_context_ops ops = {
    .poll_cq = dv_poll_cq,
    .req_notify_cq = dv_req_notify_cq,
    .post_send = dv_post_send,
    .post_recv = dv_post_recv,
    .post_srq_recv = dv_post_srq_recv,
    .alloc_mw = dv_alloc_mw,
    .bind_mw = dv_bind_mw,
    .dealloc_mw = dv_dealloc_mw,
};

#undef ibv_open_device
struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    if (device != dv_device)
        return DV_REAL(ibv_open_device)(device);
    struct dv_context *context = calloc(1, sizeof *context);
    if (!context)
        return dv_fail(ENOMEM);
    int rc = find_gids(context);
    const int async_fd = rc ? -1 : eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    if (async_fd < 0) {
        rc = rc ? rc : -errno;
        free(context);
        return dv_fail(-rc);
    }
    pthread_mutex_init(&context->lock, NULL);
    context->verbs.sz = sizeof context->verbs;
    context->verbs.query_port = dv_query_port;
    context->verbs.query_device_ex = dv_query_device_ex;
    context->verbs.create_qp_ex = dv_create_qp_ex;
    context->verbs.create_cq_ex = dv_create_cq_ex;
    context->verbs.query_rt_values = dv_query_rt_values;
    context->verbs.advise_mr = dv_advise_mr;
    context->verbs.alloc_dm = dv_alloc_dm;
    context->verbs.free_dm = dv_free_dm;
    context->verbs.reg_dm_mr = dv_reg_dm_mr;
    context->verbs.alloc_td = dv_alloc_td;
    context->verbs.dealloc_td = dv_dealloc_td;
    context->verbs.alloc_parent_domain = dv_alloc_parent_domain;
    context->verbs.context = (struct ibv_context){.device = device,
                                                  .ops = ops,
                                                  .cmd_fd = -1,
                                                  .async_fd = async_fd,
                                                  .num_comp_vectors = 1,
                                                  .abi_compat = __VERBS_ABI_IS_EXTENDED};
    pthread_mutex_init(&context->verbs.context.mutex, NULL);
    rc = claim_and_open(context);
    if (rc) {
        close(async_fd);
        free(context);
        return dv_fail(-rc);
    }
    keep(context);
    context->verbs.context.cmd_fd = context->claim; /* a descriptor, as programs expect */
    return &context->verbs.context;
}

/* Our contexts have sockets for their command descriptors, others' have none. */
struct ibv_context *ibv_import_device(int cmd_fd)
{
    struct stat status;
    if (fstat(cmd_fd, &status) || !S_ISSOCK(status.st_mode))
        return DV_REAL(ibv_import_device)(cmd_fd);
    return dv_fail(EOPNOTSUPP);
}

int ibv_close_device(struct ibv_context *ibv_context)
{
    if (!dv_is_ours(ibv_context))
        return DV_REAL(ibv_close_device)(ibv_context);
    struct dv_context *context = dv_context_of(ibv_context);
    if (ibv_context->async_fd < 0)
        return EINVAL;
    if (context->users)
        return EBUSY;
    forget(context);
    close_port(context);
    close(context->claim);
    dv_async_close(context);
    dv_close_count(&ibv_context->async_fd);
    if (!context->kept)
        dv_bury(context, NULL);
    return 0;
}
