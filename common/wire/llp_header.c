/* SPDX-License-Identifier: BSD-3-Clause */
/* Codec of the LLP header and the intro block. Knows offsets and domains, not what a field does:
 * tokens, sources and windows are judged elsewhere. */
#include "common/wire/llp_header.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "common/include/diwarp.h"
#include "common/wire/bytes.h"

/* But for those that share a byte or a word. */
#define HEADER_FIELDS(X)  \
    X(16, 2, credit_kib)  \
    X(32, 4, incarnation) \
    X(64, 8, token)       \
    X(32, 16, job)        \
    X(32, 20, rank)       \
    X(64, 24, number)     \
    X(32, 40, psn) X(32, 44, ack) X(64, 48, sack) X(16, 56, timestamp) X(16, 58, timestamp_echo)

void dw_llp_header_put(uint8_t *buf, const struct dw_llp_header *h)
{
    assert(h->type < DW_LLP_TYPES && (h->flags & ~DW_LLP_FLAGS) == 0);
    assert(h->dst_qpn <= DW_QPN_MAX && h->src_qpn <= DW_QPN_MAX);
    buf[0] = (uint8_t)(DW_WIRE_VERSION << 4 | h->type);
    buf[1] = h->flags;
    dw_put_be32(buf + 32, (uint32_t)h->path << 24 | h->dst_qpn);
    dw_put_be32(buf + 36, (uint32_t)h->ecn_echo << 24 | h->src_qpn);
    HEADER_FIELDS(DW_PUT_FIELD)
}

int dw_llp_header_get(struct dw_llp_header *h, const uint8_t *buf, size_t len)
{
    if (len < DW_LLP_HEADER_BYTES + DW_CRC_BYTES)
        return -EBADMSG;
    if (buf[0] >> 4 != DW_WIRE_VERSION)
        return -EPROTONOSUPPORT;
    if (buf[1] & DW_LLP_SEALED && len < DW_LLP_HEADER_BYTES + DW_TAG_BYTES)
        return -EBADMSG;
    h->type = buf[0] & 0x0f;
    h->flags = buf[1];
    h->path = buf[32];
    h->dst_qpn = dw_get_be32(buf + 32) & DW_QPN_MAX;
    h->ecn_echo = buf[36];
    h->src_qpn = dw_get_be32(buf + 36) & DW_QPN_MAX;
    HEADER_FIELDS(DW_GET_FIELD)
    if (h->type >= DW_LLP_TYPES || (h->flags & ~DW_LLP_FLAGS))
        return -EPROTO;
    if (h->type == DW_LLP_UD &&
        (h->credit_kib || h->ack || h->sack || (h->flags & DW_LLP_REFUSING)))
        return -EPROTO;
    if (h->flags & DW_LLP_SEALED ? h->flags & DW_LLP_NO_CRC : h->flags & DW_LLP_SOURCE_KEY)
        return -EPROTO;
    if ((h->flags & DW_LLP_GOES_ON) && (!(h->flags & DW_LLP_INTRO) || h->type == DW_LLP_UD))
        return -EPROTO;
    return 0;
}

/*
 *  0                   1                   2                   3
 *  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
 * +---------------------------------------------------------------+
 * |                   token of the source (64)                    |
 * |                                                               |
 * +---------------+---------------+-------------------------------+
 * | family: 4, 6  | flow: 0..7    |           UDP port            |
 * +---------------+---------------+-------------------------------+
 * |          MTU (bytes)          |          reserved: 0          |
 * +-------------------------------+-------------------------------+
 * |          IP address (128); IPv4 in the first 32 bits,         |
 * |                         the rest 0                            |
 * +---------------------------------------------------------------+
 */
#define INTRO_FIELDS(X) X(64, 0, token) X(16, 10, port) X(16, 12, mtu_bytes)

void dw_intro_put(uint8_t *buf, const struct dw_intro *h)
{
    const bool ipv6 = h->family == AF_INET6;
    assert(ipv6 || h->family == AF_INET);
    memset(buf, 0, DW_INTRO_BYTES);
    INTRO_FIELDS(DW_PUT_FIELD)
    buf[8] = ipv6 ? 6 : 4;
    buf[9] = h->flow;
    memcpy(buf + 16, h->ip, ipv6 ? 16 : 4);
}

/* No group: what is sent there comes to many. */
static bool is_of_a_host(const uint8_t *ip, bool ipv6)
{
    static const uint8_t unspecified[16];
    return ipv6 ? ip[0] != 0xff && memcmp(ip, unspecified, sizeof unspecified) != 0
                : ip[0] && ip[0] < 224;
}

int dw_intro_get(struct dw_intro *h, const uint8_t *buf, size_t len)
{
    static const uint8_t zeros[12];
    if (len < DW_INTRO_BYTES)
        return -EBADMSG;
    INTRO_FIELDS(DW_GET_FIELD)
    h->family = buf[8] == 6 ? AF_INET6 : AF_INET;
    h->flow = buf[9];
    memcpy(h->ip, buf + 16, sizeof h->ip);
    if ((buf[8] != 4 && buf[8] != 6) || h->flow >= DIWARP_MAX_FLOWS || dw_get_be16(buf + 14) ||
        (buf[8] == 4 && memcmp(buf + 20, zeros, sizeof zeros) != 0) || !h->port ||
        h->mtu_bytes < DW_MTU_MIN_BYTES || !is_of_a_host(h->ip, buf[8] == 6))
        return -EPROTO;
    return 0;
}
