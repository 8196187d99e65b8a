/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast of ids: there is nobody to ask for a group, so a join is over at once. */
#include "verbs_diwarp/cm_mcast.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs_diwarp/cm_device.h"
#include "verbs_diwarp/cm_sockaddr.h"
#include "verbs_diwarp/mcast.h"
#include "verbs_diwarp/query.h"

/* No router passes on what is sent to a group, as with the kernel's rdma_cm. */
#define HOP_LIMIT 1

struct dv_cm_group {
    LIST_ENTRY(dv_cm_group) entry;
    union ibv_gid mgid;
    bool attached; /* the id's queue pair, by us */
};

/* False: it is no address of a group. */
static bool mgid_of(const struct sockaddr *address, union ibv_gid *mgid)
{
    if (!dv_cm_sockaddr_bytes(address))
        return false;
    *mgid = dv_cm_gid_of(address);
    return dv_is_group(dv_context_of(dv_cm_context()), mgid);
}

bool dv_cm_mcast_source(const struct sockaddr *to, struct sockaddr_storage *source)
{
    const struct dv_context *context = dv_context_of(dv_cm_context());
    const struct sockaddr *from = (const struct sockaddr *)source;
    union ibv_gid mgid;
    if (!mgid_of(to, &mgid))
        return false;
    if (dv_cm_gid_index(from) < 0) {
        const union ibv_gid ours = dv_gid_of(&context->gids[dv_gid_index_towards(context, &mgid)]);
        *source = dv_cm_sockaddr_of(&ours, dv_cm_port_of(from));
    }
    return true;
}

static struct dv_cm_group *find(const struct dv_cm_id *id, const union ibv_gid *mgid)
{
    struct dv_cm_group *group;
    LIST_FOREACH(group, &id->groups, entry)
    if (!memcmp(&group->mgid, mgid, sizeof *mgid))
        return group;
    return NULL;
}

/* The program's word for the join comes where private data would. */
static int tell(struct dv_cm_id *id, const union ibv_gid *mgid, int status, void *context)
{
    const struct rdma_cm_event what = {
        .id = &id->id,
        .event = status ? RDMA_CM_EVENT_MULTICAST_ERROR : RDMA_CM_EVENT_MULTICAST_JOIN,
        .status = status,
        .param.ud = {.private_data = context,
                     .qp_num = DV_MCAST_QPN,
                     .qkey = RDMA_UDP_QKEY,
                     .ah_attr = {.is_global = 1,
                                 .port_num = 1,
                                 .grh = {.dgid = *mgid,
                                         .sgid_index = (uint8_t)id->sgid_index,
                                         .hop_limit = HOP_LIMIT}}},
    };
    return -dv_cm_push(&what, id);
}

/* 0 or a positive errno; what the queue pair cannot have is told by the event. */
static int join(struct dv_cm_id *id, const struct sockaddr *address, bool send_only, void *context)
{
    union ibv_gid mgid;
    if (!id->id.verbs || id->id.qp_type != IBV_QPT_UD || !mgid_of(address, &mgid))
        return EINVAL;
    if (find(id, &mgid))
        return EADDRINUSE;
    struct dv_cm_group *group = calloc(1, sizeof *group);
    if (!group)
        return ENOMEM;
    group->mgid = mgid;
    const bool attaches = id->id.qp && !send_only;
    const int status = attaches ? -ibv_attach_mcast(id->id.qp, &mgid, 0) : 0;
    group->attached = attaches && !status;
    const int rc = tell(id, &mgid, status, context);
    if (rc || status) {
        if (group->attached)
            (void)ibv_detach_mcast(id->id.qp, &mgid, 0);
        free(group);
    } else {
        LIST_INSERT_HEAD(&id->groups, group, entry);
    }
    return rc;
}

static int leave(struct dv_cm_id *id, const struct sockaddr *address)
{
    union ibv_gid mgid;
    struct dv_cm_group *group = id->id.verbs && mgid_of(address, &mgid) ? find(id, &mgid) : NULL;
    if (!group)
        return EADDRNOTAVAIL;
    if (group->attached && id->id.qp)
        (void)ibv_detach_mcast(id->id.qp, &mgid, 0);
    LIST_REMOVE(group, entry);
    free(group);
    return 0;
}

void dv_cm_mcast_forget(struct dv_cm_id *id)
{
    struct dv_cm_group *group;
    while ((group = LIST_FIRST(&id->groups))) {
        LIST_REMOVE(group, entry);
        free(group);
    }
}

/* ---- librdmacm's ---- */

static int join_locked(struct rdma_cm_id *id, const struct sockaddr *address, bool send_only,
                       void *context)
{
    dv_cm_lock();
    const int rc = join(dv_cm_id_of(id), address, send_only, context);
    dv_cm_unlock();
    return rc ? dv_cm_fail(rc) : dv_cm_complete(dv_cm_id_of(id));
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *address, void *context)
{
    return join_locked(id, address, false, context);
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
                           void *context)
{
    const uint32_t both = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
    if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
        return dv_cm_fail(ENOTSUP);
    if (attr->comp_mask != both || attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
        return dv_cm_fail(EINVAL);
    return join_locked(id, attr->addr, attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
                       context);
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *address)
{
    dv_cm_lock();
    const int rc = leave(dv_cm_id_of(id), address);
    dv_cm_unlock();
    return rc ? dv_cm_fail(rc) : 0;
}
