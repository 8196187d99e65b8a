/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/cm_device.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs_diwarp/cm_sockaddr.h"
#include "verbs_diwarp/query.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_context *shared;
static struct ibv_pd *pd;

struct ibv_context *dv_cm_context(void)
{
    pthread_mutex_lock(&mutex);
    if (!shared)
        shared = ibv_open_device(dv_device);
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

/* ---- addresses ---- */

int dv_cm_gid_index(const struct sockaddr *address)
{
    struct ibv_context *context = dv_cm_context();
    if (!context)
        return -1;
    const union ibv_gid gid = dv_cm_gid_of(address);
    const int index = dv_gid_index(dv_context_of(context), &gid);
    return index < 0 && dv_cm_is_loopback(&gid)
               ? (int)dv_gid_index_towards(dv_context_of(context), &gid)
               : index;
}

bool dv_cm_may_have_gid(const struct sockaddr *from, const uint8_t gid[16])
{
    const struct dv_context *context = dv_context_of(dv_cm_context());
    const union ibv_gid whose = dv_cm_gid_of(from);
    union ibv_gid told;
    memcpy(&told, gid, sizeof told);
    if (dv_cm_is_loopback(&whose) || dv_gid_index(context, &whose) >= 0)
        return dv_gid_index(context, &told) >= 0;
    return dv_is_same_gid(&whose, &told);
}

int dv_cm_first_family(void)
{
    struct ibv_context *context = dv_cm_context();
    return context ? dv_context_of(context)->gids[0].family : AF_INET;
}

void dv_cm_put_gid(uint8_t gid[16], uint32_t index)
{
    const union ibv_gid ours = dv_gid_of(&dv_context_of(dv_cm_context())->gids[index]);
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
