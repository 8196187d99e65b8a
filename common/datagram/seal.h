/* SPDX-License-Identifier: BSD-3-Clause */
/* Seal and open: the only place that knows what protects a datagram, and of its trailer. Today that
 * is a CRC32C over all of it (WIRE.md section 6), or nothing, by an agreement of both ends. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/wire/llp_header.h"

#define DW_TRAILER_BYTES DW_CRC_BYTES

struct dw_seal {
    bool crc; /* else trailers are 0, and the UDP checksum is trusted */
};

/* One datagram on its way to its trailer: its bytes are told in order. */
struct dw_sealing {
    bool crc;
    uint32_t sum;
};

/* Of the LLP header. */
static inline uint8_t dw_seal_flags(const struct dw_seal *seal)
{
    return seal->crc ? 0 : DW_LLP_NO_CRC;
}

static inline void dw_sealing_begin(struct dw_sealing *sealing, const struct dw_seal *seal)
{
    *sealing = (struct dw_sealing){.crc = seal->crc};
}

/* Bytes that are in their place. */
void dw_sealing_add(struct dw_sealing *sealing, const void *data, size_t bytes);
/* Bytes that are copied there, in the same pass. */
void dw_sealing_copy(struct dw_sealing *sealing, void *to, const void *from, size_t bytes);
/* So many bytes of a gather list, from `skip` on, likewise. */
void dw_sealing_gather(struct dw_sealing *sealing, uint8_t *to, const struct iovec *from,
                       size_t skip, size_t bytes);
/* Writes DW_TRAILER_BYTES. */
void dw_sealing_end(const struct dw_sealing *sealing, uint8_t *trailer);

/* A datagram of `bytes` that lies in one piece, with room behind it; returns its length. */
uint32_t dw_seal(const struct dw_seal *seal, uint8_t *buf, uint32_t bytes);

/* Whether a datagram of `len` bytes, trailer included, is what its sender sealed. */
bool dw_open(const struct dw_seal *seal, const struct dw_llp_header *header, const uint8_t *buf,
             uint32_t len);
/* Whether the payload may be placed before the datagram is known to be right, in one pass with
 * that. */
bool dw_open_may_copy(const struct dw_seal *seal, const struct dw_llp_header *header);
/* The same as dw_open(), the last `length` bytes before the trailer being copied to `to` on the
 * way, past the cache if `past`: another thread may see these only after dw_open_fence(). */
bool dw_open_copy(const uint8_t *buf, uint32_t len, uint8_t *to, uint32_t length, bool past);
void dw_open_fence(void);
