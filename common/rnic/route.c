/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses, and the handles made of them, which are routed here; services keep them. */
#include "common/rnic/qp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
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

/* A path that nobody used so far: our own host may know that it is narrow. */
static void ask_own_host(struct dw_port *port, struct dw_path *path, const struct dw_llp_addr *to)
{
    struct dw_llp *llp = port->datagrams.llp;
    if (path->asked || !llp->ops->path_mtu_bytes)
        return;
    path->asked = true;
    const uint32_t mtu_bytes = llp->ops->path_mtu_bytes(llp, to);
    port->datagrams.counters.paths_narrowed +=
        mtu_bytes && dw_path_on_told(path, dw_datagram_max_bytes(port, to->family, mtu_bytes),
                                     dw_device_now_ns(port->device));
}

/* From one of our interfaces to one of the peer's; NULL: no memory. */
static struct dw_path *path_of(struct dw_port *port, const struct diwarp_address *local,
                               const struct diwarp_address *remote, struct dw_interface_pair pair,
                               unsigned flow)
{
    const struct diwarp_interface *theirs = &remote->interfaces[pair.there];
    const uint32_t ours_bytes = local->interfaces[pair.here].mtu_bytes;
    const uint32_t mtu = ours_bytes < theirs->mtu_bytes ? ours_bytes : theirs->mtu_bytes;
    struct dw_llp_addr addr = {.family = theirs->family, .port = remote->port};
    memcpy(addr.ip, theirs->ip, sizeof addr.ip);
    struct dw_path *path = dw_path_get(&port->paths, &addr, pair.here, (uint8_t)flow,
                                       dw_datagram_max_bytes(port, addr.family, mtu));
    if (path)
        ask_own_host(port, path, &addr);
    return path;
}

/* The NIC that a pair begins at, by the first of its addresses. */
static uint8_t nic_of(const struct diwarp_address *local, const struct diwarp_address *remote,
                      struct dw_interface_pair pair)
{
    const struct diwarp_interface *theirs = &remote->interfaces[pair.there];
    const char *name = local->interfaces[pair.here].name;
    uint8_t nic = 0;
    while (strcmp(local->interfaces[nic].name, name) != 0)
        nic++;
    const bool within_host =
        theirs->loopback ||
        dw_interfaces_have(local->interfaces, local->interface_count, theirs->family, theirs->ip);
    return within_host ? DW_WAYS_NO_NIC : nic;
}

/* Further flows are of the first pair of each NIC; none within a host, where they gain nothing. */
static struct dw_ways *ways_of(struct dw_port *port, const struct diwarp_address *local,
                               const struct diwarp_address *remote,
                               const struct dw_interface_pair *pairs, unsigned count)
{
    const unsigned flows = port->device->attr.flows;
    struct dw_ways_list list = {.udp_port = flows > 1 ? remote->port : 0};
    unsigned n = 0;
    for (unsigned i = 0; i < count * flows && n < DW_WAYS_MAX; i++) {
        const struct dw_interface_pair pair = pairs[i % count];
        const uint8_t nic = nic_of(local, remote, pair);
        const bool first = !memchr(list.nics, nic, i % count);
        if (i >= count && (nic == DW_WAYS_NO_NIC || !first))
            continue;
        list.paths[n] = path_of(port, local, remote, pair, i / count);
        if (!list.paths[n])
            break;
        list.there[n] = pair.there;
        list.nics[n++] = nic;
    }
    list.count = (uint8_t)n;
    return n ? dw_ways_get(&port->paths, &list) : NULL;
}

/* By those of the pairs that there is memory for. False: there is none, it is as before. */
static bool set_route(struct diwarp_ah *ah, const struct diwarp_address *local,
                      const struct diwarp_address *remote, const struct dw_interface_pair *pairs,
                      unsigned count)
{
    struct dw_port *port = dw_ah_port(ah);
    const struct dw_service *service = dw_ahs_of(ah)->service;
    struct dw_ways *before = ah->ways, *ways = ways_of(port, local, remote, pairs, count);
    if (!ways)
        return false;
    struct dw_path *path_before = before ? dw_ways_path(before) : NULL;
    ah->ways = ways;
    ah->udp_port = remote->port;
    ah->peer_datagram_bytes = dw_ways_path(ways)->datagram_max_bytes;
    ah->token = remote->token;
    if (!before)
        return true;
    if (service->on_route && path_before != dw_ways_path(ways))
        service->on_route(ah);
    dw_ways_put(&port->paths, before);
    return true;
}

void dw_ah_drop_route(struct diwarp_ah *ah)
{
    if (ah->ways)
        dw_ways_put(&dw_ah_port(ah)->paths, ah->ways);
    ah->ways = NULL;
}

void dw_port_put_intro(const struct dw_port *port, const struct dw_path *path, uint8_t *buf)
{
    const struct diwarp_interface *mine = &port->device->interfaces[path->local_interface];
    const uint32_t mtu = dw_told_mtu_bytes(port, mine);
    struct dw_intro block = {
        .token = port->datagrams.token,
        .family = mine->family,
        .flow = path->flow,
        .port = port->datagrams.llp->port,
        .mtu_bytes = mtu > UINT16_MAX ? UINT16_MAX : (uint16_t)mtu,
    };
    memcpy(block.ip, mine->ip, sizeof block.ip);
    dw_intro_put(buf, &block);
}

bool dw_ah_set_route_by_intro(struct diwarp_ah *ah, const struct dw_intro *intro)
{
    const struct dw_port *port = dw_ah_port(ah);
    const struct diwarp_address local = address_of(port);
    const bool v6 = intro->family == AF_INET6;
    struct diwarp_address remote = {
        .token = intro->token, .interface_count = 1, .port = intro->port};
    struct diwarp_interface *theirs = &remote.interfaces[0];
    struct dw_interface_pair pairs[DIWARP_MAX_INTERFACES] = {{0}}; /* ... if none leads to it */
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
    (void)dw_interface_pairs(&local, &remote, port->device->attr.same_host, pairs);
    return set_route(ah, &local, &remote, pairs, 1);
}

/* One that has been spoken with, by a pair that the address has too, may go on by others. */
static bool extends(const struct diwarp_ah *ah, const struct diwarp_address *remote,
                    struct dw_interface_pair first)
{
    const struct diwarp_interface *theirs = &remote->interfaces[first.there];
    const struct dw_ways *ways = ah->ways;
    const struct dw_llp_addr *host = &dw_ways_path(ways)->host;
    bool one_pair = true;
    for (unsigned i = 0; i < ways->count; i++)
        one_pair = one_pair && dw_llp_same_host(&ways->paths[i]->host, host);
    return one_pair && ah->token == remote->token &&
           dw_interfaces_have(theirs, 1, host->family, host->ip);
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
    struct dw_interface_pair pairs[DIWARP_MAX_INTERFACES];
    const int count = dw_interface_pairs(&local, address, device->attr.same_host, pairs);
    if (count < 0)
        return count;
    if (address->interfaces[pairs[0].there].mtu_bytes < DW_MTU_MIN_BYTES || !address->qpn ||
        address->qpn >= DW_QPN_GROUP)
        return -EINVAL;
    if (address->auth != local.auth || address->auth_key_id != local.auth_key_id)
        return -EPROTO;
    dw_lock(device);
    struct diwarp_ah *ah = service->get_ah(qp, address);
    if (ah && (!ah->fixed || extends(ah, address, pairs[0])) &&
        !set_route(ah, &local, address, pairs, (unsigned)count) && !ah->fixed) {
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

int diwarp_give_up_ah(struct diwarp_ah *ah)
{
    const struct dw_ahs *ahs = lock_ahs_of(ah);
    const int rc = !ahs ? 0 : ahs->service->give_up ? ahs->service->give_up(ah) : -EINVAL;
    unlock_ahs(ahs);
    return rc;
}

void diwarp_format_ah(const struct diwarp_ah *ah, char *buf, size_t len)
{
    const struct dw_ahs *ahs = lock_ahs_of(ah);
    struct dw_llp_addr addr = {.port = ah->udp_port};
    if (ahs && ah->ways) /* they go with the port */
        addr = dw_ah_addr(ah);
    unlock_ahs(ahs);
    dw_llp_format(&addr, buf, len);
}

/* Appends to what is in buf. */
static void explain_way(const struct diwarp_ah *ah, const struct dw_path *path, char *buf,
                        size_t len)
{
    const struct diwarp_interface *mine =
        &dw_ah_port(ah)->device->interfaces[path->local_interface];
    const size_t used = strlen(buf);
    char here[INET6_ADDRSTRLEN] = "?", there[INET6_ADDRSTRLEN + 8];
    struct dw_llp_addr addr = path->host;
    addr.port = ah->udp_port;
    inet_ntop(mine->family, mine->ip, here, sizeof here);
    dw_llp_format(&addr, there, sizeof there);
    snprintf(buf + used, len - used, "%s%s to %s", used ? ", " : "", here, there);
}

int diwarp_explain_peer(struct diwarp_qp *qp, struct diwarp_name name, char *buf, size_t len)
{
    if (!len)
        return -EINVAL;
    buf[0] = '\0';
    dw_lock(qp->port->device);
    const struct diwarp_ah *ah =
        qp->service->find_ah ? qp->service->find_ah(qp->state, name) : NULL;
    const struct dw_ways *ways = ah ? ah->ways : NULL;
    if (ways)
        explain_way(ah, dw_ways_path(ways), buf, len);
    for (unsigned i = 0; ways && i < ways->count; i++)
        if (i != ways->current && !ways->paths[i]->flow)
            explain_way(ah, ways->paths[i], buf, len);
    dw_unlock(qp->port->device);
    return ways ? 0 : -ENOENT;
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
