/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel's own objects of a socket take, beside what is queued in it. Knows no LLP: also
 * for tools that measure any process. */
#ifndef DW_LLP_SOCKET_SLAB_H
#define DW_LLP_SOCKET_SLAB_H

#include <stdint.h>

/* Of a socket of that domain (AF_*) and type (SOCK_*): the protocol's structure, as far as it is
 * known, inode, directory entry and file. */
uint64_t dw_socket_slab_bytes(int domain, int type);
/* Of a descriptor that an epoll set watches. */
uint64_t dw_epoll_item_slab_bytes(void);

#endif
