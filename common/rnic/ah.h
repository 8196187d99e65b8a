/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles: where a queue pair is reached. Services keep what more they know in structs that
 * begin with this one. */
#ifndef DW_AH_H
#define DW_AH_H

#include "common/include/diwarp.h"
#include "common/llp/llp.h"

struct dw_port;
struct dw_service;

struct diwarp_ah {
    struct dw_port *port; /* NULL: it has been closed */
    const struct dw_service *service;
    struct diwarp_name name;
    uint64_t token;
    struct dw_llp_addr addr;
    uint16_t datagram_max_bytes; /* of one to it */
    bool fixed : 1;      /* it has been spoken with: its route stays */
    bool further : 1;    /* RD: of a QP beyond that of the process's first handle */
    uint32_t qpn : 24;   /* of the QP there; 0: not known yet */
    uint32_t local_interface : 8;
    uint32_t owners; /* handles given out */
};

static inline uint64_t dw_name_key(struct diwarp_name name)
{
    return (uint64_t)name.job << 32 | name.rank;
}

#endif
