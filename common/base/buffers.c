/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages and buffers; see buffers.h. */
#include "common/base/buffers.h"

#include <assert.h>
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

/* From here on in pages, which go back to the system whatever else malloc() has given since. */
#define PAGES_MIN_BYTES 16384u

static const uint32_t sizes[DW_BUFFER_SIZES] = {
    320, 1088, 2176, 4672, 9344, PAGES_MIN_BYTES, 32768, DW_BUFFER_MAX_BYTES};

static unsigned size_of(uint32_t bytes)
{
    unsigned size = 0;
    assert(bytes <= DW_BUFFER_MAX_BYTES);
    while (sizes[size] < bytes)
        size++;
    return size;
}

static void *take_idle(struct dw_buffers *buffers, unsigned size)
{
    void *buffer = buffers->idle[size];
    if (!buffer)
        return NULL;
    buffers->idle[size] = *(void **)buffer;
    buffers->idle_bytes -= sizes[size];
    if (buffers->idle_least_bytes > buffers->idle_bytes)
        buffers->idle_least_bytes = buffers->idle_bytes;
    return buffer;
}

static void *make(struct dw_buffers *buffers, uint32_t bytes)
{
    void *buffer = NULL;
    if (bytes < PAGES_MIN_BYTES)
        return posix_memalign(&buffer, DW_BUFFER_ALIGN_BYTES, bytes) ? NULL : buffer;
    buffer = dw_pages_map(bytes);
    buffers->mapped_bytes += buffer ? bytes : 0;
    return buffer;
}

static void give_back(struct dw_buffers *buffers, void *buffer, uint32_t bytes)
{
    if (bytes < PAGES_MIN_BYTES) {
        free(buffer);
        return;
    }
    dw_pages_unmap(buffer, bytes);
    buffers->mapped_bytes -= bytes;
}

/* The largest first. */
static void free_idle(struct dw_buffers *buffers, uint64_t keep_bytes)
{
    for (unsigned size = DW_BUFFER_SIZES; size-- > 0;)
        while (buffers->idle[size] && buffers->idle_bytes > keep_bytes)
            give_back(buffers, take_idle(buffers, size), sizes[size]);
}

void *dw_buffers_get(struct dw_buffers *buffers, uint32_t bytes, uint32_t *room)
{
    const unsigned size = size_of(bytes);
    if (!dw_buffers_leave(buffers, bytes, 0))
        return NULL;
    void *buffer = take_idle(buffers, size);
    if (!buffer) {
        free_idle(buffers, buffers->max_bytes - buffers->used_bytes - sizes[size]);
        buffer = make(buffers, sizes[size]);
        if (!buffer)
            return NULL;
    }
    buffers->used_bytes += sizes[size];
    *room = sizes[size];
    return buffer;
}

bool dw_buffers_leave(const struct dw_buffers *buffers, uint32_t bytes, uint64_t left_bytes)
{
    return buffers->used_bytes + sizes[size_of(bytes)] + left_bytes <= buffers->max_bytes;
}

void dw_buffers_put(struct dw_buffers *buffers, void *buffer, uint32_t room)
{
    const unsigned size = size_of(room);
    *(void **)buffer = buffers->idle[size];
    buffers->idle[size] = buffer;
    buffers->used_bytes -= room;
    buffers->idle_bytes += room;
}

bool dw_buffers_trim(struct dw_buffers *buffers)
{
    free_idle(buffers, buffers->idle_bytes - (buffers->idle_least_bytes + 1) / 2);
    buffers->idle_least_bytes = buffers->idle_bytes;
    return buffers->idle_bytes > 0;
}

void dw_buffers_fini(struct dw_buffers *buffers)
{
    free_idle(buffers, 0);
}
