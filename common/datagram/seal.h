/* SPDX-License-Identifier: BSD-3-Clause */
/* Seal and open: the only place that knows what protects a datagram, and of its trailer. That is a
 * CRC32C over all of it (WIRE.md section 6); or, where both ends agree on `crc` being false, the
 * UDP checksum: the trailer is 0 then. */
#pragma once

#include <sys/uio.h>

#include "common/base/copy.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "common/wire/llp_header.h"

#define DW_TRAILER_BYTES DW_CRC_BYTES

/* One datagram on its way to its trailer: its bytes are told in order. */
struct dw_sealing {
    bool crc;
    uint32_t sum; /* 0 at first */
};

/* Bytes that are in their place. */
static inline void dw_sealing_add(struct dw_sealing *sealing, const void *data, size_t bytes)
{
    if (sealing->crc)
        sealing->sum = dw_crc32c(sealing->sum, data, bytes);
}

/* Bytes that are copied there, in the same pass. */
static inline void dw_sealing_copy(struct dw_sealing *sealing, void *to, const void *from,
                                   size_t bytes)
{
    if (sealing->crc)
        sealing->sum = dw_crc32c_copy(sealing->sum, to, from, bytes, false);
    else
        dw_copy(to, from, bytes);
}

/* So many bytes of a gather list, from `skip` on, likewise. */
static inline void dw_sealing_gather(struct dw_sealing *sealing, uint8_t *to,
                                     const struct iovec *from, size_t skip, size_t bytes)
{
    for (; bytes; from++) {
        const size_t before = skip < from->iov_len ? skip : from->iov_len;
        const size_t left = from->iov_len - before, piece = left < bytes ? left : bytes;
        if (piece)
            dw_sealing_copy(sealing, to, (const uint8_t *)from->iov_base + before, piece);
        skip -= before;
        to += piece;
        bytes -= piece;
    }
}

static inline void dw_sealing_end(const struct dw_sealing *sealing, uint8_t *trailer)
{
    dw_put_be32(trailer, sealing->sum);
}

/* Of the LLP header. */
static inline uint8_t dw_seal_flags(bool crc)
{
    return crc ? 0 : DW_LLP_NO_CRC;
}

/* A datagram of `bytes` that lies in one piece, with room behind it; returns its length. */
static inline uint32_t dw_seal(bool crc, uint8_t *buf, uint32_t bytes)
{
    dw_put_be32(buf + bytes, crc ? dw_crc32c(0, buf, bytes) : 0);
    return bytes + DW_TRAILER_BYTES;
}

/* Whether a datagram of `len` bytes, trailer included, is what its sender sealed. The last `length`
 * bytes before the trailer are copied to `to` on the way, past the cache if `past`: another thread
 * may see these only after dw_open_fence(). */
static inline bool dw_open(bool crc, const uint8_t *buf, uint32_t len, uint8_t *to, uint32_t length,
                           bool past)
{
    const uint32_t head = len - DW_TRAILER_BYTES - length;
    uint32_t sum = crc ? dw_crc32c(0, buf, head) : 0;
    if (length && crc)
        sum = dw_crc32c_copy(sum, to, buf + head, length, past);
    else if (length)
        dw_copy(to, buf + head, length);
    return !crc || sum == dw_get_be32(buf + head + length);
}

static inline void dw_open_fence(void)
{
    dw_crc32c_copy_fence();
}
