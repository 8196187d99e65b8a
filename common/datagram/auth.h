/* SPDX-License-Identifier: BSD-3-Clause */
/* Authentication of a port's datagrams: who shares which key, ciphers for those who speak, and
 * which of their datagrams have come before (WIRE.md section 6). There is none of all this where it
 * is off. */
#pragma once

#include "common/base/crypto.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "common/include/diwarp.h"
#include "common/rel/replay.h"
#include "common/wire/llp_header.h"

/* Ciphers held at a time, of some 1.2 KB each; a peer that speaks needs two. With more, the one
 * that was not used for longest goes, and is derived anew when it is needed, in some microseconds.
 */
#define DW_AUTH_CIPHERS_MAX 2048
/* Sources that were forgotten, whose highest number is kept, until another one needs the place. */
#define DW_AUTH_GONE_MAX 65536u

/* One incarnation of a process. */
struct dw_process {
    struct diwarp_name name;
    uint32_t incarnation;
};

struct dw_auth_cipher {
    struct dw_list link; /* in dw_auth.ciphers */
    struct dw_auth_cipher **owner;
    struct dw_gcm *gcm;
    bool source_key; /* by the secret of the source, not of the destination */
    bool used;       /* since it was looked at last, to make room or to trim */
};

/* Of a name: the incarnation that was told, or accepted, last. */
struct dw_auth_peer {
    struct dw_process process;
    uint32_t owners; /* address handles */
    bool has_secret; /* else its address was not told */
    uint8_t secret[DIWARP_SECRET_BYTES];
    uint64_t reset_number;             /* of its RESETs the highest that came */
    struct dw_replay *replay;          /* of its other RD datagrams; NULL: none has come */
    struct dw_auth_cipher *ciphers[2]; /* for what comes, for what goes; NULL: not derived */
};

/* What is left of a source that was forgotten. */
struct dw_auth_gone {
    uint64_t key, highest;
};

struct dw_auth {
    enum diwarp_auth mode;
    struct dw_process me;
    uint8_t secret[DIWARP_SECRET_BYTES];
    uint8_t file_key[DW_HMAC_BYTES];
    struct dw_map peers;        /* struct dw_auth_peer by name */
    struct dw_auth_peer *found; /* the last; or NULL */
    struct dw_list ciphers;     /* those of peers and strangers, the oldest first */
    uint32_t cipher_count, replay_count;
    struct dw_auth_gone *gone; /* NULL: nobody has been forgotten */
    /* For processes that are no peers, one at a time. */
    struct dw_auth_cipher *stranger_ciphers[2];
    struct dw_process strangers[2];
    uint8_t *out; /* where a train is encrypted to whose text may be sent again */
};

/* NULL: no memory. */
struct dw_auth *dw_auth_create(enum diwarp_auth mode, const struct dw_process *me,
                               const uint8_t secret[DIWARP_SECRET_BYTES],
                               const uint8_t file_key[DW_HMAC_BYTES], uint64_t seed);
void dw_auth_destroy(struct dw_auth *auth);
bool dw_auth_trim(struct dw_auth *auth);
uint64_t dw_auth_bytes(const struct dw_auth *auth);

/* The address of a process was told, to an owner of it more, or one of these goes. -ENOMEM. */
int dw_auth_on_told(struct dw_auth *auth, const struct dw_process *process,
                    const uint8_t secret[DIWARP_SECRET_BYTES]);
void dw_auth_on_untold(struct dw_auth *auth, struct diwarp_name name);
/* A datagram that was opened is from the process that it says: notes its number. False: no memory,
 * it may not be taken. */
bool dw_auth_on_taken(struct dw_auth *auth, const struct dw_llp_header *header);
/* Nothing of that name is known any more; but what has come of it will not come again. */
void dw_auth_on_forgotten(struct dw_auth *auth, struct diwarp_name name);

/* The flags that say by which key a datagram to the process is sealed. */
uint8_t dw_auth_flags(struct dw_auth *auth, const struct dw_process *to);
/* Begins to seal what begins with that header, which is the first to be told; NULL: no memory. */
struct dw_gcm *dw_auth_seal(struct dw_auth *auth, const struct dw_process *to,
                            const uint8_t *header);
/* Opens a datagram, decrypting it in place. Returns the counter of what is wrong, or NULL. */
uint64_t *dw_auth_open(struct dw_auth *auth, struct diwarp_counters *counters,
                       const struct dw_llp_header *header, uint8_t *buf, uint32_t len);
