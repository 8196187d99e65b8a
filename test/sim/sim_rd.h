/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random traffic over RD queue pairs: a plan of operations drawn from a seed, the application that
 * posts them, and the judgement of what came of each.
 */
#ifndef SIM_RD_H
#define SIM_RD_H

#include "test/sim/sim_attack.h"
#include "test/sim/sim_world.h"

enum sim_rd_kind { SIM_RD_SEND, SIM_RD_READ, SIM_RD_WRITE, SIM_RD_ADD, SIM_RD_SWAP };

/* How a Send is posted. */
enum sim_rd_way { SIM_RD_POST, SIM_RD_INLINE, SIM_RD_BUFFERED, SIM_RD_RESERVE };

/* What is wrong with the target of an RDMA operation. */
enum sim_rd_fault {
    SIM_RD_RIGHT,
    SIM_RD_WRONG_STAG,
    SIM_RD_NO_RIGHT,
    SIM_RD_OUT_OF_BOUNDS,
    SIM_RD_DEREGISTERED /* at some moment after the post */
};

struct sim_rd_op {
    /* the plan */
    enum sim_rd_kind kind;
    enum sim_rd_way way;
    enum sim_rd_fault fault;
    uint32_t id; /* index + 1: wr_id, immediate, payload number */
    unsigned node, target;
    uint32_t bytes;
    bool signaled, imm, hold, fence;
    uint32_t release_bytes;     /* 0, or at least 4 */
    uint64_t post_ns, delay_ns; /* delay: until the release, or the deregistration */
    uint64_t remote_offset;
    uint64_t value; /* addend */
    /* what came of it */
    uint8_t *buf; /* guard, bytes, guard */
    bool posted, delivered, ended, released;
    enum ibv_wc_status status;
    unsigned completions, completions_min, completions_max;
    uint64_t due_ns, read_id;
    uint64_t compare;
    uint8_t *victim, *snapshot; /* memory that is deregistered, and what it held then */
    struct diwarp_mr *victim_mr;
};

#define SIM_RD_GUARD_BYTES 16
#define SIM_RD_MAX_OPS     256
#define SIM_RD_MAX_PAUSES  8
#define SIM_RD_WORDS       4 /* the first half for additions, the rest for swaps */

struct sim_rd_host {
    uint8_t *readable, *writable;
    uint64_t words[SIM_RD_WORDS];
    struct diwarp_mr *readable_mr, *writable_mr, *words_mr;
    uint64_t writable_bytes;
    unsigned next_op;            /* of its own, in plan order */
    uint64_t seen[SIM_RD_WORDS]; /* last value that anybody saw there */
};

struct sim_rd_pause {
    uint64_t at_ns, duration_ns;
    unsigned node;
};

struct sim_rd {
    struct sim_config config;
    uint64_t random_state;
    struct sim_rd_op ops[SIM_RD_MAX_OPS];
    unsigned op_count;
    struct sim_rd_pause pauses[SIM_RD_MAX_PAUSES];
    unsigned pause_count;
    struct sim_rd_host hosts[SIM_MAX_NODES];
    uint64_t
        cut_ns; /* of several networks or links another one is cut about so often; 0: none is */
    uint64_t cut_until_ns;
    uint64_t next_due_ns; /* of releases, deregistrations, pauses */
    struct sim_attack attack;
    struct sim_world world;
};

#define SIM_RD_READABLE_BYTES (256u << 10)
#define SIM_RD_READABLE_ID    100000u /* payload number of node 0's readable memory, and on */
#define SIM_RD_RELEASE_ID     200000u

/* sim_rd_plan.c */
void sim_rd_plan(struct sim_rd *rd, uint64_t seed);
/* At each step: cuts another network, where it is time. */
void sim_rd_cut_another(struct sim_rd *rd);
/* Runs the plan of a seed; false: `failure` says why. */
bool sim_rd_run(uint64_t seed, char *failure, size_t failure_bytes);
/* The same authenticated, with somebody on the network who repeats and forges. */
bool sim_rd_auth_run(uint64_t seed, char *failure, size_t failure_bytes);
/* sim_rd_judge.c: after all has come to rest. */
void sim_rd_judge(struct sim_rd *rd);
/* What a success promises holds when it is told, not only in the end. */
void sim_rd_check_done(struct sim_rd *rd, const struct sim_rd_op *op, const struct diwarp_wc *wc);
/* That its target is told of it, once, and not before it is there. */
void sim_rd_check_told(struct sim_rd *rd, struct sim_rd_op *op, const struct diwarp_wc *wc);
/* Whether what was posted before a fence has come before this Send, which was posted since. */
void sim_rd_check_fences(struct sim_rd *rd, const struct sim_rd_op *op);

#endif
