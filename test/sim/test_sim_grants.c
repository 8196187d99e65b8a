/* SPDX-License-Identifier: BSD-3-Clause */
/* Grants: what may be under way to a sink, and whose turn it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

#define RECORD_BYTES 100000u

/* A grant for a read whose request still waits for the window must wait, too: the source knows
 * nothing of the record yet, and would not be told again before the time-out. */
static void read__grant_after_the_request(void **state)
{
    (void)state;
    enum { TO_1 = 5, FROM_2 = 6, FROM_1 = 7, WINDOW = 4, COMPUTES_MS = 5 };
    struct fixture *f = fixture_new();
    f->config.node_count = 3;
    f->config.device.send_window_datagrams = WINDOW;
    f->config.device.record_window_bytes = RECORD_BYTES;
    uint8_t *remote = fixture_payload(1, RECORD_BYTES), *local = fixture_payload(2, RECORD_BYTES);
    fixture_open(f);
    struct diwarp_mr *mr_1 = fixture_reg(f, 1, remote, RECORD_BYTES);
    struct diwarp_mr *mr_2 = fixture_reg(f, 2, remote, RECORD_BYTES);
    /* The window to 1 is full while it computes, and the budget is spent on 2. */
    const uint64_t back_ns = f->world.net.now_ns + COMPUTES_MS * MS;
    f->world.nodes[1].paused_until_ns = back_ns;
    for (unsigned i = 0; i < WINDOW; i++)
        assert_int_equal(fixture_post(f, 0, 1, TO_1, IBV_WR_SEND_WITH_IMM, 0, local, 1400, NULL),
                         0);
    assert_int_equal(fixture_post(f, 0, 2, FROM_2, IBV_WR_RDMA_READ, 0, local, RECORD_BYTES, mr_2),
                     0);
    assert_int_equal(fixture_post(f, 0, 1, FROM_1, IBV_WR_RDMA_READ, 0, local, RECORD_BYTES, mr_1),
                     0);
    while (!fixture_count(f, 0, IBV_WC_RDMA_READ))
        assert_true(sim_world_step(&f->world));
    assert_true(f->world.net.now_ns < back_ns);
    fixture_assert_status(f, 0, FROM_2, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
    while (fixture_count(f, 0, IBV_WC_RDMA_READ) < 2)
        assert_true(sim_world_step(&f->world));
    assert_in_range(f->world.net.now_ns, back_ns, back_ns + 2 * MS);
    fixture_run(f, SECOND);
    assert_int_equal(sim_counters(&f->world, 1)->drop_stale_record, 0);
    assert_int_equal(sim_counters(&f->world, 1)->tx_resent_record_bytes, 0);
    fixture_close(f);
    free(local);
    free(remote);
}

static unsigned index_of_read(const struct fixture *f)
{
    unsigned i = 0;
    while (i < f->wc_count && f->wcs[i].wc.opcode != IBV_WC_RDMA_READ)
        i++;
    return i;
}

/* Sends that always wait for the window do not keep grants from a read whose request has left. */
static void read__behind_a_queue_that_never_empties(void **state)
{
    (void)state;
    enum { BEFORE = 10, AFTER = 150, SEND_BYTES = 60000 };
    struct fixture *f = fixture_new();
    f->config.device.record_window_bytes = RECORD_BYTES / 8;
    uint8_t *remote = fixture_payload(1, RECORD_BYTES), *local = fixture_payload(2, RECORD_BYTES);
    uint8_t *message = fixture_payload(1, SEND_BYTES);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, RECORD_BYTES);
    for (uint64_t i = 0; i < BEFORE + AFTER; i++) {
        if (i == BEFORE)
            assert_int_equal(
                fixture_post(f, 0, 1, 999, IBV_WR_RDMA_READ, 0, local, RECORD_BYTES, mr), 0);
        assert_int_equal(
            fixture_post(f, 0, 1, i, IBV_WR_SEND_WITH_IMM, 0, message, SEND_BYTES, NULL), 0);
    }
    fixture_run(f, 2 * SECOND);
    unsigned sends = 0;
    for (unsigned i = 0; i < index_of_read(f); i++)
        sends += f->wcs[i].wc.opcode == IBV_WC_SEND;
    assert_in_range(sends, 1, BEFORE + AFTER / 2);
    fixture_assert_status(f, 0, 999, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
    assert_int_equal(fixture_count(f, 0, IBV_WC_SEND), BEFORE + AFTER);
    fixture_close(f);
    free(message);
    free(local);
    free(remote);
}

/* A budget of one small record: a long one gets its grants one after the other. */
static void read__longer_than_the_least_budget(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    f->config.device.record_window_bytes = 1024;
    uint8_t *remote = fixture_payload(1, RECORD_BYTES), *local = fixture_payload(2, RECORD_BYTES);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, RECORD_BYTES);
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_RDMA_READ, 0, local, RECORD_BYTES, mr), 0);
    fixture_run(f, 2 * SECOND);
    fixture_assert_status(f, 0, 1, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
    assert_memory_equal(local, remote, RECORD_BYTES);
    fixture_close(f);
    free(local);
    free(remote);
}

/* Far more records than the budget holds: those that wait long for their grant lose nothing. */
static void reads__more_than_the_budget__nothing_twice(void **state)
{
    (void)state;
    enum { READS = 40 };
    struct fixture *f = fixture_new();
    f->config.device.rcvbuf_bytes = 2 * 106496;
    f->config.impairment.bytes_per_ns = 0.125; /* 1 Gb/s: 32 ms in all */
    uint8_t *remote = fixture_payload(1, RECORD_BYTES), *local[READS];
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, RECORD_BYTES);
    for (unsigned i = 0; i < READS; i++) {
        local[i] = fixture_payload(2, RECORD_BYTES);
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_RDMA_READ, 0, local[i], RECORD_BYTES, mr),
                         0);
    }
    fixture_run(f, 2 * SECOND);
    for (unsigned i = 0; i < READS; i++) {
        fixture_assert_status(f, 0, i, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
        assert_memory_equal(local[i], remote, RECORD_BYTES);
        free(local[i]);
    }
    assert_int_equal(f->world.net.overflowed, 0);
    assert_int_equal(sim_counters(&f->world, 1)->tx_resent_record_bytes, 0);
    fixture_close(f);
    free(remote);
}

/* Many small reads, whose reader then computes: no more are under way than its buffer takes, though
 * their bytes are few. */
static void reads__small_ones_beyond_the_buffer__nothing_twice(void **state)
{
    (void)state;
    enum { READS = 1000, BYTES = DW_SHORT_READ_BYTES + 1 };
    struct fixture *f = fixture_new();
    f->config.device.rcvbuf_bytes = 2 * 106496;
    uint8_t *remote = fixture_payload(1, BYTES), *local = fixture_payload(2, BYTES * READS);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, BYTES);
    for (unsigned i = 0; i < READS; i++)
        assert_int_equal(
            fixture_post(f, 0, 1, i, IBV_WR_RDMA_READ, 0, local + i * BYTES, BYTES, mr), 0);
    for (unsigned i = 0; i < 20; i++) {
        sim_world_run_for(&f->world, 20000);
        f->world.nodes[0].paused_until_ns = f->world.net.now_ns + MS;
    }
    fixture_run(f, 2 * SECOND);
    assert_int_equal(fixture_count(f, 0, IBV_WC_RDMA_READ), READS);
    assert_int_equal(f->world.net.overflowed, 0);
    assert_int_equal(sim_counters(&f->world, 1)->tx_resent_record_bytes, 0);
    fixture_close(f);
    free(local);
    free(remote);
}

/* A long transfer, and short ones of which each that ends is followed by another. */
enum { LONG_ID = 1000, SHORT_BYTES = 20000, SHORT_AT_ONCE = 4, SHORT_ALL = 200 };

static void post_short(struct fixture *f, enum ibv_wr_opcode opcode)
{
    assert_int_equal(
        fixture_post(f, 0, 1, f->posted++, opcode, 0, f->sink, SHORT_BYTES, f->source_mr), 0);
}

static void post_short_on_wc(struct sim_world *world, struct sim_node *node,
                             const struct diwarp_wc *wc)
{
    struct fixture *f = world->app;
    fixture_on_wc(world, node, wc);
    if (wc->wc.wr_id != LONG_ID && f->posted < SHORT_ALL)
        post_short(f, wc->wc.opcode == IBV_WC_RDMA_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE);
}

/* A long record, with so many short ones before and after it, and another for each that ends: the
 * long one comes to its end long before they do. Closes the fixture. */
static void assert_long_is_not_last(struct fixture *f, enum ibv_wr_opcode opcode, unsigned before,
                                    unsigned after)
{
    const uint32_t long_bytes = 10 * RECORD_BYTES;
    uint8_t *remote = fixture_payload(1, long_bytes), *local = fixture_payload(2, long_bytes);
    f->world.on_wc = post_short_on_wc;
    f->source_mr = fixture_reg(f, 1, remote, long_bytes);
    f->sink = fixture_payload(2, SHORT_BYTES);
    for (unsigned n = 0; n < before; n++)
        post_short(f, opcode);
    assert_int_equal(fixture_post(f, 0, 1, LONG_ID, opcode, 0, local, long_bytes, f->source_mr), 0);
    for (unsigned n = 0; n < after; n++)
        post_short(f, opcode);
    fixture_run(f, SECOND);
    unsigned first = 0;
    while (f->wcs[first].wc.wr_id != LONG_ID)
        first++;
    assert_in_range(first, 0, SHORT_ALL / 4);
    assert_int_equal(f->wc_count, SHORT_ALL + 1);
    free(f->sink);
    fixture_close(f);
    free(local);
    free(remote);
}

/* The oldest first, be it for grants or for the turn to send. */
static void records__without_end__the_oldest_first(void **state)
{
    (void)state;
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE};
    static const uint32_t windows[] = {SHORT_AT_ONCE * SHORT_BYTES, 20 * RECORD_BYTES};
    for (unsigned i = 0; i < 4; i++) {
        struct fixture *f = fixture_new();
        f->config.device.record_window_bytes = windows[i / 2];
        f->config.device.rcvbuf_bytes = 32u << 20;
        f->config.device.sndbuf_bytes = 65536;
        f->config.impairment.bytes_per_ns = 0.125; /* 40 ms in all: the source has always more */
        fixture_open(f);
        assert_long_is_not_last(f, opcodes[i % 2], 0, SHORT_AT_ONCE);
    }
}

/* Short ones have no more of a window that losses have made small for fitting in. */
static void records__without_end_in_a_small_window__the_oldest_first(void **state)
{
    (void)state;
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE};
    static const unsigned before[] = {8, 10, 11, 12, 16, 24};
    for (unsigned i = 0; i < 2 * sizeof before / sizeof *before; i++) {
        struct fixture *f = fixture_new();
        f->config.device.rcvbuf_bytes = 32u << 20;
        f->config.impairment.bytes_per_ns = 0.125;
        fixture_open(f);
        for (unsigned node = 0; node < 2; node++) {
            struct dw_recordwin *win = sim_recordwin(&f->world.nodes[node], 1 - node);
            *win = (struct dw_recordwin){.datagrams = 180, .cut = true};
        }
        assert_long_is_not_last(f, opcodes[i % 2], before[i / 2], 0);
    }
}

/* One that has been granted more than any turn: others have theirs. */
static void records__one_without_end__the_others_have_their_turn(void **state)
{
    (void)state;
    enum { GREEDY_BYTES = 64 << 20, GREEDY = 2, MODEST = 1 };
    struct fixture *f = fixture_new();
    f->config.node_count = 3;
    f->config.mtu_bytes = 9000;
    f->config.device.rcvbuf_bytes = 4 * GREEDY_BYTES;
    uint8_t *remote = fixture_payload(1, GREEDY_BYTES), *local = malloc(GREEDY_BYTES);
    uint8_t *modest = fixture_payload(2, RECORD_BYTES);
    assert_non_null(local);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 0, remote, GREEDY_BYTES);
    sim_rd_of(&f->world.nodes[GREEDY])->records.window_bytes = 2u * GREEDY_BYTES;
    assert_int_equal(
        fixture_post(f, GREEDY, 0, GREEDY, IBV_WR_RDMA_READ, 0, local, GREEDY_BYTES, mr), 0);
    sim_world_run_for(&f->world, MS / 10);
    assert_int_equal(
        fixture_post(f, MODEST, 0, MODEST, IBV_WR_RDMA_READ, 0, modest, RECORD_BYTES, mr), 0);
    uint64_t begin_ns = f->world.net.now_ns;
    while (!fixture_count(f, MODEST, IBV_WC_RDMA_READ))
        assert_true(sim_world_step(&f->world));
    assert_in_range(f->world.net.now_ns - begin_ns, 1, 2 * MS); /* the other takes 5 */
    fixture_run(f, 2 * SECOND);
    fixture_assert_status(f, GREEDY, GREEDY, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
    assert_memory_equal(local, remote, GREEDY_BYTES);
    fixture_close(f);
    free(local);
    free(modest);
    free(remote);
}

/* The source is told as soon as there is room; the first time-out is 20 ms. */
static void records__grant_meets_a_full_socket__follows(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    f->config.device.record_window_bytes = RECORD_BYTES / 4;
    uint8_t *remote = fixture_payload(1, RECORD_BYTES), *local = fixture_payload(2, RECORD_BYTES);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, RECORD_BYTES);
    f->world.net.full_host = 1; /* node 0 */
    assert_int_equal(fixture_post(f, 0, 1, 9, IBV_WR_RDMA_WRITE, 0, local, RECORD_BYTES, mr), 0);
    sim_world_run_for(&f->world, MS);
    assert_int_equal(sim_counters(&f->world, 1)->rx_records_complete, 0);
    f->world.net.full_host = 0;
    sim_world_run_for(&f->world, 2 * MS);
    fixture_assert_status(f, 0, 9, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
    assert_memory_equal(local, remote, RECORD_BYTES);
    assert_int_equal(sim_counters(&f->world, 1)->tx_probes, 0);
    fixture_run(f, 2 * SECOND);
    fixture_close(f);
    free(local);
    free(remote);
}

/* Grants to one peer are held: those to the others, which have sockets of their own, are not. */
static void records__grants_to_one_are_held__the_others_go_on(void **state)
{
    (void)state;
    enum { BLOCKED = 1, OTHER = 2, WRITES = 6, BYTES = 30000 };
    struct fixture *f = fixture_new();
    f->config.node_count = 3;
    uint8_t *remote = fixture_payload(1, BYTES), *local = fixture_payload(2, BYTES);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 0, remote, BYTES);
    f->world.net.full_host = 1 + BLOCKED;
    for (uint64_t i = 0; i < WRITES; i++)
        assert_int_equal(fixture_post(f, BLOCKED, 0, i, IBV_WR_RDMA_WRITE, 0, local, BYTES, mr), 0);
    sim_world_run_for(&f->world, MS);
    const struct dw_records *records = &sim_rd_of(&f->world.nodes[0])->records;
    assert_true(records->refused);
    for (uint64_t i = 0; i < WRITES; i++)
        assert_int_equal(fixture_post(f, OTHER, 0, i, IBV_WR_RDMA_WRITE, 0, local, BYTES, mr), 0);
    sim_world_run_for(&f->world, 2 * MS);
    assert_int_equal(fixture_count(f, OTHER, IBV_WC_RDMA_WRITE), WRITES);
    assert_int_equal(fixture_count(f, BLOCKED, IBV_WC_RDMA_WRITE), 0);
    f->world.net.full_host = 0;
    sim_world_run_for(&f->world, 2 * MS);
    assert_int_equal(fixture_count(f, BLOCKED, IBV_WC_RDMA_WRITE), WRITES);
    assert_false(records->refused);
    assert_memory_equal(local, remote, BYTES);
    fixture_run(f, 2 * SECOND);
    fixture_close(f);
    free(local);
    free(remote);
}

/* The socket to one peer is full: records to the others have sockets of their own. */
static void records__socket_to_one_is_full__the_others_go_on(void **state)
{
    (void)state;
    enum { BLOCKED = 1, OTHER = 2, HELD = 6 };
    struct fixture *f = fixture_new();
    f->config.node_count = 3;
    f->config.device.rcvbuf_bytes = 32u << 20;
    f->config.device.sndbuf_bytes = 65536;
    f->config.impairment.bytes_per_ns = 1; /* 0.6 ms for those that are held up */
    uint8_t *remote = fixture_payload(1, RECORD_BYTES), *local = malloc(HELD * RECORD_BYTES);
    uint8_t *other = fixture_payload(2, RECORD_BYTES);
    assert_non_null(local);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 0, remote, RECORD_BYTES);
    for (unsigned i = 0; i < HELD; i++)
        assert_int_equal(fixture_post(f, BLOCKED, 0, i, IBV_WR_RDMA_READ, 0,
                                      local + i * RECORD_BYTES, RECORD_BYTES, mr),
                         0);
    sim_world_run_for(&f->world, 20000);
    f->world.net.full_host = 1 + BLOCKED;
    assert_int_equal(fixture_post(f, OTHER, 0, OTHER, IBV_WR_RDMA_READ, 0, other, RECORD_BYTES, mr),
                     0);
    sim_world_run_for(&f->world, 2 * MS);
    assert_int_equal(fixture_count(f, OTHER, IBV_WC_RDMA_READ), 1);
    assert_in_range(fixture_count(f, BLOCKED, IBV_WC_RDMA_READ), 0, HELD - 1);
    f->world.net.full_host = 0;
    fixture_run(f, SECOND);
    assert_int_equal(fixture_count(f, BLOCKED, IBV_WC_RDMA_READ), HELD);
    for (unsigned i = 0; i < HELD; i++)
        assert_memory_equal(local + i * RECORD_BYTES, remote, RECORD_BYTES);
    assert_memory_equal(other, remote, RECORD_BYTES);
    fixture_close(f);
    free(local);
    free(other);
    free(remote);
}

/* A rank that has to wait for its core should find more when its turn comes. */
static void qp__shares_cores_later__grants_more(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    f->config.device.rcvbuf_bytes = 32u << 20;
    fixture_open(f);
    struct diwarp_qp *qp = f->world.nodes[0].qp;
    const struct dw_rd *rd = sim_rd_of(&f->world.nodes[0]);
    uint32_t alone = rd->records.window_bytes;
    diwarp_qp_share_cores(qp);
    assert_int_equal(rd->records.window_bytes, 4 * alone);
    assert_int_equal(sim_rd_of(&f->world.nodes[1])->records.window_bytes, alone);
    fixture_close(f);
}

/* A port of 100 Mb/s that queues 64 KiB, on the way to a reader whose buffer takes megabytes: what
 * is under way is soon what the port holds, and the stream as fast as the port. */
static void window__finds_what_a_port_holds(void **state)
{
    (void)state;
    enum { READS = 20, BYTES = 1 << 20 };
    struct fixture *f = fixture_new();
    uint8_t *remote = fixture_payload(1, BYTES), *local = fixture_payload(2, BYTES);
    f->config.device.rcvbuf_bytes = 8u << 20;
    f->config.impairment.port_bytes_per_ns = 0.0125;
    f->config.impairment.port_bytes = 64u << 10;
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, BYTES);
    const uint64_t start_ns = f->world.net.now_ns;
    for (unsigned i = 0; i < READS; i++)
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_RDMA_READ, 0, local, BYTES, mr), 0);
    while (fixture_count(f, 0, IBV_WC_RDMA_READ) < READS)
        assert_true(sim_world_step(&f->world));
    const uint64_t least_ns = READS * 80ull * BYTES; /* 80 ns a byte */
    assert_in_range(f->world.net.now_ns - start_ns, least_ns, least_ns * 5 / 4);
    assert_memory_equal(local, remote, BYTES);
    assert_in_range(sim_counters(&f->world, 1)->tx_resent_record_bytes, 1, READS * BYTES / 8);
    fixture_run(f, SECOND);
    fixture_close(f);
    free(local);
    free(remote);
}

/* One of whom nothing comes has its window, not all the budget: another is served meanwhile. */
static void window__leaves_budget_to_others(void **state)
{
    (void)state;
    enum { BYTES = 4 << 20, READS = 40, OTHER = 100 };
    struct fixture *f = fixture_new();
    uint8_t *remote = fixture_payload(1, BYTES), *local = fixture_payload(2, BYTES);
    f->config.node_count = 3;
    f->config.device.rcvbuf_bytes = 8u << 20;
    fixture_open(f);
    struct diwarp_mr *mr_1 = fixture_reg(f, 1, remote, BYTES);
    struct diwarp_mr *mr_2 = fixture_reg(f, 2, remote, BYTES);
    const uint64_t back_ns = f->world.net.now_ns + 20 * MS;
    f->world.nodes[1].paused_until_ns = back_ns;
    for (unsigned i = 0; i < READS; i++)
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_RDMA_READ, 0, local, BYTES, mr_1), 0);
    assert_int_equal(fixture_post(f, 0, 2, OTHER, IBV_WR_RDMA_READ, 0, local, RECORD_BYTES, mr_2),
                     0);
    while (!fixture_count(f, 0, IBV_WC_RDMA_READ))
        assert_true(sim_world_step(&f->world));
    assert_true(f->world.net.now_ns < back_ns - 18 * MS);
    fixture_run(f, 10 * SECOND);
    assert_int_equal(fixture_count(f, 0, IBV_WC_RDMA_READ), READS + 1);
    fixture_close(f);
    free(local);
    free(remote);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window__finds_what_a_port_holds),
        cmocka_unit_test(window__leaves_budget_to_others),
        cmocka_unit_test(read__grant_after_the_request),
        cmocka_unit_test(read__behind_a_queue_that_never_empties),
        cmocka_unit_test(read__longer_than_the_least_budget),
        cmocka_unit_test(reads__more_than_the_budget__nothing_twice),
        cmocka_unit_test(reads__small_ones_beyond_the_buffer__nothing_twice),
        cmocka_unit_test(records__without_end__the_oldest_first),
        cmocka_unit_test(records__without_end_in_a_small_window__the_oldest_first),
        cmocka_unit_test(records__one_without_end__the_others_have_their_turn),
        cmocka_unit_test(records__grant_meets_a_full_socket__follows),
        cmocka_unit_test(records__grants_to_one_are_held__the_others_go_on),
        cmocka_unit_test(records__socket_to_one_is_full__the_others_go_on),
        cmocka_unit_test(qp__shares_cores_later__grants_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
