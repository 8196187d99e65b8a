/* SPDX-License-Identifier: BSD-3-Clause */
/* Instead of crypto.c where configure has not found libcrypto. */
#include "common/base/crypto.h"

const char *dw_crypto_load(void)
{
    return "it was not there when diwarp was built";
}

struct dw_gcm *dw_gcm_create(bool encrypts)
{
    (void)encrypts;
    return NULL;
}

void dw_gcm_destroy(struct dw_gcm *gcm)
{
    (void)gcm;
}

bool dw_gcm_set_key(struct dw_gcm *gcm, const uint8_t key[DW_GCM_KEY_BYTES])
{
    (void)gcm, (void)key;
    return false;
}

bool dw_gcm_begin(struct dw_gcm *gcm, const uint8_t nonce[DW_GCM_NONCE_BYTES])
{
    (void)gcm, (void)nonce;
    return false;
}

bool dw_gcm_associate(struct dw_gcm *gcm, const void *data, size_t bytes)
{
    (void)gcm, (void)data, (void)bytes;
    return false;
}

bool dw_gcm_crypt(struct dw_gcm *gcm, void *to, const void *from, size_t bytes)
{
    (void)gcm, (void)to, (void)from, (void)bytes;
    return false;
}

bool dw_gcm_end(struct dw_gcm *gcm, uint8_t tag[DW_GCM_TAG_BYTES])
{
    (void)gcm, (void)tag;
    return false;
}

bool dw_gcm_matches(struct dw_gcm *gcm, const uint8_t tag[DW_GCM_TAG_BYTES])
{
    (void)gcm, (void)tag;
    return false;
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
