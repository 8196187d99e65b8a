/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs that measure libdiwarp within one thread: a node on the loopback interface. */
#ifndef LOOPBACK_NODE_H
#define LOOPBACK_NODE_H

#include <stdio.h>
#include <stdlib.h>

#include "common/include/diwarp.h"

struct loopback_node {
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct diwarp_qp *qp;
    struct diwarp_address address;
};

static inline void must(int failed, const char *what)
{
    if (!failed)
        return;
    fprintf(stderr, "%s failed\n", what);
    exit(1);
}

/* The CQ is set here. */
static inline void loopback_open(struct loopback_node *node, struct diwarp_name name,
                                 struct diwarp_qp_attr qp_attr)
{
    struct diwarp_device_attr attr;
    diwarp_device_attr_init(&attr);
    attr.name = name;
    attr.if_include = "lo";
    must(diwarp_open_device(&attr, &node->device, NULL), "diwarp_open_device");
    must(!(node->pd = diwarp_alloc_pd(node->device)), "diwarp_alloc_pd");
    must(!(node->cq = diwarp_create_cq(node->device, 64)), "diwarp_create_cq");
    qp_attr.cq = node->cq;
    must(diwarp_create_qp(node->pd, &qp_attr, &node->qp, NULL), "diwarp_create_qp");
    diwarp_query_address(node->qp, &node->address);
}

static inline struct diwarp_ah *loopback_ah(struct loopback_node *node,
                                            const struct diwarp_address *address)
{
    struct diwarp_ah *ah;
    must(diwarp_create_ah(node->qp, address, &ah), "diwarp_create_ah");
    return ah;
}

static inline void loopback_close(struct loopback_node *node)
{
    diwarp_destroy_qp(node->qp);
    diwarp_destroy_cq(node->cq);
    diwarp_dealloc_pd(node->pd);
    diwarp_close_device(node->device);
}

#endif
