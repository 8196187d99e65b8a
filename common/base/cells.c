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

static uint32_t slots_of(const struct dw_cells *cells)
{
    return (uint32_t)(ALLOCATED_BYTES - sizeof(struct dw_cells_chunk)) / cells->cell_bytes;
}

/* Sees that cells.free is a free number. */
static bool find_number(struct dw_cells *cells)
{
    while (cells->free < cells->capacity && cells->chunks[cells->free])
        cells->free++;
    if (cells->free < cells->capacity)
        return true;
    const uint32_t capacity = cells->capacity ? cells->capacity * 2 : 16;
    if (capacity > 1u << (32 - DW_CELLS_SLOT_BITS))
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
    *chunk = (struct dw_cells_chunk){.cells = cells, .number = cells->free};
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
    const uint32_t slot = chunk->free ? chunk->free - 1u : chunk->cut++;
    uint8_t *cell = (uint8_t *)(chunk + 1) + slot * cells->cell_bytes;
    if (chunk->free)
        chunk->free = *cell;
    if (++chunk->used == slots_of(cells))
        dw_list_remove(&chunk->link);
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
        dw_list_prepend(&cells->partial, &chunk->link);
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
    const struct dw_cells_chunk *chunk = dw_cells_chunk_of(cell);
    const uint32_t at = (uint32_t)((uintptr_t)cell - (uintptr_t)(chunk + 1));
    return chunk->number << DW_CELLS_SLOT_BITS | at / chunk->cells->cell_bytes;
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
