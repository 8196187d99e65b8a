/* SPDX-License-Identifier: BSD-3-Clause */
/* Ways to a peer that let only through what is small, or are said to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

#define TIMEOUT_NS       (60 * SECOND)
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
    fixture_post_small(t.f, 1);
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

/* Notes the longest datagram but probes; f->hits: what is long vanishes. */
static enum sim_verdict note_longest(void *arg, const struct sim_endpoint *from, const uint8_t *buf,
                                     uint32_t bytes)
{
    struct fixture *f = fixture_of(arg);
    if (fixture_parse(from, buf, bytes).header.type != DW_LLP_PROBE && bytes > f->hit_bytes)
        f->hit_bytes = bytes;
    return f->hits && bytes > PASSES_BYTES ? SIM_DROP : SIM_PASS;
}

/* The longest datagram of a further transfer. */
static uint32_t longest_of(struct transfer *t, unsigned i)
{
    t->f->wc_count = 0;
    t->f->hit_bytes = 0;
    t->f->world.net.filter = note_longest;
    transfer_post(t, transfers[i].opcode);
    fixture_run(t->f, SECOND);
    fixture_assert_status(t->f, 0, 2, transfers[i].completion, IBV_WC_SUCCESS);
    return t->f->hit_bytes;
}

/* Ten minutes go by, and then both ends send something. */
static void widen(struct transfer *t)
{
    t->f->world.net.now_ns += 600 * SECOND;
    for (unsigned i = 0; i < TRANSFERS; i++)
        (void)longest_of(t, i);
    t->f->wc_count = 0;
}

/* The node's host is told by ICMP how narrow its path to another is. */
static void tell(struct fixture *f, unsigned node, unsigned to, uint32_t mtu_bytes)
{
    const struct sim_node *from = &f->world.nodes[node];
    struct sim_endpoint *endpoint =
        dw_container(from->qp->port->datagrams.llp, struct sim_endpoint, llp);
    endpoint->told = true;
    endpoint->icmp_to = dw_ah_addr(from->ahs[to]);
    endpoint->icmp_mtu_bytes = mtu_bytes;
}

/* Datagrams that have left cannot be cut: given up by who sends what vanishes. */
static void black_hole__of_a_send__gone_after_the_timeout(void **state)
{
    (void)state;
    struct transfer t = transfer_begin(TIMEOUT_NS);
    t.f->world.net.filter = drop_large;
    transfer_post(&t, IBV_WR_SEND);
    sim_world_run_for(&t.f->world, TIMEOUT_NS - SECOND);
    assert_int_equal(fixture_count(t.f, 0, DIWARP_WC_PEER_GONE), 0);
    sim_world_run_for(&t.f->world, 5 * SECOND);
    const struct diwarp_wc *gone = fixture_find(t.f, 0, 0, DIWARP_WC_PEER_GONE);
    assert_non_null(gone);
    assert_int_equal(gone->wc.vendor_err, DIWARP_GONE_TOO_LARGE);
    assert_in_range(gone->wc.byte_len, PASSES_BYTES + 1, JUMBO_MTU_BYTES);
    fixture_run(t.f, 3 * TIMEOUT_NS); /* the other end finds this one silent */
    fixture_assert_status(t.f, 0, 2, IBV_WC_SEND, IBV_WC_RETRY_EXC_ERR);
    transfer_end(&t);
}

/* Without a time-out for ever; with one, if it is over in time, again and again. */
static void black_hole__of_a_send_for_a_while__all_arrives(void **state)
{
    (void)state;
    static const struct {
        uint64_t timeout_ns, narrow_ns;
    } cases[] = {{0, 200 * SECOND}, {TIMEOUT_NS, TIMEOUT_NS - SECOND}};
    for (unsigned i = 0; i < 2; i++) {
        struct transfer t = transfer_begin(cases[i].timeout_ns);
        for (unsigned turn = 0; turn < 3; turn++) {
            t.f->wc_count = 0;
            t.f->world.net.filter = drop_large;
            transfer_post(&t, IBV_WR_SEND);
            sim_world_run_for(&t.f->world, cases[i].narrow_ns);
            assert_int_equal(t.f->wc_count, 0);
            t.f->world.net.filter = NULL;
            fixture_run(t.f, 2 * SECOND);
            fixture_assert_status(t.f, 0, 2, IBV_WC_SEND, IBV_WC_SUCCESS);
            widen(&t);
        }
        transfer_end(&t);
    }
}

/* Records go on in datagrams that pass, and what is sent later is as long as passes. */
static void black_hole__records_go_on__and_it_ends(void **state)
{
    (void)state;
    for (unsigned i = 1; i < TRANSFERS; i++) {
        struct transfer t = transfer_begin(TIMEOUT_NS);
        t.f->hits = true;
        t.f->world.net.filter = note_longest;
        transfer_post(&t, transfers[i].opcode);
        fixture_run(t.f, TIMEOUT_NS / 2);
        fixture_assert_status(t.f, 0, 2, transfers[i].completion, IBV_WC_SUCCESS);
        assert_in_range(longest_of(&t, i), PASSES_BYTES - PASSES_BYTES / 16, PASSES_BYTES);
        assert_int_equal(sim_counters(&t.f->world, transfers[i].source)->paths_narrowed, 1);
        t.f->hits = false;
        assert_in_range(longest_of(&t, i), 1, PASSES_BYTES);
        widen(&t);
        assert_in_range(longest_of(&t, i), PASSES_BYTES + 1, JUMBO_MTU_BYTES);
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
        transfer_end(&t);
    }
}

/* The route was another for a while: nothing longer is tried for ten minutes, then it is. */
static void narrow_path__told_for_a_while__wide_after_ten_minutes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < TRANSFERS; i++) {
        struct transfer t = transfer_begin(TIMEOUT_NS);
        struct sim_net *net = &t.f->world.net;
        net->path_mtu_bytes = NARROW_MTU_BYTES;
        (void)longest_of(&t, i);
        net->path_mtu_bytes = 0;
        net->now_ns += 590 * SECOND;
        assert_in_range(longest_of(&t, i), 1, NARROW_MTU_BYTES);
        widen(&t);
        const uint64_t fragmented = net->fragmented;
        assert_in_range(longest_of(&t, i), 5000, JUMBO_MTU_BYTES);
        assert_int_equal(net->fragmented, fragmented);
        transfer_end(&t);
    }
}

/* The path is as wide as before: a probe shows that, whatever the kernel believes. */
static void wide_path__said_to_be_narrow__wide_at_once(void **state)
{
    (void)state;
    for (unsigned i = 0; i < TRANSFERS; i++) {
        struct transfer t = transfer_begin(TIMEOUT_NS);
        const unsigned source = transfers[i].source;
        for (unsigned lie = 0; lie < 3; lie++) {
            tell(t.f, source, 1 - source, DW_MTU_MIN_BYTES);
            (void)longest_of(&t, i);
            assert_int_equal(sim_counters(&t.f->world, source)->paths_narrowed, lie + 1);
            const uint64_t fragmented = t.f->world.net.fragmented;
            assert_in_range(longest_of(&t, i), 5000, JUMBO_MTU_BYTES);
            assert_int_equal(t.f->world.net.fragmented, fragmented);
        }
        transfer_end(&t);
    }
}

/* ---- two peers on one host ---- */

/* What node 0 sends to each of two nodes of one host. */
static void send_to_both(struct fixture *f, uint8_t *data)
{
    f->wc_count = 0;
    f->hit_bytes = 0;
    for (unsigned to = 1; to <= 2; to++)
        assert_int_equal(fixture_post(f, 0, to, to, IBV_WR_SEND, 0, data, 5000, NULL), 0);
    fixture_run(f, SECOND);
    for (unsigned to = 1; to <= 2; to++)
        fixture_assert_status(f, 0, to, IBV_WC_SEND, IBV_WC_SUCCESS);
}

static struct fixture *open_two_on_one_host(void)
{
    struct fixture *f = fixture_new();
    f->config.node_count = 3;
    f->config.hosts[2] = 2;
    f->config.mtu_bytes = JUMBO_MTU_BYTES;
    f->config.device.peer_timeout_ns = TIMEOUT_NS;
    fixture_open(f);
    return f;
}

static void two_peers__told_of_one__both_fit_and_recover(void **state)
{
    (void)state;
    static uint8_t data[5000];
    struct fixture *f = open_two_on_one_host();
    send_to_both(f, data);
    assert_ptr_equal(f->world.nodes[0].ahs[1]->ways, f->world.nodes[0].ahs[2]->ways);
    f->world.net.path_mtu_bytes = NARROW_MTU_BYTES;
    fixture_post_small(f, 3);
    tell(f, 0, 1, NARROW_MTU_BYTES);
    fixture_run(f, SECOND);
    f->world.net.filter = note_longest;
    send_to_both(f, data);
    assert_in_range(f->hit_bytes, 1, NARROW_MTU_BYTES);
    assert_int_equal(sim_counters(&f->world, 0)->paths_narrowed, 1);
    f->world.net.path_mtu_bytes = 0;
    f->world.net.now_ns += 600 * SECOND;
    send_to_both(f, data);
    send_to_both(f, data);
    assert_in_range(f->hit_bytes, 5000, JUMBO_MTU_BYTES);
    fixture_close(f);
}

static enum sim_verdict drop_large_of_node_1(void *arg, const struct sim_endpoint *from,
                                             const uint8_t *buf, uint32_t bytes)
{
    if (((const struct sim_node *)from->owner)->index == 1)
        return drop_large(arg, from, buf, bytes);
    return note_longest(arg, from, buf, bytes);
}

/* Short segments of one show how wide its way to us is, nothing else. */
static void two_peers__one_sends_short_records__sent_to_as_before(void **state)
{
    (void)state;
    static uint8_t data[5000];
    struct fixture *f = open_two_on_one_host();
    uint8_t *remote = fixture_payload(1, LARGE_BYTES), *local = fixture_payload(2, LARGE_BYTES);
    const struct diwarp_mr *mr = fixture_reg(f, 1, remote, LARGE_BYTES);
    send_to_both(f, data);
    f->world.net.filter = drop_large_of_node_1;
    tell(f, 1, 0, NARROW_MTU_BYTES);
    for (unsigned i = 0; i < 4; i++) {
        f->wc_count = 0;
        assert_int_equal(fixture_post(f, 0, 1, 3, IBV_WR_RDMA_READ, 0, local, LARGE_BYTES, mr), 0);
        fixture_run(f, 10 * SECOND);
        fixture_assert_status(f, 0, 3, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
    }
    assert_int_equal(sim_counters(&f->world, 1)->paths_narrowed, 1);
    send_to_both(f, data);
    assert_in_range(f->hit_bytes, 5000, JUMBO_MTU_BYTES);
    assert_int_equal(sim_counters(&f->world, 0)->paths_narrowed, 0);
    fixture_close(f);
    free(remote);
    free(local);
}

/* ICMP names the port. */
static void two_peers__one_closed__the_other_is_there(void **state)
{
    (void)state;
    static uint8_t data[5000];
    struct fixture *f = open_two_on_one_host();
    send_to_both(f, data);
    sim_node_close(&f->world.nodes[1]);
    f->wc_count = 0;
    for (unsigned to = 1; to <= 2; to++)
        assert_int_equal(fixture_post(f, 0, to, to, IBV_WR_SEND, 0, data, 5000, NULL), 0);
    fixture_run(f, TIMEOUT_NS / 2);
    fixture_assert_status(f, 0, 2, IBV_WC_SEND, IBV_WC_SUCCESS);
    fixture_assert_status(f, 0, 1, IBV_WC_SEND, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(fixture_find(f, 0, 0, DIWARP_WC_PEER_GONE)->wc.vendor_err,
                     DIWARP_GONE_UNREACHABLE);
    fixture_close(f);
}

/* Shorter than what every path takes, or longer than this one: not believed. */
static void narrow_path__absurd_mtu__not_believed(void **state)
{
    (void)state;
    static const uint32_t mtus[] = {68, 0xffffffffu};
    for (unsigned i = 0; i < TRANSFERS * 2; i++) {
        struct transfer t = transfer_begin(TIMEOUT_NS);
        t.f->world.net.path_mtu_bytes = JUMBO_MTU_BYTES - 8;
        t.f->world.net.claimed_mtu_bytes = mtus[i % 2];
        transfer_post(&t, transfers[i / 2].opcode);
        fixture_run(t.f, SECOND);
        fixture_assert_status(t.f, 0, 2, transfers[i / 2].completion, IBV_WC_SUCCESS);
        const struct diwarp_counters *counters = sim_counters(&t.f->world, transfers[i / 2].source);
        assert_int_equal(counters->paths_narrowed, 0);
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
        cmocka_unit_test(black_hole__of_a_send__gone_after_the_timeout),
        cmocka_unit_test(black_hole__of_a_send_for_a_while__all_arrives),
        cmocka_unit_test(black_hole__records_go_on__and_it_ends),
        cmocka_unit_test(narrow_path__told__datagrams_fit),
        cmocka_unit_test(narrow_path__told_for_a_while__wide_after_ten_minutes),
        cmocka_unit_test(wide_path__said_to_be_narrow__wide_at_once),
        cmocka_unit_test(two_peers__told_of_one__both_fit_and_recover),
        cmocka_unit_test(two_peers__one_sends_short_records__sent_to_as_before),
        cmocka_unit_test(two_peers__one_closed__the_other_is_there),
        cmocka_unit_test(narrow_path__absurd_mtu__not_believed),
        cmocka_unit_test(wide_path__refused_for_long__is_there),
        cmocka_unit_test(wide_path__lossy_and_slow__is_there),
        cmocka_unit_test(wide_path__drops_most_of_what_is_large__is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
