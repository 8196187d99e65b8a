/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers of a few sizes out of one region of bounded size, which is taken from the system chunk by
 * chunk and given back when it has not been needed for a while. A chunk is of one size at a time;
 * an empty one may serve any. Nothing here costs more than a few list operations, but for the first
 * use of a chunk. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"

/* Memory straight from the system, in whole pages: it costs nothing until it is touched, and goes
 * back for certain, which cannot be said of what malloc() gives. */

/* Zeroed; NULL: no memory. */
void *dw_pages_map(size_t bytes);
/* The same `bytes`; NULL is harmless. */
void dw_pages_unmap(void *pages, size_t bytes);
/* Gives the memory back but keeps the addresses, which read as zero from now on. */
void dw_pages_drop(void *pages, size_t bytes);

#define DW_SLAB_CHUNK_BYTES 65536u
/* Of buffers and of the head of a chunk: a cache line. */
#define DW_SLAB_ALIGN_BYTES 64u
/* The largest buffer. */
#define DW_SLAB_MAX_BYTES (DW_SLAB_CHUNK_BYTES - DW_SLAB_ALIGN_BYTES)
#define DW_SLAB_SIZES     8

struct dw_slab {
    uint8_t *region;
    uint32_t chunk_max;
    uint32_t *returned; /* chunks that were given back, or never used yet */
    uint32_t returned_count;
    uint32_t chunk_count;                  /* held: partial, full or empty */
    uint32_t empty_count, empty_least;     /* least: since the last trim */
    uint64_t touched_bytes;                /* of the chunks held, at most */
    uint32_t used;                         /* buffers that are out */
    struct dw_list partial[DW_SLAB_SIZES]; /* chunks with a free buffer, by size */
    struct dw_list empty;
};

/* `bytes` >= one chunk: the bound; what is left of a whole chunk is not used. -ENOMEM: there
 * is something to dw_slab_fini() still. */
int dw_slab_init(struct dw_slab *slab, uint64_t bytes);
void dw_slab_fini(struct dw_slab *slab);
/* At least `bytes` <= DW_SLAB_MAX_BYTES, as many as *room says, aligned to DW_SLAB_ALIGN_BYTES, but
 * the second of two in a chunk to half of that; NULL: the bound is reached. */
void *dw_slab_get(struct dw_slab *slab, uint32_t bytes, uint32_t *room);
void dw_slab_put(struct dw_slab *slab, void *buffer);
/* Chunks that no buffer is cut from. */
static inline uint32_t dw_slab_free_chunks(const struct dw_slab *slab)
{
    return slab->empty_count + slab->returned_count;
}
/* Gives back half of the chunks that have been empty since the last call, and keeps one. True:
 * there will be more to give back. */
bool dw_slab_trim(struct dw_slab *slab);
