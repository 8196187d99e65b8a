/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codec of the LLP header and the intro block. Knows offsets and domains, not what a field does:
 * tokens, sources and windows are judged elsewhere.
 */
#include "common/wire/llp_header.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "common/wire/bytes.h"

#define INTRO_IPV4 4
#define INTRO_IPV6 6

void dw_llp_header_put(uint8_t *buf, const struct dw_llp_header *header)
{
    assert(header->type < DW_LLP_TYPES);
    assert((header->flags & ~DW_LLP_FLAGS) == 0);
    assert(header->dst_qpn <= DW_QPN_MAX && header->src_qpn <= DW_QPN_MAX);
    buf[0] = (uint8_t)(DW_WIRE_VERSION << 4 | header->type);
    buf[1] = header->flags;
    dw_put_be16(buf + 2, header->credit_kib);
    dw_put_be32(buf + 4, header->incarnation);
    dw_put_be64(buf + 8, header->token);
    dw_put_be32(buf + 16, header->job);
    dw_put_be32(buf + 20, header->rank);
    dw_put_be64(buf + 24, header->number);
    dw_put_be32(buf + 32, (uint32_t)header->path << 24 | header->dst_qpn);
    dw_put_be32(buf + 36, (uint32_t)header->ecn_echo << 24 | header->src_qpn);
    dw_put_be32(buf + 40, header->psn);
    dw_put_be32(buf + 44, header->ack);
    dw_put_be64(buf + 48, header->sack);
    dw_put_be16(buf + 56, header->timestamp);
    dw_put_be16(buf + 58, header->timestamp_echo);
}

static bool unreliable_fields_used(const struct dw_llp_header *header)
{
    return header->credit_kib != 0 || header->psn != 0 || header->ack != 0 || header->sack != 0 ||
           (header->flags & DW_LLP_REFUSING) != 0;
}

static bool goes_on_misplaced(const struct dw_llp_header *header)
{
    return (header->flags & DW_LLP_GOES_ON) != 0 &&
           ((header->flags & DW_LLP_INTRO) == 0 || header->type == DW_LLP_UD);
}

int dw_llp_header_get(struct dw_llp_header *header, const uint8_t *buf, size_t len)
{
    if (len < DW_LLP_HEADER_BYTES + DW_CRC_BYTES) {
        return -EBADMSG;
    }
    if (buf[0] >> 4 != DW_WIRE_VERSION) {
        return -EPROTONOSUPPORT;
    }
    header->type = buf[0] & 0x0f;
    header->flags = buf[1];
    header->credit_kib = dw_get_be16(buf + 2);
    header->incarnation = dw_get_be32(buf + 4);
    header->token = dw_get_be64(buf + 8);
    header->job = dw_get_be32(buf + 16);
    header->rank = dw_get_be32(buf + 20);
    header->number = dw_get_be64(buf + 24);
    header->path = buf[32];
    header->dst_qpn = dw_get_be32(buf + 32) & DW_QPN_MAX;
    header->ecn_echo = buf[36];
    header->src_qpn = dw_get_be32(buf + 36) & DW_QPN_MAX;
    header->psn = dw_get_be32(buf + 40);
    header->ack = dw_get_be32(buf + 44);
    header->sack = dw_get_be64(buf + 48);
    header->timestamp = dw_get_be16(buf + 56);
    header->timestamp_echo = dw_get_be16(buf + 58);
    if (header->type >= DW_LLP_TYPES || (header->flags & ~DW_LLP_FLAGS) != 0) {
        return -EPROTO;
    }
    if (header->type == DW_LLP_UD && unreliable_fields_used(header)) {
        return -EPROTO;
    }
    if (goes_on_misplaced(header)) {
        return -EPROTO;
    }
    return 0;
}

/*
 *  0                   1                   2                   3
 *  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
 * +---------------------------------------------------------------+
 * |                   token of the source (64)                    |
 * |                                                               |
 * +---------------+---------------+-------------------------------+
 * | family: 4, 6  | reserved: 0   |           UDP port            |
 * +---------------+---------------+-------------------------------+
 * |          MTU (bytes)          |          reserved: 0          |
 * +-------------------------------+-------------------------------+
 * |               IP address (128); IPv4 in the first 32 bits,    |
 * |                              the rest 0                       |
 * |                                                               |
 * |                                                               |
 * +---------------------------------------------------------------+
 */
void dw_intro_put(uint8_t *buf, const struct dw_intro *intro)
{
    bool ipv6 = intro->family == AF_INET6;

    assert(ipv6 || intro->family == AF_INET);
    memset(buf, 0, DW_INTRO_BYTES);
    dw_put_be64(buf, intro->token);
    buf[8] = ipv6 ? INTRO_IPV6 : INTRO_IPV4;
    dw_put_be16(buf + 10, intro->port);
    dw_put_be16(buf + 12, intro->mtu_bytes);
    memcpy(buf + 16, intro->ip, ipv6 ? 16 : 4);
}

int dw_intro_get(struct dw_intro *intro, const uint8_t *buf, size_t len)
{
    static const uint8_t zeros[12];

    if (len < DW_INTRO_BYTES) {
        return -EBADMSG;
    }
    if (buf[8] != INTRO_IPV4 && buf[8] != INTRO_IPV6) {
        return -EPROTO;
    }
    if (buf[9] != 0 || dw_get_be16(buf + 14) != 0) {
        return -EPROTO;
    }
    if (buf[8] == INTRO_IPV4 && memcmp(buf + 20, zeros, sizeof zeros) != 0) {
        return -EPROTO;
    }
    intro->token = dw_get_be64(buf);
    intro->family = buf[8] == INTRO_IPV6 ? AF_INET6 : AF_INET;
    intro->port = dw_get_be16(buf + 10);
    intro->mtu_bytes = dw_get_be16(buf + 12);
    memcpy(intro->ip, buf + 16, sizeof intro->ip);
    if (intro->port == 0 || intro->mtu_bytes < DW_MTU_MIN_BYTES) {
        return -EPROTO;
    }
    return 0;
}
