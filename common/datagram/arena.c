/* SPDX-License-Identifier: BSD-3-Clause */
/* One mapping, filled in order, given back from its end. */
#include "common/datagram/arena.h"

#include <errno.h>

#include "common/base/pages.h"
#include "common/llp/llp.h"

#define PAGE_BYTES 4096u
/* Of the arena, never given back: what is used all the time. */
#define KEEP_BYTES DW_LLP_SLOT_BYTES
/* Receive calls begin at multiples of this, for copies are faster so. */
#define ALIGN_BYTES 64u

_Static_assert(DW_ARENA_BYTES % PAGE_BYTES == 0 && DW_ARENA_BYTES >= 2 * DW_LLP_SLOT_BYTES,
               "whole pages, room for one receive call and what is held of another");

int dw_arena_init(struct dw_arena *arena)
{
    *arena = (struct dw_arena){.base = dw_pages_map(DW_ARENA_BYTES, PAGE_BYTES)};
    return arena->base ? 0 : -ENOMEM;
}

void dw_arena_fini(struct dw_arena *arena)
{
    dw_pages_unmap(arena->base, DW_ARENA_BYTES);
}

uint8_t *dw_arena_next(struct dw_arena *arena)
{
    if (arena->held) {
        uint32_t used = (arena->used + arena->last + ALIGN_BYTES - 1) & ~(ALIGN_BYTES - 1);
        if (used + DW_LLP_SLOT_BYTES > DW_ARENA_BYTES)
            return NULL;
        arena->used = used;
        arena->held = false;
    }
    return arena->base + arena->used;
}

void dw_arena_on_received(struct dw_arena *arena, uint32_t bytes)
{
    const uint32_t end = arena->used + bytes;
    arena->last = bytes;
    if (arena->most < end)
        arena->most = end;
    if (arena->touched < end)
        arena->touched = end;
}

void dw_arena_recycle(struct dw_arena *arena)
{
    arena->held = false;
    arena->used = 0;
}

bool dw_arena_trim(struct dw_arena *arena)
{
    uint32_t keep = arena->most < KEEP_BYTES ? KEEP_BYTES : arena->most;
    keep = (keep + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
    if (arena->touched > keep) {
        dw_pages_drop(arena->base + keep, arena->touched - keep);
        arena->touched = keep;
    }
    arena->most = arena->used + arena->last;
    return arena->touched > KEEP_BYTES;
}
