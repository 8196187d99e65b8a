/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For cmocka tests on real sockets of 127.0.0.1: a device with one QP, what it has completed, and
 * loops that run several of them in one thread until something holds. After <cmocka.h>.
 */
#ifndef TEST_NODE_H
#define TEST_NODE_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/include/diwarp.h"
#include "test/net/clock.h"

#define MS 1000000ull

/* Patience with a loaded machine; nothing is expected to take a fraction of it. */
#define WAIT_NS (20000 * MS)

struct node {
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cq;
    struct diwarp_qp *qp;
    struct diwarp_address address;
    const struct diwarp_counters *counters;
    /* What has completed. */
    unsigned recvs, sends, writes, reads, atomics, releases, records, gone, errors;
    struct diwarp_wc last, last_error, last_gone;
    uint8_t data[256]; /* first bytes of the last receive or release */
    void (*on_wc)(struct node *node, const struct diwarp_wc *wc);
    void *arg; /* of the test */
};

static inline struct diwarp_device_attr loopback_attr(uint32_t rank)
{
    struct diwarp_device_attr attr;

    diwarp_device_attr_init(&attr);
    attr.if_include = "127.0.0.0/8";
    attr.name = (struct diwarp_name){.job = 7, .rank = rank};
    return attr;
}

static inline struct diwarp_qp_attr qp_attr_of(enum diwarp_qp_type type)
{
    struct diwarp_qp_attr attr;

    diwarp_qp_attr_init(&attr);
    attr.type = type;
    return attr;
}

static inline void node_open(struct node *node, const struct diwarp_device_attr *device_attr,
                             const struct diwarp_qp_attr *qp_attr)
{
    struct diwarp_diagnosis why = {.text = ""};
    struct diwarp_qp_attr attr = *qp_attr;

    memset(node, 0, sizeof *node);
    if (diwarp_open_device(device_attr, &node->device, &why))
        fail_msg("device: %s", why.text);
    node->pd = diwarp_alloc_pd(node->device);
    node->cq = diwarp_create_cq(node->device, 256);
    assert_non_null(node->pd);
    assert_non_null(node->cq);
    attr.cq = node->cq;
    if (diwarp_create_qp(node->pd, &attr, &node->qp, &why))
        fail_msg("qp: %s", why.text);
    diwarp_query_address(node->qp, &node->address);
    node->counters = diwarp_query_counters(node->qp);
}

static inline void node_open_default(struct node *node, uint32_t rank, enum diwarp_qp_type type)
{
    struct diwarp_device_attr attr = loopback_attr(rank);
    struct diwarp_qp_attr qp_attr = qp_attr_of(type);

    node_open(node, &attr, &qp_attr);
}

static inline void node_destroy_qp(struct node *node)
{
    if (node->qp)
        diwarp_destroy_qp(node->qp);
    node->qp = NULL;
}

static inline void node_close(struct node *node)
{
    node_destroy_qp(node);
    diwarp_destroy_cq(node->cq);
    diwarp_dealloc_pd(node->pd);
    diwarp_close_device(node->device);
}

static inline struct diwarp_ah *node_ah(struct node *from, const struct node *to)
{
    struct diwarp_ah *ah = NULL;

    assert_int_equal(diwarp_create_ah(from->qp, &to->address, &ah), 0);
    return ah;
}

static inline void node_take_success(struct node *node, const struct diwarp_wc *wc)
{
    switch ((int)wc->wc.opcode) {
    case IBV_WC_RECV:
        node->recvs++;
        break;
    case IBV_WC_SEND:
        node->sends++;
        break;
    case IBV_WC_RDMA_WRITE:
        node->writes++;
        break;
    case IBV_WC_RDMA_READ:
        node->reads++;
        break;
    case IBV_WC_COMP_SWAP:
    case IBV_WC_FETCH_ADD:
        node->atomics++;
        break;
    case DIWARP_WC_RELEASE:
        node->releases++;
        break;
    case DIWARP_WC_RECORD:
        node->records++;
        break;
    default:
        fail_msg("completion of opcode %d", (int)wc->wc.opcode);
    }
}

static inline void node_take(struct node *node, const struct diwarp_wc *wc)
{
    if ((int)wc->wc.opcode == DIWARP_WC_PEER_GONE) {
        assert_int_equal(wc->wc.status, IBV_WC_RETRY_EXC_ERR);
        node->last_gone = *wc;
        node->gone++;
    } else if (wc->wc.status != IBV_WC_SUCCESS) {
        node->errors++;
        node->last_error = *wc;
    } else {
        node_take_success(node, wc);
    }
    if (wc->data) {
        size_t n = wc->wc.byte_len;
        memcpy(node->data, wc->data, n < sizeof node->data ? n : sizeof node->data);
    }
    node->last = *wc;
    if (node->on_wc)
        node->on_wc(node, wc);
}

static inline void node_poll(struct node *node)
{
    struct diwarp_wc wc[32];
    int n = diwarp_poll_cq(node->cq, 32, wc);

    assert_true(n >= 0);
    for (int i = 0; i < n; i++)
        node_take(node, &wc[i]);
}

static inline bool node_uses_gro(const struct node *node)
{
    struct diwarp_qp_info info;
    diwarp_query_qp(node->qp, &info);
    return info.gro;
}

/* Runs the nodes until the truth holds; fails the test when it never does. */
#define RUN_UNTIL(truth, ...)                                               \
    do {                                                                    \
        struct node *run_nodes[] = {__VA_ARGS__, NULL};                     \
        uint64_t run_until_ns = clock_ns() + WAIT_NS;                       \
        while (!(truth)) {                                                  \
            for (struct node **run_it = run_nodes; *run_it; run_it++)       \
                node_poll(*run_it);                                         \
            if (clock_ns() > run_until_ns)                                  \
                fail_msg("%s:%d: in vain: %s", __FILE__, __LINE__, #truth); \
        }                                                                   \
    } while (0)

/* Runs the nodes for a while. */
#define RUN_FOR(ns, ...)                                              \
    do {                                                              \
        struct node *run_nodes[] = {__VA_ARGS__, NULL};               \
        uint64_t run_until_ns = clock_ns() + (ns);                    \
        while (clock_ns() < run_until_ns)                             \
            for (struct node **run_it = run_nodes; *run_it; run_it++) \
                node_poll(*run_it);                                   \
    } while (0)

/* ---- posts -------------------------------------------------------------------------------- */

static inline int post(struct node *node, struct diwarp_ah *ah, enum ibv_wr_opcode opcode,
                       void *addr, uint32_t length, unsigned flags, uint64_t wr_id,
                       const struct diwarp_mr *remote, uint64_t offset)
{
    struct ibv_sge sge = {.addr = (uintptr_t)addr, .length = length};
    struct diwarp_send_wr wr = {
        .wr =
            {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags},
        .ah = ah,
    };

    if (remote) {
        wr.wr.wr.rdma.rkey = remote->stag;
        wr.wr.wr.rdma.remote_addr = remote->iova + offset;
    }
    return diwarp_post_send(node->qp, &wr);
}

static inline int post_recv(struct node *node, void *addr, uint32_t length, uint64_t wr_id)
{
    struct ibv_sge sge = {.addr = (uintptr_t)addr, .length = length};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

    return diwarp_post_recv(node->qp, &wr);
}

static inline void fill(uint8_t *buf, size_t length, uint32_t seed)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;

    for (size_t i = 0; i < length; i++) {
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        buf[i] = (uint8_t)(x >> 56);
    }
}

static inline void assert_filled(const uint8_t *buf, size_t length, uint32_t seed)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;

    for (size_t i = 0; i < length; i++) {
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        if (buf[i] != (uint8_t)(x >> 56))
            fail_msg("byte %zu of %zu (seed %u) differs", i, length, seed);
    }
}

#endif
