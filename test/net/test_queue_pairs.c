/* SPDX-License-Identifier: BSD-3-Clause */
/* Several queue pairs of each kind on one port: who gets what, one that goes, and what one costs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <malloc.h>

#include "common/rd/rd.h"
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

static void open_qp(struct side *side, enum diwarp_qp_type type, unsigned i)
{
    struct diwarp_qp_attr attr = qp_attr_of(type);
    attr.cq = side->cqs[i % CQS];
    assert_int_equal(diwarp_create_qp(side->pd, &attr, &side->qps[i], NULL), 0);
    diwarp_query_address(side->qps[i], &side->addresses[i]);
}

static void open_device(struct side *side, uint32_t rank, uint32_t datagram_bytes)
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

static void open_sides(enum diwarp_qp_type type, uint32_t datagram_bytes)
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

static void close_device(struct side *side)
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

static void close_sides(void)
{
    for (unsigned s = 0; s < 2; s++)
        for (unsigned i = 0; i < QPS; i++)
            for (unsigned j = 0; j < QPS; j++)
                diwarp_destroy_ah(sides[s].ahs[i][j]);
    close_device(&sides[0]);
    close_device(&sides[1]);
}

static unsigned index_of(const struct side *side, uint32_t qpn)
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
static void post_op(unsigned s, unsigned i, unsigned j, unsigned op)
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

static uint32_t seed_of(unsigned s, unsigned i, unsigned j)
{
    return 1000 * s + 100 * i + 10 * j;
}

static void fill_all(void)
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

static void take_own(struct side *side, unsigned i, const struct diwarp_wc *wc)
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

static void take(unsigned s, unsigned cq, const struct diwarp_wc *wc)
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

static void poll_side(unsigned s)
{
    struct diwarp_wc wc[16];
    for (unsigned cq = 0; cq < CQS; cq++) {
        const int n = diwarp_poll_cq(sides[s].cqs[cq], 16, wc);
        assert_true(n >= 0);
        for (int k = 0; k < n; k++)
            take(s, cq, &wc[k]);
    }
}

static unsigned done(const struct between *b)
{
    return b->sends + b->writes + b->reads + b->atomics + b->errors;
}

/* Until each living pair has so many ends of requests, and so many receives. */
static bool all_done(unsigned requests, unsigned recvs)
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

static void run_until_done(unsigned requests, unsigned recvs)
{
    for (uint64_t end_ns = clock_ns() + WAIT_NS; !all_done(requests, recvs);) {
        poll_side(0);
        poll_side(1);
        if (clock_ns() > end_ns)
            fail_msg("not all requests have ended");
    }
}

/* ---- everything to everyone ---- */

static void check_all(void)
{
    for (unsigned s = 0; s < 2; s++)
        for (unsigned i = 0; i < QPS; i++)
            for (unsigned j = 0; j < QPS; j++) {
                const struct between *mine = &sides[s].with[i][j];
                assert_int_equal(mine->errors, 0);
                assert_int_equal(mine->recvs, 1);
                assert_int_equal(mine->writes, 2);
                assert_filled(mine->into_small, SMALL, seed_of(!s, j, i) + 1);
                assert_filled(mine->into_large, LARGE, seed_of(!s, j, i) + 2);
                assert_filled(mine->sink, LARGE, seed_of(!s, j, i) + 3);
                assert_int_equal(mine->counter, 3);
            }
}

static void rd__all_operations_between_all(void **state)
{
    (void)state;
    static const uint32_t datagrams[] = {0, 1472};
    for (unsigned d = 0; d < 2; d++) {
        open_sides(DIWARP_QPT_RD, datagrams[d]);
        fill_all();
        for (unsigned op = 0; op < OPS; op++)
            for (unsigned s = 0; s < 2; s++)
                for (unsigned i = 0; i < QPS; i++)
                    for (unsigned j = 0; j < QPS; j++)
                        post_op(s, i, j, op);
        run_until_done(OPS, 1);
        check_all();
        assert_int_equal(diwarp_query_counters(sides[0].qps[0])->drop_qpn, 0);
        close_sides();
    }
}

static void ud__sends_between_all(void **state)
{
    (void)state;
    open_sides(DIWARP_QPT_UD, 0);
    fill_all();
    for (unsigned s = 0; s < 2; s++)
        for (unsigned i = 0; i < QPS; i++)
            for (unsigned k = 0; k < QPS; k++) {
                struct ibv_sge sge = {.addr = (uintptr_t)sides[s].inbox[i][k], .length = SMALL};
                struct ibv_recv_wr wr = {.wr_id = k, .sg_list = &sge, .num_sge = 1};
                assert_int_equal(diwarp_post_recv(sides[s].qps[i], &wr), 0);
            }
    for (unsigned s = 0; s < 2; s++)
        for (unsigned i = 0; i < QPS; i++)
            for (unsigned j = 0; j < QPS; j++)
                post_op(s, i, j, OP_SEND);
    run_until_done(1, 1);
    /* To one that is gone: dropped, for the sender may not know. */
    diwarp_destroy_qp(sides[1].qps[2]);
    sides[1].qps[2] = NULL;
    post_op(0, 0, 2, OP_SEND);
    const struct diwarp_counters *counters = diwarp_query_counters(sides[1].qps[0]);
    for (uint64_t end_ns = clock_ns() + WAIT_NS; !counters->drop_qpn && clock_ns() < end_ns;)
        poll_side(1);
    assert_int_equal(counters->drop_qpn, 1);
    close_sides();
}

/* ---- one goes ---- */

static const struct dw_rd *rd_of(unsigned s)
{
    return sides[s].qps[0]->state;
}

static bool nothing_is_open(void)
{
    for (unsigned s = 0; s < 2; s++) {
        const struct dw_rd *rd = rd_of(s);
        if (rd->sinks.count || rd->sources.count || rd->assembly_count || rd->work_count)
            return false;
    }
    return true;
}

/* After so many polls, when requests are anywhere between not sent and done, or never polled. */
static void destroy_amid(unsigned polls, uint32_t datagram_bytes)
{
    open_sides(DIWARP_QPT_RD, datagram_bytes);
    fill_all();
    for (unsigned op = OPS; op-- > 0;)
        for (unsigned s = 0; s < 2; s++)
            for (unsigned i = 0; i < QPS; i++)
                for (unsigned j = 0; j < QPS; j++)
                    post_op(s, i, j, op);
    for (unsigned n = 0; n < polls; n++)
        poll_side(n & 1);
    diwarp_destroy_qp(sides[1].qps[1]);
    diwarp_destroy_qp(sides[0].qps[2]);
    sides[1].qps[1] = sides[0].qps[2] = NULL;
    /* Of those that are gone the memory may be gone, too. */
    for (unsigned j = 0; j < QPS; j++)
        memset(sides[0].with[2][j].sink, 0xee, LARGE);
    run_until_done(OPS, 1);
    for (unsigned j = 0; j < QPS; j++)
        for (unsigned at = 0; at < LARGE; at++)
            assert_int_equal(sides[0].with[2][j].sink[at], 0xee);
    /* New requests to those that are gone end in error, all but Sends; the others go on. */
    for (unsigned op = 0; op < OPS; op++)
        for (unsigned i = 0; i < 2; i++)
            for (unsigned j = 0; j < QPS; j++)
                post_op(0, i, j, op);
    for (uint64_t end_ns = clock_ns() + WAIT_NS;;) {
        unsigned ended = 0;
        for (unsigned i = 0; i < 2; i++)
            for (unsigned j = 0; j < QPS; j++)
                ended += done(&sides[0].with[i][j]) == 2 * OPS;
        if (ended == 2 * QPS && nothing_is_open())
            break;
        poll_side(0);
        poll_side(1);
        if (clock_ns() > end_ns)
            fail_msg("after %u polls: %u pairs ended, sinks %zu %zu, sources %zu %zu", polls, ended,
                     rd_of(0)->sinks.count, rd_of(1)->sinks.count, rd_of(0)->sources.count,
                     rd_of(1)->sources.count);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_true(sides[0].with[i][1].errors >= OPS - 1);
        assert_int_equal(sides[0].with[i][0].errors + sides[0].with[i][2].errors, 0);
    }
    assert_true(diwarp_query_counters(sides[1].qps[0])->drop_qpn > 0);
    close_sides();
}

static void rd__one_goes_the_others_stay(void **state)
{
    (void)state;
    for (unsigned polls = 0; polls < 40; polls++) {
        destroy_amid(polls, 0);
        destroy_amid(polls, 1472);
    }
}

/* The peer has had part of a message when its QP goes: it gets the rest, and holds nothing back. */
static void rd__goes_amid_a_long_send(void **state)
{
    (void)state;
    enum { BYTES = 60000, SENDS = 40 };
    static uint8_t message[BYTES];
    open_sides(DIWARP_QPT_RD, 1472);
    struct ibv_sge sge = {.addr = (uintptr_t)message, .length = BYTES};
    struct diwarp_send_wr wr = {.wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
                                .ah = sides[0].ahs[1][0]};
    fill(message, BYTES, 1);
    for (unsigned i = 0; i < SENDS; i++)
        assert_int_equal(diwarp_post_send(sides[0].qps[1], &wr), 0);
    diwarp_destroy_qp(sides[0].qps[1]);
    sides[0].qps[1] = NULL;
    memset(message, 0, BYTES);
    unsigned got = 0;
    for (uint64_t end_ns = clock_ns() + WAIT_NS; !got || !nothing_is_open();) {
        struct diwarp_wc wc;
        poll_side(0);
        if (diwarp_poll_cq(sides[1].cqs[0], 1, &wc) == 1) {
            assert_int_equal(wc.wc.byte_len, BYTES);
            assert_filled(wc.data, BYTES, 1);
            got++;
        }
        if (clock_ns() > end_ns)
            fail_msg("%u messages, %u still open", got, rd_of(1)->assembly_count);
    }
    assert_true(got < SENDS);
    close_sides();
}

/* The last of its kind goes, another comes: peers go on with it. */
static void rd__none_for_a_while(void **state)
{
    (void)state;
    struct diwarp_qp_attr attr = qp_attr_of(DIWARP_QPT_UD);
    struct diwarp_qp *ud;
    open_sides(DIWARP_QPT_RD, 0);
    fill_all();
    attr.cq = sides[1].cqs[0];
    assert_int_equal(diwarp_create_qp(sides[1].pd, &attr, &ud, NULL), 0);
    for (unsigned i = 0; i < QPS; i++)
        post_op(0, i, i, OP_SEND);
    for (unsigned i = 0; i < QPS; i++) {
        diwarp_destroy_qp(sides[1].qps[i]);
        sides[1].qps[i] = NULL;
    }
    post_op(0, 0, 0, OP_READ);
    for (uint64_t end_ns = clock_ns() + WAIT_NS;
         !sides[0].with[0][0].errors && clock_ns() < end_ns;) {
        poll_side(0);
        poll_side(1);
    }
    assert_int_equal(sides[0].with[0][0].errors, 1);
    open_qp(&sides[1], DIWARP_QPT_RD, 0);
    diwarp_destroy_ah(sides[0].ahs[0][0]);
    assert_int_equal(diwarp_create_ah(sides[0].qps[0], &sides[1].addresses[0], &sides[0].ahs[0][0]),
                     0);
    post_op(0, 0, 0, OP_SEND);
    for (uint64_t end_ns = clock_ns() + WAIT_NS;
         !sides[1].with[0][0].recvs && clock_ns() < end_ns;) {
        poll_side(0);
        poll_side(1);
    }
    assert_int_equal(sides[1].with[0][0].recvs, 1);
    diwarp_destroy_qp(ud);
    close_sides();
}

/* ---- numbers, and what one costs ---- */

static void qpn__of_one_that_is_gone_comes_last(void **state)
{
    (void)state;
    struct side *side = &sides[0];
    open_device(side, 1, 0);
    for (unsigned i = 0; i < QPS; i++)
        open_qp(side, i % 2 ? DIWARP_QPT_UD : DIWARP_QPT_RD, i);
    for (unsigned i = 0; i < QPS; i++)
        assert_int_equal(side->addresses[i].qpn, i + 1);
    diwarp_destroy_qp(side->qps[1]);
    open_qp(side, DIWARP_QPT_RD, 1);
    assert_int_equal(side->addresses[1].qpn, 4);
    diwarp_destroy_qp(side->qps[1]);
    side->qps[0]->port->last_qpn = DW_QPN_MAX - 1;
    open_qp(side, DIWARP_QPT_RD, 1);
    assert_int_equal(side->addresses[1].qpn, DW_QPN_MAX);
    diwarp_destroy_qp(side->qps[1]);
    open_qp(side, DIWARP_QPT_RD, 1); /* 1 and 3 live */
    assert_int_equal(side->addresses[1].qpn, 2);
    diwarp_destroy_qp(side->qps[1]);
    open_qp(side, DIWARP_QPT_RD, 1);
    assert_int_equal(side->addresses[1].qpn, 4);
    close_device(side);
}

/* As the device tells it, and as malloc does. */
static void qps__further_ones_cost_little(void **state)
{
    (void)state;
    enum { MANY = 200, MOST_BYTES = 4096 };
    static const enum diwarp_qp_type types[] = {DIWARP_QPT_RD, DIWARP_QPT_UD};
    static struct diwarp_qp *qps[2][MANY];
    struct diwarp_memory before, after;
    struct side *side = &sides[0];
    size_t held = 0;
    open_device(side, 1, 0);
    for (unsigned t = 0; t < 2; t++) {
        struct diwarp_qp_attr attr = qp_attr_of(types[t]);
        attr.cq = side->cqs[0];
        for (unsigned i = 0; i < MANY; i++) {
            if (i == 1) {
                diwarp_query_memory(side->cqs[0], side->pd, &before);
                held = mallinfo2().uordblks;
            }
            assert_int_equal(diwarp_create_qp(side->pd, &attr, &qps[t][i], NULL), 0);
        }
        diwarp_query_memory(side->cqs[0], side->pd, &after);
        const uint64_t told = (after.total_bytes - before.total_bytes) / (MANY - 1);
        const size_t malloced = (mallinfo2().uordblks - held) / (MANY - 1);
        print_message("a further %s QP: %lu bytes, of malloc's %zu\n", t ? "UD" : "RD",
                      (unsigned long)told, malloced);
        assert_in_range(told, sizeof(struct diwarp_qp), MOST_BYTES);
        assert_true(malloced <= MOST_BYTES);
        assert_int_equal(after.sockets, 1);
    }
    for (unsigned t = 0; t < 2; t++)
        for (unsigned i = 0; i < MANY; i++)
            diwarp_destroy_qp(qps[t][i]);
    close_device(side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rd__all_operations_between_all),
        cmocka_unit_test(ud__sends_between_all),
        cmocka_unit_test(rd__one_goes_the_others_stay),
        cmocka_unit_test(rd__goes_amid_a_long_send),
        cmocka_unit_test(rd__none_for_a_while),
        cmocka_unit_test(qpn__of_one_that_is_gone_comes_last),
        cmocka_unit_test(qps__further_ones_cost_little),
    };

    return cmocka_run_group_tests_name("queue pairs", tests, NULL, NULL);
}
