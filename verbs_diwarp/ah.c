/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/ah.h"

#include <arpa/inet.h>
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_diwarp/graves.h"
#include "verbs_diwarp/mcast.h"
#include "verbs_diwarp/query.h"

static int by_qpn(const void *a, const void *b)
{
    const struct dv_destination *left = a, *right = b;
    if (left->rd != right->rd)
        return left->rd ? -1 : 1;
    return left->qpn < right->qpn ? -1 : left->qpn > right->qpn;
}

/* An adapter sends to any number, and nobody may take it: to special queue pairs of InfiniBand, to
 * one process by a group's number, to a group by another. Here the context's own port drops it. */
static struct diwarp_address address_of_nobody(const struct dv_context *context)
{
    const union ibv_gid gid = dv_gid_of(&context->gids[0]);
    return dv_address_of(context, &gid, context->slot << DV_INDEX_BITS | DV_INDEX_PORT);
}

static struct dv_destination *add(struct dv_ah *ah, uint32_t qpn, struct diwarp_qp *rd)
{
    struct dv_context *context = dv_context_of(ah->ah.context);
    const bool group = dv_is_group(context, &ah->attr.grh.dgid);
    const bool nobody = qpn < DV_INDEX_FIRST || group != (qpn == DV_MCAST_QPN);
    const struct diwarp_address address =
        nobody ? address_of_nobody(context) : dv_address_of(context, &ah->attr.grh.dgid, qpn);
    /* A process has one name, which IPv4 tells. */
    if (qpn > DV_QPN_MAX || (rd && (nobody || group || !dv_is_ipv4(&ah->attr.grh.dgid))))
        return dv_fail(EINVAL);
    struct dv_destination *destination = malloc(sizeof *destination);
    if (!destination)
        return dv_fail(ENOMEM);
    destination->qpn = qpn;
    destination->rd = rd;
    const int rc = group && !nobody
                       ? dv_create_group_ah(context, &ah->attr, &destination->core)
                       : diwarp_create_ah(rd ? rd : context->port_qp, &address, &destination->core);
    if (rc) {
        free(destination);
        return dv_fail(-rc);
    }
    if (!tsearch(destination, &ah->destinations, by_qpn)) {
        diwarp_destroy_ah(destination->core);
        free(destination);
        return dv_fail(ENOMEM);
    }
    return destination;
}

struct diwarp_ah *dv_ah_find(struct ibv_ah *ibv_ah, uint32_t qpn, struct diwarp_qp *rd)
{
    struct dv_ah *ah = (struct dv_ah *)ibv_ah;
    const struct dv_destination wanted = {.qpn = qpn, .rd = rd};
    if (!ah->last || by_qpn(ah->last, &wanted)) {
        struct dv_destination *const *found = tfind(&wanted, &ah->destinations, by_qpn);
        struct dv_destination *destination = found ? *found : add(ah, qpn, rd);
        if (!destination)
            return NULL;
        ah->last = destination;
    }
    return ah->last->core;
}

static void forget(void *node)
{
    struct dv_destination *destination = node;
    diwarp_destroy_ah(destination->core);
    free(destination);
}

static bool is_of_a_host4(const union ibv_gid *gid)
{
    uint32_t ip;
    memcpy(&ip, gid->raw + 12, sizeof ip);
    return ip != htonl(INADDR_ANY) && ip != htonl(INADDR_BROADCAST);
}

/* A link-local one needs an interface to go by. */
static bool is_of_a_host6(const union ibv_gid *gid)
{
    struct in6_addr ip;
    memcpy(&ip, gid, sizeof ip);
    return !IN6_IS_ADDR_UNSPECIFIED(&ip) && !IN6_IS_ADDR_LINKLOCAL(&ip);
}

static bool has_family(const struct dv_context *context, uint8_t family)
{
    bool has = false;
    for (unsigned i = 0; i < context->address.interface_count; i++)
        has |= context->address.interfaces[i].family == family;
    return has;
}

static bool is_of_a_host(const struct dv_context *context, const union ibv_gid *gid)
{
    const bool host =
        dv_is_ipv4(gid) ? is_of_a_host4(gid) : has_family(context, AF_INET6) && is_of_a_host6(gid);
    return host && !dv_is_group(context, gid);
}

static bool has_source(const struct dv_context *context, const struct ibv_ah_attr *attr)
{
    return attr->port_num == 1 && attr->is_global && attr->grh.sgid_index < context->gid_count;
}

struct ibv_ah_attr dv_ah_global(struct ibv_context *context, const struct ibv_ah_attr *attr)
{
    const struct dv_context *own = dv_context_of(context);
    struct ibv_ah_attr global = *attr;
    if (attr->is_global || !attr->dlid || !dv_lid(own))
        return global;
    global.is_global = 1;
    global.grh = (struct ibv_global_route){.dgid = dv_gid_of(&own->gids[0]), .hop_limit = 64};
    global.grh.dgid.raw[14] = (uint8_t)(attr->dlid >> 8);
    global.grh.dgid.raw[15] = (uint8_t)attr->dlid;
    return global;
}

bool dv_ah_is_good(struct ibv_context *ibv_context, const struct ibv_ah_attr *attr)
{
    const struct dv_context *context = dv_context_of(ibv_context);
    return has_source(context, attr) && is_of_a_host(context, &attr->grh.dgid);
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    if (!dv_is_ours(pd->context))
        return DV_REAL(ibv_create_ah)(pd, attr);
    if (dv_is_gone(pd->context))
        return dv_fail(EINVAL);
    struct dv_context *context = dv_context_of(pd->context);
    const struct ibv_ah_attr global = dv_ah_global(pd->context, attr);
    if (!dv_ah_is_good(pd->context, &global) &&
        !(has_source(context, &global) && dv_is_group(context, &global.grh.dgid)))
        return dv_fail(EINVAL);
    struct dv_ah *ah = calloc(1, sizeof *ah);
    if (!ah)
        return dv_fail(ENOMEM);
    ah->ah = (struct ibv_ah){.context = pd->context, .pd = pd};
    ah->attr = global;
    dv_lock(context);
    ((struct dv_pd *)pd)->users++;
    dv_unlock(context);
    return &ah->ah;
}

int ibv_destroy_ah(struct ibv_ah *ibv_ah)
{
    if (!dv_is_ours(ibv_ah->context))
        return DV_REAL(ibv_destroy_ah)(ibv_ah);
    if (dv_is_gone(ibv_ah->context))
        return EINVAL;
    struct dv_ah *ah = (struct dv_ah *)ibv_ah;
    struct dv_context *context = dv_context_of(ibv_ah->context);
    dv_lock(context);
    if (ah->kept) {
        dv_unlock(context);
        return EBUSY;
    }
    tdestroy(ah->destinations, forget);
    ((struct dv_pd *)ibv_ah->pd)->users--;
    dv_unlock(context);
    dv_bury(ah, &ibv_ah->context);
    return 0;
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
                        struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
    if (!dv_is_ours(context))
        return DV_REAL(ibv_init_ah_from_wc)(context, port_num, wc, grh, attr);
    *attr = (struct ibv_ah_attr){.port_num = port_num, .is_global = 1, .grh = {.hop_limit = 64}};
    if (!(wc->wc_flags & IBV_WC_GRH))
        return -1;
    attr->grh.dgid = grh->sgid;
    attr->grh.sgid_index = (uint8_t)dv_gid_index_towards(dv_context_of(context), &attr->grh.dgid);
    return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                     uint8_t port_num)
{
    struct ibv_ah_attr attr;
    if (!dv_is_ours(pd->context))
        return DV_REAL(ibv_create_ah_from_wc)(pd, wc, grh, port_num);
    return ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) ? dv_fail(EINVAL)
                                                                      : ibv_create_ah(pd, &attr);
}

/* There are no MAC addresses to resolve: UDP does. */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
                                uint8_t eth_mac[6], uint16_t *vid)
{
    if (!dv_is_ours(context))
        return DV_REAL(ibv_resolve_eth_l2_from_gid)(context, attr, eth_mac, vid);
    memset(eth_mac, 0, 6);
    if (vid)
        *vid = UINT16_MAX; /* no VLAN */
    return 0;
}
