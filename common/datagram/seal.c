/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C over a datagram, taken while its bytes are copied where they are. */
#include "common/datagram/seal.h"

#include "common/base/copy.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"

void dw_sealing_add(struct dw_sealing *sealing, const void *data, size_t bytes)
{
    if (sealing->crc)
        sealing->sum = dw_crc32c(sealing->sum, data, bytes);
}

void dw_sealing_copy(struct dw_sealing *sealing, void *to, const void *from, size_t bytes)
{
    if (sealing->crc)
        sealing->sum = dw_crc32c_copy(sealing->sum, to, from, bytes, false);
    else
        dw_copy(to, from, bytes);
}

void dw_sealing_gather(struct dw_sealing *sealing, uint8_t *to, const struct iovec *from,
                       size_t skip, size_t bytes)
{
    for (; bytes; from++) {
        const size_t before = skip < from->iov_len ? skip : from->iov_len;
        const size_t left = from->iov_len - before, piece = left < bytes ? left : bytes;
        dw_sealing_copy(sealing, to, (const uint8_t *)from->iov_base + before, piece);
        skip -= before;
        to += piece;
        bytes -= piece;
    }
}

void dw_sealing_end(const struct dw_sealing *sealing, uint8_t *trailer)
{
    dw_put_be32(trailer, sealing->sum);
}

uint32_t dw_seal(const struct dw_seal *seal, uint8_t *buf, uint32_t bytes)
{
    dw_put_be32(buf + bytes, seal->crc ? dw_crc32c(0, buf, bytes) : 0);
    return bytes + DW_TRAILER_BYTES;
}

/* One flipped bit must not switch the check off: both ends agree on it. */
static bool agrees(const struct dw_seal *seal, const struct dw_llp_header *header)
{
    return !(header->flags & DW_LLP_NO_CRC) == seal->crc;
}

bool dw_open(const struct dw_seal *seal, const struct dw_llp_header *header, const uint8_t *buf,
             uint32_t len)
{
    const uint32_t covered = len - DW_TRAILER_BYTES;
    return agrees(seal, header) &&
           (!seal->crc || dw_crc32c(0, buf, covered) == dw_get_be32(buf + covered));
}

bool dw_open_may_copy(const struct dw_seal *seal, const struct dw_llp_header *header)
{
    return seal->crc && agrees(seal, header);
}

bool dw_open_copy(const uint8_t *buf, uint32_t len, uint8_t *to, uint32_t length, bool past)
{
    const uint32_t head = len - DW_TRAILER_BYTES - length;
    uint32_t sum = dw_crc32c(0, buf, head);
    sum = dw_crc32c_copy(sum, to, buf + head, length, past);
    return sum == dw_get_be32(buf + head + length);
}

void dw_open_fence(void)
{
    dw_crc32c_copy_fence();
}
