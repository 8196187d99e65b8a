/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks of cells, and the table of their numbers. Number 0 is left out, for no index to be 0. */
#include "common/base/cells.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* malloc() keeps a word with each block: chunks lie side by side. */
#define ALLOCATED_BYTES (DW_CELLS_CHUNK_BYTES - sizeof(size_t))

void dw_cells_init(struct dw_cells *cells, uint32_t cell_bytes)
{
    assert(cell_bytes >= DW_CELLS_CHUNK_BYTES >> DW_CELLS_SLOT_BITS && !(cell_bytes % 8));
    *cells = (struct dw_cells){.cell_bytes = cell_bytes, .cut = 1, .free = 1};
}

static uint32_t slots_of(const struct dw_cells *cells)
{
    return (uint32_t)(ALLOCATED_BYTES - sizeof(struct dw_cells_chunk)) / cells->cell_bytes;
}

/* Room for a number more. */
static bool grow(struct dw_cells *cells)
{
    const uint32_t capacity = cells->capacity ? cells->capacity * 2 : 16;
    if (cells->free < cells->capacity)
        return true;
    if (capacity > 1u << (32 - DW_CELLS_SLOT_BITS))
        return false;
    union dw_cells_number *chunks = realloc(cells->chunks, capacity * sizeof *chunks);
    if (!chunks)
        return false;
    cells->chunks = chunks;
    cells->capacity = capacity;
    return true;
}

/* ---- chunks with a free cell ---- */

static struct dw_cells_chunk *chunk_at(const struct dw_cells *cells, uint32_t number)
{
    return number ? cells->chunks[number].chunk : NULL;
}

static void link_chunk(struct dw_cells *cells, struct dw_cells_chunk *chunk)
{
    struct dw_cells_chunk *next = chunk_at(cells, cells->partial);
    chunk->prev = 0;
    chunk->next = cells->partial;
    cells->partial = chunk->number;
    if (next)
        next->prev = chunk->number;
}

static void unlink_chunk(struct dw_cells *cells, const struct dw_cells_chunk *chunk)
{
    struct dw_cells_chunk *next = chunk_at(cells, chunk->next);
    struct dw_cells_chunk *prev = chunk_at(cells, chunk->prev);
    *(prev ? &prev->next : &cells->partial) = chunk->next;
    if (next)
        next->prev = chunk->prev;
}

/* ---- chunks and cells ---- */

static struct dw_cells_chunk *take_chunk(struct dw_cells *cells)
{
    void *memory;
    if (!grow(cells) || posix_memalign(&memory, DW_CELLS_CHUNK_BYTES, ALLOCATED_BYTES))
        return NULL;
    struct dw_cells_chunk *chunk = memory;
    *chunk = (struct dw_cells_chunk){.cells = cells, .number = cells->free};
    cells->free =
        cells->free == cells->cut ? ++cells->cut : (uint32_t)cells->chunks[cells->free].next_free;
    cells->chunks[chunk->number].chunk = chunk;
    cells->chunk_count++;
    link_chunk(cells, chunk);
    return chunk;
}

void *dw_cells_get(struct dw_cells *cells)
{
    struct dw_cells_chunk *chunk = chunk_at(cells, cells->partial);
    if (!chunk)
        chunk = take_chunk(cells);
    if (!chunk)
        return NULL;
    const uint32_t slot = chunk->free ? chunk->free - 1u : chunk->cut++;
    uint8_t *cell = (uint8_t *)(chunk + 1) + slot * cells->cell_bytes;
    if (chunk->free)
        chunk->free = *cell;
    if (++chunk->used == slots_of(cells))
        unlink_chunk(cells, chunk);
    cells->count++;
    return memset(cell, 0, cells->cell_bytes);
}

void dw_cells_put(void *cell)
{
    struct dw_cells_chunk *chunk = dw_cells_chunk_of(cell);
    struct dw_cells *cells = chunk->cells;
    if (!cells) {
        /* Owners of what is left have no lock in common any more. */
        if (!__atomic_sub_fetch(&chunk->used, 1, __ATOMIC_ACQ_REL))
            free(chunk);
        return;
    }
    *(uint8_t *)cell = chunk->free;
    chunk->free = (uint8_t)((dw_cells_index(cell) & ((1u << DW_CELLS_SLOT_BITS) - 1)) + 1);
    cells->count--;
    if (chunk->used-- == slots_of(cells))
        link_chunk(cells, chunk);
    if (chunk->used)
        return;
    unlink_chunk(cells, chunk);
    cells->chunks[chunk->number].next_free = cells->free;
    cells->free = chunk->number;
    cells->chunk_count--;
    free(chunk);
}

uint32_t dw_cells_index(const void *cell)
{
    const struct dw_cells_chunk *chunk = dw_cells_chunk_of(cell);
    const uint32_t at = (uint32_t)((uintptr_t)cell - (uintptr_t)(chunk + 1));
    return chunk->number << DW_CELLS_SLOT_BITS | at / chunk->cells->cell_bytes;
}

void dw_cells_fini(struct dw_cells *cells)
{
    /* A free number is told from that of a chunk by its place in the chain alone. */
    while (cells->free != cells->cut) {
        const uint32_t number = cells->free;
        cells->free = (uint32_t)cells->chunks[number].next_free;
        cells->chunks[number].chunk = NULL;
    }
    for (uint32_t number = 1; number < cells->cut; number++)
        if (cells->chunks[number].chunk)
            cells->chunks[number].chunk->cells = NULL;
    free(cells->chunks);
    dw_cells_init(cells, cells->cell_bytes);
}

uint64_t dw_cells_bytes(const struct dw_cells *cells)
{
    return (uint64_t)cells->chunk_count * ALLOCATED_BYTES + cells->capacity * sizeof *cells->chunks;
}
