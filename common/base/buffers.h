/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for datagrams: whole pages from the system, and buffers of a few sizes, of which those
 * that came back wait for the next that needs one, until they have not been needed for a while.
 * Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pages cost nothing until they are touched, and go back for certain, unlike what malloc() gives.
 * Zeroed; NULL: no memory. */
void *dw_pages_map(size_t bytes);
/* The same `bytes`; NULL is harmless. */
void dw_pages_unmap(void *pages, size_t bytes);
/* Gives the memory back but keeps the addresses, which read as zero from now on. */
void dw_pages_drop(void *pages, size_t bytes);

#define DW_BUFFER_SIZES       8
#define DW_BUFFER_MAX_BYTES   65536u
#define DW_BUFFER_ALIGN_BYTES 64u /* a cache line */

struct dw_buffers {
    uint64_t max_bytes;          /* bound of those that are out and those that wait */
    uint64_t used_bytes;         /* out */
    uint64_t idle_bytes;         /* waiting */
    uint64_t idle_least_bytes;   /* since the last trim */
    uint64_t mapped_bytes;       /* of both, what lies in pages of its own */
    void *idle[DW_BUFFER_SIZES]; /* each leads to the next of its size */
};

/* At least `bytes` <= DW_BUFFER_MAX_BYTES, as many as *room says, aligned to DW_BUFFER_ALIGN_BYTES;
 * NULL: the bound is reached, or no memory. */
void *dw_buffers_get(struct dw_buffers *buffers, uint32_t bytes, uint32_t *room);
/* Whether a get of `bytes` leaves so many to others. */
bool dw_buffers_leave(const struct dw_buffers *buffers, uint32_t bytes, uint64_t left_bytes);
/* Of the room that came with it. */
void dw_buffers_put(struct dw_buffers *buffers, void *buffer, uint32_t room);
/* Frees half of what has not been needed since the last call. True: there is more. */
bool dw_buffers_trim(struct dw_buffers *buffers);
/* Frees what waits; all others have come back. */
void dw_buffers_fini(struct dw_buffers *buffers);
