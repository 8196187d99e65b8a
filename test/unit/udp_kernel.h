/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a kernel does rarely (refuse a GSO train, run out of buffers, cut a datagram), on demand. A
 * program that is linked with udp_kernel.c has its syscall(), which stands before libc's.
 */
#ifndef UDP_KERNEL_H
#define UDP_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

struct udp_kernel {
    int gso_error;       /* of sends with a UDP_SEGMENT message */
    int error;           /* of sends without */
    unsigned error_from; /* the first so many sends without succeed */
    bool truncate;
    uint32_t too_large_bytes; /* so long datagrams do not fit the path; 0: all do */
    unsigned gso_calls;
};

extern struct udp_kernel kernel;

#endif
