/* SPDX-License-Identifier: BSD-3-Clause */
/* For cmocka tests of groups: a sender and two members, and a stranger who knows the group. After
 * <cmocka.h>. */
#ifndef TEST_GROUP_MEMBERS_H
#define TEST_GROUP_MEMBERS_H

#include "common/include/diwarp_group.h"
#include "common/include/diwarp_ud.h"
#include "test/net/forge.h"
#include "test/net/node.h"

#define QKEY 0x1234

static uint8_t buf_a[1 << 20], buf_b[1 << 20], buf_c[1 << 20];

/* A port that nobody has: tests of other programs may run beside this one. */
static inline struct diwarp_group new_group(uint8_t last)
{
    struct diwarp_group group = {.family = AF_INET, .ip = {239, 255, 77, last}, .token = 0x70ce4};
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t len = sizeof name;
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&name, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
    close(fd);
    group.port = ntohs(name.sin_port);
    return group;
}

static inline void open_one(struct node *node, uint32_t rank, bool block_self)
{
    struct diwarp_qp_attr qp_attr = qp_attr_of(DIWARP_QPT_UD);
    struct diwarp_device_attr attr = loopback_attr(rank);

    attr.datagram_max_bytes = 1472;
    attr.port_min = 20000;
    attr.port_max = 30000;
    qp_attr.qkey = QKEY;
    qp_attr.record_time_ns = 200 * MS;
    qp_attr.block_self = block_self;
    node_open(node, &attr, &qp_attr);
}

/* A sender and two members, each of a device of its own. */
struct three {
    struct node a, b, c;
    struct diwarp_group group;
    struct diwarp_ah *to_group;
};

static inline void three_open(struct three *three)
{
    open_one(&three->a, 1, false);
    open_one(&three->b, 2, false);
    open_one(&three->c, 3, false);
    three->group = new_group(1);
    assert_int_equal(diwarp_create_group_ah(three->a.qp, &three->group, &three->to_group), 0);
}

static inline void attach(struct node *node, const struct diwarp_group *group)
{
    assert_int_equal(diwarp_attach_group(node->qp, group, NULL, 0), 0);
}

static inline void three_close(struct three *three)
{
    diwarp_destroy_ah(three->to_group);
    node_close(&three->a);
    node_close(&three->b);
    node_close(&three->c);
}

/* One of rank 9, who knows the group's token and Q_Key. */
static inline void forger_to_group(struct forger *forger, const struct three *three)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(three->group.port)};
    const struct in_addr interface = {htonl(INADDR_LOOPBACK)};

    forger_open(forger, &three->b.address, DW_LLP_UD, 9);
    memcpy(&name.sin_addr, three->group.ip, 4);
    assert_int_equal(
        setsockopt(forger->fd, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface), 0);
    assert_int_equal(connect(forger->fd, (struct sockaddr *)&name, sizeof name), 0);
    forger->header.token = three->group.token;
    forger->header.psn = QKEY;
    forger->header.dst_qpn = DW_QPN_GROUP;
}

#endif
