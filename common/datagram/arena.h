/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive arena: receive calls fill it from one end on, completions point into it until all
 * that were handed out are used. Then it begins anew.
 */
#ifndef DW_ARENA_H
#define DW_ARENA_H

#include <stdbool.h>
#include <stdint.h>

/* Room for what completions point to while nobody polls. When it is used up, sequenced datagrams
 * are refused, and come again. */
#define DW_ARENA_BYTES (1u << 20)

struct dw_arena {
    uint8_t *base;
    uint32_t used;    /* before it lies what completions not handed out point to */
    uint32_t last;    /* bytes that the last call brought */
    uint32_t touched; /* end of what is backed by memory */
    uint32_t most;    /* end of what has been written since the last trim */
    bool held;        /* a completion points to what the last call brought */
};

/* -ENOMEM. */
int dw_arena_init(struct dw_arena *arena);
void dw_arena_fini(struct dw_arena *arena);
/* Where the next receive call of DW_LLP_SLOT_BYTES goes; NULL: nowhere that would leave alone what
 * is held. */
uint8_t *dw_arena_next(struct dw_arena *arena);
/* It brought so many bytes. */
void dw_arena_on_received(struct dw_arena *arena, uint32_t bytes);
/* All that was handed out is used. */
void dw_arena_recycle(struct dw_arena *arena);
/* Gives back what was not needed since the last time; true: there may be more. */
bool dw_arena_trim(struct dw_arena *arena);

#endif
