/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses, and the handles made of them, which are routed here; services keep them. */
#include "common/rnic/qp.h"

#include <errno.h>
#include <string.h>

#include "common/llp/interface.h"
#include "common/llp/socket.h"
#include "common/wire/bytes.h"

pthread_mutex_t dw_ports_lock = PTHREAD_MUTEX_INITIALIZER;

uint32_t dw_told_mtu_bytes(const struct dw_port *port, const struct diwarp_interface *interface)
{
    return interface->mtu_bytes < port->mtu_max_bytes ? interface->mtu_bytes : port->mtu_max_bytes;
}

static struct diwarp_address address_of(const struct dw_port *port)
{
    const struct diwarp_device *device = port->device;
    struct diwarp_address address = {
        .name = device->attr.name,
        .token = port->datagrams.token,
        .host_id = device->host_id,
        .incarnation = port->datagrams.incarnation,
        .port = port->datagrams.llp->port,
        .interface_count = (uint8_t)device->interface_count,
        .auth = (uint8_t)device->attr.auth,
        .auth_key_id = device->file_key_id,
    };
    if (port->datagrams.seal.auth)
        memcpy(address.secret, port->datagrams.seal.auth->secret, sizeof address.secret);
    memcpy(address.interfaces, device->interfaces, sizeof address.interfaces);
    for (unsigned i = 0; i < address.interface_count; i++)
        address.interfaces[i].mtu_bytes = dw_told_mtu_bytes(port, &device->interfaces[i]);
    return address;
}

void diwarp_query_address(const struct diwarp_qp *qp, struct diwarp_address *address)
{
    *address = address_of(qp->port);
    address->qpn = qp->num;
}

uint32_t dw_datagram_max_bytes(const struct dw_port *port, uint8_t family, uint32_t mtu_bytes)
{
    const uint32_t limit = port->device->attr.datagram_max_bytes & ~7u;
    const uint32_t bytes = dw_path_bytes_of_mtu(family, mtu_bytes);
    return limit && limit < bytes ? limit : bytes;
}

/* From our interface `here` to the peer's `there`. False: no memory, it is as before. */
static bool set_route(struct diwarp_ah *ah, const struct diwarp_address *local, unsigned here,
                      const struct diwarp_address *remote, unsigned there)
{
    struct dw_port *port = dw_ah_port(ah);
    const struct dw_service *service = dw_ahs_of(ah)->service;
    const struct diwarp_interface *theirs = &remote->interfaces[there];
    const uint32_t ours_bytes = local->interfaces[here].mtu_bytes;
    const uint32_t mtu = ours_bytes < theirs->mtu_bytes ? ours_bytes : theirs->mtu_bytes;
    struct dw_llp *llp = port->datagrams.llp;
    struct dw_llp_addr addr = {.family = theirs->family, .port = remote->port};
    memcpy(addr.ip, theirs->ip, sizeof addr.ip);
    struct dw_path *before = ah->path;
    struct dw_path *path = dw_path_get(&port->paths, &addr, (uint8_t)here,
                                       dw_datagram_max_bytes(port, addr.family, mtu));
    if (!path)
        return false;
    if (path->users == 1 && llp->ops->path_mtu_bytes) {
        const uint32_t mtu_bytes = llp->ops->path_mtu_bytes(llp, &addr);
        port->datagrams.counters.paths_narrowed +=
            mtu_bytes && dw_path_on_told(path, dw_datagram_max_bytes(port, addr.family, mtu_bytes),
                                         dw_device_now_ns(port->device));
    }
    ah->path = path;
    ah->udp_port = addr.port;
    ah->peer_datagram_bytes = path->datagram_max_bytes;
    ah->token = remote->token;
    if (!before)
        return true;
    if (service->on_route)
        service->on_route(ah);
    dw_path_put(&port->paths, before);
    return true;
}

void dw_ah_drop_route(struct diwarp_ah *ah)
{
    if (ah->path)
        dw_path_put(&dw_ah_port(ah)->paths, ah->path);
    ah->path = NULL;
}

bool dw_ah_set_route_by_intro(struct diwarp_ah *ah, const struct dw_intro *intro)
{
    const struct dw_port *port = dw_ah_port(ah);
    const struct diwarp_address local = address_of(port);
    const bool v6 = intro->family == AF_INET6;
    struct diwarp_address remote = {
        .token = intro->token, .interface_count = 1, .port = intro->port};
    struct diwarp_interface *theirs = &remote.interfaces[0];
    unsigned here = 0, there = 0; /* where no pair leads to it, the first ones do */
    theirs->family = intro->family;
    theirs->prefix_bits = v6 ? 64 : 24;
    theirs->loopback = v6 ? !memcmp(intro->ip, &in6addr_loopback, 16) : intro->ip[0] == 127;
    theirs->mtu_bytes = intro->mtu_bytes;
    memcpy(theirs->ip, intro->ip, sizeof theirs->ip);
    /* A loopback address, or one of our own, that reached us with our token is of this host. */
    const bool ours =
        theirs->loopback ||
        dw_interfaces_have(local.interfaces, local.interface_count, theirs->family, theirs->ip);
    remote.host_id = ours ? local.host_id : ~local.host_id;
    (void)dw_interface_pair(&local, &remote, port->device->attr.same_host, &here, &there);
    return set_route(ah, &local, here, &remote, there);
}

/* False: no memory. */
static bool tell_auth(const struct dw_port *port, const struct diwarp_address *address)
{
    const struct dw_process process = {.name = address->name, .incarnation = address->incarnation};
    struct dw_auth *auth = port->datagrams.seal.auth;
    return !auth || !dw_auth_on_told(auth, &process, address->secret);
}

int diwarp_create_ah(struct diwarp_qp *qp, const struct diwarp_address *address,
                     struct diwarp_ah **ah_out)
{
    const struct diwarp_address local = address_of(qp->port);
    const struct dw_service *service = qp->service;
    struct diwarp_device *device = qp->port->device;
    unsigned here = 0, there = 0;
    int rc = dw_interface_pair(&local, address, device->attr.same_host, &here, &there);
    if (rc)
        return rc;
    if (address->interfaces[there].mtu_bytes < DW_MTU_MIN_BYTES || !address->qpn ||
        address->qpn > DW_QPN_MAX)
        return -EINVAL;
    if (address->auth != local.auth || address->auth_key_id != local.auth_key_id)
        return -EPROTO;
    dw_lock(device);
    struct diwarp_ah *ah = service->get_ah(qp, address);
    if (ah && !ah->fixed && !set_route(ah, &local, here, address, there)) {
        service->put_ah(ah);
        ah = NULL;
    }
    if (ah)
        ah = service->get_ah_of_qpn(ah, address->qpn);
    if (ah && !tell_auth(qp->port, address)) {
        service->put_ah(ah);
        ah = NULL;
    }
    if (ah)
        ah->owners++;
    dw_unlock(device);
    *ah_out = ah;
    return ah ? 0 : -ENOMEM;
}

/* Locked; NULL: its port, and maybe the device, is gone. */
static const struct dw_ahs *lock_ahs_of(const struct diwarp_ah *ah)
{
    pthread_mutex_lock(&dw_ports_lock);
    const struct dw_ahs *ahs = dw_ahs_of(ah);
    if (ahs)
        dw_lock(ahs->port->device);
    return ahs;
}

static void unlock_ahs(const struct dw_ahs *ahs)
{
    if (ahs)
        dw_unlock(ahs->port->device);
    pthread_mutex_unlock(&dw_ports_lock);
}

void diwarp_destroy_ah(struct diwarp_ah *ah)
{
    const struct dw_ahs *ahs = lock_ahs_of(ah);
    struct dw_auth *auth = ahs ? ahs->port->datagrams.seal.auth : NULL;
    ah->owners--;
    if (auth)
        dw_auth_on_untold(auth, ah->name);
    if (ahs)
        ahs->service->put_ah(ah);
    else if (!ah->owners)
        dw_cells_put(ah);
    unlock_ahs(ahs);
}

void diwarp_format_ah(const struct diwarp_ah *ah, char *buf, size_t len)
{
    const struct dw_ahs *ahs = lock_ahs_of(ah);
    struct dw_llp_addr addr = {.port = ah->udp_port};
    if (ahs && ah->path) /* it goes with the port */
        addr = dw_ah_addr(ah);
    unlock_ahs(ahs);
    dw_llp_format(&addr, buf, len);
}

/* ---- the network form of an address ---- */

/* 'd' 'w', wire version, count of interfaces, then: */
#define HEAD_FIELDS(X)  \
    X(32, 4, name.job)  \
    X(32, 8, name.rank) \
    X(64, 12, token) X(64, 20, host_id) X(32, 28, incarnation) X(32, 32, qpn) X(16, 36, port)
/* At 32, with the QPN: auth. For each interface: family (4 or 6), prefix, flags (1: loopback),
 * reserved, MTU 32, ip 16. With authentication: key id 32, secret. */
#define HEAD_BYTES      38
#define INTERFACE_BYTES 24
#define SECRET_BYTES    (4 + DIWARP_SECRET_BYTES)
_Static_assert(HEAD_BYTES + DIWARP_MAX_INTERFACES * INTERFACE_BYTES + SECRET_BYTES <=
                   DIWARP_ADDRESS_MAX_BYTES,
               "an address must fit its bound");

static size_t packed_bytes(const struct diwarp_address *address)
{
    return HEAD_BYTES + (size_t)address->interface_count * INTERFACE_BYTES +
           (address->auth ? SECRET_BYTES : 0);
}

int diwarp_address_pack(const struct diwarp_address *h, void *to, size_t len)
{
    uint8_t *buf = to, *p = buf + HEAD_BYTES;
    if (len < packed_bytes(h))
        return -ENOSPC;
    buf[0] = 'd';
    buf[1] = 'w';
    buf[2] = DW_WIRE_VERSION;
    buf[3] = h->interface_count;
    HEAD_FIELDS(DW_PUT_FIELD)
    buf[32] = h->auth;
    for (unsigned i = 0; i < h->interface_count; i++, p += INTERFACE_BYTES) {
        const struct diwarp_interface *interface = &h->interfaces[i];
        p[0] = interface->family == AF_INET6 ? 6 : 4;
        p[1] = interface->prefix_bits;
        p[2] = interface->loopback;
        p[3] = 0;
        dw_put_be32(p + 4, interface->mtu_bytes);
        memcpy(p + 8, interface->ip, sizeof interface->ip);
    }
    if (h->auth) {
        dw_put_be32(p, h->auth_key_id);
        memcpy(p + 4, h->secret, sizeof h->secret);
    }
    return (int)packed_bytes(h);
}

int diwarp_address_unpack(struct diwarp_address *h, const void *from, size_t len)
{
    const uint8_t *buf = from, *p = buf + HEAD_BYTES;
    if (len < HEAD_BYTES || buf[0] != 'd' || buf[1] != 'w')
        return -EPROTO;
    if (buf[2] != DW_WIRE_VERSION)
        return -EPROTONOSUPPORT;
    *h = (struct diwarp_address){.interface_count = buf[3]};
    HEAD_FIELDS(DW_GET_FIELD)
    h->auth = buf[32];
    h->qpn &= DW_QPN_MAX;
    if (h->auth > DIWARP_AUTH_AES_GCM || !h->port || !h->interface_count ||
        h->interface_count > DIWARP_MAX_INTERFACES || len < packed_bytes(h))
        return -EPROTO;
    for (unsigned i = 0; i < h->interface_count; i++, p += INTERFACE_BYTES) {
        struct diwarp_interface *interface = &h->interfaces[i];
        *interface = (struct diwarp_interface){
            .family = p[0] == 6 ? AF_INET6 : AF_INET,
            .prefix_bits = p[1],
            .loopback = p[2] == 1,
            .mtu_bytes = dw_get_be32(p + 4),
        };
        memcpy(interface->ip, p + 8, sizeof interface->ip);
        if ((p[0] != 4 && p[0] != 6) || p[1] > (p[0] == 6 ? 128 : 32) || p[2] > 1 ||
            interface->mtu_bytes < DW_MTU_MIN_BYTES)
            return -EPROTO;
    }
    if (h->auth) {
        h->auth_key_id = dw_get_be32(p);
        memcpy(h->secret, p + 4, sizeof h->secret);
    }
    return 0;
}
