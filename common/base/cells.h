/* SPDX-License-Identifier: BSD-3-Clause */
/* Cells of one size, many of them: cut out of small aligned chunks, so that a cell costs no more
 * than its bytes, a 32-bit index names it, and its address alone leads to the set it is of. A chunk
 * goes back to the system with its last cell. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"

#define DW_CELLS_CHUNK_BYTES 2048u
/* Bits of an index: 50 million cells of 40 bytes; and the part that counts the cells of a chunk. */
#define DW_CELLS_INDEX_BITS 26
#define DW_CELLS_SLOT_BITS  6

/* Leads each chunk. */
struct dw_cells_chunk {
    struct dw_cells *cells; /* NULL: the set is no more, this chunk has cells that are still used */
    struct dw_list link;    /* in cells.partial; alone while it is full */
    uint64_t used;          /* a bit for each slot */
    uint32_t number;        /* in cells.chunks */
    uint32_t cell_bytes;
};
_Static_assert(sizeof(struct dw_cells_chunk) % 8 == 0, "cells behind it are aligned");

/* Stays where it is. */
struct dw_cells {
    uint32_t cell_bytes;
    uint32_t count;    /* cells that are used */
    uint32_t capacity; /* of chunks */
    uint32_t chunk_count;
    struct dw_cells_chunk **chunks; /* by number; NULL: that is free */
    uint32_t free;                  /* no number before it is */
    struct dw_list partial;         /* chunks with a free cell */
};

/* cell_bytes: at least 32, so that slots have numbers, and a multiple of 8. */
void dw_cells_init(struct dw_cells *cells, uint32_t cell_bytes);
/* Cells that are used stay, and may be put; their dw_cells_of() is NULL from now on. */
void dw_cells_fini(struct dw_cells *cells);
/* Zeroed; NULL: no memory. */
void *dw_cells_get(struct dw_cells *cells);
void dw_cells_put(void *cell);
/* Memory that it holds. */
uint64_t dw_cells_bytes(const struct dw_cells *cells);

static inline struct dw_cells_chunk *dw_cells_chunk_of(const void *cell)
{
    return (struct dw_cells_chunk *)((uintptr_t)cell & ~(uintptr_t)(DW_CELLS_CHUNK_BYTES - 1));
}

/* The set that a cell is of; NULL: it is no more. */
static inline struct dw_cells *dw_cells_of(const void *cell)
{
    return dw_cells_chunk_of(cell)->cells;
}

/* The cell of an index; 0 is never one. */
static inline void *dw_cells_at(const struct dw_cells *cells, uint32_t index)
{
    const uint32_t slot = index & ((1u << DW_CELLS_SLOT_BITS) - 1);
    struct dw_cells_chunk *chunk = cells->chunks[index >> DW_CELLS_SLOT_BITS];
    return (uint8_t *)(chunk + 1) + slot * cells->cell_bytes;
}

uint32_t dw_cells_index(const void *cell);
/* The cell with the next higher index than *index, which becomes its; NULL: there is none, and
 * *index is 0, to begin anew. */
void *dw_cells_next(const struct dw_cells *cells, uint32_t *index);
