/* SPDX-License-Identifier: BSD-3-Clause */
/* libcrypto's functions, found by name, and those of its provider for AES-128-GCM, which are called
 * directly (provider-cipher(7)): EVP would take a third of the time of a short datagram, most of it
 * to look up by name how long the nonce is. */
#include "common/base/crypto.h"
#include "common/base/gcm_mb.h"
#include "common/base/list.h"

#include <assert.h>
#include <dlfcn.h>
#include <openssl/core_dispatch.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define SONAME     "libcrypto.so." TEXT(OPENSSL_SHLIB_VERSION)
#define CIPHER     "AES-128-GCM"

#define FUNCTIONS(X)                   \
    X(EVP_CIPHER_fetch)                \
    X(EVP_CIPHER_get0_provider)        \
    X(OSSL_PROVIDER_get0_provider_ctx) \
    X(OSSL_PROVIDER_query_operation) X(EVP_sha256) X(HMAC)

static struct {
#define DECLARE(name) __typeof__(name) *name;
    FUNCTIONS(DECLARE)
#undef DECLARE
} crypto;

#define CIPHER_FUNCTIONS(X)           \
    X(NEWCTX, newctx)                 \
    X(FREECTX, freectx)               \
    X(ENCRYPT_INIT, encrypt_init)     \
    X(DECRYPT_INIT, decrypt_init)     \
    X(UPDATE, update)                 \
    X(FINAL, final)                   \
    X(GET_CTX_PARAMS, get_ctx_params) \
    X(SET_CTX_PARAMS, set_ctx_params)

static struct {
    EVP_CIPHER *fetched; /* for good: it keeps the provider loaded */
    void *provider;
#define DECLARE(id, name) OSSL_FUNC_cipher_##name##_fn *name;
    CIPHER_FUNCTIONS(DECLARE)
#undef DECLARE
} aes_128_gcm;

static char fault[256];

static void say(const char *what)
{
    strncpy(fault, what ? what : "unknown", sizeof fault - 1);
}

/* Names in libcrypto are a list, separated by colons. */
static bool is_named(const OSSL_ALGORITHM *algorithm)
{
    const size_t bytes = sizeof CIPHER - 1;
    const char *names = algorithm->algorithm_names;
    return !strncmp(names, CIPHER, bytes) && (names[bytes] == ':' || !names[bytes]);
}

/* Of the provider that libcrypto's configuration selects. */
static bool find_cipher(void)
{
    int changes;
    aes_128_gcm.fetched = crypto.EVP_CIPHER_fetch(NULL, CIPHER, NULL);
    if (!aes_128_gcm.fetched)
        return false;
    const OSSL_PROVIDER *provider = crypto.EVP_CIPHER_get0_provider(aes_128_gcm.fetched);
    aes_128_gcm.provider = crypto.OSSL_PROVIDER_get0_provider_ctx(provider);
    const OSSL_ALGORITHM *algorithm =
        crypto.OSSL_PROVIDER_query_operation(provider, OSSL_OP_CIPHER, &changes);
    while (algorithm && algorithm->algorithm_names && !is_named(algorithm))
        algorithm++;
    if (!algorithm || !algorithm->algorithm_names)
        return false;
    for (const OSSL_DISPATCH *entry = algorithm->implementation; entry->function_id; entry++) {
#define TAKE(id, name)                               \
    if (entry->function_id == OSSL_FUNC_CIPHER_##id) \
        aes_128_gcm.name = OSSL_FUNC_cipher_##name(entry);
        CIPHER_FUNCTIONS(TAKE)
#undef TAKE
    }
#define HAS(id, name) &&aes_128_gcm.name
    return true CIPHER_FUNCTIONS(HAS);
#undef HAS
}

/* ---- AES-128-GCM ---- */

struct provided_gcm {
    struct dw_gcm gcm;
    void *ctx;
    OSSL_FUNC_cipher_encrypt_init_fn *init; /* to encrypt, or to decrypt */
};

static const struct dw_gcm_ops provided;

static struct provided_gcm *provided_of(struct dw_gcm *gcm)
{
    return dw_container(gcm, struct provided_gcm, gcm);
}

static struct dw_gcm *create(bool encrypts, bool text)
{
    struct provided_gcm *own = malloc(sizeof *own);
    (void)text;
    if (!own || !(own->ctx = aes_128_gcm.newctx(aes_128_gcm.provider))) {
        free(own);
        return NULL;
    }
    own->gcm.ops = &provided;
    own->init = encrypts ? aes_128_gcm.encrypt_init : aes_128_gcm.decrypt_init;
    return &own->gcm;
}

static void destroy(struct dw_gcm *gcm)
{
    aes_128_gcm.freectx(provided_of(gcm)->ctx);
    free(provided_of(gcm));
}

static bool set_key(struct dw_gcm *gcm, const uint8_t key[DW_GCM_KEY_BYTES])
{
    struct provided_gcm *own = provided_of(gcm);
    return own->init(own->ctx, key, DW_GCM_KEY_BYTES, NULL, 0, NULL);
}

static bool begin(struct dw_gcm *gcm, const uint8_t nonce[DW_GCM_NONCE_BYTES])
{
    struct provided_gcm *own = provided_of(gcm);
    return own->init(own->ctx, NULL, 0, nonce, DW_GCM_NONCE_BYTES, NULL);
}

static bool crypt(struct dw_gcm *gcm, void *to, const void *from, size_t bytes)
{
    size_t done;
    return aes_128_gcm.update(provided_of(gcm)->ctx, to, &done, bytes, from, bytes);
}

static bool associate(struct dw_gcm *gcm, const void *data, size_t bytes)
{
    return crypt(gcm, NULL, data, bytes);
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

static bool finish(struct dw_gcm *gcm)
{
    uint8_t none[DW_GCM_TAG_BYTES];
    size_t done;
    return aes_128_gcm.final(provided_of(gcm)->ctx, none, &done, sizeof none);
}

static bool end(struct dw_gcm *gcm, uint8_t tag[DW_GCM_TAG_BYTES])
{
    OSSL_PARAM params[2];
    set_tag_param(params, tag);
    return finish(gcm) && aes_128_gcm.get_ctx_params(provided_of(gcm)->ctx, params);
}

static bool matches(struct dw_gcm *gcm, const uint8_t tag[DW_GCM_TAG_BYTES])
{
    OSSL_PARAM params[2];
    set_tag_param(params, tag);
    return aes_128_gcm.set_ctx_params(provided_of(gcm)->ctx, params) && finish(gcm);
}

static const struct dw_gcm_ops provided = {
    .library = "libcrypto",
    .create = create,
    .destroy = destroy,
    .set_key = set_key,
    .begin = begin,
    .associate = associate,
    .crypt = crypt,
    .end = end,
    .matches = matches,
};

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

/* ---- loading ---- */

static const struct dw_gcm_ops *libraries[3];

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
    if (!find_cipher()) {
        say(SONAME " has no " CIPHER);
        return;
    }
    libraries[0] = dw_gcm_mb_load();
    libraries[libraries[0] != NULL] = &provided;
}

const char *dw_crypto_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return fault[0] ? fault : NULL;
}

const struct dw_gcm_ops *const *dw_gcm_libraries(void)
{
    return libraries;
}
