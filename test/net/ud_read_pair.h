/* SPDX-License-Identifier: BSD-3-Clause */
/* For cmocka tests of RDMA Read over UD: two nodes, one of which reads of the other's memory. After
 * <cmocka.h>. */
#ifndef TEST_UD_READ_PAIR_H
#define TEST_UD_READ_PAIR_H

#include "common/include/diwarp_ud.h"
#include "test/net/forge.h"
#include "test/net/node.h"

#define FORGER_RANK 9
#define REMOTE      IBV_ACCESS_REMOTE_READ
#define PIECE       1000

static uint8_t buf_a[1 << 20], buf_b[1 << 20];

struct pair {
    struct node a, b; /* a reads of b's buf_b */
    struct diwarp_ah *ab;
    struct diwarp_mr *mr;
};

static inline void pair_open_as(struct pair *pair, const struct diwarp_qp_attr *qp_attr,
                                enum diwarp_auth auth)
{
    struct diwarp_device_attr attr = loopback_attr(1);
    attr.datagram_max_bytes = 1472;
    attr.rcvbuf_bytes = 1 << 20;
    attr.auth = auth;
    node_open(&pair->a, &attr, qp_attr);
    attr.name.rank = 2;
    node_open(&pair->b, &attr, qp_attr);
    pair->ab = node_ah(&pair->a, &pair->b);
    pair->mr = diwarp_reg_mr(pair->b.pd, buf_b, sizeof buf_b, REMOTE);
    assert_non_null(pair->mr);
}

static inline struct diwarp_qp_attr attr_of(uint64_t read_time_ns)
{
    struct diwarp_qp_attr attr = qp_attr_of(DIWARP_QPT_UD);
    attr.read_time_ns = read_time_ns;
    return attr;
}

static inline void pair_open(struct pair *pair, uint64_t read_time_ns)
{
    const struct diwarp_qp_attr attr = attr_of(read_time_ns);
    pair_open_as(pair, &attr, DIWARP_AUTH_OFF);
}

static inline void pair_close(struct pair *pair)
{
    node_destroy_qp(&pair->a);
    node_destroy_qp(&pair->b);
    diwarp_destroy_ah(pair->ab);
    if (pair->mr)
        diwarp_dereg_mr(pair->mr);
    node_close(&pair->a);
    node_close(&pair->b);
}

#endif
