/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The passive process of the raw benchmark, and what both processes agree on: the client asks over
 * the control connection for one measure after the other.
 */
#ifndef RAW_SERVER_H
#define RAW_SERVER_H

#include <stdint.h>

#include "benchmarks/raw_message.h"
#include "benchmarks/turns.h"

#define RAW_MAGIC        0x64695735
#define RAW_DIAL_SECONDS 15.0

struct raw_reply {
    uint32_t port;   /* of the server's UDP socket, or of its TCP listener */
    uint32_t usable; /* 0: no GSO or GRO, or more than the receive buffer can take */
    uint32_t window; /* what the receive buffer can take of it */
};

/* Serves one client until it has had enough. */
void raw_serve(int control, struct turns *turns);

#endif
