/* SPDX-License-Identifier: BSD-3-Clause */
/* The slab: chunks of a region, cut into buffers as they are asked for. */
#include "common/base/slab.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

void *dw_pages_map(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void dw_pages_unmap(void *pages, size_t bytes)
{
    if (pages)
        (void)munmap(pages, bytes);
}

void dw_pages_drop(void *pages, size_t bytes)
{
    (void)madvise(pages, bytes, MADV_DONTNEED);
}

/* Of the buffers of each size: as many as fit into a chunk, aligned. */
static const uint32_t sizes[DW_SLAB_SIZES] = {320, 1088, 2176, 4672, 9344, 16320, 32736, 65472};
_Static_assert(DW_SLAB_MAX_BYTES == 65472, "the largest buffer fills a chunk");

/* Leads each chunk that is held. */
struct chunk {
    struct dw_list link; /* in slab.partial[size] or slab.empty; alone while it is full */
    void *free;          /* buffers that came back, each led by a pointer to the next */
    uint32_t size;       /* index into sizes[] */
    uint32_t used;
    uint32_t cut;     /* buffers [0, cut) have been out */
    uint32_t touched; /* most bytes that were cut since the chunk was taken */
};
_Static_assert(sizeof(struct chunk) <= DW_SLAB_ALIGN_BYTES, "the head of a chunk has its place");

int dw_slab_init(struct dw_slab *slab, uint64_t bytes)
{
    *slab = (struct dw_slab){.chunk_max = (uint32_t)(bytes / DW_SLAB_CHUNK_BYTES)};
    assert(slab->chunk_max);
    dw_list_init(&slab->empty);
    for (unsigned i = 0; i < DW_SLAB_SIZES; i++)
        dw_list_init(&slab->partial[i]);
    slab->region = dw_pages_map((size_t)slab->chunk_max * DW_SLAB_CHUNK_BYTES);
    slab->returned = malloc(slab->chunk_max * sizeof *slab->returned);
    if (!slab->region || !slab->returned)
        return -ENOMEM;
    while (slab->returned_count < slab->chunk_max) {
        slab->returned[slab->returned_count] = slab->chunk_max - 1 - slab->returned_count;
        slab->returned_count++;
    }
    return 0;
}

void dw_slab_fini(struct dw_slab *slab)
{
    dw_pages_unmap(slab->region, (size_t)slab->chunk_max * DW_SLAB_CHUNK_BYTES);
    free(slab->returned);
}

static struct chunk *chunk_at(const struct dw_slab *slab, size_t index)
{
    return (struct chunk *)(void *)(slab->region + index * DW_SLAB_CHUNK_BYTES);
}

static size_t index_of(const struct dw_slab *slab, const void *inside)
{
    return (size_t)((const uint8_t *)inside - slab->region) / DW_SLAB_CHUNK_BYTES;
}

/* One that holds nothing; NULL: the bound. */
static struct chunk *take_chunk(struct dw_slab *slab)
{
    if (!dw_list_empty(&slab->empty)) {
        struct chunk *chunk = dw_container(slab->empty.next, struct chunk, link);
        dw_list_remove(&chunk->link);
        slab->empty_count--;
        if (slab->empty_least > slab->empty_count)
            slab->empty_least = slab->empty_count;
        return chunk;
    }
    if (!slab->returned_count)
        return NULL;
    struct chunk *chunk = chunk_at(slab, slab->returned[--slab->returned_count]);
    dw_list_init(&chunk->link);
    chunk->touched = DW_SLAB_ALIGN_BYTES;
    slab->touched_bytes += DW_SLAB_ALIGN_BYTES;
    slab->chunk_count++;
    return chunk;
}

static uint32_t size_of(uint32_t bytes)
{
    uint32_t size = 0;
    assert(bytes <= DW_SLAB_MAX_BYTES);
    while (sizes[size] < bytes)
        size++;
    return size;
}

void *dw_slab_get(struct dw_slab *slab, uint32_t bytes, uint32_t *room)
{
    uint32_t size = size_of(bytes);
    struct chunk *chunk;
    if (!dw_list_empty(&slab->partial[size])) {
        chunk = dw_container(slab->partial[size].next, struct chunk, link);
    } else {
        chunk = take_chunk(slab);
        if (!chunk)
            return NULL;
        chunk->size = size;
        chunk->used = chunk->cut = 0;
        chunk->free = NULL;
        dw_list_append(&slab->partial[size], &chunk->link);
    }
    void *buffer = chunk->free;
    if (buffer) {
        chunk->free = *(void **)buffer;
    } else {
        const uint32_t at = DW_SLAB_ALIGN_BYTES + chunk->cut++ * sizes[size];
        buffer = (uint8_t *)chunk + at;
        if (chunk->touched < at + sizes[size]) {
            slab->touched_bytes += at + sizes[size] - chunk->touched;
            chunk->touched = at + sizes[size];
        }
    }
    if (++chunk->used == (DW_SLAB_CHUNK_BYTES - DW_SLAB_ALIGN_BYTES) / sizes[size])
        dw_list_remove(&chunk->link);
    slab->used++;
    *room = sizes[size];
    return buffer;
}

void dw_slab_put(struct dw_slab *slab, void *buffer)
{
    struct chunk *chunk = chunk_at(slab, index_of(slab, buffer));
    *(void **)buffer = chunk->free;
    chunk->free = buffer;
    slab->used--;
    if (!--chunk->used) {
        dw_list_remove(&chunk->link);
        dw_list_prepend(&slab->empty, &chunk->link);
        slab->empty_count++;
    } else if (!dw_list_linked(&chunk->link)) { /* it was full */
        dw_list_prepend(&slab->partial[chunk->size], &chunk->link);
    }
}

bool dw_slab_trim(struct dw_slab *slab)
{
    for (uint32_t spare = slab->empty_least / 2; spare; spare--) {
        /* The longest unused first. */
        struct chunk *chunk = dw_container(slab->empty.prev, struct chunk, link);
        dw_list_remove(&chunk->link);
        slab->touched_bytes -= chunk->touched;
        slab->chunk_count--;
        slab->empty_count--;
        slab->returned[slab->returned_count++] = (uint32_t)index_of(slab, chunk);
        dw_pages_drop(chunk, DW_SLAB_CHUNK_BYTES);
    }
    slab->empty_least = slab->empty_count;
    return slab->empty_count > 1;
}
