/* SPDX-License-Identifier: BSD-3-Clause */
/* Number 0 is left out, for no index to be 0. */
#include "common/base/cells.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* malloc() keeps a word with each block: chunks lie side by side. */
#define ALLOCATED_BYTES (DW_CELLS_CHUNK_BYTES - sizeof(size_t))

void dw_cells_init(struct dw_cells *cells, uint32_t cell_bytes)
{
    assert(cell_bytes >= DW_CELLS_CHUNK_BYTES >> DW_CELLS_SLOT_BITS && !(cell_bytes % 8));
    *cells = (struct dw_cells){.cell_bytes = cell_bytes, .free = 1};
    dw_list_init(&cells->partial);
}

/* A bit for each slot of a chunk. */
static uint64_t all_of(const struct dw_cells *cells)
{
    return UINT64_MAX >>
           (64 - (ALLOCATED_BYTES - sizeof(struct dw_cells_chunk)) / cells->cell_bytes);
}

static uint32_t slot_of(const void *cell)
{
    const struct dw_cells_chunk *chunk = dw_cells_chunk_of(cell);
    return (uint32_t)((uintptr_t)cell - (uintptr_t)(chunk + 1)) / chunk->cell_bytes;
}

/* Sees that cells.free is a free number. */
static bool find_number(struct dw_cells *cells)
{
    while (cells->free < cells->capacity && cells->chunks[cells->free])
        cells->free++;
    if (cells->free < cells->capacity)
        return true;
    const uint32_t capacity = cells->capacity ? cells->capacity * 2 : 16;
    if (capacity > 1u << (DW_CELLS_INDEX_BITS - DW_CELLS_SLOT_BITS))
        return false;
    void *chunks = realloc(cells->chunks, capacity * sizeof *cells->chunks);
    if (!chunks)
        return false;
    cells->chunks = chunks;
    memset(cells->chunks + cells->capacity, 0,
           (capacity - cells->capacity) * sizeof *cells->chunks);
    cells->capacity = capacity;
    return true;
}

static struct dw_cells_chunk *take_chunk(struct dw_cells *cells)
{
    void *memory;
    if (!find_number(cells) || posix_memalign(&memory, DW_CELLS_CHUNK_BYTES, ALLOCATED_BYTES))
        return NULL;
    struct dw_cells_chunk *chunk = cells->chunks[cells->free] = memory;
    *chunk = (struct dw_cells_chunk){
        .cells = cells, .number = cells->free, .cell_bytes = cells->cell_bytes};
    dw_list_append(&cells->partial, &chunk->link);
    cells->chunk_count++;
    return chunk;
}

void *dw_cells_get(struct dw_cells *cells)
{
    struct dw_cells_chunk *chunk =
        dw_list_empty(&cells->partial)
            ? take_chunk(cells)
            : dw_container(cells->partial.next, struct dw_cells_chunk, link);
    if (!chunk)
        return NULL;
    const uint32_t slot = (uint32_t)__builtin_ctzll(~chunk->used);
    chunk->used |= 1ull << slot;
    if (chunk->used == all_of(cells))
        dw_list_remove(&chunk->link);
    cells->count++;
    return memset((uint8_t *)(chunk + 1) + slot * cells->cell_bytes, 0, cells->cell_bytes);
}

void dw_cells_put(void *cell)
{
    struct dw_cells_chunk *chunk = dw_cells_chunk_of(cell);
    struct dw_cells *cells = chunk->cells;
    const uint64_t others = ~(1ull << slot_of(cell));
    if (!cells) {
        /* Owners of what is left have no lock in common any more. */
        if (!__atomic_and_fetch(&chunk->used, others, __ATOMIC_ACQ_REL))
            free(chunk);
        return;
    }
    cells->count--;
    if (chunk->used == all_of(cells))
        dw_list_prepend(&cells->partial, &chunk->link);
    chunk->used &= others;
    if (chunk->used)
        return;
    dw_list_remove(&chunk->link);
    cells->chunks[chunk->number] = NULL;
    if (cells->free > chunk->number)
        cells->free = chunk->number;
    cells->chunk_count--;
    free(chunk);
}

uint32_t dw_cells_index(const void *cell)
{
    return dw_cells_chunk_of(cell)->number << DW_CELLS_SLOT_BITS | slot_of(cell);
}

void *dw_cells_next(const struct dw_cells *cells, uint32_t *index)
{
    const uint32_t slots = 1u << DW_CELLS_SLOT_BITS;
    for (uint32_t at = *index + 1; at / slots < cells->capacity; at = (at / slots + 1) * slots) {
        const struct dw_cells_chunk *chunk = cells->chunks[at / slots];
        const uint64_t left = chunk ? chunk->used >> at % slots : 0;
        if (!left)
            continue;
        *index = at + (uint32_t)__builtin_ctzll(left);
        return dw_cells_at(cells, *index);
    }
    *index = 0;
    return NULL;
}

void dw_cells_fini(struct dw_cells *cells)
{
    for (uint32_t number = 1; number < cells->capacity; number++)
        if (cells->chunks[number])
            cells->chunks[number]->cells = NULL;
    free(cells->chunks);
    dw_cells_init(cells, cells->cell_bytes);
}

uint64_t dw_cells_bytes(const struct dw_cells *cells)
{
    return (uint64_t)cells->chunk_count * ALLOCATED_BYTES + cells->capacity * sizeof *cells->chunks;
}
