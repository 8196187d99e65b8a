/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages from mmap(2). */
#include "common/base/pages.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

void *dw_pages_map(size_t bytes, size_t align)
{
    bytes = whole_pages(bytes);
    /* As much more as alignment may skip; what was skipped goes back at once. */
    size_t whole = bytes + align;
    char *at = mmap(NULL, whole, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    size_t before = (align - (uintptr_t)at % align) % align;
    if (before)
        (void)munmap(at, before);
    (void)munmap(at + before + bytes, whole - before - bytes);
    return at + before;
}

void dw_pages_unmap(void *pages, size_t bytes)
{
    if (pages)
        (void)munmap(pages, whole_pages(bytes));
}

void dw_pages_drop(void *pages, size_t bytes)
{
    (void)madvise(pages, bytes, MADV_DONTNEED);
}
