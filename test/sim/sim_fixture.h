/* SPDX-License-Identifier: BSD-3-Clause */
/* What the directed cases share: a world, a log of completions, and posts in one line.
 * After the includes that cmocka.h wants. */
#ifndef SIM_FIXTURE_H
#define SIM_FIXTURE_H

#include <cmocka.h>

#include "common/datagram/segments.h"
#include "common/wire/ddp.h"
#include "common/wire/llp_header.h"
#include "common/wire/rdmap.h"
#include "test/sim/sim_world.h"

#define FIXTURE_MAX_WC 1024
#define MS             1000000ull
#define SECOND         (1000 * MS)

struct fixture {
    struct sim_config config;
    struct sim_world world;
    struct diwarp_wc wcs[FIXTURE_MAX_WC]; /* data pointers are dead */
    unsigned wc_node[FIXTURE_MAX_WC];
    unsigned wc_count;
    /* What a filter of a case counts. */
    unsigned hits;
    uint32_t hit_bytes;
    /* What a case's completion handler posts with, and has posted. */
    unsigned posted;
    const struct diwarp_mr *source_mr;
    uint8_t *sink;
};

/* A datagram, and its first segment (ddp.opcode is UINT8_MAX when there is none). */
struct seen_datagram {
    unsigned from;
    struct dw_llp_header header;
    struct dw_ddp_header ddp;
    struct dw_segment segment;
    struct dw_record_control control; /* of DW_RDMAP_RECORD_CONTROL; else kind is 0 */
};

static inline struct seen_datagram fixture_parse(const struct sim_endpoint *from,
                                                 const uint8_t *buf, uint32_t bytes)
{
    struct seen_datagram seen = {.from = ((const struct sim_node *)from->owner)->index};
    assert_int_equal(dw_llp_header_get(&seen.header, buf, bytes), 0);
    uint32_t at = DW_LLP_HEADER_BYTES;
    if (seen.header.flags & DW_LLP_INTRO)
        at += DW_INTRO_BYTES;
    seen.ddp.opcode = UINT8_MAX;
    if (seen.header.type == DW_LLP_PROBE)
        return seen; /* what follows is padding */
    if (bytes < at + DW_SEGMENT_LEN_BYTES + DW_CRC_BYTES)
        return seen;
    uint32_t length = (uint32_t)buf[at] << 8 | buf[at + 1];
    int head = dw_ddp_get(&seen.ddp, buf + at + DW_SEGMENT_LEN_BYTES, length);
    assert_true(head > 0);
    seen.segment.payload = buf + at + DW_SEGMENT_LEN_BYTES + head;
    seen.segment.bytes = length - (uint32_t)head;
    if (seen.ddp.opcode == DW_RDMAP_RECORD_CONTROL)
        assert_int_equal(
            dw_record_control_get(&seen.control, seen.segment.payload, seen.segment.bytes), 0);
    return seen;
}

static inline struct fixture *fixture_of(void *world)
{
    return ((struct sim_world *)world)->app;
}

static inline void fixture_on_wc(struct sim_world *world, struct sim_node *node,
                                 const struct diwarp_wc *wc)
{
    struct fixture *f = world->app;
    assert_true(f->wc_count < FIXTURE_MAX_WC);
    f->wc_node[f->wc_count] = node->index;
    f->wcs[f->wc_count++] = *wc;
}

static inline struct fixture *fixture_new(void)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    sim_config_init(&f->config, 1);
    return f;
}

/* After the case has changed what it wants of f->config. */
static inline void fixture_open(struct fixture *f)
{
    sim_world_init(&f->world, &f->config);
    f->world.app = f;
    f->world.on_wc = fixture_on_wc;
}

/* As after a while without losses: one peer may have all of the budget. */
static inline void fixture_widen(struct fixture *f, unsigned node, unsigned peer)
{
    sim_recordwin(&f->world.nodes[node], peer)->datagrams = DW_RECORDWIN_MOST;
}

static inline void fixture_run(struct fixture *f, uint64_t limit_ns)
{
    sim_world_run(&f->world, limit_ns);
    if (f->world.failed)
        fail_msg("%s", f->world.failure);
}

/* At rest, and the end. */
static inline void fixture_close(struct fixture *f)
{
    sim_world_check_rest(&f->world);
    if (f->world.failed)
        fail_msg("%s", f->world.failure);
    sim_world_fini(&f->world);
    free(f);
}

static inline struct diwarp_mr *fixture_reg(struct fixture *f, unsigned node, void *buf,
                                            size_t bytes)
{
    struct diwarp_mr *mr = diwarp_reg_mr(f->world.nodes[node].pd, buf, bytes,
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    assert_non_null(mr);
    return mr;
}

static inline int fixture_post(struct fixture *f, unsigned node, unsigned to, uint64_t wr_id,
                               enum ibv_wr_opcode opcode, unsigned flags, void *buf, uint32_t bytes,
                               const struct diwarp_mr *remote)
{
    struct ibv_sge sge = {.addr = (uintptr_t)buf, .length = bytes};
    struct diwarp_send_wr post = {
        .wr = {.wr_id = wr_id,
               .sg_list = &sge,
               .num_sge = 1,
               .opcode = opcode,
               .imm_data = (uint32_t)wr_id,
               .send_flags = IBV_SEND_SIGNALED | flags},
        .ah = f->world.nodes[node].ahs[to],
    };
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        post.wr.wr.atomic.remote_addr = (uintptr_t)remote->addr;
        post.wr.wr.atomic.rkey = remote->stag;
        post.wr.wr.atomic.compare_add = 1;
    } else if (remote) {
        post.wr.wr.rdma.remote_addr = (uintptr_t)remote->addr;
        post.wr.wr.rdma.rkey = remote->stag;
    }
    return diwarp_post_send(f->world.nodes[node].qp, &post);
}

/* The completion of (node, wr_id, opcode) that was logged, the only one; NULL: none. */
static inline const struct diwarp_wc *fixture_find(const struct fixture *f, unsigned node,
                                                   uint64_t wr_id, int opcode)
{
    const struct diwarp_wc *found = NULL;
    for (unsigned i = 0; i < f->wc_count; i++) {
        const struct diwarp_wc *wc = &f->wcs[i];
        if (f->wc_node[i] != node || wc->wc.wr_id != wr_id || (int)wc->wc.opcode != opcode)
            continue;
        assert_null(found);
        found = wc;
    }
    return found;
}

static inline unsigned fixture_count(const struct fixture *f, unsigned node, int opcode)
{
    unsigned n = 0;
    for (unsigned i = 0; i < f->wc_count; i++)
        n += f->wc_node[i] == node && (int)f->wcs[i].wc.opcode == opcode;
    return n;
}

static inline void fixture_assert_status(const struct fixture *f, unsigned node, uint64_t wr_id,
                                         int opcode, enum ibv_wc_status status)
{
    const struct diwarp_wc *wc = fixture_find(f, node, wr_id, opcode);
    assert_non_null(wc);
    assert_int_equal(wc->wc.status, status);
}

/* A Send of one byte from node 0 to node 1. */
static inline void fixture_post_small(struct fixture *f, uint64_t wr_id)
{
    uint8_t data = 0;
    assert_int_equal(fixture_post(f, 0, 1, wr_id, IBV_WR_SEND, 0, &data, 1, NULL), 0);
}

/* A filter: each datagram comes twice. */
static inline enum sim_verdict fixture_repeat_all(void *world, const struct sim_endpoint *from,
                                                  const uint8_t *buf, uint32_t bytes)
{
    (void)world, (void)from, (void)buf, (void)bytes;
    return SIM_REPEAT;
}

/* A filter: the first Send with immediate data, by f->hits, is lost. */
static inline enum sim_verdict fixture_lose_send(void *world, const struct sim_endpoint *from,
                                                 const uint8_t *buf, uint32_t bytes)
{
    const struct seen_datagram seen = fixture_parse(from, buf, bytes);
    return seen.ddp.opcode == DW_RDMAP_SEND_IMM && !fixture_of(world)->hits++ ? SIM_DROP : SIM_PASS;
}

/* malloc'd: payload `id`. */
static inline uint8_t *fixture_payload(uint32_t id, size_t bytes)
{
    uint8_t *buf = malloc(bytes);
    assert_non_null(buf);
    sim_pattern_fill(id, 0, buf, bytes);
    return buf;
}

#endif
