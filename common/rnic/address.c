/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of QPs, and their network form. */
#include <errno.h>
#include <string.h>

#include "common/include/diwarp.h"
#include "common/wire/bytes.h"
#include "common/wire/llp_header.h"

/* 'd' 'w', wire version, count of interfaces, then: */
#define HEAD_FIELDS(X)  \
    X(32, 4, name.job)  \
    X(32, 8, name.rank) \
    X(64, 12, token) X(64, 20, host_id) X(32, 28, incarnation) X(32, 32, qpn) X(16, 36, port)
/* For each interface: family (4 or 6), prefix, flags (1: loopback), reserved, MTU 32, ip 16. */
#define HEAD_BYTES      38
#define INTERFACE_BYTES 24
_Static_assert(HEAD_BYTES + DIWARP_MAX_INTERFACES * INTERFACE_BYTES <= DIWARP_ADDRESS_MAX_BYTES,
               "an address must fit its bound");

int diwarp_address_pack(const struct diwarp_address *h, void *to, size_t len)
{
    uint8_t *buf = to, *p = buf + HEAD_BYTES;
    const size_t bytes = HEAD_BYTES + (size_t)h->interface_count * INTERFACE_BYTES;
    if (len < bytes)
        return -ENOSPC;
    buf[0] = 'd';
    buf[1] = 'w';
    buf[2] = DW_WIRE_VERSION;
    buf[3] = h->interface_count;
    HEAD_FIELDS(DW_PUT_FIELD)
    for (unsigned i = 0; i < h->interface_count; i++, p += INTERFACE_BYTES) {
        const struct diwarp_interface *interface = &h->interfaces[i];
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

int diwarp_address_unpack(struct diwarp_address *h, const void *from, size_t len)
{
    const uint8_t *buf = from;
    if (len < HEAD_BYTES || buf[0] != 'd' || buf[1] != 'w')
        return -EPROTO;
    if (buf[2] != DW_WIRE_VERSION)
        return -EPROTONOSUPPORT;
    *h = (struct diwarp_address){.interface_count = buf[3]};
    HEAD_FIELDS(DW_GET_FIELD)
    if (h->qpn > DW_QPN_MAX || !h->port || !h->interface_count ||
        h->interface_count > DIWARP_MAX_INTERFACES ||
        len < HEAD_BYTES + (size_t)h->interface_count * INTERFACE_BYTES)
        return -EPROTO;
    for (unsigned i = 0; i < h->interface_count; i++)
        if (!unpack_interface(&h->interfaces[i], buf + HEAD_BYTES + i * INTERFACE_BYTES))
            return -EPROTO;
    return 0;
}
