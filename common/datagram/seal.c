/* SPDX-License-Identifier: BSD-3-Clause */
/* Sealing with a tag: the LLP header is associated data, what follows it too or, where it is to be
 * secret, text. */
#include "common/datagram/seal.h"

#include <string.h>

/* Without a cipher the datagram has no tag, which nobody takes, and nothing that is secret. */
static void lack(struct dw_sealing *sealing, bool good)
{
    if (!good)
        sealing->gcm = NULL;
}

void dw_sealing_copy_auth(struct dw_sealing *sealing, void *to, const void *from, size_t bytes)
{
    if (sealing->secret) {
        lack(sealing, sealing->gcm && dw_gcm_crypt(sealing->gcm, to, from, bytes));
        if (!sealing->gcm)
            memset(to, 0, bytes);
        return;
    }
    if (to != from)
        dw_copy(to, from, bytes);
    lack(sealing, sealing->gcm && dw_gcm_associate(sealing->gcm, to, bytes));
}

void dw_sealing_begin_auth(struct dw_sealing *sealing, const struct dw_process *to, uint8_t *head,
                           size_t bytes)
{
    const bool secret = sealing->auth->mode == DIWARP_AUTH_AES_GCM;
    const size_t clear = secret ? DW_LLP_HEADER_BYTES : bytes;
    sealing->gcm = dw_auth_seal(sealing->auth, to, head);
    dw_sealing_copy_auth(sealing, head, head, clear);
    sealing->secret = secret;
    if (clear < bytes)
        dw_sealing_copy_auth(sealing, head + clear, head + clear, bytes - clear);
}

void dw_sealing_end_auth(struct dw_sealing *sealing, uint8_t *trailer)
{
    if (!sealing->gcm || !dw_gcm_end(sealing->gcm, trailer))
        memset(trailer, 0, DW_TAG_BYTES);
}

void dw_seal_auth(const struct dw_seal *seal, const struct dw_process *to, uint8_t *buf,
                  uint32_t bytes, uint8_t *place)
{
    struct dw_sealing sealing = {.auth = seal->auth};
    const uint32_t apart = place != buf ? bytes - DW_LLP_HEADER_BYTES : 0;
    if (apart)
        memcpy(place, buf, DW_LLP_HEADER_BYTES);
    dw_sealing_begin_auth(&sealing, to, place, bytes - apart);
    if (apart)
        dw_sealing_copy_auth(&sealing, place + DW_LLP_HEADER_BYTES, buf + DW_LLP_HEADER_BYTES,
                             apart);
    dw_sealing_end_auth(&sealing, place + bytes);
}
