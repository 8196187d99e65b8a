/* SPDX-License-Identifier: BSD-3-Clause */
/* The datagrams of a port: its LLP, the pool that they are built in, the arena that they are
 * received in, and the one entrance and the one exit that all of them take. */
#pragma once

#include "common/base/slab.h"
#include "common/datagram/seal.h"
#include "common/llp/llp.h"

/* Refusals by the kernel that end a run, of each kind of datagrams: another interface may have room
 * where one has none. */
#define DW_REFUSALS_PER_RUN 2

/* Room for what completions point to while nobody polls. When it is used up, sequenced datagrams
 * are refused, and come again. */
#define DW_ARENA_BYTES (1u << 20)

/* Receive calls fill it from one end on, completions point into it until all that were handed out
 * are used. Then it begins anew. */
struct dw_arena {
    uint8_t *base;
    uint32_t used;    /* before it lies what completions not handed out point to */
    uint32_t last;    /* bytes that the last call brought */
    uint32_t touched; /* end of what is backed by memory */
    uint32_t most;    /* end of what has been written since the last trim */
    bool held;        /* a completion points to what the last call brought */
};

/* Where the next receive call of DW_LLP_SLOT_BYTES goes; NULL: all is held. */
uint8_t *dw_arena_next(struct dw_arena *arena);

/* All that was handed out is used. */
static inline void dw_arena_recycle(struct dw_arena *arena)
{
    arena->held = false;
    arena->used = 0;
}

struct dw_window; /* common/rnic/groups.h */

/* Where datagrams to a group come, and what they must bear. */
struct dw_group_socket {
    struct dw_llp *llp;
    uint64_t token;
};

/* A datagram whose length, version and token are right. */
struct dw_arrival {
    uint8_t *buf; /* all of it, header and trailer included; decrypted in place */
    uint32_t len;
    uint16_t train; /* in the first of what a receive call brought: how many; in the others 0 */
    bool marked;    /* it met congestion on the way (RFC 3168) */
    struct dw_llp_header header;
    const struct dw_group_socket *group; /* by which it came; NULL: by the port's */
    const struct dw_window *window;      /* of a group: of the member that it is handed to */
    /* Once it has been opened: */
    const struct dw_intro *intro; /* NULL: it has none */
    struct dw_intro intro_read;
    const uint8_t *segments;
    uint32_t segments_len;
};

struct dw_datagrams {
    struct dw_llp *llp;
    struct diwarp_counters counters;
    struct dw_seal seal;
    uint64_t token;       /* a datagram must bear it */
    uint32_t incarnation; /* told with each */
    uint64_t number;      /* of those to sources that have no number of their own */
    struct diwarp_name name;
    struct dw_slab pool;
    struct dw_arena arena;
    uint8_t *stage; /* trains on their way out; receives of which nothing stays */
    /* Whom the entrance hands datagrams to, not opened yet. */
    void (*take)(struct dw_datagrams *datagrams, struct dw_arrival *arrival, uint64_t now_ns);
};

/* The memory it has from the start; all else that has no zero is the caller's to set.
 * -ENOMEM. */
int dw_datagrams_init(struct dw_datagrams *datagrams, uint32_t pool_bytes);
/* Closes the LLP, if there is one. */
void dw_datagrams_fini(struct dw_datagrams *datagrams);

/* The entrance: one receive call; true when it brought something. place: where it goes, of
 * DW_LLP_SLOT_BYTES; the arena's next, or the stage. */
bool dw_datagrams_receive(struct dw_datagrams *datagrams, uint8_t *place, uint64_t now_ns);
/* Likewise, of a group; to the stage. */
bool dw_datagrams_receive_group(struct dw_datagrams *datagrams, const struct dw_group_socket *group,
                                uint64_t now_ns);
/* Whether a datagram is what its sender sealed; if not, or malformed, it is counted. */
bool dw_datagrams_open(struct dw_datagrams *datagrams, struct dw_arrival *arrival);
/* It was part of a message, so its sender had a train to send, unless two were too long for one. A
 * group's socket takes none. */
static inline void dw_datagrams_on_part(struct dw_datagrams *datagrams,
                                        const struct dw_arrival *arrival)
{
    datagrams->llp->trains |= !arrival->group && arrival->len <= DW_LLP_SLOT_BYTES / 2;
}
/* The exit, of datagrams that are sealed; sets total_bytes and ecn. As send() of the LLP. */
int dw_datagrams_send(struct dw_datagrams *datagrams, struct dw_llp_train *train);
/* Datagrams of a train, if each has so many bytes. */
static inline uint32_t dw_train_datagrams(uint32_t each)
{
    const uint32_t most = DW_LLP_TRAIN_BYTES / each;
    return most > DW_LLP_TRAIN_DATAGRAMS ? DW_LLP_TRAIN_DATAGRAMS : most ? most : 1;
}
/* Gives back what was not needed since the last time; true: there may be more. */
bool dw_datagrams_trim(struct dw_datagrams *datagrams);
