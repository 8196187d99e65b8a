/* SPDX-License-Identifier: BSD-3-Clause */
/* AES-128-GCM (NIST SP 800-38D), HMAC-SHA256 and HKDF-SHA256 (RFC 5869), as libcrypto has them, and
 * GCM as libIPSec_MB has it, where that is. They are loaded when they are first asked for: linked,
 * libcrypto would cost each process that authenticates nothing 0.4 MiB of relocated data. */
#pragma once

#include "common/base/gcm.h"

#define DW_HMAC_BYTES 32

/* NULL; or why there is no libcrypto, and nothing of what follows may be called. */
const char *dw_crypto_load(void);

/* Those that dw_crypto_load() has found, the fastest first; NULL ends them. */
const struct dw_gcm_ops *const *dw_gcm_libraries(void);

static inline struct dw_gcm *dw_gcm_create(bool encrypts, bool text)
{
    return dw_gcm_libraries()[0]->create(encrypts, text);
}

bool dw_hmac(const void *key, size_t key_bytes, const void *data, size_t bytes,
             uint8_t mac[DW_HMAC_BYTES]);
/* HKDF-Expand, of up to 63 bytes of info: the first DW_GCM_KEY_BYTES. HKDF-Extract is dw_hmac(). */
bool dw_hkdf_expand(const uint8_t prk[DW_HMAC_BYTES], const void *info, size_t info_bytes,
                    uint8_t key[DW_GCM_KEY_BYTES]);
