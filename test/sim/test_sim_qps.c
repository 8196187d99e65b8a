/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several queue pairs on a port, over a network that loses, repeats and reorders: one of each side
 * goes amid what it asks and is asked. All that the others ask of living ones succeeds, all else
 * ends, and nothing is left open at either end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

enum { QPS = 3, OPS_PER_PAIR = 3, SEEDS = 300, BYTES = 60000 };

struct many {
    struct fixture *f;
    struct diwarp_qp *qps[2][QPS]; /* the first is the node's own */
    struct diwarp_ah *ahs[2][QPS][QPS];
    struct diwarp_mr *mrs[2];
    uint8_t *local[2], *remote[2];
};

static void open_many(struct many *m, uint64_t seed)
{
    struct fixture *f = m->f = fixture_new();
    struct diwarp_address address;
    f->config.seed = seed;
    f->config.impairment = (struct sim_impairment){.loss_permille = 30,
                                                   .dup_permille = 30,
                                                   .reorder_permille = 100,
                                                   .delay_ns = 20000,
                                                   .reorder_ns = 400000,
                                                   .bytes_per_ns = 1};
    fixture_open(f);
    for (unsigned n = 0; n < 2; n++) {
        m->local[n] = fixture_payload(1, BYTES);
        m->remote[n] = fixture_payload(2, BYTES);
        m->mrs[n] = fixture_reg(f, n, m->remote[n], BYTES);
        m->qps[n][0] = f->world.nodes[n].qp;
        for (unsigned i = 1; i < QPS; i++) {
            struct diwarp_qp_attr attr = f->config.qp;
            attr.cq = f->world.nodes[n].cq;
            assert_int_equal(diwarp_create_qp(f->world.nodes[n].pd, &attr, &m->qps[n][i], NULL), 0);
        }
    }
    for (unsigned n = 0; n < 2; n++)
        for (unsigned i = 0; i < QPS; i++)
            for (unsigned j = 0; j < QPS; j++) {
                diwarp_query_address(m->qps[!n][j], &address);
                assert_int_equal(diwarp_create_ah(m->qps[n][i], &address, &m->ahs[n][i][j]), 0);
            }
}

static void post_random(struct many *m, unsigned n, unsigned i, unsigned j)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                                 IBV_WR_ATOMIC_FETCH_AND_ADD};
    uint64_t *random_state = &m->f->world.random_state;
    const enum ibv_wr_opcode opcode = opcodes[sim_random_below(random_state, 4)];
    const uint32_t bytes = 1 + (uint32_t)sim_random_below(random_state, BYTES);
    struct ibv_sge sge = {.addr = (uintptr_t)m->local[n],
                          .length = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : bytes};
    struct diwarp_send_wr wr = {
        .wr = {.wr_id = i * QPS + j,
               .sg_list = &sge,
               .num_sge = 1,
               .opcode = opcode,
               .send_flags = IBV_SEND_SIGNALED},
        .ah = m->ahs[n][i][j],
    };
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.wr.atomic.remote_addr = (uintptr_t)m->mrs[!n]->addr;
        wr.wr.wr.atomic.rkey = m->mrs[!n]->stag;
    } else if (opcode != IBV_WR_SEND) {
        wr.wr.wr.rdma.remote_addr = (uintptr_t)m->mrs[!n]->addr;
        wr.wr.wr.rdma.rkey = m->mrs[!n]->stag;
    }
    assert_int_equal(diwarp_post_send(m->qps[n][i], &wr), 0);
}

/* QP `gone[n]` of node n has been destroyed. */
static void check(const struct many *m, const unsigned *gone)
{
    unsigned ends[2][QPS][QPS] = {0};
    for (unsigned k = 0; k < m->f->wc_count; k++) {
        const struct diwarp_wc *wc = &m->f->wcs[k];
        const unsigned n = m->f->wc_node[k], i = (unsigned)wc->wc.wr_id / QPS,
                       j = (unsigned)wc->wc.wr_id % QPS;
        if (wc->wc.opcode == IBV_WC_RECV)
            continue;
        ends[n][i][j]++;
        assert_true(wc->wc.status == IBV_WC_SUCCESS ||
                    (wc->wc.status == IBV_WC_REM_ABORT_ERR && j == gone[!n]));
    }
    for (unsigned n = 0; n < 2; n++)
        for (unsigned i = 0; i < QPS; i++)
            for (unsigned j = 0; j < QPS; j++)
                if (i != gone[n])
                    assert_int_equal(ends[n][i][j], OPS_PER_PAIR);
}

static void close_many(struct many *m, const unsigned *gone)
{
    struct fixture *f = m->f;
    for (unsigned n = 0; n < 2; n++) {
        assert_int_equal(sim_rd_of(&f->world.nodes[n])->records.ends.count, 0);
        for (unsigned i = 0; i < QPS; i++) {
            if (i && i != gone[n])
                diwarp_destroy_qp(m->qps[n][i]);
            for (unsigned j = 0; j < QPS; j++)
                diwarp_destroy_ah(m->ahs[n][i][j]);
        }
        diwarp_dereg_mr(m->mrs[n]);
    }
    fixture_close(f);
    for (unsigned n = 0; n < 2; n++) {
        free(m->local[n]);
        free(m->remote[n]);
    }
}

static void qps__one_of_each_side_goes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct many m;
        memset(&m, 0, sizeof m);
        open_many(&m, seed);
        uint64_t *random_state = &m.f->world.random_state;
        const unsigned gone[2] = {1 + (unsigned)sim_random_below(random_state, QPS - 1),
                                  1 + (unsigned)sim_random_below(random_state, QPS - 1)};
        for (unsigned k = 0; k < OPS_PER_PAIR; k++)
            for (unsigned n = 0; n < 2; n++)
                for (unsigned i = 0; i < QPS; i++)
                    for (unsigned j = 0; j < QPS; j++)
                        post_random(&m, n, i, j);
        for (unsigned n = 0; n < 2; n++) {
            const uint64_t most_ns = 1000ull << sim_random_below(random_state, 12);
            sim_world_run_for(&m.f->world, sim_random_below(random_state, most_ns));
            diwarp_destroy_qp(m.qps[n][gone[n]]);
        }
        fixture_run(m.f, 100 * SECOND);
        check(&m, gone);
        close_many(&m, gone);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qps__one_of_each_side_goes),
    };

    return cmocka_run_group_tests_name("sim: queue pairs", tests, NULL, NULL);
}
