/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA Read over UD on the simulated network: what each lost datagram costs; and over many seeds,
 * whatever the network does, that each read ends once, that all of one that succeeds is there, and
 * that of one that expires exactly what its map says is. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"
#include "common/include/diwarp_ud.h"

#define READ_BYTES 20000u
#define READ_TIME  (50 * MS)
#define FILL       0xee

/* ---- one datagram ---- */

static struct {
    unsigned sent, lost;
    bool requests; /* these are lost, else segments of answers */
    struct dw_range hole;
} losing;

static enum sim_verdict lose_one(void *world, const struct sim_endpoint *from, const uint8_t *buf,
                                 uint32_t bytes)
{
    (void)world;
    struct dw_write_record wr;
    const struct seen_datagram seen = fixture_parse(from, buf, bytes);
    const bool request = seen.ddp.opcode == DW_RDMAP_READ_REQUEST;
    if (request != losing.requests || losing.sent++ != losing.lost)
        return SIM_PASS;
    if (request)
        return SIM_DROP;
    assert_int_equal(dw_write_record_get(&wr, seen.segment.payload, seen.segment.bytes), 0);
    losing.hole =
        (struct dw_range){wr.offset, wr.offset + seen.segment.bytes - DW_WRITE_RECORD_BYTES};
    return SIM_DROP;
}

struct read_case {
    struct fixture *f;
    uint8_t *local, *remote;
};

static struct read_case read_one(bool requests, unsigned lost)
{
    struct read_case r = {.f = fixture_new()};
    losing.sent = 0;
    losing.requests = requests;
    losing.lost = lost;
    r.f->config.qp.type = DIWARP_QPT_UD;
    r.f->config.qp.read_time_ns = READ_TIME;
    fixture_open(r.f);
    r.f->world.net.filter = lose_one;
    r.remote = fixture_payload(1, READ_BYTES);
    r.local = malloc(READ_BYTES);
    assert_non_null(r.local);
    memset(r.local, FILL, READ_BYTES);
    struct diwarp_mr *mr = fixture_reg(r.f, 1, r.remote, READ_BYTES);
    assert_int_equal(fixture_post(r.f, 0, 1, 1, IBV_WR_RDMA_READ, 0, r.local, READ_BYTES, mr), 0);
    fixture_run(r.f, SECOND);
    return r;
}

static void read_close(struct read_case *r)
{
    fixture_close(r->f);
    free(r->local);
    free(r->remote);
}

static void read__nothing_lost__complete_at_once(void **state)
{
    (void)state;
    struct read_case r = read_one(false, UINT32_MAX);
    fixture_assert_status(r.f, 0, 1, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
    assert_true(sim_pattern_matches(1, 0, r.local, READ_BYTES));
    assert_int_equal(sim_counters(&r.f->world, 0)->read_walks, 0); /* no deadline was met */
    assert_int_equal(fixture_count(r.f, 1, IBV_WC_RDMA_READ), 0);
    read_close(&r);
}

static void read__request_lost__expires_on_time(void **state)
{
    (void)state;
    struct diwarp_read_info info;
    struct read_case r = read_one(true, 0);
    fixture_assert_status(r.f, 0, 1, IBV_WC_RDMA_READ, IBV_WC_RESP_TIMEOUT_ERR);
    assert_int_equal(diwarp_query_read(r.f->world.nodes[0].qp, 1, &info), 0);
    assert_int_equal(info.valid_bytes, 0);
    assert_int_equal(losing.sent, 1); /* nothing is asked for again */
    assert_true(sim_all_bytes(r.local, FILL, READ_BYTES));
    read_close(&r);
}

/* Each segment in turn, the last included. */
static void read__any_segment_lost__exactly_that_hole(void **state)
{
    (void)state;
    for (unsigned lost = 0, segments = 1; lost < segments; lost++) {
        struct diwarp_read_info info;
        struct diwarp_range ranges[3];
        struct read_case r = read_one(false, lost);
        const struct diwarp_qp *qp = r.f->world.nodes[0].qp;
        segments = losing.sent;
        assert_true(segments > 10);
        fixture_assert_status(r.f, 0, 1, IBV_WC_RDMA_READ, IBV_WC_RESP_TIMEOUT_ERR);
        assert_int_equal(diwarp_query_read((struct diwarp_qp *)(uintptr_t)qp, 1, &info), 0);
        const uint32_t start = losing.hole.start, end = losing.hole.end;
        assert_int_equal(info.valid_bytes, READ_BYTES - (end - start));
        assert_int_equal(diwarp_read_ranges(r.f->world.nodes[0].qp, 1, ranges, 3),
                         start > 0 && end < READ_BYTES ? 2 : 1);
        assert_true(sim_all_bytes(r.local + start, FILL, end - start));
        assert_true(sim_pattern_matches(1, 0, r.local, start));
        assert_true(sim_pattern_matches(1, end, r.local + end, READ_BYTES - end));
        read_close(&r);
    }
}

static void read__all_repeated__answered_once(void **state)
{
    (void)state;
    struct read_case r = read_one(false, UINT32_MAX);
    struct diwarp_mr *mr = fixture_reg(r.f, 1, r.remote, READ_BYTES);
    r.f->world.net.filter = fixture_repeat_all;
    for (uint64_t i = 2; i < 6; i++)
        assert_int_equal(fixture_post(r.f, 0, 1, i, IBV_WR_RDMA_READ, 0, r.local, READ_BYTES, mr),
                         0);
    fixture_run(r.f, SECOND);
    for (uint64_t i = 1; i < 6; i++)
        fixture_assert_status(r.f, 0, i, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
    assert_int_equal(sim_counters(&r.f->world, 1)->tx_answers, 5);
    assert_int_equal(sim_counters(&r.f->world, 1)->rx_dup_datagrams, 4);
    read_close(&r);
}

/* The walk looks at those that have expired, and at one more: not at all of the list. */
static void reads__many_active__walks_are_short(void **state)
{
    (void)state;
    enum { READS = 400 };
    struct fixture *f = fixture_new();
    uint8_t *remote = fixture_payload(1, 100), *local = malloc(READS * 100);
    assert_non_null(local);
    f->config.qp.type = DIWARP_QPT_UD;
    f->config.qp.read_time_ns = READ_TIME;
    f->config.qp.max_reads = READS;
    f->config.impairment.loss_permille = 50;
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, 100);
    for (unsigned i = 0; i < READS; i++) {
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_RDMA_READ, 0, local + i * 100, 100, mr),
                         0);
        sim_world_run_for(&f->world, 10000);
    }
    fixture_run(f, SECOND);
    const struct diwarp_counters *counters = sim_counters(&f->world, 0);
    assert_int_equal(fixture_count(f, 0, IBV_WC_RDMA_READ), READS);
    assert_true(counters->reads_expired > READS / 40 && counters->reads_expired < READS / 5);
    assert_true(counters->read_walks <= 2 * counters->reads_expired + 2);
    fixture_close(f);
    free(local);
    free(remote);
}

/* ---- seeds ---- */

#define SEEDS     400
#define READS     40
#define MAX_BYTES 120000u
#define NODES     3

static struct plan {
    struct fixture *f;
    uint8_t *remote[NODES], *local[READS];
    unsigned node[READS], ends[READS];
    uint32_t bytes[READS], offset[READS];
} plan;

/* What lies between two valid ranges is as it was. */
static bool is_as_told(unsigned i, const struct diwarp_wc *wc)
{
    static struct diwarp_range ranges[DW_RANGES_MAX];
    struct diwarp_qp *qp = plan.f->world.nodes[plan.node[i]].qp;
    struct diwarp_read_info info;
    const uint32_t id = plan.node[i] ? 1 : 2;
    if (wc->wc.status == IBV_WC_SUCCESS)
        return sim_pattern_matches(id, plan.offset[i], plan.local[i], plan.bytes[i]) &&
               wc->wc.byte_len == plan.bytes[i] && diwarp_query_read(qp, i, &info) == -ENOENT;
    if (wc->wc.status != IBV_WC_RESP_TIMEOUT_ERR || diwarp_query_read(qp, i, &info) ||
        info.active || info.length != plan.bytes[i] || info.valid_bytes >= info.length ||
        info.valid_bytes != wc->wc.byte_len)
        return false;
    const unsigned count = diwarp_read_ranges(qp, i, ranges, DW_RANGES_MAX);
    uint64_t at = 0, valid = 0;
    for (unsigned n = 0; n < count; n++) {
        if (ranges[n].start < at ||
            !sim_all_bytes(plan.local[i] + at, FILL, ranges[n].start - at) ||
            !sim_pattern_matches(id, plan.offset[i] + ranges[n].start,
                                 plan.local[i] + ranges[n].start, ranges[n].end - ranges[n].start))
            return false;
        at = ranges[n].end;
        valid += ranges[n].end - ranges[n].start;
    }
    return valid == info.valid_bytes && sim_all_bytes(plan.local[i] + at, FILL, plan.bytes[i] - at);
}

static void run_seed(uint64_t seed, enum diwarp_auth auth)
{
    static const uint32_t mtus[] = {1500, 9000, 65536};
    static const uint64_t times_ns[] = {1 * MS, 20 * MS, 200 * MS};
    static const uint32_t first_serials[] = {0, UINT32_MAX, 0x7ffffff5};
    struct fixture *f = fixture_new();
    uint64_t random = seed + 77;
    struct diwarp_mr *mrs[NODES];
    plan = (struct plan){.f = f};
    sim_config_init(&f->config, seed);
    sim_impairment_draw(&f->config.impairment, &random);
    f->config.node_count = NODES;
    f->config.strangers = seed & 1;
    f->config.mtu_bytes = SIM_RANDOM_OF(&random, mtus);
    f->config.first_serial = SIM_RANDOM_OF(&random, first_serials);
    f->config.gro = sim_random_below(&random, 2);
    f->config.device.auth = auth;
    f->config.qp.type = DIWARP_QPT_UD;
    f->config.qp.read_time_ns = SIM_RANDOM_OF(&random, times_ns);
    fixture_open(f);
    for (unsigned n = 0; n < NODES; n++) {
        plan.remote[n] = fixture_payload(n + 1, 2 * MAX_BYTES);
        mrs[n] = fixture_reg(f, n, plan.remote[n], 2 * MAX_BYTES);
    }
    /* Node 0 reads of node 1, the others of node 0, where they have its address. */
    for (unsigned i = 0; i < READS; i++) {
        plan.node[i] = f->config.strangers ? 1 + (unsigned)sim_random_below(&random, 2)
                                           : (unsigned)sim_random_below(&random, 3);
        const unsigned to = plan.node[i] ? 0 : 1;
        plan.bytes[i] = 1 + (uint32_t)sim_random_below(
                                &random, sim_random_below(&random, 2) ? 2000 : MAX_BYTES);
        plan.offset[i] = (uint32_t)sim_random_below(&random, MAX_BYTES);
        plan.local[i] = malloc(plan.bytes[i]);
        assert_non_null(plan.local[i]);
        memset(plan.local[i], FILL, plan.bytes[i]);
        const struct diwarp_mr at = {.addr = (uint8_t *)mrs[to]->addr + plan.offset[i],
                                     .stag = mrs[to]->stag};
        if (!f->world.nodes[plan.node[i]].ahs[to])
            fail_msg("seed %llu: no handle", (unsigned long long)seed);
        if (fixture_post(f, plan.node[i], to, i, IBV_WR_RDMA_READ, 0, plan.local[i], plan.bytes[i],
                         &at))
            fail_msg("seed %llu: post", (unsigned long long)seed);
        sim_world_run_for(&f->world, sim_random_below(&random, 300000));
    }
    fixture_run(f, 3600 * SECOND);
    for (unsigned n = 0; n < f->wc_count; n++) {
        const unsigned i = (unsigned)f->wcs[n].wc.wr_id;
        if (plan.ends[i]++ || f->wc_node[n] != plan.node[i] || !is_as_told(i, &f->wcs[n]))
            fail_msg("seed %llu: read %u", (unsigned long long)seed, i);
    }
    for (unsigned i = 0; i < READS; i++) {
        if (!plan.ends[i])
            fail_msg("seed %llu: read %u did not end", (unsigned long long)seed, i);
        free(plan.local[i]);
    }
    fixture_close(f);
    for (unsigned n = 0; n < NODES; n++)
        free(plan.remote[n]);
}

static void reads__of_many_seeds__end_as_told(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_seed(seed, DIWARP_AUTH_OFF);
    for (uint64_t seed = 1; seed <= SEEDS / 8; seed++)
        run_seed(seed, seed & 2 ? DIWARP_AUTH_GMAC : DIWARP_AUTH_AES_GCM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read__nothing_lost__complete_at_once),
        cmocka_unit_test(read__request_lost__expires_on_time),
        cmocka_unit_test(read__any_segment_lost__exactly_that_hole),
        cmocka_unit_test(read__all_repeated__answered_once),
        cmocka_unit_test(reads__many_active__walks_are_short),
        cmocka_unit_test(reads__of_many_seeds__end_as_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
