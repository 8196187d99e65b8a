/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys are derived when something is first sent or received, and given back with their ciphers. */
#include "common/datagram/auth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/slab.h"
#include "common/llp/llp.h"
#include "common/wire/bytes.h"

/* About what a cipher with its key takes. */
#define CONTEXT_BYTES 1200

/* ---- peers ---- */

static uint64_t key_of(struct diwarp_name name)
{
    return (uint64_t)name.job << 32 | name.rank;
}

static bool same(const struct dw_process *a, const struct dw_process *b)
{
    return key_of(a->name) == key_of(b->name) && a->incarnation == b->incarnation;
}

/* NULL: none, or of another incarnation. */
static struct dw_auth_peer *find(struct dw_auth *auth, const struct dw_process *process)
{
    if (!auth->found || !same(&auth->found->process, process))
        auth->found = dw_map_get(&auth->peers, key_of(process->name));
    return auth->found && same(&auth->found->process, process) ? auth->found : NULL;
}

static void drop_cipher(struct dw_auth *auth, struct dw_auth_cipher *cipher)
{
    if (!cipher)
        return;
    *cipher->owner = NULL;
    dw_list_remove(&cipher->link);
    dw_gcm_destroy(cipher->gcm);
    free(cipher);
    auth->cipher_count--;
}

/* Where the highest number of a source that was forgotten is kept. NULL: none ever was. */
static struct dw_auth_gone *gone_of(const struct dw_auth *auth, const struct dw_process *process,
                                    uint64_t *key)
{
    *key = dw_map_hash(key_of(process->name) ^ dw_map_hash(process->incarnation, auth->peers.seed),
                       auth->peers.seed);
    return auth->gone ? &auth->gone[*key % DW_AUTH_GONE_MAX] : NULL;
}

/* Without memory for them, their first datagrams could come a second time: they stay. */
static bool forget_numbers(struct dw_auth *auth, struct dw_auth_peer *peer)
{
    uint64_t key;
    if (!peer->replay)
        return true;
    if (!auth->gone)
        auth->gone = dw_pages_map(DW_AUTH_GONE_MAX * sizeof *auth->gone);
    struct dw_auth_gone *gone = gone_of(auth, &peer->process, &key);
    if (!gone)
        return false;
    *gone = (struct dw_auth_gone){.key = key, .highest = peer->replay->highest};
    free(peer->replay);
    peer->replay = NULL;
    auth->replay_count--;
    return true;
}

/* False: no memory, nothing has changed. */
static bool forget_process(struct dw_auth *auth, struct dw_auth_peer *peer)
{
    if (!forget_numbers(auth, peer))
        return false;
    drop_cipher(auth, peer->ciphers[0]);
    drop_cipher(auth, peer->ciphers[1]);
    explicit_bzero(peer->secret, sizeof peer->secret);
    peer->has_secret = false;
    peer->reset_number = 0;
    return true;
}

static void put_unused(struct dw_auth *auth, struct dw_auth_peer *peer)
{
    if (peer->owners || peer->replay)
        return;
    (void)forget_process(auth, peer);
    dw_map_remove(&auth->peers, key_of(peer->process.name));
    if (auth->found == peer)
        auth->found = NULL;
    free(peer);
}

/* The peer of a process, which takes the place of another incarnation. NULL: no memory. */
static struct dw_auth_peer *get(struct dw_auth *auth, const struct dw_process *process)
{
    struct dw_auth_peer *peer = dw_map_get(&auth->peers, key_of(process->name));
    if (!peer) {
        peer = calloc(1, sizeof *peer);
        if (!peer || dw_map_put(&auth->peers, key_of(process->name), peer)) {
            free(peer);
            return NULL;
        }
    } else if (peer->process.incarnation != process->incarnation && !forget_process(auth, peer)) {
        return NULL;
    }
    peer->process = *process;
    return peer;
}

int dw_auth_on_told(struct dw_auth *auth, const struct dw_process *process,
                    const uint8_t secret[DIWARP_SECRET_BYTES])
{
    struct dw_auth_peer *peer = get(auth, process);
    if (!peer)
        return -ENOMEM;
    if (!peer->has_secret || memcmp(peer->secret, secret, sizeof peer->secret)) {
        drop_cipher(auth, peer->ciphers[0]);
        drop_cipher(auth, peer->ciphers[1]);
    }
    memcpy(peer->secret, secret, sizeof peer->secret);
    peer->has_secret = true;
    peer->owners++;
    return 0;
}

void dw_auth_on_untold(struct dw_auth *auth, struct diwarp_name name)
{
    struct dw_auth_peer *peer = dw_map_get(&auth->peers, key_of(name));
    if (peer && peer->owners && !--peer->owners)
        put_unused(auth, peer);
}

void dw_auth_on_forgotten(struct dw_auth *auth, struct diwarp_name name)
{
    struct dw_auth_peer *peer = dw_map_get(&auth->peers, key_of(name));
    if (peer && forget_numbers(auth, peer))
        put_unused(auth, peer);
}

/* ---- ciphers ---- */

/* By the secret of the destination, or of the source (WIRE.md section 6). */
static bool derive(const struct dw_auth *auth, const uint8_t secret[DIWARP_SECRET_BYTES],
                   const struct dw_process *from, const struct dw_process *to,
                   uint8_t key[DW_GCM_KEY_BYTES])
{
    const struct dw_process *ends[] = {from, to};
    uint8_t prk[DW_HMAC_BYTES], info[8 + 1 + 2 * 12] = "diwarp 2", *at = info + 8;
    *at++ = (uint8_t)auth->mode;
    for (unsigned i = 0; i < 2; i++, at += 12) {
        dw_put_be32(at, ends[i]->name.job);
        dw_put_be32(at + 4, ends[i]->name.rank);
        dw_put_be32(at + 8, ends[i]->incarnation);
    }
    const bool good =
        dw_hmac(auth->file_key, sizeof auth->file_key, secret, DIWARP_SECRET_BYTES, prk) &&
        dw_hkdf_expand(prk, info, sizeof info, key);
    explicit_bzero(prk, sizeof prk);
    return good;
}

/* At the bound the oldest goes that has not been used since it was looked at last. */
static void make_room(struct dw_auth *auth)
{
    while (auth->cipher_count >= DW_AUTH_CIPHERS_MAX) {
        struct dw_auth_cipher *oldest =
            dw_container(auth->ciphers.next, struct dw_auth_cipher, link);
        if (!oldest->used) {
            drop_cipher(auth, oldest);
            return;
        }
        oldest->used = false;
        dw_list_remove(&oldest->link);
        dw_list_append(&auth->ciphers, &oldest->link);
    }
}

/* One without a key. NULL: no memory. */
static struct dw_auth_cipher *add_cipher(struct dw_auth *auth, bool sends,
                                         struct dw_auth_cipher **owner)
{
    make_room(auth);
    struct dw_auth_cipher *cipher = calloc(1, sizeof *cipher);
    if (!cipher || !(cipher->gcm = dw_gcm_create(sends, auth->mode == DIWARP_AUTH_AES_GCM))) {
        free(cipher);
        return NULL;
    }
    cipher->owner = owner;
    *owner = cipher;
    dw_list_append(&auth->ciphers, &cipher->link);
    auth->cipher_count++;
    return cipher;
}

/* For datagrams to a process, or from it; peer: its, or NULL. Returns NULL: no memory, or its
 * secret is not known. */
static struct dw_gcm *cipher_for(struct dw_auth *auth, struct dw_auth_peer *peer,
                                 const struct dw_process *process, bool sends, bool source_key)
{
    struct dw_auth_cipher **owner = peer ? &peer->ciphers[sends] : &auth->stranger_ciphers[sends];
    struct dw_auth_cipher *cipher = *owner;
    const bool keyed = cipher && cipher->source_key == source_key &&
                       (peer || same(&auth->strangers[sends], process));
    uint8_t key[DW_GCM_KEY_BYTES];
    if (!keyed) {
        const bool theirs = sends != source_key;
        if (theirs && (!peer || !peer->has_secret))
            return NULL;
        if (!cipher)
            cipher = add_cipher(auth, sends, owner);
        const bool good = cipher &&
                          derive(auth, theirs ? peer->secret : auth->secret,
                                 sends ? &auth->me : process, sends ? process : &auth->me, key) &&
                          dw_gcm_set_key(cipher->gcm, key);
        explicit_bzero(key, sizeof key);
        if (!good) {
            drop_cipher(auth, cipher);
            return NULL;
        }
        cipher->source_key = source_key;
        if (!peer)
            auth->strangers[sends] = *process;
    }
    cipher->used = true;
    return cipher->gcm;
}

bool dw_auth_trim(struct dw_auth *auth)
{
    dw_foreach (cipher, struct dw_auth_cipher, link, &auth->ciphers) {
        if (!cipher->used)
            drop_cipher(auth, cipher);
        else
            cipher->used = false;
    }
    return auth->cipher_count;
}

/* ---- datagrams ---- */

/* No two datagrams under a key have the same: a port counts its UD datagrams and RESETs, a peer the
 * others (WIRE.md section 6). */
static bool begin(struct dw_gcm *gcm, uint8_t type, uint64_t number)
{
    uint8_t nonce[DW_GCM_NONCE_BYTES] = {type == DW_LLP_UD ? 0 : type == DW_LLP_RESET ? 2 : 1};
    dw_put_be64(nonce + 4, number);
    return dw_gcm_begin(gcm, nonce);
}

uint8_t dw_auth_flags(struct dw_auth *auth, const struct dw_process *to)
{
    const struct dw_auth_peer *peer = find(auth, to);
    return DW_LLP_SEALED | (peer && peer->has_secret ? 0 : DW_LLP_SOURCE_KEY);
}

struct dw_gcm *dw_auth_seal(struct dw_auth *auth, const struct dw_process *to, const uint8_t *buf)
{
    struct dw_gcm *gcm = cipher_for(auth, find(auth, to), to, true, buf[1] & DW_LLP_SOURCE_KEY);
    return gcm && begin(gcm, buf[0] & 0xf, dw_get_be64(buf + 24)) ? gcm : NULL;
}

static bool is_replay(const struct dw_auth *auth, const struct dw_auth_peer *peer,
                      const struct dw_process *from, const struct dw_llp_header *header)
{
    uint64_t key;
    if (header->type == DW_LLP_UD)
        return false; /* which UD knows by itself */
    if (header->type == DW_LLP_RESET)
        return peer && header->number <= peer->reset_number;
    if (peer && peer->replay)
        return dw_replay_check(peer->replay, header->number);
    const struct dw_auth_gone *gone = gone_of(auth, from, &key);
    return gone && gone->key == key && header->number <= gone->highest;
}

uint64_t *dw_auth_open(struct dw_auth *auth, struct diwarp_counters *counters,
                       const struct dw_llp_header *header, uint8_t *buf, uint32_t len)
{
    const struct dw_process from = {.name = {.job = header->job, .rank = header->rank},
                                    .incarnation = header->incarnation};
    struct dw_auth_peer *peer = find(auth, &from);
    if (is_replay(auth, peer, &from, header))
        return &counters->drop_replay;
    struct dw_gcm *gcm = cipher_for(auth, peer, &from, false, header->flags & DW_LLP_SOURCE_KEY);
    const uint32_t bytes = len - DW_TAG_BYTES;
    const uint32_t clear = auth->mode == DIWARP_AUTH_GMAC ? bytes : DW_LLP_HEADER_BYTES;
    if (!gcm || !begin(gcm, header->type, header->number) || !dw_gcm_associate(gcm, buf, clear) ||
        (clear < bytes && !dw_gcm_crypt(gcm, buf + clear, buf + clear, bytes - clear)) ||
        !dw_gcm_matches(gcm, buf + bytes))
        return &counters->drop_auth;
    if (header->type == DW_LLP_RESET && peer)
        peer->reset_number = header->number;
    return NULL;
}

bool dw_auth_on_taken(struct dw_auth *auth, const struct dw_llp_header *header)
{
    const struct dw_process from = {.name = {.job = header->job, .rank = header->rank},
                                    .incarnation = header->incarnation};
    struct dw_auth_peer *peer = find(auth, &from);
    if (!peer)
        peer = get(auth, &from);
    if (!peer)
        return false;
    if (!peer->replay) {
        uint64_t key;
        const struct dw_auth_gone *gone = gone_of(auth, &from, &key);
        peer->replay = calloc(1, sizeof *peer->replay);
        if (!peer->replay) {
            put_unused(auth, peer);
            return false;
        }
        auth->replay_count++;
        if (gone && gone->key == key)
            dw_replay_init_behind(peer->replay, gone->highest);
    }
    dw_replay_add(peer->replay, header->number);
    return true;
}

/* ---- beginning and end ---- */

struct dw_auth *dw_auth_create(enum diwarp_auth mode, const struct dw_process *me,
                               const uint8_t secret[DIWARP_SECRET_BYTES],
                               const uint8_t file_key[DW_HMAC_BYTES], uint64_t seed)
{
    struct dw_auth *auth = calloc(1, sizeof *auth);
    if (!auth || !(auth->out = dw_pages_map(DW_LLP_SLOT_BYTES))) {
        free(auth);
        return NULL;
    }
    auth->mode = mode;
    auth->me = *me;
    memcpy(auth->secret, secret, sizeof auth->secret);
    memcpy(auth->file_key, file_key, sizeof auth->file_key);
    dw_map_init(&auth->peers, seed);
    dw_list_init(&auth->ciphers);
    return auth;
}

void dw_auth_destroy(struct dw_auth *auth)
{
    size_t slot = 0;
    if (!auth)
        return;
    dw_foreach (cipher, struct dw_auth_cipher, link, &auth->ciphers)
        drop_cipher(auth, cipher);
    for (struct dw_auth_peer *peer; (peer = dw_map_next(&auth->peers, &slot));) {
        explicit_bzero(peer->secret, sizeof peer->secret);
        free(peer->replay);
        free(peer);
    }
    dw_map_fini(&auth->peers);
    dw_pages_unmap(auth->out, DW_LLP_SLOT_BYTES);
    dw_pages_unmap(auth->gone, DW_AUTH_GONE_MAX * sizeof *auth->gone);
    explicit_bzero(auth, sizeof *auth);
    free(auth);
}

uint64_t dw_auth_bytes(const struct dw_auth *auth)
{
    return sizeof *auth + auth->peers.count * sizeof(struct dw_auth_peer) +
           dw_map_bytes(&auth->peers) + auth->replay_count * sizeof(struct dw_replay) +
           auth->cipher_count * (sizeof(struct dw_auth_cipher) + CONTEXT_BYTES);
}
