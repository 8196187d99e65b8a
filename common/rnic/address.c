/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of QPs, and their network form. */
#include <errno.h>
#include <string.h>

#include "common/include/diwarp.h"
#include "common/wire/bytes.h"
#include "common/wire/llp_header.h"

/*
 * Packed: 'd' 'w', wire version, count of interfaces, job 32, rank 32, token 64, host id 64,
 * incarnation 32, QPN 32, port 16; then for each interface: family (4 or 6), prefix, flags (1:
 * loopback), reserved, MTU 32, ip 16.
 */
#define PACKED_HEAD_BYTES      38
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
    dw_put_be32(p + 32, address->qpn);
    dw_put_be16(p + 36, address->port);
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
        .qpn = dw_get_be32(p + 32),
        .port = dw_get_be16(p + 36),
        .interface_count = p[3],
    };
    if (address->qpn > DW_QPN_MAX || !address->port || !address->interface_count ||
        address->interface_count > DIWARP_MAX_INTERFACES ||
        len < PACKED_HEAD_BYTES + (size_t)p[3] * PACKED_INTERFACE_BYTES)
        return -EPROTO;
    for (unsigned i = 0; i < address->interface_count; i++)
        if (!unpack_interface(&address->interfaces[i],
                              p + PACKED_HEAD_BYTES + i * PACKED_INTERFACE_BYTES))
            return -EPROTO;
    return 0;
}
