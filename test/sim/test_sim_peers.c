/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that compute, die, start anew, or are strangers. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

#define RECORD_BYTES 1000000u
#define TIMEOUT_NS   (5 * SECOND)
#define KEEPALIVE_NS SECOND /* granularity of the detection */

#define LONG_BYTES 40000u

/* One of each kind from node 0 to node 1; wr_ids 1 to 6. */
static void post_each(struct fixture *f, uint8_t *local, uint64_t *original,
                      const struct diwarp_mr *mr)
{
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_SEND_WITH_IMM, 0, local, 100, NULL), 0);
    assert_int_equal(
        fixture_post(f, 0, 1, 2, IBV_WR_RDMA_READ, DIWARP_SEND_HOLD, local, RECORD_BYTES, mr), 0);
    assert_int_equal(fixture_post(f, 0, 1, 3, IBV_WR_RDMA_WRITE, 0, local, RECORD_BYTES, mr), 0);
    assert_int_equal(fixture_post(f, 0, 1, 4, IBV_WR_RDMA_WRITE, 0, local, 1000, mr), 0);
    assert_int_equal(
        fixture_post(f, 0, 1, 5, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, original, sizeof *original, mr),
        0);
    /* As trains. */
    assert_int_equal(fixture_post(f, 0, 1, 6, IBV_WR_SEND_WITH_IMM, 0, local, LONG_BYTES, NULL), 0);
}

static void assert_each_failed_once(const struct fixture *f)
{
    static const int opcodes[] = {IBV_WC_SEND,       IBV_WC_RDMA_READ, IBV_WC_RDMA_WRITE,
                                  IBV_WC_RDMA_WRITE, IBV_WC_FETCH_ADD, IBV_WC_SEND};
    for (unsigned i = 0; i < 6; i++)
        fixture_assert_status(f, 0, i + 1, opcodes[i], IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 1);
    assert_int_equal(fixture_find(f, 0, 0, DIWARP_WC_PEER_GONE)->src.rank, 1);
    assert_int_equal(sim_counters(&f->world, 0)->peers_gone, 1);
}

/* `die` after it has answered once, with all of post_each() under way. */
static void peer_vanishes(void (*die)(struct sim_node *node), uint64_t timeout_ns,
                          uint64_t within_ns, enum diwarp_gone why)
{
    struct fixture *f = fixture_new();
    uint8_t *local = fixture_payload(1, RECORD_BYTES), *remote = fixture_payload(2, RECORD_BYTES);
    uint64_t original;
    uint8_t hello = 0;
    f->config.device.peer_timeout_ns = timeout_ns;
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, RECORD_BYTES);
    assert_int_equal(fixture_post(f, 0, 1, 9, IBV_WR_SEND, 0, &hello, 1, NULL), 0);
    fixture_run(f, SECOND);
    struct diwarp_mr target = *mr;
    post_each(f, local, &original, &target);
    die(&f->world.nodes[1]);
    uint64_t died_ns = f->world.net.now_ns;
    while (!fixture_count(f, 0, DIWARP_WC_PEER_GONE)) {
        assert_true(f->world.net.now_ns < died_ns + within_ns);
        assert_true(sim_world_step(&f->world));
    }
    fixture_run(f, SECOND);
    assert_each_failed_once(f);
    assert_int_equal(fixture_find(f, 0, 0, DIWARP_WC_PEER_GONE)->wc.vendor_err, why);
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_SEND, 0, local, 100, NULL), -EHOSTUNREACH);
    const struct diwarp_wc *read = fixture_find(f, 0, 2, IBV_WC_RDMA_READ);
    assert_int_equal(diwarp_post_release(f->world.nodes[0].qp, read->read_id, NULL, 0), 0);
    fixture_close(f);
    free(local);
    free(remote);
}

static void halt(struct sim_node *node)
{
    node->paused_until_ns = DW_NEVER;
}

static void peer__stops__gone_after_the_timeout(void **state)
{
    (void)state;
    peer_vanishes(halt, TIMEOUT_NS, TIMEOUT_NS + 2 * KEEPALIVE_NS, DIWARP_GONE_SILENT);
}

static void peer__dies__gone_when_its_port_is_closed(void **state)
{
    (void)state;
    peer_vanishes(sim_node_close, 60 * SECOND, 2 * SECOND, DIWARP_GONE_UNREACHABLE);
}

/* Amid a read from it, or its write: what is on its way then finds nobody. */
static void peer__given_up__its_data_touch_nothing(void **state)
{
    (void)state;
    uint8_t *theirs = fixture_payload(2, RECORD_BYTES), *zeros = calloc(1, RECORD_BYTES);
    uint8_t *ours = malloc(RECORD_BYTES);
    assert_true(ours && zeros);
    for (unsigned reads = 0; reads < 2; reads++) {
        struct fixture *f = fixture_new();
        f->config.impairment.bytes_per_ns = 0.1;
        fixture_open(f);
        struct diwarp_ah *ah = f->world.nodes[0].ahs[1];
        struct diwarp_mr *there = fixture_reg(f, 1, theirs, RECORD_BYTES);
        struct diwarp_mr *here = fixture_reg(f, 0, ours, RECORD_BYTES);
        memset(ours, 0, RECORD_BYTES);
        assert_int_equal(
            reads ? fixture_post(f, 0, 1, 1, IBV_WR_RDMA_READ, 0, ours, RECORD_BYTES, there)
                  : fixture_post(f, 1, 0, 1, IBV_WR_RDMA_WRITE, 0, theirs, RECORD_BYTES, here),
            0);
        sim_world_run_for(&f->world, 5 * MS);
        assert_memory_not_equal(ours, zeros, RECORD_BYTES);
        assert_int_equal(diwarp_give_up_ah(ah), 0);
        memset(ours, 0, RECORD_BYTES);
        sim_world_run_for(&f->world, SECOND);
        assert_memory_equal(ours, zeros, RECORD_BYTES);
        if (reads)
            fixture_assert_status(f, 0, 1, IBV_WC_RDMA_READ, IBV_WC_RETRY_EXC_ERR);
        assert_int_equal(fixture_post(f, 0, 1, 3, IBV_WR_SEND, 0, ours, 1, NULL), -EHOSTUNREACH);
        assert_int_equal(diwarp_give_up_ah(ah), 0);
        assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 1);
        assert_int_equal(fixture_find(f, 0, 0, DIWARP_WC_PEER_GONE)->wc.vendor_err,
                         DIWARP_GONE_GIVEN_UP);
        sim_world_fini(&f->world);
        free(f);
    }
    free(ours);
    free(theirs);
    free(zeros);
}

/* As while the rules of its firewall are loaded anew; for as long as asked for, if that is less. */
static void peer__rejected_for_a_while__is_there(void **state)
{
    (void)state;
    static const struct {
        uint64_t timeout_ns, rejected_ns;
        enum dw_llp_told rejection;
    } cases[] = {{60 * SECOND, 900 * MS, DW_LLP_NO_PORT},
                 {60 * SECOND, 8 * SECOND, DW_LLP_PROHIBITED},
                 {0, 100 * SECOND, DW_LLP_NO_PORT}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture *f = fixture_new();
        uint8_t data = 0;
        f->config.device.peer_timeout_ns = cases[i].timeout_ns;
        fixture_open(f);
        assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_SEND, 0, &data, 1, NULL), 0);
        fixture_run(f, SECOND);
        f->world.net.rejection = cases[i].rejection;
        f->world.net.rejecting = true;
        assert_int_equal(fixture_post(f, 0, 1, 2, IBV_WR_SEND, 0, &data, 1, NULL), 0);
        sim_world_run_for(&f->world, cases[i].rejected_ns);
        assert_int_equal(fixture_count(f, 0, IBV_WC_SEND), 1);
        f->world.net.rejecting = false;
        fixture_run(f, 10 * SECOND);
        fixture_assert_status(f, 0, 2, IBV_WC_SEND, IBV_WC_SUCCESS);
        assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 0);
        fixture_close(f);
    }
}

/* Its name is another process's: what was under way ends as soon as that one has shown itself, long
 * before any time-out, and what is posted then goes there. */
static void peer__restarts__works_end_at_once(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t *local = fixture_payload(1, RECORD_BYTES), *remote = fixture_payload(2, RECORD_BYTES);
    uint64_t original;
    f->config.device.peer_timeout_ns = 60 * SECOND;
    fixture_open(f);
    struct diwarp_mr target = *fixture_reg(f, 1, remote, RECORD_BYTES);
    assert_int_equal(fixture_post(f, 0, 1, 9, IBV_WR_SEND, 0, local, 1, NULL), 0);
    fixture_run(f, SECOND);
    post_each(f, local, &original, &target);
    sim_node_close(&f->world.nodes[1]);
    sim_node_open(&f->world, 1);
    sim_node_connect(&f->world.nodes[1], &f->world.nodes[0]);
    assert_int_equal(fixture_post(f, 1, 0, 7, IBV_WR_SEND, 0, local, 10, NULL), 0);
    sim_world_run_for(&f->world, SECOND / 10);
    assert_each_failed_once(f);
    assert_int_equal(fixture_find(f, 0, 0, DIWARP_WC_PEER_GONE)->wc.vendor_err,
                     DIWARP_GONE_RESTARTED);
    fixture_assert_status(f, 1, 7, IBV_WC_SEND, IBV_WC_SUCCESS);
    assert_int_equal(fixture_count(f, 0, IBV_WC_RECV), 1);
    const struct diwarp_wc *read = fixture_find(f, 0, 2, IBV_WC_RDMA_READ);
    assert_int_equal(diwarp_post_release(f->world.nodes[0].qp, read->read_id, NULL, 0), 0);
    assert_int_equal(fixture_post(f, 0, 1, 8, IBV_WR_SEND, 0, local, 100, NULL), 0);
    fixture_run(f, SECOND);
    fixture_assert_status(f, 0, 8, IBV_WC_SEND, IBV_WC_SUCCESS);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 2); /* one of them of the process before */
    /* What the one before was sent was dropped for its token. */
    sim_world_fini(&f->world);
    free(f);
    free(local);
    free(remote);
}

static void peer__never_there(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t data = 0;
    f->config.device.peer_timeout_ns = TIMEOUT_NS;
    fixture_open(f);
    halt(&f->world.nodes[1]);
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_SEND, 0, &data, 1, NULL), 0);
    fixture_run(f, TIMEOUT_NS + 2 * KEEPALIVE_NS);
    fixture_assert_status(f, 0, 1, IBV_WC_SEND, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 1);
    fixture_close(f);
}

/* Long silence with nothing owed is no silence. */
static void peer__idle_beyond_the_timeout__then_computes(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t data = 0;
    f->config.device.peer_timeout_ns = TIMEOUT_NS;
    fixture_open(f);
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_SEND, 0, &data, 1, NULL), 0);
    fixture_run(f, SECOND);
    f->world.net.now_ns += 10 * TIMEOUT_NS;
    f->world.nodes[1].paused_until_ns = f->world.net.now_ns + TIMEOUT_NS / 2;
    assert_int_equal(fixture_post(f, 0, 1, 2, IBV_WR_SEND, 0, &data, 1, NULL), 0);
    fixture_run(f, TIMEOUT_NS);
    fixture_assert_status(f, 0, 2, IBV_WC_SEND, IBV_WC_SUCCESS);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 0);
    fixture_close(f);
}

static void token__wrong__dropped_unread(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t data = 0;
    f->config.device.peer_timeout_ns = TIMEOUT_NS;
    fixture_open(f);
    f->world.nodes[0].ahs[1]->token ^= 1;
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_SEND, 0, &data, 1, NULL), 0);
    sim_world_run(&f->world, TIMEOUT_NS + 2 * KEEPALIVE_NS);
    assert_false(f->world.failed);
    const struct diwarp_counters *counters = sim_counters(&f->world, 1);
    assert_int_equal(counters->drop_token, counters->rx_datagrams);
    assert_true(counters->drop_token > 0);
    assert_int_equal(counters->peers_active, 0);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 0);
    fixture_assert_status(f, 0, 1, IBV_WC_SEND, IBV_WC_RETRY_EXC_ERR);
    sim_world_fini(&f->world);
    free(f);
}

/* A peer that computes is probed, not flooded: what it holds already is not sent again. */
static void peer__computes__no_resend_storm(void **state)
{
    (void)state;
    enum { SENDS = 150 };
    struct fixture *f = fixture_new();
    uint8_t *local = fixture_payload(1, RECORD_BYTES), *remote = fixture_payload(2, RECORD_BYTES);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, RECORD_BYTES);
    f->world.nodes[1].paused_until_ns = f->world.net.now_ns + 5 * SECOND;
    for (unsigned i = 0; i < SENDS; i++)
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_SEND_WITH_IMM, 0, local, 1000, NULL), 0);
    assert_int_equal(fixture_post(f, 0, 1, 500, IBV_WR_RDMA_READ, 0, local, RECORD_BYTES, mr), 0);
    fixture_run(f, 8 * SECOND);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), SENDS);
    assert_memory_equal(local, remote, RECORD_BYTES);
    const struct diwarp_counters *counters = sim_counters(&f->world, 0);
    assert_int_equal(counters->tx_resent_datagrams, 0);
    assert_true(counters->tx_probes + counters->tx_record_status < 200);
    assert_int_equal(sim_counters(&f->world, 1)->tx_resent_record_bytes, 0);
    fixture_close(f);
    free(local);
    free(remote);
}

/* The reader computes in the middle of its record: what waits in its socket is not sent again. */
static void reader__computes__record_not_repeated(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t *local = fixture_payload(1, RECORD_BYTES), *remote = fixture_payload(2, RECORD_BYTES);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, RECORD_BYTES);
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_RDMA_READ, 0, local, RECORD_BYTES, mr), 0);
    sim_world_run_for(&f->world, 30000);
    f->world.nodes[0].paused_until_ns = f->world.net.now_ns + SECOND;
    fixture_run(f, 4 * SECOND);
    fixture_assert_status(f, 0, 1, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
    assert_memory_equal(local, remote, RECORD_BYTES);
    assert_int_equal(sim_counters(&f->world, 1)->tx_resent_record_bytes, 0);
    fixture_close(f);
    free(local);
    free(remote);
}

/* The writer computes: the sink asks again, but does not get everything once for each time. */
static void writer__computes__record_sent_at_most_twice(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t *local = fixture_payload(1, RECORD_BYTES), *remote = fixture_payload(2, RECORD_BYTES);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, RECORD_BYTES);
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_RDMA_WRITE, 0, local, RECORD_BYTES, mr), 0);
    sim_world_run_for(&f->world, 20000);
    f->world.nodes[0].paused_until_ns = f->world.net.now_ns + 5 * SECOND;
    fixture_run(f, 8 * SECOND);
    fixture_assert_status(f, 0, 1, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
    assert_memory_equal(local, remote, RECORD_BYTES);
    assert_true(sim_counters(&f->world, 0)->tx_resent_record_bytes <= RECORD_BYTES);
    fixture_close(f);
    free(local);
    free(remote);
}

/* Records to a node that wait for grant, though none may be granted to them now. */
static unsigned waiting(const struct fixture *f, unsigned node)
{
    const struct dw_rd *rd = sim_rd_of(&f->world.nodes[node]);
    const struct dw_record *sink;
    unsigned n = 0;
    for (size_t slot = 0; (sink = dw_map_next(&rd->records.ends, &slot));)
        n += sink->state == DW_RECORD_WANTING && !dw_list_linked(&sink->grant_link);
    return n;
}

enum { QUEUED = 40, QUEUED_BYTES = 200000 };

/* Three nodes, each with an untuned receive buffer: what is queued is more than it grants. */
static struct fixture *queued_fixture(void)
{
    struct fixture *f = fixture_new();
    f->config.node_count = 3;
    f->config.device.rcvbuf_bytes = 2 * 106496;
    f->config.device.peer_timeout_ns = TIMEOUT_NS;
    fixture_open(f);
    return f;
}

/* A write or read of node `from` at the i-th place in the memory of the region's node. */
static void post_queued(struct fixture *f, unsigned from, unsigned to, unsigned i,
                        enum ibv_wr_opcode opcode, uint8_t *local, const struct diwarp_mr *mr)
{
    struct diwarp_mr at = *mr;
    at.addr = (uint8_t *)mr->addr + (size_t)i * QUEUED_BYTES;
    assert_int_equal(fixture_post(f, from, to, i, opcode, 0, local, QUEUED_BYTES, &at), 0);
}

/* Those of a source that computes make way for another's, and go on when it does. */
static void writes__of_a_silent_source__wait_aside(void **state)
{
    (void)state;
    struct fixture *f = queued_fixture();
    uint8_t *local = fixture_payload(1, QUEUED_BYTES);
    uint8_t *remote = calloc(QUEUED + 1, QUEUED_BYTES);
    assert_non_null(remote);
    struct diwarp_mr *mr = fixture_reg(f, 2, remote, (QUEUED + 1) * (size_t)QUEUED_BYTES);
    for (unsigned i = 0; i < QUEUED; i++)
        post_queued(f, 0, 2, i, IBV_WR_RDMA_WRITE, local, mr);
    sim_world_run_for(&f->world, MS);
    f->world.nodes[0].paused_until_ns = f->world.net.now_ns + TIMEOUT_NS / 2;
    sim_world_run_for(&f->world, SECOND);
    post_queued(f, 1, 2, QUEUED, IBV_WR_RDMA_WRITE, local, mr);
    sim_world_run_for(&f->world, SECOND);
    fixture_assert_status(f, 1, QUEUED, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
    assert_true(waiting(f, 2) > 1);
    fixture_run(f, 8 * SECOND);
    assert_int_equal(waiting(f, 2), 0);
    for (unsigned i = 0; i < QUEUED; i++) {
        fixture_assert_status(f, 0, i, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
        assert_memory_equal(local, remote + (size_t)i * QUEUED_BYTES, QUEUED_BYTES);
    }
    fixture_close(f);
    free(local);
    free(remote);
}

/* Reads of a peer that stands still for good fail with it; one of another peer is served. */
static void reads__of_a_peer_that_dies__wait_aside_and_fail(void **state)
{
    (void)state;
    struct fixture *f = queued_fixture();
    uint8_t *remote = fixture_payload(2, (QUEUED + 1) * (size_t)QUEUED_BYTES);
    uint8_t *local = calloc(QUEUED + 1, QUEUED_BYTES), *last = local + QUEUED * QUEUED_BYTES;
    assert_non_null(local);
    struct diwarp_mr *dead = fixture_reg(f, 1, remote, (QUEUED + 1) * (size_t)QUEUED_BYTES);
    struct diwarp_mr *alive = fixture_reg(f, 2, remote, (QUEUED + 1) * (size_t)QUEUED_BYTES);
    for (unsigned i = 0; i < QUEUED; i++)
        post_queued(f, 0, 1, i, IBV_WR_RDMA_READ, local + (size_t)i * QUEUED_BYTES, dead);
    sim_world_run_for(&f->world, 100000);
    halt(&f->world.nodes[1]);
    sim_world_run_for(&f->world, SECOND);
    post_queued(f, 0, 2, QUEUED, IBV_WR_RDMA_READ, last, alive);
    sim_world_run_for(&f->world, SECOND);
    fixture_assert_status(f, 0, QUEUED, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
    assert_memory_equal(last, remote + QUEUED * QUEUED_BYTES, QUEUED_BYTES);
    assert_true(waiting(f, 0) > QUEUED / 2);
    fixture_run(f, TIMEOUT_NS);
    assert_int_equal(waiting(f, 0), 0);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 1);
    unsigned failed = 0;
    for (unsigned i = 0; i < QUEUED; i++) {
        const struct diwarp_wc *wc = fixture_find(f, 0, i, IBV_WC_RDMA_READ);
        assert_non_null(wc);
        assert_true(wc->wc.status == IBV_WC_SUCCESS || wc->wc.status == IBV_WC_RETRY_EXC_ERR);
        failed += wc->wc.status == IBV_WC_RETRY_EXC_ERR;
    }
    assert_true(failed > QUEUED / 2);
    fixture_close(f);
    free(local);
    free(remote);
}

/* As after a suspend, amid all kinds of requests: time that goes by unseen is no peer's silence. */
static void clock__jumps_by_hours__nobody_is_gone(void **state)
{
    (void)state;
    enum { JUMPS = 10, SENDS = 20 };
    struct fixture *f = fixture_new();
    uint8_t *local = fixture_payload(1, RECORD_BYTES), *remote = fixture_payload(2, RECORD_BYTES);
    f->config.device.peer_timeout_ns = 10 * SECOND;
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, RECORD_BYTES);
    for (unsigned jump = 0; jump < JUMPS; jump++) {
        for (unsigned i = 0; i < SENDS; i++)
            assert_int_equal(
                fixture_post(f, 0, 1, jump * 100 + i, IBV_WR_SEND, 0, local, 1000, NULL), 0);
        assert_int_equal(fixture_post(f, 0, 1, jump, IBV_WR_RDMA_READ, 0, local, RECORD_BYTES, mr),
                         0);
        sim_world_run_for(&f->world, jump * MS / 50);
        /* Probes have no answer when the clock jumps. */
        f->world.net.impairment.loss_permille = 1000;
        sim_world_run_for(&f->world, 100 * MS);
        f->world.net.now_ns += 3 * 3600 * SECOND;
        sim_world_run_for(&f->world, MS);
        f->world.net.impairment.loss_permille = 0;
    }
    fixture_run(f, 10 * SECOND);
    assert_int_equal(fixture_count(f, 0, IBV_WC_RDMA_READ), JUMPS);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), JUMPS * SENDS);
    for (unsigned jump = 0; jump < JUMPS; jump++)
        fixture_assert_status(f, 0, jump, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(sim_counters(&f->world, i)->peers_gone, 0);
    assert_memory_equal(local, remote, RECORD_BYTES);
    fixture_close(f);
    free(local);
    free(remote);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peer__stops__gone_after_the_timeout),
        cmocka_unit_test(peer__dies__gone_when_its_port_is_closed),
        cmocka_unit_test(peer__given_up__its_data_touch_nothing),
        cmocka_unit_test(peer__rejected_for_a_while__is_there),
        cmocka_unit_test(peer__never_there),
        cmocka_unit_test(peer__restarts__works_end_at_once),
        cmocka_unit_test(peer__idle_beyond_the_timeout__then_computes),
        cmocka_unit_test(token__wrong__dropped_unread),
        cmocka_unit_test(peer__computes__no_resend_storm),
        cmocka_unit_test(reader__computes__record_not_repeated),
        cmocka_unit_test(writer__computes__record_sent_at_most_twice),
        cmocka_unit_test(writes__of_a_silent_source__wait_aside),
        cmocka_unit_test(reads__of_a_peer_that_dies__wait_aside_and_fail),
        cmocka_unit_test(clock__jumps_by_hours__nobody_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
