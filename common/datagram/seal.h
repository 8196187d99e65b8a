/* SPDX-License-Identifier: BSD-3-Clause */
/* Seal and open: the only place that knows what protects a datagram, and of its trailer. That is a
 * CRC32C over all of it (WIRE.md section 6); or, where both ends agree on `crc` being false, the
 * UDP checksum: the trailer is 0 then; or a tag that only who knows a secret can make. */
#pragma once

#include "common/base/copy.h"
#include "common/base/iov.h"
#include "common/datagram/auth.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"
#include "common/wire/llp_header.h"

/* What protects the datagrams of a port. */
struct dw_seal {
    struct dw_auth *auth; /* NULL: off */
    bool crc;             /* ... and there is a CRC */
    uint8_t flags;        /* NO_CRC, SEALED or none: what every LLP header has of these */
    uint8_t trailer_bytes;
};

static inline struct dw_seal dw_seal_of(bool crc, struct dw_auth *auth)
{
    const uint8_t flags = auth ? DW_LLP_SEALED : crc ? 0 : DW_LLP_NO_CRC;
    return (struct dw_seal){.auth = auth,
                            .crc = crc && !auth,
                            .flags = flags,
                            .trailer_bytes = auth ? DW_TAG_BYTES : DW_CRC_BYTES};
}

/* Segments are encrypted: nothing leaves as it lies in memory. */
static inline bool dw_seal_is_secret(const struct dw_seal *seal)
{
    return seal->auth && seal->auth->mode == DIWARP_AUTH_AES_GCM;
}

/* Of the LLP header. */
static inline uint8_t dw_seal_flags(const struct dw_seal *seal, const struct dw_process *to)
{
    return seal->auth ? dw_auth_flags(seal->auth, to) : seal->flags;
}

/* ---- sealing ---- */

/* One datagram on its way to its trailer: its bytes are told in order. All zero: nothing seals. */
struct dw_sealing {
    bool crc;
    bool secret;
    uint32_t sum;
    struct dw_auth *auth;
    struct dw_gcm *gcm; /* NULL with auth: no memory, nothing of the datagram leaves */
};

/* With auth (seal.c). */
void dw_sealing_begin_auth(struct dw_sealing *sealing, const struct dw_process *to, uint8_t *head,
                           size_t bytes);
void dw_sealing_copy_auth(struct dw_sealing *sealing, void *to, const void *from, size_t bytes);
void dw_sealing_end_auth(struct dw_sealing *sealing, uint8_t *trailer);
void dw_seal_auth(const struct dw_seal *seal, const struct dw_process *to, uint8_t *buf,
                  uint32_t bytes, uint8_t *place);

/* Begins with so many bytes that are in their place, LLP header first. */
static inline struct dw_sealing dw_sealing_begin(const struct dw_seal *seal,
                                                 const struct dw_process *to, uint8_t *head,
                                                 size_t bytes)
{
    struct dw_sealing sealing = {.crc = seal->crc, .auth = seal->auth};
    if (seal->auth)
        dw_sealing_begin_auth(&sealing, to, head, bytes);
    else if (seal->crc)
        sealing.sum = dw_crc32c(0, head, bytes);
    return sealing;
}

/* Bytes that are in their place, and stay as they are: not of a secret datagram. */
static inline void dw_sealing_add(struct dw_sealing *sealing, const void *data, size_t bytes)
{
    if (sealing->crc)
        sealing->sum = dw_crc32c(sealing->sum, data, bytes);
    else if (sealing->gcm)
        (void)dw_gcm_associate(sealing->gcm, data, bytes);
}

/* Bytes that are copied there, in the same pass. */
static inline void dw_sealing_copy(struct dw_sealing *sealing, void *to, const void *from,
                                   size_t bytes)
{
    if (sealing->crc)
        sealing->sum = dw_crc32c_copy(sealing->sum, to, from, bytes, false);
    else if (sealing->auth)
        dw_sealing_copy_auth(sealing, to, from, bytes);
    else
        dw_copy(to, from, bytes);
}

/* So many bytes of a gather list, from `skip` on, likewise. */
static inline void dw_sealing_gather(struct dw_sealing *sealing, uint8_t *to,
                                     const struct iovec *from, size_t skip, size_t bytes)
{
    for (struct iovec piece; bytes; bytes -= piece.iov_len) {
        piece = dw_iov_next(&from, &skip, bytes);
        dw_sealing_copy(sealing, to, piece.iov_base, piece.iov_len);
        to += piece.iov_len;
    }
}

static inline void dw_sealing_end(struct dw_sealing *sealing, uint8_t *trailer)
{
    if (sealing->auth)
        dw_sealing_end_auth(sealing, trailer);
    else
        dw_put_be32(trailer, sealing->sum);
}

/* Where dw_seal() puts a train that begins at buf: it stays, unless it is secret. */
static inline uint8_t *dw_seal_place(const struct dw_seal *seal, uint8_t *buf)
{
    return dw_seal_is_secret(seal) ? seal->auth->out : buf;
}

/* A datagram of `bytes` that lies in one piece, with room behind it. Sealed it lies at `place`,
 * where it lay or, of a secret one, apart from it: then its text may be sent again. */
static inline void dw_seal(const struct dw_seal *seal, const struct dw_process *to, uint8_t *buf,
                           uint32_t bytes, uint8_t *place)
{
    if (seal->auth)
        dw_seal_auth(seal, to, buf, bytes, place);
    else
        dw_put_be32(buf + bytes, seal->crc ? dw_crc32c(0, buf, bytes) : 0);
}

/* ---- opening what a CRC protects, or nothing ---- */

/* Whether a datagram of `len` bytes, trailer included, is what its sender sealed. The last `length`
 * bytes before the trailer are copied to `to` on the way, past the cache if `past`: another thread
 * may see these only after dw_open_fence(). */
static inline bool dw_open(const struct dw_seal *seal, const uint8_t *buf, uint32_t len,
                           uint8_t *to, uint32_t length, bool past)
{
    const uint32_t head = len - DW_CRC_BYTES - length;
    uint32_t sum = seal->crc ? dw_crc32c(0, buf, head) : 0;
    if (length && seal->crc)
        sum = dw_crc32c_copy(sum, to, buf + head, length, past);
    else if (length)
        dw_copy(to, buf + head, length);
    return !seal->crc || sum == dw_get_be32(buf + head + length);
}

static inline void dw_open_fence(void)
{
    dw_crc32c_copy_fence();
}
