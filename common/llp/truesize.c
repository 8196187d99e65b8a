/* SPDX-License-Identifier: BSD-3-Clause */
/* What a waiting datagram costs of SO_RCVBUF.
 *
 * Linux keeps a datagram that fits one allocation of up to 16 KiB in a linear buffer: payload, link
 * layer room, IP and UDP headers and struct skb_shared_info, rounded up to the allocator's power of
 * two, plus struct sk_buff. A longer one keeps its payload in page fragments, charged as they are,
 * beside a small linear head. The figures are upper bounds over IPv4 and IPv6, taken from
 * SO_MEMINFO on loopback; the unit test compares them with the running kernel. */
#include "common/llp/llp.h"

#define LINEAR_MAX_BYTES      15808u /* above, the other form costs no less */
#define LINEAR_OVERHEAD_BYTES 392u   /* IPv6, 16 bytes of link layer room, shared info, alignment */
#define SKB_BYTES             256u
#define TRUESIZE_MIN_BYTES    832u /* the kernel's smallest head (576 bytes) and struct sk_buff */

static uint32_t roundup_pow2(uint32_t value)
{
    return value <= 1 ? 1 : 1u << (32 - __builtin_clz(value - 1));
}

uint32_t dw_llp_truesize(uint32_t payload_bytes)
{
    if (payload_bytes > LINEAR_MAX_BYTES)
        return payload_bytes + TRUESIZE_MIN_BYTES;
    uint32_t truesize = roundup_pow2(payload_bytes + LINEAR_OVERHEAD_BYTES) + SKB_BYTES;
    return truesize < TRUESIZE_MIN_BYTES ? TRUESIZE_MIN_BYTES : truesize;
}
