/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/cm_device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs_diwarp/device.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_context *shared;
static struct ibv_pd *pd;
static pid_t owner; /* of the context's threads */

struct ibv_context *dv_cm_context(void)
{
    pthread_mutex_lock(&mutex);
    if (!shared && (shared = ibv_open_device(dv_device)))
        owner = getpid();
    pthread_mutex_unlock(&mutex);
    return shared;
}

struct ibv_pd *dv_cm_pd(void)
{
    struct ibv_context *context = dv_cm_context();
    pthread_mutex_lock(&mutex);
    if (context && !pd)
        pd = ibv_alloc_pd(context);
    pthread_mutex_unlock(&mutex);
    return pd;
}

/* Programs end right after they disconnect: what they sent last is still to leave. Who ends from a
 * signal handler may have been interrupted with the lock. */
__attribute__((destructor)) static void linger_at_exit(void)
{
    if (!shared || owner != getpid() || pthread_mutex_trylock(&dv_context_of(shared)->lock))
        return;
    dv_unlock(dv_context_of(shared));
    dv_linger(dv_context_of(shared));
}

/* ---- addresses ---- */

static bool is_loopback(struct in_addr address)
{
    return ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET;
}

static int index_of(const struct dv_context *context, const void *ip)
{
    for (unsigned i = 0; i < context->gid_count; i++)
        if (!memcmp(context->gids[i].ip, ip, 4))
            return (int)i;
    return -1;
}

int dv_cm_gid_index(struct in_addr address)
{
    struct ibv_context *context = dv_cm_context();
    if (!context)
        return -1;
    const int index = index_of(dv_context_of(context), &address);
    return index < 0 && is_loopback(address) ? 0 : index;
}

bool dv_cm_may_have_gid(struct in_addr from, const uint8_t gid[16])
{
    const struct dv_context *context = dv_context_of(dv_cm_context());
    union ibv_gid theirs;
    dv_put_gid(&theirs, gid + 12);
    if (memcmp(&theirs, gid, sizeof theirs) != 0)
        return false;
    if (is_loopback(from) || index_of(context, &from) >= 0)
        return index_of(context, gid + 12) >= 0;
    return !memcmp(&from, gid + 12, 4);
}

void dv_cm_put_gid(uint8_t gid[16], uint32_t index)
{
    union ibv_gid ours;
    dv_put_gid(&ours, dv_context_of(dv_cm_context())->gids[index].ip);
    memcpy(gid, &ours, sizeof ours);
}

/* ---- librdmacm's ---- */

struct ibv_context **rdma_get_devices(int *count)
{
    struct ibv_context *context = dv_cm_context();
    struct ibv_context **list = calloc(2, sizeof *list);
    if (list)
        list[0] = context;
    if (count)
        *count = list && context ? 1 : 0;
    return list;
}

void rdma_free_devices(struct ibv_context **list)
{
    free(list);
}
