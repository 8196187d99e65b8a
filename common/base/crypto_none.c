/* SPDX-License-Identifier: BSD-3-Clause */
/* Instead of crypto.c where configure has not found libcrypto. */
#include "common/base/crypto.h"

const char *dw_crypto_load(void)
{
    return "it was not there when diwarp was built";
}

const struct dw_gcm_ops *const *dw_gcm_libraries(void)
{
    static const struct dw_gcm_ops *const none;
    return &none;
}

bool dw_hmac(const void *key, size_t key_bytes, const void *data, size_t bytes,
             uint8_t mac[DW_HMAC_BYTES])
{
    (void)key, (void)key_bytes, (void)data, (void)bytes, (void)mac;
    return false;
}

bool dw_hkdf_expand(const uint8_t prk[DW_HMAC_BYTES], const void *info, size_t info_bytes,
                    uint8_t key[DW_GCM_KEY_BYTES])
{
    (void)prk, (void)info, (void)info_bytes, (void)key;
    return false;
}
