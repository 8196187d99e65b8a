/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of handles: chains by 32-bit index, as many buckets as handles. */
#include "common/rd/handle.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/base/map.h"
#include "common/rnic/qp.h"

void dw_handles_init(struct dw_handles *handles, struct dw_port *port,
                     const struct dw_service *service, uint64_t seed)
{
    const struct dw_ahs ahs = {.port = port, .service = service};
    *handles = (struct dw_handles){.ahs = ahs, .further_ahs = ahs, .seed = seed};
    dw_cells_init(&handles->ahs.cells, sizeof(struct dw_handle));
    dw_cells_init(&handles->met, sizeof(struct dw_met));
    dw_cells_init(&handles->further_ahs.cells, sizeof(struct dw_further_ah));
}

static struct dw_handle *at(const struct dw_handles *handles, uint32_t index)
{
    return dw_cells_at(&handles->ahs.cells, index);
}

static uint32_t *bucket_of(const struct dw_handles *handles, struct diwarp_name name)
{
    const uint64_t hash = dw_map_hash(dw_name_key(name), handles->seed);
    return &handles->buckets[hash & (handles->bucket_count - 1)];
}

struct dw_handle *dw_handle_find(const struct dw_handles *handles, struct diwarp_name name)
{
    if (!handles->bucket_count)
        return NULL;
    for (uint32_t i = *bucket_of(handles, name); i; i = at(handles, i)->next) {
        struct dw_handle *handle = at(handles, i);
        if (handle->ah.name.rank == name.rank && handle->ah.name.job == name.job)
            return handle;
    }
    return NULL;
}

static void chain(struct dw_handles *handles, struct dw_handle *handle)
{
    uint32_t *bucket = bucket_of(handles, handle->ah.name);
    handle->next = *bucket;
    *bucket = dw_cells_index(handle);
}

static int grow(struct dw_handles *handles)
{
    const uint32_t count = handles->bucket_count ? handles->bucket_count * 2 : 1;
    uint32_t *buckets = calloc(count, sizeof *buckets);
    struct dw_handle *handle;
    if (!buckets)
        return -ENOMEM;
    free(handles->buckets);
    handles->buckets = buckets;
    handles->bucket_count = count;
    for (uint32_t index = 0; (handle = dw_cells_next(&handles->ahs.cells, &index));)
        chain(handles, handle);
    return 0;
}

struct dw_handle *dw_handle_get(struct dw_handles *handles, struct diwarp_name name)
{
    struct dw_handle *handle = dw_handle_find(handles, name);
    if (handle)
        return handle;
    if (handles->ahs.cells.count == handles->bucket_count && grow(handles))
        return NULL;
    handle = dw_cells_get(&handles->ahs.cells);
    if (!handle)
        return NULL;
    handle->ah.name = name;
    handle->ah.qpn = DW_QPN_FIRST;
    chain(handles, handle);
    return handle;
}

void dw_handle_put(struct dw_handle *handle)
{
    if (!handle->ah.owners && handle->state == DW_PEER_UNMET)
        dw_handle_forget(handle);
}

void dw_handle_forget(struct dw_handle *handle)
{
    struct dw_handles *handles = dw_handles_of(handle);
    dw_handle_set_proven(handle, true);
    if (handle->met)
        dw_handle_unmeet(handle);
    struct dw_auth *auth = handles->ahs.port->datagrams.seal.auth;
    if (auth)
        dw_auth_on_forgotten(auth, handle->ah.name);
    const uint32_t index = dw_cells_index(handle);
    uint32_t *link = bucket_of(handles, handle->ah.name);
    while (*link != index)
        link = &at(handles, *link)->next;
    *link = handle->next;
    dw_ah_drop_route(&handle->ah);
    dw_cells_put(handle);
}

void dw_handles_fini(struct dw_handles *handles)
{
    struct dw_further_ah *further;
    struct dw_handle *handle;
    for (uint32_t index = 0; (further = dw_cells_next(&handles->further_ahs.cells, &index));)
        further->handle->ah.owners--;
    for (uint32_t index = 0; (handle = dw_cells_next(&handles->ahs.cells, &index));) {
        if (handle->met)
            dw_handle_unmeet(handle);
        if (!handle->ah.owners)
            dw_cells_put(handle);
    }
    dw_cells_fini(&handles->further_ahs.cells);
    dw_cells_fini(&handles->ahs.cells);
    dw_cells_fini(&handles->met);
    free(handles->buckets);
}

void dw_handle_unmeet(struct dw_handle *handle)
{
    dw_cells_put(dw_handle_met(handle));
    handle->met = 0;
}

void dw_handle_set_state(struct dw_handle *handle, enum dw_peer_state state)
{
    static const bool may_follow[DW_PEER_STATES][DW_PEER_STATES] = {
        [DW_PEER_UNMET] = {[DW_PEER_AWAKE] = true},
        [DW_PEER_AWAKE] = {[DW_PEER_RESTING] = true, [DW_PEER_DOOMED] = true},
        [DW_PEER_RESTING] = {[DW_PEER_AWAKE] = true},
        [DW_PEER_DOOMED] = {[DW_PEER_GONE] = true},
        [DW_PEER_GONE] = {[DW_PEER_UNMET] = true}, /* another process has its name */
    };
    assert(may_follow[handle->state][state]);
    handle->state = state & 7u;
}
