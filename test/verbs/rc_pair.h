/* SPDX-License-Identifier: BSD-3-Clause */
/* Two queue pairs of RC or UC of one context, to be connected with each other. */
#pragma once

#include <stdbool.h>

#include "test/verbs/end.h"

#define SGES 32

/* `memory` is registered; queue pair 0 is the one that calls, for its number is lower. */
struct pair {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *send_cq[2], *recv_cq[2];
    struct ibv_srq *srq;
    struct ibv_qp *qp[2];
    enum ibv_qp_type type[2]; /* of RC: pair_open() */
    struct ibv_mr *mr;
    union ibv_gid gid; /* of both, at that index */
    uint8_t gid_index;
    uint16_t lid;                     /* not 0: instead of the GID */
    uint8_t rnr_retry, min_rnr_timer; /* of both: for ever; 10 us */
    uint8_t timeout;                  /* likewise; 0: for ever */
    _Alignas(8) uint8_t memory[2][1 << 16];
};

/* with_srq: queue pair 1 has one. */
struct pair *pair_open(bool with_srq);
/* What is not NULL. */
void pair_close(struct pair *pair);
void pair_init(struct ibv_qp *qp, unsigned access);
/* Both, as pair_open() does. */
void pair_open_qps(struct pair *pair);
/* To RTS. */
void pair_connect_to(const struct pair *pair, struct ibv_qp *qp, uint32_t other);
/* Both, from RESET. */
void pair_connect(const struct pair *pair, unsigned access);
/* Of the first bytes of memory[i], signaled; RDMA is of the other's, 4096 bytes from its start. */
void pair_post(struct pair *pair, unsigned i, enum ibv_wr_opcode opcode, uint64_t id,
               uint32_t bytes);
/* 4096 bytes, 8192 from the start. */
void pair_receive(struct pair *pair, unsigned i, uint64_t id);
void assert_done(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status);
