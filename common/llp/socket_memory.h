/* SPDX-License-Identifier: BSD-3-Clause */
/* What a socket holds in kernel memory. Knows no LLP: also for tools that measure any process. */
#pragma once

#include "common/include/diwarp.h"

/* Adds what is queued in it, how much may be, and what its own structures take. */
void dw_llp_add_socket(int fd, struct diwarp_memory *memory);
/* Of a socket of that domain (AF_*) and type (SOCK_*): the protocol's structure, as far as it is
 * known, inode, directory entry and file. */
uint64_t dw_socket_slab_bytes(int domain, int type);
/* Of a descriptor that an epoll set watches. */
uint64_t dw_epoll_item_slab_bytes(void);
