/* SPDX-License-Identifier: BSD-3-Clause */
/* libcrypto's functions, found by name. */
#include "common/base/crypto.h"

#include <assert.h>
#include <dlfcn.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
#include <pthread.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define SONAME     "libcrypto.so." TEXT(OPENSSL_SHLIB_VERSION)

#define FUNCTIONS(X)             \
    X(EVP_CIPHER_fetch)          \
    X(EVP_CIPHER_CTX_new)        \
    X(EVP_CIPHER_CTX_free)       \
    X(EVP_CIPHER_CTX_get_params) \
    X(EVP_CIPHER_CTX_set_params) \
    X(EVP_CipherInit_ex)         \
    X(EVP_CipherUpdate) X(EVP_CipherFinal_ex) X(EVP_sha256) X(HMAC)

static struct {
#define DECLARE(name) __typeof__(name) *name;
    FUNCTIONS(DECLARE)
#undef DECLARE
} crypto;

static EVP_CIPHER *aes_128_gcm;
static char fault[256];

static void say(const char *what)
{
    strncpy(fault, what ? what : "unknown", sizeof fault - 1);
}

/* It stays loaded: libcrypto has exit handlers. */
static void load(void)
{
    void *library = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        say(dlerror());
        return;
    }
#define FIND(name)                                                    \
    if (!(crypto.name = (__typeof__(name) *)dlsym(library, #name))) { \
        say(dlerror());                                               \
        return;                                                       \
    }
    FUNCTIONS(FIND)
#undef FIND
    aes_128_gcm = crypto.EVP_CIPHER_fetch(NULL, "AES-128-GCM", NULL);
    if (!aes_128_gcm)
        say(SONAME " has no AES-128-GCM");
}

const char *dw_crypto_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return fault[0] ? fault : NULL;
}

/* ---- AES-128-GCM ---- */

static EVP_CIPHER_CTX *context(struct dw_gcm *gcm)
{
    return (EVP_CIPHER_CTX *)gcm;
}

struct dw_gcm *dw_gcm_create(bool encrypts)
{
    EVP_CIPHER_CTX *ctx = crypto.EVP_CIPHER_CTX_new();
    if (ctx && crypto.EVP_CipherInit_ex(ctx, aes_128_gcm, NULL, NULL, NULL, encrypts))
        return (struct dw_gcm *)ctx;
    crypto.EVP_CIPHER_CTX_free(ctx);
    return NULL;
}

void dw_gcm_destroy(struct dw_gcm *gcm)
{
    if (gcm)
        crypto.EVP_CIPHER_CTX_free(context(gcm));
}

bool dw_gcm_set_key(struct dw_gcm *gcm, const uint8_t key[DW_GCM_KEY_BYTES])
{
    return crypto.EVP_CipherInit_ex(context(gcm), NULL, NULL, key, NULL, -1);
}

bool dw_gcm_begin(struct dw_gcm *gcm, const uint8_t nonce[DW_GCM_NONCE_BYTES])
{
    return crypto.EVP_CipherInit_ex(context(gcm), NULL, NULL, NULL, nonce, -1);
}

bool dw_gcm_associate(struct dw_gcm *gcm, const void *data, size_t bytes)
{
    int done;
    return crypto.EVP_CipherUpdate(context(gcm), NULL, &done, data, (int)bytes);
}

bool dw_gcm_crypt(struct dw_gcm *gcm, void *to, const void *from, size_t bytes)
{
    int done;
    return crypto.EVP_CipherUpdate(context(gcm), to, &done, from, (int)bytes);
}

/* "tag" is what OSSL_CIPHER_PARAM_AEAD_TAG stands for. */
static void set_tag_param(OSSL_PARAM params[2], const uint8_t *tag)
{
    params[0] = (OSSL_PARAM){.key = "tag",
                             .data_type = OSSL_PARAM_OCTET_STRING,
                             .data = (void *)(uintptr_t)tag,
                             .data_size = DW_GCM_TAG_BYTES,
                             .return_size = OSSL_PARAM_UNMODIFIED};
    params[1] = (OSSL_PARAM){.key = NULL};
}

bool dw_gcm_end(struct dw_gcm *gcm, uint8_t tag[DW_GCM_TAG_BYTES])
{
    OSSL_PARAM params[2];
    uint8_t none[DW_GCM_TAG_BYTES];
    int done;
    set_tag_param(params, tag);
    return crypto.EVP_CipherFinal_ex(context(gcm), none, &done) &&
           crypto.EVP_CIPHER_CTX_get_params(context(gcm), params);
}

bool dw_gcm_matches(struct dw_gcm *gcm, const uint8_t tag[DW_GCM_TAG_BYTES])
{
    OSSL_PARAM params[2];
    uint8_t none[DW_GCM_TAG_BYTES];
    int done;
    set_tag_param(params, tag);
    return crypto.EVP_CIPHER_CTX_set_params(context(gcm), params) &&
           crypto.EVP_CipherFinal_ex(context(gcm), none, &done);
}

/* ---- HMAC-SHA256 ---- */

bool dw_hmac(const void *key, size_t key_bytes, const void *data, size_t bytes,
             uint8_t mac[DW_HMAC_BYTES])
{
    return crypto.HMAC(crypto.EVP_sha256(), key, (int)key_bytes, data, bytes, mac, NULL);
}

bool dw_hkdf_expand(const uint8_t prk[DW_HMAC_BYTES], const void *info, size_t info_bytes,
                    uint8_t key[DW_GCM_KEY_BYTES])
{
    uint8_t block[64], mac[DW_HMAC_BYTES];
    assert(info_bytes < sizeof block);
    memcpy(block, info, info_bytes);
    block[info_bytes] = 1;
    const bool good = dw_hmac(prk, DW_HMAC_BYTES, block, info_bytes + 1, mac);
    memcpy(key, mac, DW_GCM_KEY_BYTES);
    return good;
}
