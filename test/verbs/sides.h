/* SPDX-License-Identifier: BSD-3-Clause */
/* Two queue pairs of UD or RD, each of a context of its own, and the functions of diwarp_verbs.h:
 * these are looked up, as the tests are linked with libibverbs alone. */
#pragma once

#include <stdbool.h>

#include "test/verbs/end.h"
#include "verbs_diwarp/diwarp_verbs.h"

#define LARGE 200000

#define FOUND(name) __typeof__(diwarp_verbs_##name) *name = find("diwarp_verbs_" #name)

void *find(const char *name);

/* `side` 0 posts, 1 is the target; memory is registered with all rights. */
struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel; /* of recv_cq */
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct ibv_ah *ah; /* to the host, which both are on */
    _Alignas(8) uint8_t memory[LARGE];
};

extern struct side *sides[2];
/* Elements that requests and receives of queue pairs made from now on may have. */
extern unsigned sge_max;

/* What requests call the bytes of its memory from `at` on. */
uint64_t address_in(const struct side *side, uint32_t at);
/* Fixtures, around which requests call memory by addresses that are not its own. */
int shift_all(void **state);
int shift_none(void **state);

struct ibv_qp_init_attr_ex attr_for(const struct side *side);
void open_both(bool rd);
void close_both(void);
/* The first bytes of side 0's memory; RDMA is with those of side 1 from `at` on, by that key, which
 * a Send with Invalidate names, too. Immediate data is the id. */
int post_keyed(enum ibv_wr_opcode opcode, uint64_t id, uint32_t bytes, uint32_t at, uint32_t rkey,
               unsigned flags);
/* By the key of side 1's memory; signaled. */
int post(enum ibv_wr_opcode opcode, uint64_t id, uint32_t bytes, uint32_t at);
/* Of side 0's send queue, while side 1 runs, too. */
struct ibv_wc done(uint64_t id, enum ibv_wc_status status);
/* Of side 1: the bytes of its memory from `at` on. */
int receive(uint64_t id, uint32_t at, uint32_t bytes);
