/* SPDX-License-Identifier: BSD-3-Clause */
/* AES-128-GCM (NIST SP 800-38D), as some library has it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DW_GCM_KEY_BYTES   16
#define DW_GCM_NONCE_BYTES 12
#define DW_GCM_TAG_BYTES   16

/* A cipher of one direction, with the functions of the library that it is of. Those that return
 * bool: false, no memory. */
struct dw_gcm {
    const struct dw_gcm_ops *ops;
};

/* Where `text` is not to follow, associated data may come in any number of pieces, else in one. */
struct dw_gcm_ops {
    const char *library;
    struct dw_gcm *(*create)(bool encrypts, bool text); /* NULL: no memory */
    void (*destroy)(struct dw_gcm *gcm);
    bool (*set_key)(struct dw_gcm *gcm, const uint8_t key[DW_GCM_KEY_BYTES]);
    bool (*begin)(struct dw_gcm *gcm, const uint8_t nonce[DW_GCM_NONCE_BYTES]);
    bool (*associate)(struct dw_gcm *gcm, const void *data, size_t bytes);
    bool (*crypt)(struct dw_gcm *gcm, void *to, const void *from, size_t bytes);
    bool (*end)(struct dw_gcm *gcm, uint8_t tag[DW_GCM_TAG_BYTES]);
    bool (*matches)(struct dw_gcm *gcm, const uint8_t tag[DW_GCM_TAG_BYTES]);
};

static inline void dw_gcm_destroy(struct dw_gcm *gcm)
{
    if (gcm)
        gcm->ops->destroy(gcm);
}

static inline bool dw_gcm_set_key(struct dw_gcm *gcm, const uint8_t key[DW_GCM_KEY_BYTES])
{
    return gcm->ops->set_key(gcm, key);
}

/* A message, in this order: its nonce, which no other message under the key has; associated data;
 * text, encrypted or decrypted; its tag. */
static inline bool dw_gcm_begin(struct dw_gcm *gcm, const uint8_t nonce[DW_GCM_NONCE_BYTES])
{
    return gcm->ops->begin(gcm, nonce);
}

static inline bool dw_gcm_associate(struct dw_gcm *gcm, const void *data, size_t bytes)
{
    return gcm->ops->associate(gcm, data, bytes);
}

/* In place, or without overlap. */
static inline bool dw_gcm_crypt(struct dw_gcm *gcm, void *to, const void *from, size_t bytes)
{
    return gcm->ops->crypt(gcm, to, from, bytes);
}

static inline bool dw_gcm_end(struct dw_gcm *gcm, uint8_t tag[DW_GCM_TAG_BYTES])
{
    return gcm->ops->end(gcm, tag);
}

/* Of one that decrypts: whether that is the tag. False: nothing of the text may be used. */
static inline bool dw_gcm_matches(struct dw_gcm *gcm, const uint8_t tag[DW_GCM_TAG_BYTES])
{
    return gcm->ops->matches(gcm, tag);
}
