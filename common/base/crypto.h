/* SPDX-License-Identifier: BSD-3-Clause */
/* AES-128-GCM (NIST SP 800-38D), HMAC-SHA256 and HKDF-SHA256 (RFC 5869), as libcrypto has them. It
 * is loaded when it is first asked for: linked, it would cost each process that authenticates
 * nothing 0.4 MiB of relocated data. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DW_GCM_KEY_BYTES   16
#define DW_GCM_NONCE_BYTES 12
#define DW_GCM_TAG_BYTES   16
#define DW_HMAC_BYTES      32

/* NULL; or why there is no libcrypto, and nothing of what follows may be called. */
const char *dw_crypto_load(void);

/* A cipher of one direction. Each function that returns bool: false, libcrypto has no memory. */
struct dw_gcm;
/* NULL: no memory. */
struct dw_gcm *dw_gcm_create(bool encrypts);
void dw_gcm_destroy(struct dw_gcm *gcm);
bool dw_gcm_set_key(struct dw_gcm *gcm, const uint8_t key[DW_GCM_KEY_BYTES]);

/* A message, in this order: its nonce, which no other message under the key has; associated data;
 * text, encrypted or decrypted; its tag. */
bool dw_gcm_begin(struct dw_gcm *gcm, const uint8_t nonce[DW_GCM_NONCE_BYTES]);
bool dw_gcm_associate(struct dw_gcm *gcm, const void *data, size_t bytes);
/* In place, or without overlap. */
bool dw_gcm_crypt(struct dw_gcm *gcm, void *to, const void *from, size_t bytes);
bool dw_gcm_end(struct dw_gcm *gcm, uint8_t tag[DW_GCM_TAG_BYTES]);
/* Of one that decrypts: whether that is the tag. False: nothing of the text may be used. */
bool dw_gcm_matches(struct dw_gcm *gcm, const uint8_t tag[DW_GCM_TAG_BYTES]);

bool dw_hmac(const void *key, size_t key_bytes, const void *data, size_t bytes,
             uint8_t mac[DW_HMAC_BYTES]);
/* HKDF-Expand, of up to 63 bytes of info: the first DW_GCM_KEY_BYTES. HKDF-Extract is dw_hmac(). */
bool dw_hkdf_expand(const uint8_t prk[DW_HMAC_BYTES], const void *info, size_t info_bytes,
                    uint8_t key[DW_GCM_KEY_BYTES]);
