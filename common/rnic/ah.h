/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address handles: where a queue pair is reached. Services keep what more they know in structs that
 * begin with this one. A process may know millions: each byte counts, and what all handles of a
 * service have in common is found by the handle's own address.
 */
#ifndef DW_AH_H
#define DW_AH_H

#include "common/base/cells.h"
#include "common/base/list.h"
#include "common/include/diwarp.h"
#include "common/path/path.h"

struct dw_port;
struct dw_service;

struct diwarp_ah {
    struct diwarp_name name;
    uint64_t token;
    struct dw_path *path; /* NULL: not routed yet. Goes with the port */
    uint32_t incarnation; /* of the process that is meant; told with its address */
    uint32_t owners;      /* handles given out */
    uint16_t udp_port;
    /* The longest datagrams of its records, as far as these have shown; ours may be others. */
    uint16_t peer_datagram_bytes;
    bool fixed : 1;   /* it has been spoken with: its route stays */
    bool further : 1; /* RD: of another QP than a process's first */
};
_Static_assert(sizeof(struct diwarp_ah) == 40, "a known peer is small");

/* The address handles of a service on a port. */
struct dw_ahs {
    struct dw_cells cells;
    struct dw_port *port;
    const struct dw_service *service;
};

static inline void dw_ahs_init(struct dw_ahs *ahs, uint32_t ah_bytes, struct dw_port *port,
                               const struct dw_service *service)
{
    dw_cells_init(&ahs->cells, ah_bytes);
    ahs->port = port;
    ahs->service = service;
}

/* NULL: the port has been closed. */
static inline struct dw_ahs *dw_ahs_of(const struct diwarp_ah *ah)
{
    struct dw_cells *cells = dw_cells_of(ah);
    return cells ? dw_container(cells, struct dw_ahs, cells) : NULL;
}

/* While it is open. */
static inline struct dw_port *dw_ah_port(const struct diwarp_ah *ah)
{
    return dw_ahs_of(ah)->port;
}

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
