/* SPDX-License-Identifier: BSD-3-Clause */
/* How long things take, and that nothing travels twice without need: senders that fill window or
 * credit, links slower than the time-outs, one loss amid a record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

static unsigned received;

static void count_received(struct sim_world *world, struct sim_node *node,
                           const struct diwarp_wc *wc)
{
    (void)world;
    (void)node;
    received += wc->wc.opcode == IBV_WC_RECV;
}

/* Each of the others sends so many to the last node. Returns when all have come. */
static uint64_t incast_ns(struct fixture *f, unsigned sends, uint32_t bytes)
{
    unsigned senders = f->config.node_count - 1;
    uint8_t *data = fixture_payload(1, bytes);
    fixture_open(f);
    f->world.on_wc = count_received;
    received = 0;
    uint64_t begin_ns = f->world.net.now_ns;
    for (unsigned n = 0; n < senders; n++)
        for (unsigned i = 0; i < sends; i++)
            assert_int_equal(
                fixture_post(f, n, senders, i, IBV_WR_SEND_WITH_IMM, 0, data, bytes, NULL), 0);
    while (received < senders * sends && f->world.net.now_ns - begin_ns < SECOND)
        assert_true(sim_world_step(&f->world));
    uint64_t took_ns = f->world.net.now_ns - begin_ns;
    fixture_run(f, SECOND);
    fixture_close(f);
    free(data);
    return took_ns;
}

/* The credit of each is a few datagrams: nobody waits for the acknowledgement delay. */
static void sends__many_senders__small_receive_buffer(void **state)
{
    (void)state;
    enum { SENDERS = 15, SENDS = 100, BYTES = 4000 };
    static const uint32_t rcvbufs[] = {212992, 425984};
    for (size_t i = 0; i < sizeof rcvbufs / sizeof *rcvbufs; i++) {
        struct fixture *f = fixture_new();
        f->config.node_count = SENDERS + 1;
        f->config.impairment.bytes_per_ns = 12.5;
        f->config.impairment.port_bytes_per_ns = 1.25; /* 10 Gb/s: 4.8 ms in all */
        f->config.impairment.port_bytes = 8 << 20;
        f->config.device.rcvbuf_bytes = rcvbufs[i];
        assert_in_range(incast_ns(f, SENDS, BYTES), SENDERS * SENDS * BYTES / 1.25,
                        2 * SENDERS * SENDS * BYTES / 1.25);
    }
}

static void sends__small_window(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    f->config.impairment.bytes_per_ns = 1.25;
    f->config.device.send_window_datagrams = 4;
    /* 500 windows of 10 us of delay and 3 us on the wire. */
    assert_in_range(incast_ns(f, 2000, 1000), 5 * MS, 15 * MS);
}

/* What the socket does not take leaves as soon as it does. */
static void sends__slow_link__small_send_buffer(void **state)
{
    (void)state;
    enum { SENDS = 3, BYTES = 60000 };
    static const uint32_t mtus[] = {1500, 9000, 65535};
    for (size_t i = 0; i < sizeof mtus / sizeof *mtus; i++) {
        struct fixture *f = fixture_new();
        f->config.impairment.bytes_per_ns = 0.125;
        f->config.mtu_bytes = mtus[i];
        f->config.device.sndbuf_bytes = 16384;
        assert_in_range(incast_ns(f, SENDS, BYTES), SENDS * BYTES * 8, SENDS * BYTES * 9);
    }
}

/* Each has measured the other. */
static void acquaint(struct fixture *f)
{
    uint8_t data[8] = {0};
    for (unsigned i = 0; i < 20; i++) {
        for (unsigned n = 0; n < 2; n++)
            assert_int_equal(
                fixture_post(f, n, 1 - n, 1000, IBV_WR_SEND_WITH_IMM, 0, data, sizeof data, NULL),
                0);
        sim_world_run_for(&f->world, MS);
    }
    f->wc_count = 0;
}

/* Node 0 reads `count` times `bytes` of node 1. Returns when all have come. */
static uint64_t read_all_ns(struct fixture *f, unsigned count, uint32_t bytes)
{
    uint8_t *remote = fixture_payload(1, bytes), **local = calloc(count, sizeof *local);
    assert_non_null(local);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, bytes);
    uint64_t begin_ns = f->world.net.now_ns;
    for (unsigned i = 0; i < count; i++) {
        local[i] = fixture_payload(2, bytes);
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_RDMA_READ, 0, local[i], bytes, mr), 0);
    }
    while (f->wc_count < count && f->world.net.now_ns - begin_ns < 2 * SECOND)
        assert_true(sim_world_step(&f->world));
    uint64_t took_ns = f->world.net.now_ns - begin_ns;
    fixture_run(f, 2 * SECOND);
    for (unsigned i = 0; i < count; i++) {
        fixture_assert_status(f, 0, i, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
        assert_memory_equal(local[i], remote, bytes);
        free(local[i]);
    }
    free(local);
    free(remote);
    return took_ns;
}

/* What the source has sent waits in its socket for longer than the time-out, or the socket takes
 * no more of it amid a record. */
static void reads__slow_link__nothing_twice(void **state)
{
    (void)state;
    static const struct {
        unsigned count;
        uint32_t bytes, mtu_bytes, sndbuf_bytes;
    } cases[] = {{40, 100000, 1500, 4u << 20}, {40, 100000, 9000, 4u << 20},
                 {4, 400000, 1500, 4u << 20},  {10, 1000000, 1500, 4u << 20},
                 {10, 1000000, 1500, 65536},   {10, 1000000, 9000, 65536}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture *f = fixture_new();
        f->config.impairment.bytes_per_ns = 0.125; /* 1 Gb/s */
        f->config.mtu_bytes = cases[i].mtu_bytes;
        f->config.device.sndbuf_bytes = cases[i].sndbuf_bytes;
        fixture_open(f);
        acquaint(f);
        uint64_t took_ns = read_all_ns(f, cases[i].count, cases[i].bytes);
        assert_int_equal(sim_counters(&f->world, 1)->tx_resent_record_bytes, 0);
        assert_in_range(took_ns, 1, 10ull * cases[i].count * cases[i].bytes); /* 8 and headers */
        fixture_close(f);
    }
}

/* What is for one reader waits in the source's socket behind what is for the others. */
static void reads__by_many__slow_link__little_twice(void **state)
{
    (void)state;
    enum { READERS = 4, BYTES = 2000000 };
    struct fixture *f = fixture_new();
    uint8_t *remote = fixture_payload(1, BYTES), *local[READERS];
    f->config.impairment.bytes_per_ns = 0.125;
    f->config.node_count = READERS + 1;
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, READERS, remote, BYTES);
    uint64_t begin_ns = f->world.net.now_ns;
    for (unsigned n = 0; n < READERS; n++) {
        local[n] = fixture_payload(2, BYTES);
        assert_int_equal(fixture_post(f, n, READERS, n, IBV_WR_RDMA_READ, 0, local[n], BYTES, mr),
                         0);
    }
    while (f->wc_count < READERS && f->world.net.now_ns - begin_ns < 10 * SECOND)
        assert_true(sim_world_step(&f->world));
    uint64_t took_ns = f->world.net.now_ns - begin_ns;
    assert_in_range(took_ns, 1, 9ull * READERS * BYTES); /* 8 and headers */
    assert_true(sim_counters(&f->world, READERS)->tx_resent_record_bytes < READERS * BYTES / 100);
    fixture_run(f, 2 * SECOND);
    for (unsigned n = 0; n < READERS; n++) {
        fixture_assert_status(f, n, n, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
        assert_memory_equal(local[n], remote, BYTES);
        free(local[n]);
    }
    fixture_close(f);
    free(remote);
}

static enum sim_verdict lose_one_of_record(void *world, const struct sim_endpoint *from,
                                           const uint8_t *buf, uint32_t bytes)
{
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    struct fixture *f = fixture_of(world);
    bool of_record = seen.ddp.opcode == DW_RDMAP_WRITE_RECORD;
    return of_record && ++f->hits == f->hit_bytes ? SIM_DROP : SIM_PASS;
}

/* A gap shows at once; only what is last has to wait for the time-out, and that once. */
static void read__one_datagram_lost__comes_soon(void **state)
{
    (void)state;
    enum { BYTES = 1000000, DATAGRAMS = 705 };
    static const unsigned lost[] = {1, 350, 700, DATAGRAMS};
    uint64_t rto_min_ns = 0;
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
        struct fixture *f = fixture_new();
        f->config.impairment.bytes_per_ns = 1.25; /* 0.8 ms in all */
        fixture_open(f);
        acquaint(f);
        rto_min_ns = f->world.nodes[0].device->attr.rto_min_ns;
        f->hit_bytes = lost[i];
        f->world.net.filter = lose_one_of_record;
        uint64_t took_ns = read_all_ns(f, 1, BYTES);
        assert_true(f->hits > lost[i]);
        assert_in_range(took_ns, 1, lost[i] < 700 ? MS + rto_min_ns / 2 : MS + 3 * rto_min_ns / 2);
        assert_true(sim_counters(&f->world, 1)->tx_resent_record_bytes < 4 * 1500);
        fixture_close(f);
    }
}

/* The last of a record has no gap behind it; but the source sends the next one after it. */
static void reads__end_of_the_first_lost__next_one_tells(void **state)
{
    (void)state;
    enum { BYTES = 100000, DATAGRAMS = 71 };
    struct fixture *f = fixture_new();
    f->config.impairment.bytes_per_ns = 1.25;
    fixture_open(f);
    acquaint(f);
    f->hit_bytes = DATAGRAMS;
    f->world.net.filter = lose_one_of_record;
    assert_in_range(read_all_ns(f, 2, BYTES), 1, f->world.nodes[0].device->attr.rto_min_ns / 2);
    assert_true(f->hits > f->hit_bytes);
    assert_true(sim_counters(&f->world, 1)->tx_resent_record_bytes < 2 * 1500);
    fixture_close(f);
}

/* The first so many datagrams of records. */
static enum sim_verdict lose_first_of_records(void *world, const struct sim_endpoint *from,
                                              const uint8_t *buf, uint32_t bytes)
{
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    struct fixture *f = fixture_of(world);
    bool of_record = seen.ddp.opcode == DW_RDMAP_WRITE_RECORD;
    return of_record && f->hits++ < f->hit_bytes ? SIM_DROP : SIM_PASS;
}

/* Who receives answers with as much, as long as there are trips to go. */
static void answer(struct sim_world *world, struct sim_node *node, const struct diwarp_wc *wc)
{
    static uint8_t data[30000];
    struct fixture *f = fixture_of(world);
    if (wc->wc.opcode != IBV_WC_RECV)
        return;
    received++;
    if (f->posted && f->posted--)
        assert_int_equal(fixture_post(f, node->index, !node->index, 0, IBV_WR_SEND_WITH_IMM, 0,
                                      data, wc->wc.byte_len, NULL),
                         0);
}

/* So many answers to a message of node 0. One is a quarter of what the receiver has room for, or
 * more: by itself, it would be acknowledged at once. */
static struct fixture *open_after_ping_pong(unsigned trips)
{
    static uint8_t data[30000];
    struct fixture *f = fixture_new();
    f->config.mtu_bytes = 65535;
    f->config.device.rcvbuf_bytes = 425984;
    fixture_open(f);
    f->world.on_wc = answer;
    f->posted = trips;
    received = 0;
    assert_int_equal(fixture_post(f, 0, 1, 0, IBV_WR_SEND_WITH_IMM, 0, data, sizeof data, NULL), 0);
    while (received <= trips)
        assert_true(sim_world_step(&f->world));
    return f;
}

static uint64_t written_ns;

/* Node 1 computes once it has been notified. */
static void compute_when_notified(struct sim_world *world, struct sim_node *node,
                                  const struct diwarp_wc *wc)
{
    if (wc->wc.opcode == IBV_WC_RECV)
        node->paused_until_ns = world->net.now_ns + 50 * MS;
    else if (wc->wc.opcode == IBV_WC_RDMA_WRITE)
        written_ns = world->net.now_ns;
}

/* What completes by its acknowledgement does not wait for an answer that may not come. */
static void ping_pong__a_write_amid__acknowledged_at_once(void **state)
{
    (void)state;
    static uint8_t data[8], there[8];
    struct fixture *f = open_after_ping_pong(10);
    struct diwarp_mr *mr = fixture_reg(f, 1, there, sizeof there);
    uint64_t begin_ns = f->world.net.now_ns;
    f->world.on_wc = compute_when_notified;
    written_ns = DW_NEVER;
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_RDMA_WRITE, 0, data, sizeof data, mr), 0);
    assert_int_equal(fixture_post(f, 0, 1, 2, IBV_WR_SEND_WITH_IMM, 0, data, sizeof data, NULL), 0);
    fixture_run(f, SECOND);
    assert_in_range(written_ns - begin_ns, 0, MS);
    diwarp_dereg_mr(mr);
    fixture_close(f);
}

/* One time-out serves all. */
static void reads__all_lost__come_soon(void **state)
{
    (void)state;
    for (unsigned count = 1; count <= 8; count *= 2) {
        struct fixture *f = fixture_new();
        fixture_open(f);
        acquaint(f);
        f->hit_bytes = count;
        f->world.net.filter = lose_first_of_records;
        uint64_t rto_min_ns = f->world.nodes[0].device->attr.rto_min_ns;
        assert_in_range(read_all_ns(f, count, 1000), rto_min_ns, rto_min_ns + MS);
        assert_true(f->hits >= 2 * count);
        assert_false(f->world.nodes[0].set_aside);
        fixture_close(f);
    }
}

/* How long the peer computed before is no measure of the path. */
static void send__lost_after_the_peer_computed__comes_soon(void **state)
{
    (void)state;
    static const uint64_t computed_ms[] = {0, 50, 1000};
    uint8_t data[8] = {0};
    for (size_t i = 0; i < sizeof computed_ms / sizeof *computed_ms; i++) {
        struct fixture *f = fixture_new();
        fixture_open(f);
        acquaint(f);
        for (unsigned times = 0; times < 3; times++) {
            f->world.nodes[1].paused_until_ns = f->world.net.now_ns + computed_ms[i] * MS;
            assert_int_equal(
                fixture_post(f, 0, 1, 1, IBV_WR_SEND_WITH_IMM, 0, data, sizeof data, NULL), 0);
            sim_world_run_for(&f->world, (computed_ms[i] + 1) * MS);
        }
        f->wc_count = 0;
        f->world.net.filter = fixture_lose_send;
        uint64_t begin_ns = f->world.net.now_ns;
        assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_SEND_WITH_IMM, 0, data, sizeof data, NULL),
                         0);
        while (!fixture_count(f, 1, IBV_WC_RECV))
            assert_true(sim_world_step(&f->world));
        assert_in_range(f->world.net.now_ns - begin_ns, 1, 30 * MS);
        fixture_run(f, SECOND);
        fixture_close(f);
    }
}

/* Where one was lost a moment ago the next does not wait for the least time-out. */
static void sends__lost_again_and_again__come_soon(void **state)
{
    (void)state;
    uint8_t data[8] = {0};
    struct fixture *f = fixture_new();
    fixture_open(f);
    acquaint(f);
    f->world.net.filter = fixture_lose_send;
    for (unsigned times = 0; times < 5; times++) {
        f->hits = f->wc_count = 0;
        uint64_t begin_ns = f->world.net.now_ns;
        assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_SEND_WITH_IMM, 0, data, sizeof data, NULL),
                         0);
        while (!fixture_count(f, 1, IBV_WC_RECV))
            assert_true(sim_world_step(&f->world));
        if (times)
            assert_in_range(f->world.net.now_ns - begin_ns, 1,
                            f->world.nodes[0].device->attr.rto_min_ns / 4);
        sim_world_run_for(&f->world, 10 * MS);
    }
    fixture_run(f, SECOND);
    fixture_close(f);
}

/* ... and a peer that does not look for a moment is sent at most one datagram again: the ack of
 * what came first does not tell that the rest is lost. */
static void send__peer_computes_after_a_loss__one_again(void **state)
{
    (void)state;
    enum { BYTES = 64000 };
    uint8_t *data = fixture_payload(1, BYTES);
    struct fixture *f = fixture_new();
    f->config.mtu_bytes = 1500;
    fixture_open(f);
    acquaint(f);
    f->world.net.filter = fixture_lose_send;
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_SEND_WITH_IMM, 0, data, 8, NULL), 0);
    sim_world_run_for(&f->world, 10 * MS);
    const uint64_t *resent = &sim_counters(&f->world, 0)->tx_resent_datagrams;
    const uint64_t before = *resent;
    assert_true(before > 0);
    f->world.nodes[1].paused_until_ns = f->world.net.now_ns + MS;
    assert_int_equal(fixture_post(f, 0, 1, 2, IBV_WR_SEND_WITH_IMM, 0, data, BYTES, NULL), 0);
    fixture_run(f, SECOND);
    assert_int_equal(*resent, before + 1);
    fixture_close(f);
    free(data);
}

/* ... and yet a peer that computes for as long as on any other path is not taken for gone. */
static void read__peer_computes_after_a_loss__not_set_aside(void **state)
{
    (void)state;
    enum { BYTES = 100000 };
    uint8_t data[8] = {0}, *local = fixture_payload(1, BYTES), *remote = fixture_payload(2, BYTES);
    struct fixture *f = fixture_new();
    fixture_open(f);
    acquaint(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, BYTES);
    const uint64_t rto_min_ns = f->world.nodes[0].device->attr.rto_min_ns;
    f->world.net.filter = fixture_lose_send;
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_SEND_WITH_IMM, 0, data, sizeof data, NULL), 0);
    sim_world_run_for(&f->world, 10 * MS);
    f->world.nodes[1].paused_until_ns = f->world.net.now_ns + rto_min_ns;
    assert_int_equal(fixture_post(f, 0, 1, 2, IBV_WR_RDMA_READ, 0, local, BYTES, mr), 0);
    sim_world_run_for(&f->world, rto_min_ns);
    assert_int_equal(fixture_count(f, 0, IBV_WC_RDMA_READ), 0);
    assert_false(f->world.nodes[0].set_aside);
    fixture_run(f, SECOND);
    fixture_assert_status(f, 0, 2, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
    assert_memory_equal(local, remote, BYTES);
    fixture_close(f);
    free(local);
    free(remote);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends__many_senders__small_receive_buffer),
        cmocka_unit_test(sends__small_window),
        cmocka_unit_test(sends__slow_link__small_send_buffer),
        cmocka_unit_test(reads__slow_link__nothing_twice),
        cmocka_unit_test(reads__by_many__slow_link__little_twice),
        cmocka_unit_test(read__one_datagram_lost__comes_soon),
        cmocka_unit_test(reads__end_of_the_first_lost__next_one_tells),
        cmocka_unit_test(ping_pong__a_write_amid__acknowledged_at_once),
        cmocka_unit_test(reads__all_lost__come_soon),
        cmocka_unit_test(send__lost_after_the_peer_computed__comes_soon),
        cmocka_unit_test(sends__lost_again_and_again__come_soon),
        cmocka_unit_test(send__peer_computes_after_a_loss__one_again),
        cmocka_unit_test(read__peer_computes_after_a_loss__not_set_aside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
