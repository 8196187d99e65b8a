/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/base/gcm_mb.h"

#include <dlfcn.h>
#include <intel-ipsec-mb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/list.h"

/* The functions for this processor; for good. */
static IMB_MGR *mb;

struct mb_gcm {
    struct gcm_key_data key; /* aligned */
    struct gcm_context_data context;
    struct dw_gcm gcm;
    uint8_t nonce[DW_GCM_NONCE_BYTES];
    bool encrypts, text;
};

static const struct dw_gcm_ops ops;

static struct mb_gcm *mb_of(struct dw_gcm *gcm)
{
    return dw_container(gcm, struct mb_gcm, gcm);
}

static struct dw_gcm *create(bool encrypts, bool text)
{
    struct mb_gcm *own = aligned_alloc(_Alignof(struct mb_gcm), sizeof *own);
    if (!own)
        return NULL;
    own->gcm.ops = &ops;
    own->encrypts = encrypts;
    own->text = text;
    return &own->gcm;
}

static void destroy(struct dw_gcm *gcm)
{
    struct mb_gcm *own = mb_of(gcm);
    explicit_bzero(own, sizeof *own);
    free(own);
}

static bool set_key(struct dw_gcm *gcm, const uint8_t key[DW_GCM_KEY_BYTES])
{
    IMB_AES128_GCM_PRE(mb, key, &mb_of(gcm)->key);
    return true;
}

static bool begin(struct dw_gcm *gcm, const uint8_t nonce[DW_GCM_NONCE_BYTES])
{
    struct mb_gcm *own = mb_of(gcm);
    if (own->text)
        memcpy(own->nonce, nonce, sizeof own->nonce);
    else
        IMB_AES128_GMAC_INIT(mb, &own->key, &own->context, nonce, DW_GCM_NONCE_BYTES);
    return true;
}

static bool associate(struct dw_gcm *gcm, const void *data, size_t bytes)
{
    struct mb_gcm *own = mb_of(gcm);
    if (own->text)
        IMB_AES128_GCM_INIT(mb, &own->key, &own->context, own->nonce, data, bytes);
    else
        IMB_AES128_GMAC_UPDATE(mb, &own->key, &own->context, data, bytes);
    return true;
}

static bool crypt(struct dw_gcm *gcm, void *to, const void *from, size_t bytes)
{
    struct mb_gcm *own = mb_of(gcm);
    if (own->encrypts)
        IMB_AES128_GCM_ENC_UPDATE(mb, &own->key, &own->context, to, from, bytes);
    else
        IMB_AES128_GCM_DEC_UPDATE(mb, &own->key, &own->context, to, from, bytes);
    return true;
}

static bool end(struct dw_gcm *gcm, uint8_t tag[DW_GCM_TAG_BYTES])
{
    struct mb_gcm *own = mb_of(gcm);
    if (own->text)
        IMB_AES128_GCM_ENC_FINALIZE(mb, &own->key, &own->context, tag, DW_GCM_TAG_BYTES);
    else
        IMB_AES128_GMAC_FINALIZE(mb, &own->key, &own->context, tag, DW_GCM_TAG_BYTES);
    return true;
}

/* In a time that does not tell where they differ. */
static bool matches(struct dw_gcm *gcm, const uint8_t tag[DW_GCM_TAG_BYTES])
{
    uint64_t right[2], given[2];
    _Static_assert(sizeof right == DW_GCM_TAG_BYTES, "two words");
    memcpy(given, tag, sizeof given);
    end(gcm, (uint8_t *)right);
    return !((right[0] ^ given[0]) | (right[1] ^ given[1]));
}

static const struct dw_gcm_ops ops = {
    .library = "libIPSec_MB",
    .create = create,
    .destroy = destroy,
    .set_key = set_key,
    .begin = begin,
    .associate = associate,
    .crypt = crypt,
    .end = end,
    .matches = matches,
};

const struct dw_gcm_ops *dw_gcm_mb_load(void)
{
    char soname[32];
    IMB_ARCH arch = IMB_ARCH_NONE;
    snprintf(soname, sizeof soname, "libIPSec_MB.so.%d", IMB_VERSION_NUM >> 16);
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return NULL;
    __typeof__(alloc_mb_mgr) *alloc = (__typeof__(alloc_mb_mgr) *)dlsym(library, "alloc_mb_mgr");
    __typeof__(init_mb_mgr_auto) *init =
        (__typeof__(init_mb_mgr_auto) *)dlsym(library, "init_mb_mgr_auto");
    mb = alloc && init ? alloc(0) : NULL;
    if (mb)
        init(mb, &arch);
    return arch != IMB_ARCH_NONE && mb->features & IMB_FEATURE_AESNI ? &ops : NULL;
}
