/* SPDX-License-Identifier: BSD-3-Clause */
/* For cmocka tests: two devices on 127.0.0.1 with several queue pairs each, and requests of every
 * kind between all of them. After <cmocka.h>. */
#ifndef TEST_QUEUE_PAIRS_H
#define TEST_QUEUE_PAIRS_H

#include "test/net/node.h"

enum { QPS = 3, CQS = 2, LARGE = 50000, SMALL = 100 };

/* What one QP at this end has with one at the other. */
struct between {
    uint8_t send[SMALL], small[SMALL], large[LARGE]; /* what is sent and written */
    uint8_t into_small[SMALL], into_large[LARGE];    /* where the other end writes */
    uint8_t source[LARGE], sink[LARGE];              /* what it reads; where we read to */
    uint64_t counter, old;
    unsigned sends, writes, reads, atomics, recvs, errors; /* completions here */
};

struct side {
    struct diwarp_device *device;
    struct diwarp_pd *pd;
    struct diwarp_cq *cqs[CQS]; /* QP i completes on i % CQS */
    struct diwarp_qp *qps[QPS];
    struct diwarp_address addresses[QPS];
    struct diwarp_ah *ahs[QPS][QPS]; /* of each to each of the other side */
    struct between with[QPS][QPS];
    struct diwarp_mr *mr; /* with */
    uint8_t inbox[QPS][16][SMALL];
};

static struct side sides[2];

static inline void open_qp(struct side *side, enum diwarp_qp_type type, unsigned i)
{
    struct diwarp_qp_attr attr = qp_attr_of(type);
    attr.cq = side->cqs[i % CQS];
    assert_int_equal(diwarp_create_qp(side->pd, &attr, &side->qps[i], NULL), 0);
    diwarp_query_address(side->qps[i], &side->addresses[i]);
}

static inline void open_device(struct side *side, uint32_t rank, uint32_t datagram_bytes)
{
    struct diwarp_device_attr attr = loopback_attr(rank);
    memset(side, 0, sizeof *side);
    attr.datagram_max_bytes = datagram_bytes;
    assert_int_equal(diwarp_open_device(&attr, &side->device, NULL), 0);
    side->pd = diwarp_alloc_pd(side->device);
    for (unsigned i = 0; i < CQS; i++)
        side->cqs[i] = diwarp_create_cq(side->device, 64);
    side->mr = diwarp_reg_mr(side->pd, side->with, sizeof side->with,
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
}

static inline void open_sides(enum diwarp_qp_type type, uint32_t datagram_bytes)
{
    for (unsigned s = 0; s < 2; s++) {
        open_device(&sides[s], 1 + s, datagram_bytes);
        for (unsigned i = 0; i < QPS; i++)
            open_qp(&sides[s], type, i);
    }
    for (unsigned s = 0; s < 2; s++)
        for (unsigned i = 0; i < QPS; i++)
            for (unsigned j = 0; j < QPS; j++)
                assert_int_equal(
                    diwarp_create_ah(sides[s].qps[i], &sides[!s].addresses[j], &sides[s].ahs[i][j]),
                    0);
}

static inline void close_device(struct side *side)
{
    for (unsigned i = 0; i < QPS; i++)
        if (side->qps[i])
            diwarp_destroy_qp(side->qps[i]);
    for (unsigned i = 0; i < CQS; i++)
        diwarp_destroy_cq(side->cqs[i]);
    if (side->mr)
        diwarp_dereg_mr(side->mr);
    diwarp_dealloc_pd(side->pd);
    diwarp_close_device(side->device);
}

static inline void close_sides(void)
{
    for (unsigned s = 0; s < 2; s++)
        for (unsigned i = 0; i < QPS; i++)
            for (unsigned j = 0; j < QPS; j++)
                diwarp_destroy_ah(sides[s].ahs[i][j]);
    close_device(&sides[0]);
    close_device(&sides[1]);
}

static inline unsigned index_of(const struct side *side, uint32_t qpn)
{
    for (unsigned i = 0; i < QPS; i++)
        if (side->addresses[i].qpn == qpn)
            return i;
    fail_msg("no QP has number %u", qpn);
    return 0;
}

/* ---- posts ---- */

enum { OP_SEND, OP_SMALL, OP_LARGE, OP_READ, OP_ATOMIC, OPS };

/* QP i of side s to QP j of the other; wr_id names both. */
static inline void post_op(unsigned s, unsigned i, unsigned j, unsigned op)
{
    struct between *mine = &sides[s].with[i][j], *theirs = &sides[!s].with[j][i];
    static const enum ibv_wr_opcode opcodes[OPS] = {IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
                                                    IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                                    IBV_WR_ATOMIC_FETCH_AND_ADD};
    void *const local[OPS] = {mine->send, mine->small, mine->large, mine->sink, &mine->old};
    static const uint32_t lengths[OPS] = {SMALL, SMALL, LARGE, LARGE, sizeof mine->old};
    struct ibv_sge sge = {
        .addr = (uintptr_t)local[op], .length = lengths[op], .lkey = sides[s].mr->stag};
    struct diwarp_send_wr wr = {
        .wr = {.wr_id = i * 16 + j,
               .sg_list = &sge,
               .num_sge = 1,
               .opcode = opcodes[op],
               .send_flags = IBV_SEND_SIGNALED,
               .imm_data = i * 16 + j},
        .ah = sides[s].ahs[i][j],
    };
    if (op == OP_ATOMIC) {
        wr.wr.wr.atomic.rkey = sides[!s].mr->stag;
        wr.wr.wr.atomic.remote_addr = (uintptr_t)&theirs->counter;
        wr.wr.wr.atomic.compare_add = 3;
    } else if (op != OP_SEND) {
        wr.wr.wr.rdma.rkey = sides[!s].mr->stag;
        wr.wr.wr.rdma.remote_addr = (uintptr_t)(op == OP_SMALL   ? theirs->into_small
                                                : op == OP_LARGE ? theirs->into_large
                                                                 : theirs->source);
    }
    assert_int_equal(diwarp_post_send(sides[s].qps[i], &wr), 0);
}

static inline uint32_t seed_of(unsigned s, unsigned i, unsigned j)
{
    return 1000 * s + 100 * i + 10 * j;
}

static inline void fill_all(void)
{
    for (unsigned s = 0; s < 2; s++)
        for (unsigned i = 0; i < QPS; i++)
            for (unsigned j = 0; j < QPS; j++) {
                struct between *mine = &sides[s].with[i][j];
                fill(mine->send, SMALL, seed_of(s, i, j));
                fill(mine->small, SMALL, seed_of(s, i, j) + 1);
                fill(mine->large, LARGE, seed_of(s, i, j) + 2);
                fill(mine->source, LARGE, seed_of(s, i, j) + 3);
            }
}

/* ---- completions ---- */

static inline void take_own(struct side *side, unsigned i, const struct diwarp_wc *wc)
{
    struct between *mine = &side->with[i][wc->wc.wr_id % 16];
    assert_int_equal(wc->wc.wr_id / 16, i);
    if (wc->wc.status != IBV_WC_SUCCESS) {
        assert_int_equal(wc->wc.status, IBV_WC_REM_ABORT_ERR);
        mine->errors++;
        return;
    }
    mine->sends += wc->wc.opcode == IBV_WC_SEND;
    mine->writes += wc->wc.opcode == IBV_WC_RDMA_WRITE;
    mine->reads += wc->wc.opcode == IBV_WC_RDMA_READ;
    mine->atomics += wc->wc.opcode == IBV_WC_FETCH_ADD;
}

static inline void take(unsigned s, unsigned cq, const struct diwarp_wc *wc)
{
    struct side *side = &sides[s];
    const unsigned i = index_of(side, wc->wc.qp_num);
    assert_int_equal(i % CQS, cq);
    if (wc->wc.opcode != IBV_WC_RECV) {
        take_own(side, i, wc);
        return;
    }
    const unsigned from = index_of(&sides[!s], wc->wc.src_qp);
    assert_int_equal(wc->wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc->wc.imm_data, from * 16 + i);
    assert_int_equal(wc->wc.byte_len, SMALL);
    assert_int_equal(wc->src.rank, 2 - s);
    assert_filled(wc->data ? wc->data : side->inbox[i][wc->wc.wr_id], SMALL, seed_of(!s, from, i));
    side->with[i][from].recvs++;
}

static inline void poll_side(unsigned s)
{
    struct diwarp_wc wc[16];
    for (unsigned cq = 0; cq < CQS; cq++) {
        const int n = diwarp_poll_cq(sides[s].cqs[cq], 16, wc);
        assert_true(n >= 0);
        for (int k = 0; k < n; k++)
            take(s, cq, &wc[k]);
    }
}

static inline unsigned done(const struct between *b)
{
    return b->sends + b->writes + b->reads + b->atomics + b->errors;
}

/* Until each living pair has so many ends of requests, and so many receives. */
static inline bool all_done(unsigned requests, unsigned recvs)
{
    for (unsigned s = 0; s < 2; s++)
        for (unsigned i = 0; i < QPS; i++)
            for (unsigned j = 0; j < QPS; j++) {
                if (sides[s].qps[i] && done(&sides[s].with[i][j]) < requests)
                    return false;
                if (sides[s].qps[i] && sides[!s].qps[j] && sides[s].with[i][j].recvs < recvs)
                    return false;
            }
    return true;
}

static inline void run_until_done(unsigned requests, unsigned recvs)
{
    for (uint64_t end_ns = clock_ns() + WAIT_NS; !all_done(requests, recvs);) {
        poll_side(0);
        poll_side(1);
        if (clock_ns() > end_ns)
            fail_msg("not all requests have ended");
    }
}

#endif
