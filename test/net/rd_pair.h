/* SPDX-License-Identifier: BSD-3-Clause */
/* For cmocka tests of RD: two nodes that know each other, or one that knows itself, with memory
 * that the other side may read and write. After <cmocka.h>. */
#ifndef TEST_RD_PAIR_H
#define TEST_RD_PAIR_H

#include "test/net/node.h"

#define RIGHTS_ALL                                                               \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)
#define BIG (8u << 20)

static uint8_t source[BIG], sink[BIG];

/* Two RD nodes that know each other. With self they are one. */
struct pair {
    struct node a, b_own, *b;
    struct diwarp_ah *ab, *ba;
    struct diwarp_mr *mr_source, *mr_sink; /* of b */
    struct diwarp_device_attr attr;
    uint32_t max_msg_bytes; /* 0: as by default */
    bool self;
};

static inline void pair_open(struct pair *pair)
{
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_RD);

    if (pair->max_msg_bytes)
        qp_attr.max_msg_bytes = pair->max_msg_bytes;
    pair->attr.name.rank = 1;
    node_open(&pair->a, &pair->attr, &qp_attr);
    pair->b = pair->self ? &pair->a : &pair->b_own;
    if (!pair->self) {
        pair->attr.name.rank = 2;
        node_open(&pair->b_own, &pair->attr, &qp_attr);
    }
    pair->ab = node_ah(&pair->a, pair->b);
    pair->ba = node_ah(pair->b, &pair->a);
    pair->mr_source = diwarp_reg_mr(pair->b->pd, source, sizeof source, IBV_ACCESS_REMOTE_READ);
    pair->mr_sink = diwarp_reg_mr(pair->b->pd, sink, sizeof sink, RIGHTS_ALL);
    assert_non_null(pair->mr_source);
    assert_non_null(pair->mr_sink);
}

/* A message there, and its acknowledgement back. */
static inline void pair_exchange(struct pair *pair)
{
    const unsigned sends = pair->a.sends;

    assert_int_equal(post(&pair->a, pair->ab, IBV_WR_SEND, "x", 1, IBV_SEND_SIGNALED, 0, NULL, 0),
                     0);
    RUN_UNTIL(pair->a.sends == sends + 1, &pair->a, pair->b);
}

/* Handles and regions last: both may outlive the QP. */
static inline void pair_close(struct pair *pair)
{
    node_destroy_qp(&pair->a);
    node_destroy_qp(pair->b);
    diwarp_destroy_ah(pair->ab);
    diwarp_destroy_ah(pair->ba);
    diwarp_dereg_mr(pair->mr_source);
    diwarp_dereg_mr(pair->mr_sink);
    node_close(&pair->a);
    if (!pair->self)
        node_close(&pair->b_own);
}

#endif
