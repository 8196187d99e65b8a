/* SPDX-License-Identifier: BSD-3-Clause */
/* Ways to a peer that let nothing through, or only what is small. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

#define TIMEOUT_NS    (60 * SECOND)
#define FIRST_SENT_NS (10 * SECOND) /* for so long nothing of a peer's may leave at first */

static struct fixture *fixture_with_timeout(uint64_t timeout_ns)
{
    struct fixture *f = fixture_new();
    f->config.device.peer_timeout_ns = timeout_ns;
    fixture_open(f);
    return f;
}

/* A Send of one byte from node 0 to node 1. */
static void post_small(struct fixture *f, uint64_t wr_id)
{
    uint8_t data = 0;
    assert_int_equal(fixture_post(f, 0, 1, wr_id, IBV_WR_SEND, 0, &data, 1, NULL), 0);
}

/* The route to node 1 is gone for a while. */
static void lose_route(struct fixture *f, uint64_t for_ns)
{
    f->world.net.no_route_host = 2;
    sim_world_run_for(&f->world, for_ns);
    f->world.net.no_route_host = 0;
}

static void assert_not_sent(const struct fixture *f, uint64_t wr_id)
{
    fixture_assert_status(f, 0, wr_id, IBV_WC_SEND, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 1);
    const struct diwarp_wc *gone = fixture_find(f, 0, 0, DIWARP_WC_PEER_GONE);
    assert_int_equal(gone->wc.vendor_err, DIWARP_GONE_NOT_SENT);
    assert_int_equal(gone->wc.byte_len, ENETUNREACH);
}

static void no_route__never_heard__gone_soon(void **state)
{
    (void)state;
    struct fixture *f = fixture_with_timeout(TIMEOUT_NS);
    f->world.net.no_route_host = 2;
    post_small(f, 1);
    lose_route(f, FIRST_SENT_NS - SECOND);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 0);
    lose_route(f, 2 * SECOND);
    assert_not_sent(f, 1);
    fixture_close(f);
}

/* For ever, or until something has left: then it may just be late. */
static void no_route__for_a_while__is_there(void **state)
{
    (void)state;
    static const struct {
        uint64_t timeout_ns, lost_ns;
        bool heard, sent;
    } cases[] = {
        {0, 100 * SECOND, .heard = false},
        {TIMEOUT_NS, FIRST_SENT_NS - SECOND, .heard = false},
        {TIMEOUT_NS, 2 * FIRST_SENT_NS, .sent = true},
        {TIMEOUT_NS, 2 * FIRST_SENT_NS, .heard = true},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture *f = fixture_with_timeout(cases[i].timeout_ns);
        if (cases[i].sent)
            f->world.nodes[1].paused_until_ns = f->world.net.now_ns + cases[i].lost_ns;
        if (cases[i].sent || cases[i].heard)
            post_small(f, 1);
        sim_world_run_for(&f->world, SECOND);
        f->world.net.no_route_host = 2;
        post_small(f, 2);
        lose_route(f, cases[i].lost_ns);
        fixture_run(f, SECOND);
        fixture_assert_status(f, 0, 2, IBV_WC_SEND, IBV_WC_SUCCESS);
        assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 0);
        fixture_close(f);
    }
}

/* The reason is not its silence. */
static void no_route__to_one_heard__gone_after_the_timeout(void **state)
{
    (void)state;
    struct fixture *f = fixture_with_timeout(TIMEOUT_NS);
    post_small(f, 1);
    fixture_run(f, SECOND);
    f->world.net.no_route_host = 2;
    post_small(f, 2);
    lose_route(f, TIMEOUT_NS - SECOND);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 0);
    lose_route(f, 3 * SECOND);
    assert_not_sent(f, 2);
    fixture_close(f);
}

/* ---- narrow paths ---- */

#define JUMBO_MTU_BYTES  9000
#define NARROW_MTU_BYTES 1400
#define PASSES_BYTES     1472
#define LARGE_BYTES      100000u

static enum sim_verdict drop_large(void *arg, const struct sim_endpoint *from, const uint8_t *buf,
                                   uint32_t bytes)
{
    (void)arg;
    (void)from;
    (void)buf;
    return bytes > PASSES_BYTES ? SIM_DROP : SIM_PASS;
}

struct transfer {
    struct fixture *f;
    uint8_t *local, *remote;
    struct diwarp_mr *mr;
};

/* Jumbo frames at both ends; the peers have met. */
static struct transfer transfer_begin(uint64_t timeout_ns)
{
    struct transfer t = {.f = fixture_new()};
    t.f->config.device.peer_timeout_ns = timeout_ns;
    t.f->config.mtu_bytes = JUMBO_MTU_BYTES;
    fixture_open(t.f);
    t.local = fixture_payload(1, LARGE_BYTES);
    t.remote = fixture_payload(2, LARGE_BYTES);
    t.mr = fixture_reg(t.f, 1, t.remote, LARGE_BYTES);
    post_small(t.f, 1);
    fixture_run(t.f, SECOND);
    return t;
}

static void transfer_post(struct transfer *t, enum ibv_wr_opcode opcode)
{
    bool send = opcode == IBV_WR_SEND;
    assert_int_equal(fixture_post(t->f, 0, 1, 2, opcode, 0, t->local, send ? 5000 : LARGE_BYTES,
                                  send ? NULL : t->mr),
                     0);
}

static void transfer_end(struct transfer *t)
{
    fixture_close(t->f);
    free(t->local);
    free(t->remote);
}

static const struct {
    enum ibv_wr_opcode opcode;
    int completion;
    unsigned source; /* of what is large */
} transfers[] = {
    {IBV_WR_SEND, IBV_WC_SEND, 0},
    {IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, 0},
    {IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, 1},
};
#define TRANSFERS (sizeof transfers / sizeof *transfers)

/* Given up by who sends what vanishes. */
static void narrow_path__gone_after_the_timeout(void **state)
{
    (void)state;
    for (unsigned i = 0; i < TRANSFERS; i++) {
        struct transfer t = transfer_begin(TIMEOUT_NS);
        t.f->world.net.filter = drop_large;
        transfer_post(&t, transfers[i].opcode);
        sim_world_run_for(&t.f->world, TIMEOUT_NS - SECOND);
        assert_int_equal(fixture_count(t.f, transfers[i].source, DIWARP_WC_PEER_GONE), 0);
        sim_world_run_for(&t.f->world, 5 * SECOND);
        const struct diwarp_wc *gone =
            fixture_find(t.f, transfers[i].source, 0, DIWARP_WC_PEER_GONE);
        assert_non_null(gone);
        assert_int_equal(gone->wc.vendor_err, DIWARP_GONE_TOO_LARGE);
        assert_in_range(gone->wc.byte_len, PASSES_BYTES + 1, JUMBO_MTU_BYTES);
        fixture_run(t.f, 3 * TIMEOUT_NS); /* the other end finds this one silent */
        fixture_assert_status(t.f, 0, 2, transfers[i].completion, IBV_WC_RETRY_EXC_ERR);
        transfer_end(&t);
    }
}

/* Without a time-out for ever; with one, if it is over in time, again and again. */
static void narrow_path__for_a_while__all_arrives(void **state)
{
    (void)state;
    static const struct {
        uint64_t timeout_ns, narrow_ns;
    } cases[] = {{0, 200 * SECOND}, {TIMEOUT_NS, TIMEOUT_NS - SECOND}};
    for (unsigned i = 0; i < 2 * TRANSFERS; i++) {
        struct transfer t = transfer_begin(cases[i / TRANSFERS].timeout_ns);
        for (unsigned turn = 0; turn < 3; turn++) {
            t.f->wc_count = 0;
            t.f->world.net.filter = drop_large;
            transfer_post(&t, transfers[i % TRANSFERS].opcode);
            sim_world_run_for(&t.f->world, cases[i / TRANSFERS].narrow_ns);
            assert_int_equal(t.f->wc_count, 0);
            t.f->world.net.filter = NULL;
            fixture_run(t.f, 2 * SECOND);
            fixture_assert_status(t.f, 0, 2, transfers[i % TRANSFERS].completion, IBV_WC_SUCCESS);
        }
        transfer_end(&t);
    }
}

/* Told by ICMP: what is sent from then on fits, in both directions, and nothing waits for a
 * time-out. */
static void narrow_path__told__datagrams_fit(void **state)
{
    (void)state;
    for (unsigned i = 0; i < TRANSFERS; i++) {
        struct transfer t = transfer_begin(TIMEOUT_NS);
        struct sim_net *net = &t.f->world.net;
        const struct diwarp_counters *counters = sim_counters(&t.f->world, transfers[i].source);
        net->path_mtu_bytes = NARROW_MTU_BYTES;
        transfer_post(&t, transfers[i].opcode);
        fixture_run(t.f, SECOND);
        fixture_assert_status(t.f, 0, 2, transfers[i].completion, IBV_WC_SUCCESS);
        assert_int_equal(counters->paths_narrowed, 1);
        uint64_t fragmented = net->fragmented;
        t.f->wc_count = 0;
        transfer_post(&t, transfers[i].opcode);
        fixture_run(t.f, SECOND);
        fixture_assert_status(t.f, 0, 2, transfers[i].completion, IBV_WC_SUCCESS);
        assert_int_equal(net->fragmented, fragmented);
        /* Who takes records finds that the path is narrow, too. */
        assert_int_equal(sim_counters(&t.f->world, 1 - transfers[i].source)->paths_narrowed,
                         transfers[i].opcode != IBV_WR_SEND);
        transfer_end(&t);
    }
}

/* A forged one, or an absurd one, makes no datagram shorter than every path takes, nor longer. */
static void narrow_path__absurd_mtu__bounded(void **state)
{
    (void)state;
    static const uint32_t mtus[] = {1, 0xffffffffu};
    for (unsigned i = 0; i < TRANSFERS * 2; i++) {
        struct transfer t = transfer_begin(TIMEOUT_NS);
        t.f->world.net.path_mtu_bytes = JUMBO_MTU_BYTES - 8;
        t.f->world.net.claimed_mtu_bytes = mtus[i % 2];
        transfer_post(&t, transfers[i / 2].opcode);
        fixture_run(t.f, SECOND);
        fixture_assert_status(t.f, 0, 2, transfers[i / 2].completion, IBV_WC_SUCCESS);
        const struct diwarp_counters *counters = sim_counters(&t.f->world, transfers[i / 2].source);
        bool told = transfers[i / 2].opcode != IBV_WR_SEND; /* which is no longer than the path */
        assert_int_equal(counters->paths_narrowed, told && mtus[i % 2] < JUMBO_MTU_BYTES);
        assert_in_range(counters->tx_datagrams, 1, 2 * LARGE_BYTES / 400);
        transfer_end(&t);
    }
}

/* What is refused has arrived: the application of node 1 does not look for long. */
static void wide_path__refused_for_long__is_there(void **state)
{
    (void)state;
    struct transfer t = transfer_begin(TIMEOUT_NS);
    const unsigned posts = 400;
    t.f->world.nodes[1].unpolled = true;
    for (unsigned i = 0; i < posts; i++)
        assert_int_equal(fixture_post(t.f, 0, 1, 2, IBV_WR_SEND, 0, t.local, 5000, NULL), 0);
    sim_world_run_for(&t.f->world, 3 * TIMEOUT_NS);
    assert_true(sim_counters(&t.f->world, 1)->drop_no_buffer > 100);
    assert_int_equal(fixture_count(t.f, 0, DIWARP_WC_PEER_GONE), 0);
    t.f->world.nodes[1].unpolled = false;
    fixture_run(t.f, 2 * SECOND);
    assert_int_equal(fixture_count(t.f, 1, IBV_WC_RECV), posts + 1);
    transfer_end(&t);
}

/* Slow, and a quarter of all datagrams is lost. */
static void wide_path__lossy_and_slow__is_there(void **state)
{
    (void)state;
    struct transfer t = transfer_begin(10 * SECOND);
    t.f->world.net.impairment = (struct sim_impairment){
        .loss_permille = 250, .delay_ns = 100 * MS, .bytes_per_ns = 0.000125};
    for (unsigned i = 0; i < 10; i++) {
        transfer_post(&t, IBV_WR_SEND);
        transfer_post(&t, IBV_WR_RDMA_WRITE);
        transfer_post(&t, IBV_WR_RDMA_READ);
    }
    fixture_run(t.f, 3000 * SECOND);
    assert_int_equal(fixture_count(t.f, 0, DIWARP_WC_PEER_GONE), 0);
    assert_int_equal(fixture_count(t.f, 1, DIWARP_WC_PEER_GONE), 0);
    transfer_end(&t);
}

/* Padded probes never pass, and of what else is large one in five. */
static enum sim_verdict drop_most_large(void *arg, const struct sim_endpoint *from,
                                        const uint8_t *buf, uint32_t bytes)
{
    struct fixture *f = fixture_of(arg);
    if (bytes <= PASSES_BYTES)
        return SIM_PASS;
    if (fixture_parse(from, buf, bytes).header.type == DW_LLP_PROBE)
        return SIM_DROP;
    return ++f->hits % 5 ? SIM_DROP : SIM_PASS;
}

/* What gets through shows that the path is wide, whatever becomes of the probes. */
static void wide_path__drops_most_of_what_is_large__is_there(void **state)
{
    (void)state;
    for (unsigned i = 0; i < TRANSFERS; i++) {
        struct transfer t = transfer_begin(10 * SECOND);
        t.f->world.net.filter = drop_most_large;
        for (unsigned n = 0; n < 200; n++)
            transfer_post(&t, transfers[i].opcode);
        while (fixture_count(t.f, 0, transfers[i].completion) < 200)
            assert_true(sim_world_step(&t.f->world));
        fixture_run(t.f, SECOND);
        assert_int_equal(fixture_count(t.f, 0, DIWARP_WC_PEER_GONE), 0);
        assert_int_equal(fixture_count(t.f, 1, DIWARP_WC_PEER_GONE), 0);
        transfer_end(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(narrow_path__gone_after_the_timeout),
        cmocka_unit_test(narrow_path__for_a_while__all_arrives),
        cmocka_unit_test(narrow_path__told__datagrams_fit),
        cmocka_unit_test(narrow_path__absurd_mtu__bounded),
        cmocka_unit_test(wide_path__refused_for_long__is_there),
        cmocka_unit_test(wide_path__lossy_and_slow__is_there),
        cmocka_unit_test(wide_path__drops_most_of_what_is_large__is_there),
        cmocka_unit_test(no_route__never_heard__gone_soon),
        cmocka_unit_test(no_route__for_a_while__is_there),
        cmocka_unit_test(no_route__to_one_heard__gone_after_the_timeout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
