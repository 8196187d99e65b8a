/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: an MGID says all that there is to know of one. One UDP port has them all. IPv4 carries
 * those of its addresses; the others are carried by either family, as the sender's GID says, and
 * who is attached hears both. */
#include "verbs_diwarp/mcast.h"

#include "verbs_diwarp/graves.h"
#include "verbs_diwarp/query.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One that no context has: the port before theirs. */
#define GROUP_PORT (DV_PORT_FIRST - 1)
/* MGIDs that are no IPv4 addresses have one of 239.192.0.0/14 (RFC 2365 section 6.2), which some
 * share: their tokens tell them apart. */
#define SCOPE_IP   0xefc00000u
#define SCOPE_BITS 18
/* MGIDs need not mean what RFC 4291 section 2.7 says of scopes: perftest's would not leave the
 * host. */
#define SCOPE_LEAST 2
#define SCOPE_SITE  5

struct dv_membership {
    struct dv_membership *next;
    union ibv_gid mgid;
    struct diwarp_group groups[2]; /* group_count: of each family that carries it */
    unsigned group_count;
};

/* ---- what an MGID means ---- */

bool dv_is_group(const struct dv_context *context, const union ibv_gid *gid)
{
    const bool ipv4 = dv_is_ipv4(gid);
    return diwarp_is_group_ip(ipv4 ? AF_INET : AF_INET6, ipv4 ? gid->raw + 12 : gid->raw,
                              context->address.interfaces, context->address.interface_count);
}

static uint32_t ipv4_of(const union ibv_gid *mgid)
{
    uint32_t ip;
    memcpy(&ip, mgid->raw + 12, sizeof ip);
    return dv_is_ipv4(mgid)
               ? ntohl(ip)
               : SCOPE_IP | (uint32_t)(dv_gid_hash(mgid) >> 32 & ((1u << SCOPE_BITS) - 1));
}

static struct diwarp_group group_of(const union ibv_gid *mgid, uint8_t family)
{
    const uint32_t word = htonl(ipv4_of(mgid));
    struct diwarp_group group = {
        .token = dv_gid_hash(mgid) | 1, .family = family, .port = GROUP_PORT};
    if (family == AF_INET) {
        memcpy(group.ip, &word, sizeof word);
    } else {
        memcpy(group.ip, mgid, sizeof group.ip);
        if ((group.ip[1] & 15) < SCOPE_LEAST)
            group.ip[1] = (uint8_t)((group.ip[1] & 0xf0) | SCOPE_SITE);
    }
    return group;
}

static struct dv_membership membership_of(const struct dv_context *context,
                                          const union ibv_gid *mgid)
{
    static const uint8_t families[] = {AF_INET, AF_INET6};
    struct dv_membership member = {.mgid = *mgid};
    for (unsigned k = 0; k < 2; k++) {
        bool carries = false;
        for (unsigned i = 0; i < context->gid_count; i++)
            carries |= context->gids[i].family == families[k];
        if (dv_is_ipv4(mgid) ? families[k] == AF_INET : carries)
            member.groups[member.group_count++] = group_of(mgid, families[k]);
    }
    return member;
}

int dv_create_group_ah(const struct dv_context *context, const struct ibv_ah_attr *attr,
                       struct diwarp_ah **ah)
{
    const struct diwarp_interface *by = &context->gids[attr->grh.sgid_index];
    const union ibv_gid *mgid = &attr->grh.dgid;
    struct diwarp_group group = group_of(mgid, dv_is_ipv4(mgid) ? AF_INET : by->family);
    group.hops = attr->grh.hop_limit;
    memcpy(group.interface, by->name, sizeof group.interface);
    return diwarp_create_group_ah(context->port_qp, &group, ah);
}

/* ---- which groups a queue pair is attached to ---- */

static struct dv_membership **find(struct dv_qp *qp, const union ibv_gid *mgid)
{
    struct dv_membership **at = &qp->memberships;
    while (*at && memcmp(&(*at)->mgid, mgid, sizeof *mgid) != 0)
        at = &(*at)->next;
    return at;
}

/* The first `count`. */
static void leave(struct dv_qp *qp, const struct dv_membership *member, unsigned count)
{
    for (unsigned i = 0; i < count && qp->core; i++)
        (void)diwarp_detach_group(qp->core, &member->groups[i]);
}

/* All or none. */
static int enter(struct dv_qp *qp, const struct dv_membership *member)
{
    for (unsigned i = 0; i < member->group_count; i++) {
        const int rc = diwarp_attach_group(qp->core, &member->groups[i], NULL, 0);
        if (rc) {
            leave(qp, member, i);
            return rc;
        }
    }
    return 0;
}

static int attach(struct dv_qp *qp, const union ibv_gid *mgid)
{
    struct dv_membership **at = find(qp, mgid);
    if (*at) /* once more means nothing */
        return 0;
    struct dv_membership *new = malloc(sizeof *new);
    if (!new || !qp->core) {
        free(new);
        return -ENOMEM;
    }
    *new = membership_of(dv_context_of(dv_ibv_qp(qp)->context), mgid);
    const int rc = enter(qp, new);
    if (rc)
        free(new);
    else
        *at = new;
    return rc;
}

static int detach(struct dv_qp *qp, const union ibv_gid *mgid)
{
    struct dv_membership **at = find(qp, mgid), *old = *at;
    if (!old)
        return -EINVAL;
    leave(qp, old, old->group_count);
    *at = old->next;
    free(old);
    return 0;
}

int dv_mcast_reopen(struct dv_qp *qp)
{
    int rc = 0;
    for (struct dv_membership *member = qp->memberships; member && !rc; member = member->next)
        rc = enter(qp, member);
    return rc;
}

void dv_mcast_fini(struct dv_qp *qp)
{
    for (struct dv_membership *member = qp->memberships, *next; member; member = next) {
        next = member->next;
        free(member);
    }
    qp->memberships = NULL;
}

void dv_mcast_put_gid(const struct dv_qp *qp, const struct diwarp_wc *done, union ibv_gid *gid)
{
    const struct dv_membership *member = done->group ? qp->memberships : NULL;
    while (member && member->groups[0].token != done->group)
        member = member->next;
    if (member)
        *gid = member->mgid;
}

/* ---- libibverbs' ---- */

static int change(struct ibv_qp *qp, const union ibv_gid *gid,
                  int (*by)(struct dv_qp *qp, const union ibv_gid *mgid))
{
    struct dv_context *context = dv_context_of(qp->context);
    if (dv_is_gone(qp->context) || qp->qp_type != IBV_QPT_UD || !gid || !dv_is_group(context, gid))
        return EINVAL;
    dv_lock(context);
    const int rc = -by(dv_qp_of(qp), gid);
    dv_unlock(context);
    return rc;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    return dv_is_ours(qp->context) ? change(qp, gid, attach)
                                   : DV_REAL(ibv_attach_mcast)(qp, gid, lid);
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    return dv_is_ours(qp->context) ? change(qp, gid, detach)
                                   : DV_REAL(ibv_detach_mcast)(qp, gid, lid);
}
