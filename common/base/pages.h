/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory straight from the system, in whole pages: it costs nothing until it is touched, and goes
 * back for certain, which cannot be said of what malloc() gives. */
#ifndef DW_PAGES_H
#define DW_PAGES_H

#include <stddef.h>

/* Zeroed, at a multiple of `align`, a power of two and at least a page; NULL: no memory. */
void *dw_pages_map(size_t bytes, size_t align);
/* The same `bytes`; NULL is harmless. */
void dw_pages_unmap(void *pages, size_t bytes);
/* Gives the memory back but keeps the addresses, which read as zero from now on. */
void dw_pages_drop(void *pages, size_t bytes);

#endif
