/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of this process, user and kernel: what /proc says of its pages, and what its sockets
 * cost. Taking a sample allocates no memory that stays.
 */
#ifndef MEMORY_SAMPLE_H
#define MEMORY_SAMPLE_H

#include <stdint.h>

/* X(name): bytes and counts, in the order of the report; benchmarks/README.md says what each means.
 */
#define MEMORY_SAMPLE_FIELDS(X) \
    X(private_bytes)            \
    X(pss_bytes)                \
    X(rss_bytes)                \
    X(anonymous_bytes)          \
    X(heap_bytes)               \
    X(peak_rss_bytes)           \
    X(tcp_sockets)              \
    X(udp_sockets)              \
    X(unix_sockets)             \
    X(other_sockets)            \
    X(epoll_fds)                \
    X(epoll_items)              \
    X(socket_queue_bytes)       \
    X(socket_slab_bytes)        \
    X(socket_limit_bytes)       \
    X(sockstat_tcp_bytes)       \
    X(sockstat_udp_bytes)

struct memory_sample {
#define X(name) uint64_t name;
    MEMORY_SAMPLE_FIELDS(X)
#undef X
};

/* What cannot be read is 0. */
void memory_sample_take(struct memory_sample *sample);
/* Only the pages: what changes while a program runs, cheap enough to be done often. */
void memory_sample_take_pages(struct memory_sample *sample);

#endif
