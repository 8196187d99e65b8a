/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the verbs front begin with: a UD queue pair, and all that it needs. They are
 * linked with libibverbs alone, and run with the front before it (test/verbs/run). */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#define QKEY  0x11111111u
#define BYTES 256
#define ROOM  16 /* requests of a queue */
#define ALL_ACCESS                                                               \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)
/* Not polled: of end->qp. */
#define MAX_SENDS 64

struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_comp_channel *channel;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct ibv_ah *ah; /* to ourselves */
    uint8_t memory[4096];
};

struct ibv_context *open_diwarp(void);
/* The queue pair is in RESET; its send CQ has no channel. */
struct end *open_end(int cqe);
void close_end(struct end *end);
struct ibv_qp_init_attr attr_of(const struct end *end);
int modify(struct end *end, enum ibv_qp_state state, int mask);
/* As ibv_query_qp() tells it: the field of that name is what the program last set or was told. */
enum ibv_qp_state state_of(struct ibv_qp *qp);
/* To RTS. */
void make_ready(struct end *end);

union ibv_gid gid_of(const uint8_t ip[4]);

/* The bytes of end->memory from `at` on. */
int post_recv(struct end *end, uint64_t id, uint32_t at, uint32_t bytes);
/* The first BYTES of end->memory, with immediate data, to end->qp; signaled. */
int post_send(struct end *end, struct ibv_ah *ah, uint32_t qkey, uint32_t lkey);
/* Monotonic. */
uint64_t now_ns(void);
/* A completion, within two seconds. */
struct ibv_wc take(struct ibv_cq *cq);
/* For 50 ms. */
void assert_empty(struct ibv_cq *cq);
