/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles: where a queue pair is reached. Services keep what more they know in structs that
 * begin with this one. */
#ifndef DW_AH_H
#define DW_AH_H

#include "common/include/diwarp.h"
#include "common/path/path.h"

struct dw_port;
struct dw_service;

struct diwarp_ah {
    struct dw_port *port; /* NULL: it has been closed */
    const struct dw_service *service;
    struct diwarp_name name;
    uint64_t token;
    struct dw_path *path; /* NULL: not routed yet, or the port has been closed */
    uint16_t udp_port;
    bool fixed;      /* it has been spoken with: its route stays */
    uint32_t owners; /* handles given out */
};

static inline struct dw_llp_addr dw_ah_addr(const struct diwarp_ah *ah)
{
    struct dw_llp_addr addr = ah->path->host;
    addr.port = ah->udp_port;
    return addr;
}

/* Of one to it. */
static inline uint32_t dw_ah_datagram_max_bytes(const struct diwarp_ah *ah)
{
    return ah->path->datagram_max_bytes;
}

static inline uint64_t dw_name_key(struct diwarp_name name)
{
    return (uint64_t)name.job << 32 | name.rank;
}

#endif
