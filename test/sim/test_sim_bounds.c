/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounds that all peers share: who vanishes or stays silent does not keep the others waiting, and
 * what is granted fits the receive buffer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

#define RECORD_BYTES (4u << 20)
#define LONG_BYTES   400000u
#define TIMEOUT_NS   (5 * SECOND)

/* Holds all that the cases send at once; nothing but the bounds keeps it back. */
static struct fixture *open_wide(unsigned nodes)
{
    struct fixture *f = fixture_new();
    f->config.node_count = nodes;
    f->config.mtu_bytes = 65535;
    f->config.device.rcvbuf_bytes = 32u << 20;
    f->config.device.peer_timeout_ns = TIMEOUT_NS;
    f->config.qp.max_msg_bytes = 8u << 20;
    return f;
}

static void send_one(struct fixture *f, unsigned from, unsigned to, uint64_t wr_id, void *data,
                     uint32_t bytes)
{
    assert_int_equal(fixture_post(f, from, to, wr_id, IBV_WR_SEND_WITH_IMM, 0, data, bytes, NULL),
                     0);
}

/* Each knows the other's credit. */
static void acquaint(struct fixture *f)
{
    uint8_t data[8] = {0};
    for (unsigned from = 0; from < f->config.node_count; from++)
        for (unsigned to = 0; to < f->config.node_count; to++)
            if (from != to)
                send_one(f, from, to, 1000 + to, data, sizeof data);
    fixture_run(f, SECOND);
    f->wc_count = 0;
}

/* ---- messages being put together ---- */

static void assembly__its_sender_vanishes__given_back(void **state)
{
    (void)state;
    struct fixture *f = open_wide(2);
    uint8_t *data = fixture_payload(1, LONG_BYTES);
    f->config.mtu_bytes = 1500;
    fixture_open(f);
    send_one(f, 0, 1, 1, data, LONG_BYTES);
    sim_world_run_for(&f->world, 12000);
    f->world.nodes[0].paused_until_ns = DW_NEVER;
    sim_world_run_for(&f->world, SECOND);
    assert_int_equal(sim_rd_of(&f->world.nodes[1])->assembly_count, 1);
    fixture_run(f, TIMEOUT_NS + 4 * SECOND);
    assert_int_equal(sim_rd_of(&f->world.nodes[1])->assembly_count, 0);
    assert_int_equal(fixture_count(f, 1, DIWARP_WC_PEER_GONE), 1);
    fixture_close(f);
    free(data);
}

/* Message 1 does not get through until then. */
static uint64_t held_until_ns;

static enum sim_verdict hold_up_first(void *world, const struct sim_endpoint *from,
                                      const uint8_t *buf, uint32_t bytes)
{
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    bool first = seen.ddp.opcode == DW_RDMAP_SEND_IMM && seen.ddp.ulp == 1;
    return first && ((struct sim_world *)world)->net.now_ns < held_until_ns ? SIM_DROP : SIM_PASS;
}

/* What comes of the second must leave room for the first, which it waits for. */
static void assembly__of_a_message_behind_a_lost_one(void **state)
{
    (void)state;
    enum { FIRST = 60000, SECOND_BYTES = 8 << 20 };
    struct fixture *f = open_wide(2);
    uint8_t *data = fixture_payload(1, SECOND_BYTES);
    fixture_open(f);
    acquaint(f);
    held_until_ns = f->world.net.now_ns + 200 * MS;
    f->world.net.filter = hold_up_first;
    send_one(f, 0, 1, 1, data, FIRST);
    send_one(f, 0, 1, 2, data, SECOND_BYTES);
    fixture_run(f, 4 * SECOND);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 2);
    assert_int_equal(fixture_count(f, 0, IBV_WC_SEND), 2);
    fixture_close(f);
    free(data);
}

/* ---- records ---- */

/* The request is acknowledged at once, for there is a gap before it; then the reader dies. */
static void source__without_a_grant__its_reader_dies(void **state)
{
    (void)state;
    struct fixture *f = open_wide(3);
    uint8_t *local = fixture_payload(1, RECORD_BYTES), *remote = fixture_payload(2, RECORD_BYTES);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, RECORD_BYTES);
    struct diwarp_mr *other = fixture_reg(f, 2, remote, RECORD_BYTES);
    f->world.net.filter = fixture_lose_send;
    fixture_widen(f, 0, 2);
    f->world.nodes[2].paused_until_ns = DW_NEVER;
    assert_int_equal(fixture_post(f, 0, 2, 1, IBV_WR_RDMA_READ, 0, local, RECORD_BYTES, other), 0);
    send_one(f, 0, 1, 2, local, 100);
    assert_int_equal(fixture_post(f, 0, 1, 3, IBV_WR_RDMA_READ, 0, local, RECORD_BYTES, mr), 0);
    sim_world_run_for(&f->world, 3000);
    f->world.nodes[0].paused_until_ns = DW_NEVER;
    sim_world_run_for(&f->world, MS);
    assert_int_equal(sim_rd_of(&f->world.nodes[1])->records.ends.count, 1);
    assert_int_equal(sim_counters(&f->world, 1)->tx_record_segments, 0);
    fixture_run(f, TIMEOUT_NS + 4 * SECOND);
    assert_int_equal(fixture_count(f, 1, DIWARP_WC_PEER_GONE), 1);
    assert_int_equal(sim_rd_of(&f->world.nodes[1])->records.ends.count, 0);
    fixture_close(f);
    free(local);
    free(remote);
}

/* Steps until node 0 has completed `wr_id`, for so long at most. */
static void run_until_done(struct fixture *f, uint64_t wr_id, int opcode, uint64_t limit_ns)
{
    uint64_t until_ns = f->world.net.now_ns + limit_ns;
    while (!fixture_find(f, 0, wr_id, opcode)) {
        assert_true(f->world.net.now_ns < until_ns);
        assert_true(sim_world_step(&f->world));
    }
    assert_false(f->world.failed);
}

/* Reads of one that does not run take the grants, but not for as long as it pauses. */
static void reads__of_a_silent_peer__do_not_stop_others(void **state)
{
    (void)state;
    enum { SILENT = 5 };
    struct fixture *f = open_wide(3);
    uint8_t *local = fixture_payload(1, RECORD_BYTES), *remote = fixture_payload(2, RECORD_BYTES);
    uint8_t *sinks[SILENT];
    fixture_open(f);
    acquaint(f);
    struct diwarp_mr *silent = fixture_reg(f, 1, remote, RECORD_BYTES);
    struct diwarp_mr *mr = fixture_reg(f, 2, remote, RECORD_BYTES);
    f->world.nodes[1].paused_until_ns = f->world.net.now_ns + 4 * SECOND;
    for (unsigned i = 0; i < SILENT; i++) {
        sinks[i] = fixture_payload(1, RECORD_BYTES);
        assert_int_equal(
            fixture_post(f, 0, 1, i, IBV_WR_RDMA_READ, 0, sinks[i], RECORD_BYTES, silent), 0);
    }
    assert_int_equal(fixture_post(f, 0, 2, 9, IBV_WR_RDMA_READ, 0, local, RECORD_BYTES, mr), 0);
    run_until_done(f, 9, IBV_WC_RDMA_READ, SECOND);
    assert_memory_equal(local, remote, RECORD_BYTES);
    fixture_run(f, 8 * SECOND);
    for (unsigned i = 0; i < SILENT; i++) {
        fixture_assert_status(f, 0, i, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
        assert_memory_equal(sinks[i], remote, RECORD_BYTES);
        free(sinks[i]);
    }
    fixture_close(f);
    free(local);
    free(remote);
}

static unsigned length(struct dw_list *list)
{
    unsigned n = 0;
    dw_list_foreach (it, list)
        n++;
    return n;
}

/* Every run looks at those that want a grant: not at thousands that cannot have one. */
static void reads__many_of_a_silent_peer__are_not_looked_at(void **state)
{
    (void)state;
    enum { READS = 1000, BYTES = 4096 };
    struct fixture *f = open_wide(2);
    uint8_t *local = fixture_payload(1, READS * BYTES), *remote = fixture_payload(2, BYTES);
    f->config.device.rcvbuf_bytes = 1u << 20;
    fixture_open(f);
    acquaint(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, BYTES);
    struct dw_list *want = &sim_rd_of(&f->world.nodes[0])->records.want;
    f->world.nodes[1].paused_until_ns = f->world.net.now_ns + 4 * SECOND;
    for (unsigned i = 0; i < READS; i++) {
        uint8_t *to = local + i * BYTES;
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_RDMA_READ, 0, to, BYTES, mr), 0);
    }
    sim_world_run_for(&f->world, 2 * SECOND);
    assert_true(length(want) < 100);
    fixture_run(f, 8 * SECOND);
    for (unsigned i = 0; i < READS; i++) {
        fixture_assert_status(f, 0, i, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
        assert_memory_equal(local + i * BYTES, remote, BYTES);
    }
    assert_int_equal(length(want), 0);
    fixture_close(f);
    free(local);
    free(remote);
}

/* What a deregistration gives back is granted at once: no datagram or timer would see to it. */
static void grants__freed__wake_the_next(void **state)
{
    (void)state;
    struct fixture *f = open_wide(3);
    uint8_t *local = fixture_payload(1, RECORD_BYTES), *remote = fixture_payload(2, RECORD_BYTES);
    uint8_t *sink = fixture_payload(3, RECORD_BYTES);
    f->config.device.record_window_bytes = 1u << 20; /* however rarely it polls */
    fixture_open(f);
    acquaint(f);
    fixture_widen(f, 0, 1);
    struct diwarp_mr *written = fixture_reg(f, 0, local, RECORD_BYTES);
    struct diwarp_mr *read = fixture_reg(f, 2, remote, RECORD_BYTES);
    assert_int_equal(fixture_post(f, 1, 0, 1, IBV_WR_RDMA_WRITE, 0, remote, RECORD_BYTES, written),
                     0);
    f->world.nodes[1].paused_until_ns = f->world.net.now_ns + 10 * MS;
    sim_world_run_for(&f->world, 50000);
    assert_int_equal(fixture_post(f, 0, 2, 2, IBV_WR_RDMA_READ, 0, sink, RECORD_BYTES, read), 0);
    sim_world_run_for(&f->world, 50000);
    assert_true(dw_cq_next_deadline_ns(f->world.nodes[0].cq) > f->world.net.now_ns);
    diwarp_dereg_mr(written);
    assert_int_equal(dw_cq_next_deadline_ns(f->world.nodes[0].cq), 0);
    run_until_done(f, 2, IBV_WC_RDMA_READ, MS);
    fixture_run(f, 2 * SECOND);
    fixture_assert_status(f, 1, 1, IBV_WC_RDMA_WRITE, IBV_WC_REM_ABORT_ERR);
    assert_memory_equal(sink, remote, RECORD_BYTES);
    fixture_close(f);
    free(local);
    free(remote);
    free(sink);
}

/* Without a buffer for what waits nothing is to be done for a while; another post changes that. */
static void sends__no_buffer_left__idle_until_a_post(void **state)
{
    (void)state;
    enum { NODES = 12, BYTES = 60000 };
    struct fixture *f = open_wide(NODES);
    uint8_t *data = fixture_payload(1, BYTES);
    struct diwarp_wc wc;
    f->config.device.send_pool_bytes = 256 << 10;
    fixture_open(f);
    acquaint(f);
    struct diwarp_cq *cq = f->world.nodes[0].cq;
    for (unsigned to = 1; to < NODES; to++)
        f->world.nodes[to].paused_until_ns = f->world.net.now_ns + 100 * MS;
    for (unsigned to = 1; to < NODES - 1; to++)
        send_one(f, 0, to, to, data, BYTES);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(diwarp_poll_cq(cq, 1, &wc), 0);
    assert_true(dw_cq_next_deadline_ns(cq) > f->world.net.now_ns);
    send_one(f, 0, NODES - 1, NODES - 1, data, BYTES);
    assert_int_equal(dw_cq_next_deadline_ns(cq), 0);
    fixture_run(f, SECOND);
    assert_int_equal(fixture_count(f, 0, IBV_WC_SEND), NODES - 1);
    fixture_close(f);
    free(data);
}

/* As many as the pool has chunks: the first train to each takes one. */
static void sends__to_many_silent_peers__do_not_stop_another(void **state)
{
    (void)state;
    enum { NODES = 15, BYTES = 60000 };
    struct fixture *f = open_wide(NODES);
    uint8_t *data = fixture_payload(1, BYTES);
    f->config.mtu_bytes = 1500;
    f->config.device.send_pool_bytes = (NODES - 2) * DW_SLAB_CHUNK_BYTES;
    fixture_open(f);
    acquaint(f);
    for (unsigned to = 1; to < NODES - 1; to++) {
        f->world.nodes[to].paused_until_ns = f->world.net.now_ns + 100 * MS;
        send_one(f, 0, to, to, data, BYTES);
    }
    sim_world_run_for(&f->world, MS);
    send_one(f, 0, NODES - 1, NODES - 1, data, 8);
    sim_world_run_for(&f->world, 10 * MS);
    fixture_assert_status(f, 0, NODES - 1, IBV_WC_SEND, IBV_WC_SUCCESS);
    fixture_run(f, SECOND);
    assert_int_equal(fixture_count(f, 0, IBV_WC_SEND), NODES - 1);
    fixture_close(f);
    free(data);
}

/* Nor do Sends to it keep all buffers. */
static void sends__to_a_silent_peer__do_not_stop_others(void **state)
{
    (void)state;
    enum { SENDS = 100, BYTES = 60000 };
    struct fixture *f = open_wide(3);
    uint8_t *data = fixture_payload(1, BYTES);
    fixture_open(f);
    acquaint(f);
    f->world.nodes[1].paused_until_ns = f->world.net.now_ns + 4 * SECOND;
    for (unsigned i = 0; i < SENDS; i++)
        send_one(f, 0, 1, i, data, BYTES);
    for (unsigned i = 0; i < SENDS; i++)
        send_one(f, 0, 2, SENDS + i, data, BYTES);
    uint64_t until_ns = f->world.net.now_ns + SECOND;
    for (unsigned i = 0; i < SENDS; i++)
        run_until_done(f, SENDS + i, IBV_WC_SEND, until_ns - f->world.net.now_ns);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 0);
    fixture_run(f, 8 * SECOND);
    assert_int_equal(fixture_count(f, 0, IBV_WC_SEND), 2 * SENDS);
    fixture_close(f);
    free(data);
}

/* ---- atomics ---- */

/* Their requests leave the queue at once, but a peer that computes has yet to answer them. */
static void atomics__unanswered__no_more_than_the_queue_holds(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    f->config.qp.max_send_wr = 4;
    fixture_open(f);
    uint64_t *word = calloc(1, sizeof *word), found[5];
    assert_non_null(word);
    struct diwarp_mr *mr = fixture_reg(f, 1, word, sizeof *word);
    f->world.nodes[1].paused_until_ns = DW_NEVER;
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(
            fixture_post(f, 0, 1, i, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &found[i], sizeof *found, mr),
            0);
        sim_world_run_for(&f->world, MS / 100);
    }
    assert_true(dw_list_empty(&sim_peer(&f->world.nodes[0], 1)->pending));
    assert_int_equal(
        fixture_post(f, 0, 1, 4, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &found[4], sizeof *found, mr),
        -ENOMEM);
    f->world.nodes[1].paused_until_ns = 0;
    fixture_run(f, SECOND);
    assert_int_equal(fixture_count(f, 0, IBV_WC_FETCH_ADD), 4);
    assert_int_equal(
        fixture_post(f, 0, 1, 4, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &found[4], sizeof *found, mr), 0);
    fixture_run(f, SECOND);
    assert_int_equal(*word, 5);
    fixture_close(f);
    free(word);
}

static void count_successes(struct sim_world *world, struct sim_node *node,
                            const struct diwarp_wc *wc)
{
    (void)node;
    fixture_of(world)->hits += wc->wc.status == IBV_WC_SUCCESS;
}

/* Each of three asks each of the others for all that it may, at once. */
static void ask_for_all(enum ibv_wr_opcode opcode, uint64_t *words)
{
    enum { NODES = 3, MOST = 8192 };
    struct fixture *f = fixture_new();
    uint64_t old[NODES];
    struct diwarp_mr *mrs[NODES];
    f->config.node_count = NODES;
    f->config.qp.max_send_wr = UINT32_MAX;
    fixture_open(f);
    f->world.on_wc = count_successes;
    for (unsigned n = 0; n < NODES; n++)
        mrs[n] = fixture_reg(f, n, &words[n], sizeof *words);
    for (unsigned i = 0; i <= MOST; i++)
        for (unsigned n = 0; n < NODES; n++)
            for (unsigned to = (n + 1) % NODES; to != n; to = (to + 1) % NODES)
                assert_int_equal(fixture_post(f, n, to, 0, opcode, 0, &old[n], 8, mrs[to]),
                                 i < MOST ? 0 : -ENOMEM);
    fixture_run(f, 100 * SECOND);
    assert_int_equal(f->hits, NODES * (NODES - 1) * MOST);
    fixture_close(f);
}

static void asked_for__all_that_may_be__comes(void **state)
{
    (void)state;
    static uint64_t words[3];
    ask_for_all(IBV_WR_RDMA_READ, words);
    ask_for_all(IBV_WR_ATOMIC_FETCH_AND_ADD, words);
    for (unsigned n = 0; n < 3; n++)
        assert_int_equal(words[n], 2 * 8192);
}

/* Runs a long read to its end. Returns the most that was granted at once. */
static uint64_t most_granted(uint32_t mtu_bytes)
{
    enum { RCVBUF_BYTES = 212992, BYTES = 4 << 20 };
    struct fixture *f = fixture_new();
    f->config.mtu_bytes = mtu_bytes;
    f->config.device.rcvbuf_bytes = RCVBUF_BYTES;
    uint8_t *remote = fixture_payload(1, BYTES), *local = malloc(BYTES);
    uint64_t most = 0;
    assert_non_null(local);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, BYTES);
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_RDMA_READ, 0, local, BYTES, mr), 0);
    while (!fixture_count(f, 0, IBV_WC_RDMA_READ)) {
        const uint64_t granted = sim_rd_of(&f->world.nodes[0])->records.due_bytes;
        most = granted > most ? granted : most;
        assert_true(sim_world_step(&f->world));
    }
    fixture_run(f, SECOND);
    assert_memory_equal(local, remote, BYTES);
    assert_int_equal(f->world.net.overflowed, 0);
    fixture_close(f);
    free(local);
    free(remote);
    return most;
}

/* The kernel charges them little more than their payload: two of 64 KiB fit. */
static void budget__more_of_long_datagrams(void **state)
{
    (void)state;
    assert_in_range(most_granted(1500), 150000, 159744);
    assert_in_range(most_granted(65536), 2 * 64000, 2 * 66000);
}

/* Short records come in short datagrams whatever the MTU, and a pause lets them all wait. */
static void budget__no_more_of_short_records(void **state)
{
    (void)state;
    enum { RCVBUF_BYTES = 212992, READS = 64, BYTES = 8192 };
    struct fixture *f = fixture_new();
    f->config.mtu_bytes = 65536;
    f->config.device.rcvbuf_bytes = RCVBUF_BYTES;
    uint8_t *remote = fixture_payload(1, BYTES), *local = malloc(READS * BYTES);
    assert_non_null(local);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, BYTES);
    fixture_widen(f, 0, 1);
    for (unsigned i = 0; i < READS; i++)
        assert_int_equal(
            fixture_post(f, 0, 1, i, IBV_WR_RDMA_READ, 0, local + i * BYTES, BYTES, mr), 0);
    f->world.nodes[1].paused_until_ns = f->world.net.now_ns + MS;
    sim_world_run_for(&f->world, MS / 2);
    f->world.nodes[0].paused_until_ns = f->world.net.now_ns + 5 * MS;
    fixture_run(f, SECOND);
    assert_int_equal(fixture_count(f, 0, IBV_WC_RDMA_READ), READS);
    assert_int_equal(f->world.net.overflowed, 0);
    fixture_close(f);
    free(local);
    free(remote);
}

/* Nobody is told of what comes for a QP that is drained: it must not wait for that to be recycled.
 */
static void drained__messages_are_recycled(void **state)
{
    (void)state;
    enum { MESSAGES = 100, BYTES = 60000 };
    struct fixture *f = fixture_new();
    uint8_t *buf = fixture_payload(3, BYTES);
    fixture_open(f);
    assert_int_equal(fixture_post(f, 0, 1, 0, IBV_WR_SEND, 0, buf, BYTES, NULL), 0);
    fixture_run(f, SECOND);
    struct diwarp_qp *qp = f->world.nodes[1].qp;
    const struct dw_rd *rd = qp->state;
    qp->draining = true;
    for (unsigned i = 1; i <= MESSAGES; i++) {
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_SEND, 0, buf, BYTES, NULL), 0);
        sim_world_run_for(&f->world, MS);
        assert_true(rd->done_bytes < 3 * BYTES);
    }
    qp->draining = false;
    fixture_run(f, SECOND);
    fixture_close(f);
    free(buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drained__messages_are_recycled),
        cmocka_unit_test(assembly__its_sender_vanishes__given_back),
        cmocka_unit_test(assembly__of_a_message_behind_a_lost_one),
        cmocka_unit_test(source__without_a_grant__its_reader_dies),
        cmocka_unit_test(reads__of_a_silent_peer__do_not_stop_others),
        cmocka_unit_test(reads__many_of_a_silent_peer__are_not_looked_at),
        cmocka_unit_test(grants__freed__wake_the_next),
        cmocka_unit_test(sends__no_buffer_left__idle_until_a_post),
        cmocka_unit_test(sends__to_many_silent_peers__do_not_stop_another),
        cmocka_unit_test(sends__to_a_silent_peer__do_not_stop_others),
        cmocka_unit_test(atomics__unanswered__no_more_than_the_queue_holds),
        cmocka_unit_test(asked_for__all_that_may_be__comes),
        cmocka_unit_test(budget__more_of_long_datagrams),
        cmocka_unit_test(budget__no_more_of_short_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
