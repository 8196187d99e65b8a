/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of QPs: their network form, and handles to reach them. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/llp/interface.h"
#include "common/rnic/address.h"
#include "common/rnic/lock.h"
#include "common/rd/peer.h"
#include "common/wire/bytes.h"

/*
 * Packed: 'd' 'w', wire version, count of interfaces, job 32, rank 32, token 64, host id 64,
 * incarnation 32, port 16; then for each interface: family (4 or 6), prefix, flags (1: loopback),
 * reserved, MTU 32, ip 16.
 */
#define PACKED_HEAD_BYTES      34
#define PACKED_INTERFACE_BYTES 24
_Static_assert(PACKED_HEAD_BYTES + DIWARP_MAX_INTERFACES * PACKED_INTERFACE_BYTES <=
                   DIWARP_ADDRESS_MAX_BYTES,
               "an address must fit its bound");

int diwarp_address_pack(const struct diwarp_address *address, void *buf, size_t len)
{
    uint8_t *p = buf;
    size_t bytes = PACKED_HEAD_BYTES + (size_t)address->interface_count * PACKED_INTERFACE_BYTES;
    if (len < bytes)
        return -ENOSPC;
    p[0] = 'd';
    p[1] = 'w';
    p[2] = DW_WIRE_VERSION;
    p[3] = address->interface_count;
    dw_put_be32(p + 4, address->name.job);
    dw_put_be32(p + 8, address->name.rank);
    dw_put_be64(p + 12, address->token);
    dw_put_be64(p + 20, address->host_id);
    dw_put_be32(p + 28, address->incarnation);
    dw_put_be16(p + 32, address->port);
    p += PACKED_HEAD_BYTES;
    for (unsigned i = 0; i < address->interface_count; i++, p += PACKED_INTERFACE_BYTES) {
        const struct diwarp_interface *interface = &address->interfaces[i];
        p[0] = interface->family == AF_INET6 ? 6 : 4;
        p[1] = interface->prefix_bits;
        p[2] = interface->loopback;
        p[3] = 0;
        dw_put_be32(p + 4, interface->mtu_bytes);
        memcpy(p + 8, interface->ip, sizeof interface->ip);
    }
    return (int)bytes;
}

static bool unpack_interface(struct diwarp_interface *interface, const uint8_t *p)
{
    *interface = (struct diwarp_interface){
        .family = p[0] == 6 ? AF_INET6 : AF_INET,
        .prefix_bits = p[1],
        .loopback = p[2] == 1,
        .mtu_bytes = dw_get_be32(p + 4),
    };
    memcpy(interface->ip, p + 8, sizeof interface->ip);
    return (p[0] == 4 || p[0] == 6) && p[1] <= (p[0] == 6 ? 128 : 32) && p[2] <= 1 &&
           interface->mtu_bytes >= DW_MTU_MIN_BYTES;
}

int diwarp_address_unpack(struct diwarp_address *address, const void *buf, size_t len)
{
    const uint8_t *p = buf;
    if (len < PACKED_HEAD_BYTES || p[0] != 'd' || p[1] != 'w')
        return -EPROTO;
    if (p[2] != DW_WIRE_VERSION)
        return -EPROTONOSUPPORT;
    *address = (struct diwarp_address){
        .name = {.job = dw_get_be32(p + 4), .rank = dw_get_be32(p + 8)},
        .token = dw_get_be64(p + 12),
        .host_id = dw_get_be64(p + 20),
        .incarnation = dw_get_be32(p + 28),
        .port = dw_get_be16(p + 32),
        .interface_count = p[3],
    };
    if (!address->port || !address->interface_count ||
        address->interface_count > DIWARP_MAX_INTERFACES ||
        len < PACKED_HEAD_BYTES + (size_t)p[3] * PACKED_INTERFACE_BYTES)
        return -EPROTO;
    for (unsigned i = 0; i < address->interface_count; i++)
        if (!unpack_interface(&address->interfaces[i],
                              p + PACKED_HEAD_BYTES + i * PACKED_INTERFACE_BYTES))
            return -EPROTO;
    return 0;
}

uint32_t dw_told_mtu_bytes(const struct diwarp_qp *qp, const struct diwarp_interface *interface)
{
    return interface->mtu_bytes < qp->mtu_max_bytes ? interface->mtu_bytes : qp->mtu_max_bytes;
}

void diwarp_query_address(const struct diwarp_qp *qp, struct diwarp_address *address)
{
    const struct diwarp_device *device = qp->device;
    *address = (struct diwarp_address){
        .name = device->attr.name,
        .token = qp->token,
        .host_id = device->host_id,
        .incarnation = qp->incarnation,
        .port = qp->llp->port,
        .interface_count = (uint8_t)device->interface_count,
    };
    memcpy(address->interfaces, device->interfaces, sizeof address->interfaces);
    for (unsigned i = 0; i < address->interface_count; i++)
        address->interfaces[i].mtu_bytes = dw_told_mtu_bytes(qp, &device->interfaces[i]);
}

uint32_t dw_datagram_max_bytes(const struct diwarp_device *device, uint8_t family,
                               uint32_t mtu_bytes)
{
    uint32_t headers = family == AF_INET6 ? 48 : 28;
    uint32_t bytes = mtu_bytes > headers ? mtu_bytes - headers : 0;
    if (bytes > DW_LLP_TRAIN_BYTES)
        bytes = DW_LLP_TRAIN_BYTES;
    if (device->attr.datagram_max_bytes && bytes > device->attr.datagram_max_bytes)
        bytes = device->attr.datagram_max_bytes;
    return bytes & ~7u; /* the next datagram of a train begins aligned, too */
}

/* ---- handles ---- */

/* Over UD nothing is kept about a peer, so that there may be several handles of one name. */
static uint64_t key_of(const struct diwarp_ah *ah)
{
    return ah->qp->ud ? (uint64_t)(uintptr_t)ah : dw_name_key(ah->name);
}

struct diwarp_ah *dw_ah_find(const struct diwarp_qp *qp, struct diwarp_name name)
{
    return dw_map_get(&qp->ahs, dw_name_key(name));
}

/* The handle of that name, made if there is none; a new one, over UD. */
static struct diwarp_ah *find_or_make(struct diwarp_qp *qp, struct diwarp_name name)
{
    struct diwarp_ah *ah = qp->ud ? NULL : dw_ah_find(qp, name);
    if (ah)
        return ah;
    ah = calloc(1, sizeof *ah);
    if (!ah)
        return NULL;
    ah->qp = qp;
    ah->name = name;
    if (dw_map_put(&qp->ahs, key_of(ah), ah)) {
        free(ah);
        return NULL;
    }
    return ah;
}

void dw_ah_doubt(struct diwarp_ah *ah)
{
    ah->qp->unproven += !ah->unproven;
    ah->unproven = true;
}

void dw_ah_vouch(struct diwarp_ah *ah)
{
    ah->qp->unproven -= ah->unproven;
    ah->unproven = false;
}

static void drop(struct diwarp_ah *ah)
{
    dw_ah_vouch(ah);
    dw_map_remove(&ah->qp->ahs, key_of(ah));
    free(ah);
}

/* By the MTU of the interfaces, or that of the path, if the own host knows a smaller one. */
static uint32_t path_datagram_bytes(struct diwarp_qp *qp, uint8_t family, uint32_t mtu_bytes,
                                    uint32_t path_mtu_bytes)
{
    const uint32_t bytes = dw_datagram_max_bytes(qp->device, family, mtu_bytes);
    if (!path_mtu_bytes || path_mtu_bytes >= mtu_bytes)
        return bytes;
    if (path_mtu_bytes < DW_MTU_MIN_BYTES)
        path_mtu_bytes = DW_MTU_MIN_BYTES;
    const uint32_t less = dw_datagram_max_bytes(qp->device, family, path_mtu_bytes);
    qp->counters.paths_narrowed += less < bytes;
    return less;
}

static void set_route(struct diwarp_ah *ah, const struct dw_llp_addr *addr, uint64_t token,
                      unsigned local_interface, uint32_t mtu_bytes)
{
    struct dw_llp *llp = ah->qp->llp;
    struct dw_llp_path path = {0};
    if (llp->ops->query_path)
        llp->ops->query_path(llp, addr, &path);
    /* No wire and no device can damage it there. */
    ah->loops_back = path.loops_back;
    ah->partial_crc = path.loops_back && ah->qp->device->attr.crc == DIWARP_AUTO;
    ah->addr = *addr;
    ah->token = token;
    ah->local_interface = local_interface & 15u; /* below DIWARP_MAX_INTERFACES */
    _Static_assert(DW_LLP_TRAIN_BYTES <= UINT16_MAX, "the length of a datagram fits");
    ah->datagram_max_bytes =
        (uint16_t)path_datagram_bytes(ah->qp, addr->family, mtu_bytes, path.mtu_bytes);
}

int diwarp_create_ah(struct diwarp_qp *qp, const struct diwarp_address *address,
                     struct diwarp_ah **ah_out)
{
    struct diwarp_address local;
    unsigned here, there;
    diwarp_query_address(qp, &local);
    int rc = dw_interface_pair(&local, address, &here, &there);
    if (rc)
        return rc;
    const struct diwarp_interface *mine = &local.interfaces[here];
    const struct diwarp_interface *theirs = &address->interfaces[there];
    if (theirs->mtu_bytes < DW_MTU_MIN_BYTES)
        return -EINVAL;
    uint32_t mtu = mine->mtu_bytes < theirs->mtu_bytes ? mine->mtu_bytes : theirs->mtu_bytes;
    struct dw_llp_addr addr = {.family = theirs->family, .port = address->port};
    memcpy(addr.ip, theirs->ip, sizeof addr.ip);
    dw_lock(qp->device);
    struct diwarp_ah *ah = find_or_make(qp, address->name);
    if (ah) {
        ah->owners++;
        if (ah->incarnation != address->incarnation)
            dw_peer_restart(ah, address->incarnation);
        /* Who is spoken with already has been found where it is. */
        if (!ah->met || ah->unproven)
            set_route(ah, &addr, address->token, here, mtu);
        ah->given = true;
        dw_ah_vouch(ah);
    }
    dw_unlock(qp->device);
    *ah_out = ah;
    return ah ? 0 : -ENOMEM;
}

void diwarp_destroy_ah(struct diwarp_ah *ah)
{
    struct diwarp_qp *qp = ah->qp;
    if (!qp) {
        if (!--ah->owners)
            free(ah);
        return;
    }
    dw_lock(qp->device);
    if (!--ah->owners && !ah->met)
        drop(ah);
    dw_unlock(qp->device);
}

struct diwarp_ah *dw_ah_from_intro(struct diwarp_qp *qp, struct diwarp_name name,
                                   uint32_t incarnation, const struct dw_intro *intro)
{
    struct diwarp_address local, remote = {.name = name, .interface_count = 1, .port = intro->port};
    diwarp_query_address(qp, &local);
    struct diwarp_interface *theirs = &remote.interfaces[0];
    theirs->family = intro->family;
    theirs->prefix_bits = intro->family == AF_INET6 ? 64 : 24;
    theirs->mtu_bytes = intro->mtu_bytes;
    memcpy(theirs->ip, intro->ip, sizeof theirs->ip);
    struct in6_addr v6;
    memcpy(&v6, intro->ip, sizeof v6);
    theirs->loopback = intro->family == AF_INET ? intro->ip[0] == 127 : IN6_IS_ADDR_LOOPBACK(&v6);
    /* A loopback address, or one of our own, that reached us with our token is of this host. */
    bool ours = theirs->loopback || dw_interface_is_one_of(theirs, &local);
    remote.host_id = ours ? local.host_id : ~local.host_id;
    unsigned here, there;
    if (dw_interface_pair(&local, &remote, &here, &there))
        here = 0;
    struct diwarp_ah *ah = find_or_make(qp, name);
    if (!ah)
        return NULL;
    ah->incarnation = incarnation;
    uint32_t mtu = local.interfaces[here].mtu_bytes;
    struct dw_llp_addr addr = {.family = intro->family, .port = intro->port};
    memcpy(addr.ip, intro->ip, sizeof addr.ip);
    set_route(ah, &addr, intro->token, here, mtu < intro->mtu_bytes ? mtu : intro->mtu_bytes);
    return ah;
}

void dw_ah_forget_all(struct diwarp_qp *qp)
{
    struct diwarp_ah *ah;
    for (size_t slot = 0; (ah = dw_map_next(&qp->ahs, &slot));) {
        if (ah->peer)
            dw_peer_destroy(ah->peer);
        ah->qp = NULL;
        if (!ah->owners)
            free(ah);
    }
    dw_map_fini(&qp->ahs);
}

void diwarp_format_ah(const struct diwarp_ah *ah, char *buf, size_t len)
{
    char ip[INET6_ADDRSTRLEN] = "?";
    inet_ntop(ah->addr.family, ah->addr.ip, ip, sizeof ip);
    snprintf(buf, len, ah->addr.family == AF_INET6 ? "[%s]:%u" : "%s:%u", ip, ah->addr.port);
}
