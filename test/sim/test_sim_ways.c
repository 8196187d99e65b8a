/* SPDX-License-Identifier: BSD-3-Clause */
/* Several pairs of interfaces lead to a peer, and some lead nowhere: from the beginning, later, or
 * in one direction only. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/rd/rd.h"
#include "test/sim/sim_fixture.h"

#define FIRST     1u /* of cut_networks: the one that both ends choose */
#define ALL_BUT_2 3u
#define BYTES     300000u

static struct fixture *open_networks(unsigned networks)
{
    struct fixture *f = fixture_new();
    f->config.networks = networks;
    f->config.device.peer_timeout_ns = 60 * SECOND;
    fixture_open(f);
    return f;
}

static void post(struct fixture *f, unsigned node, uint64_t wr_id)
{
    static uint8_t data;
    assert_int_equal(fixture_post(f, node, 1 - node, wr_id, IBV_WR_SEND, 0, &data, 1, NULL), 0);
}

/* A Send each way, both at once, is there within that time. */
static void both_send(struct fixture *f, uint64_t within_ns)
{
    const uint64_t begin_ns = f->world.net.now_ns;
    f->wc_count = 0;
    post(f, 0, 1);
    post(f, 1, 1);
    while ((fixture_count(f, 0, IBV_WC_SEND) == 0 || fixture_count(f, 1, IBV_WC_SEND) == 0) &&
           f->world.net.now_ns - begin_ns < within_ns)
        sim_world_run_for(&f->world, MS);
    for (unsigned node = 0; node < 2; node++)
        fixture_assert_status(f, node, 1, IBV_WC_SEND, IBV_WC_SUCCESS);
    fixture_run(f, SECOND);
}

static unsigned way_of(const struct fixture *f, unsigned node)
{
    return f->world.nodes[node].ahs[1 - node]->ways->current;
}

static void first_choice_leads_nowhere__another_is_found(void **state)
{
    (void)state;
    for (unsigned networks = 2; networks <= SIM_MAX_NETWORKS; networks++) {
        struct fixture *f = open_networks(networks);
        f->world.net.cut_networks = networks == 2 ? FIRST : ALL_BUT_2;
        both_send(f, 500 * MS);
        assert_int_equal(way_of(f, 0), networks - 1);
        assert_int_equal(way_of(f, 1), networks - 1);
        both_send(f, MS); /* and kept */
        fixture_close(f);
    }
}

/* Only one has something to send; the other's acknowledgements take the way of what they
 * acknowledge. */
static void first_choice_leads_nowhere__one_sends(void **state)
{
    (void)state;
    for (unsigned node = 0; node < 2; node++) {
        struct fixture *f = open_networks(2);
        f->world.net.cut_networks = FIRST;
        post(f, node, 1);
        fixture_run(f, SECOND);
        fixture_assert_status(f, node, 1, IBV_WC_SEND, IBV_WC_SUCCESS);
        assert_int_equal(way_of(f, 1 - node), 1);
        fixture_close(f);
    }
}

static void way_fails_amid_a_transfer__it_goes_on_by_another(void **state)
{
    (void)state;
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
    for (unsigned i = 0; i < 2 * 3; i++) { /* whose datagrams vanish: all, one's */
        struct fixture *f = open_networks(2);
        uint8_t *local = fixture_payload(1, BYTES), *remote = fixture_payload(2, BYTES);
        struct diwarp_mr *mr = fixture_reg(f, 1, remote, BYTES);
        both_send(f, MS);
        const enum ibv_wr_opcode opcode = opcodes[i % 2];
        assert_int_equal(fixture_post(f, 0, 1, 2, opcode, 0, local, BYTES, mr), 0);
        sim_world_run_for(&f->world, 20000);
        f->world.net.cut_networks = FIRST;
        f->world.net.cut_host = (uint8_t)(i / 2);
        fixture_run(f, 5 * SECOND);
        fixture_assert_status(f, 0, 2,
                              opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE,
                              IBV_WC_SUCCESS);
        assert_memory_equal(local, remote, BYTES);
        fixture_close(f);
        free(local);
        free(remote);
    }
}

/* ---- several together ---- */

#define LARGE_BYTES (8u << 20)

static struct fixture *open_alike(unsigned networks, bool one_interface)
{
    struct fixture *f = fixture_new();
    f->config.networks = networks;
    f->config.one_interface = one_interface;
    f->config.alike = true;
    f->config.impairment.bytes_per_ns = 0.03125; /* 250 Mb/s */
    f->config.device.peer_timeout_ns = 60 * SECOND;
    fixture_open(f);
    return f;
}

/* How long a transfer takes; while it lasts some networks are cut, from and until then. */
static uint64_t transfer_ns(struct fixture *f, enum ibv_wr_opcode opcode, uint8_t cut,
                            uint64_t cut_after_ns, uint64_t cut_for_ns)
{
    uint8_t *local = fixture_payload(1, LARGE_BYTES), *remote = fixture_payload(2, LARGE_BYTES);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, LARGE_BYTES);
    const bool read = opcode == IBV_WR_RDMA_READ;
    const uint64_t begin_ns = f->world.net.now_ns;
    f->wc_count = 0;
    assert_int_equal(fixture_post(f, 0, 1, 2, opcode, 0, local, LARGE_BYTES, mr), 0);
    while (!f->wc_count && f->world.net.now_ns - begin_ns < 20 * SECOND) {
        const uint64_t age_ns = f->world.net.now_ns - begin_ns;
        f->world.net.cut_networks =
            age_ns >= cut_after_ns && age_ns < cut_after_ns + cut_for_ns ? cut : 0;
        sim_world_run_for(&f->world, MS);
    }
    const uint64_t took_ns = f->world.net.now_ns - begin_ns;
    fixture_assert_status(f, 0, 2, read ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
    assert_memory_equal(local, remote, LARGE_BYTES);
    f->world.net.cut_networks = 0;
    fixture_run(f, SECOND);
    free(local);
    free(remote);
    return took_ns;
}

static const enum ibv_wr_opcode both[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

static void alike__records_take_all_of_them(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct fixture *one = open_alike(1, false), *four = open_alike(4, false);
        const uint64_t one_ns = transfer_ns(one, both[i], 0, 0, 0);
        (void)transfer_ns(four, both[i], 0, 0, 0); /* that finds them */
        const uint64_t four_ns = transfer_ns(four, both[i], 0, 0, 0);
        assert_true((double)one_ns >= 3.7 * (double)four_ns);
        four->world.net.slow_networks = 4;
        (void)transfer_ns(four, both[i], 0, 0, 0);
        /* 3.25 but for the end, when not all have something left to carry */
        assert_true((double)one_ns >= 2.8 * (double)transfer_ns(four, both[i], 0, 0, 0));
        assert_int_equal(
            sim_counters(&four->world, 0)->ways_left + sim_counters(&four->world, 1)->ways_left, 0);
        fixture_close(one);
        fixture_close(four);
    }
}

static void alike__some_are_cut__left_soon__taken_back(void **state)
{
    (void)state;
    static const uint8_t cuts[] = {1, 2, 4, 8, 7, 14};
    for (unsigned i = 0; i < 2 * sizeof cuts; i++) {
        const uint8_t cut = cuts[i / 2];
        const bool one_is_left = cut == 7 || cut == 14;
        struct fixture *f = open_alike(4, false);
        (void)transfer_ns(f, both[i % 2], 0, 0, 0);
        const uint64_t all_ns = transfer_ns(f, both[i % 2], 0, 0, 0);
        const uint64_t cut_ns = transfer_ns(f, both[i % 2], cut, 20 * MS, SECOND);
        /* One of four: three carry the rest, and 5 ms to miss it. */
        const uint64_t most_ns =
            one_is_left ? 4 * all_ns + 20 * MS : 25 * MS + (all_ns - 20 * MS) * 4 / 3;
        assert_in_range(cut_ns, all_ns, most_ns);
        f->world.net.now_ns += 70 * SECOND; /* at rest nothing else does */
        (void)transfer_ns(f, both[i % 2], 0, 0, 0);
        assert_in_range(transfer_ns(f, both[i % 2], 0, 0, 0), all_ns / 2, all_ns * 11 / 10);
        fixture_close(f);
    }
}

/* What comes by the long one comes later than what was asked for after it. */
static void alike__one_is_longer__none_is_left(void **state)
{
    (void)state;
    static const uint64_t far_ns[] = {MS, 4 * MS};
    for (unsigned i = 0; i < 2 * 2; i++) {
        struct fixture *f = open_alike(4, false);
        f->world.net.far_networks = 2;
        f->world.net.far_ns = far_ns[i / 2];
        for (unsigned n = 0; n < 6; n++)
            (void)transfer_ns(f, both[i % 2], 0, 0, 0);
        assert_int_equal(
            sim_counters(&f->world, 0)->ways_left + sim_counters(&f->world, 1)->ways_left, 0);
        fixture_close(f);
    }
}

/* As through a router that translates addresses: what one of the two sends by a network vanishes.
 */
static void alike__one_carries_one_direction_only__all_comes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * 2 * 2; i++) {
        struct fixture *f = open_alike(2, i / 4);
        const uint64_t alone_ns = SECOND / 3;
        f->world.net.cut_host = (uint8_t)(1 + i / 2 % 2);
        for (unsigned n = 0; n < 3; n++)
            assert_in_range(transfer_ns(f, both[i % 2], FIRST, 0, DW_NEVER), 0, 2 * alone_ns);
        fixture_close(f);
    }
}

static struct fixture *open_ecmp(uint8_t flows, uint8_t flows_of_peer)
{
    struct fixture *f = fixture_new();
    f->config.ecmp = 4;
    f->config.flows[0] = flows;
    f->config.flows[1] = flows_of_peer;
    f->config.impairment.bytes_per_ns = 0.03125;
    f->config.device.peer_timeout_ns = 60 * SECOND;
    fixture_open(f);
    return f;
}

static void ecmp__records_take_all_links(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * 2; i++) {
        const uint8_t flows = i / 2 ? 8 : 4;
        struct fixture *one = open_ecmp(1, 1), *four = open_ecmp(flows, flows);
        const uint64_t one_ns = transfer_ns(one, both[i % 2], 0, 0, 0);
        (void)transfer_ns(four, both[i % 2], 0, 0, 0); /* that finds them */
        assert_true((double)one_ns >= 3.5 * (double)transfer_ns(four, both[i % 2], 0, 0, 0));
        fixture_close(one);
        fixture_close(four);
    }
}

static void ecmp__links_are_cut__left_soon(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * 4; i++) {
        struct fixture *f = open_ecmp(4, 4);
        const uint8_t cut = (uint8_t)(1u << i / 2);
        (void)transfer_ns(f, both[i % 2], 0, 0, 0);
        const uint64_t all_ns = transfer_ns(f, both[i % 2], 0, 0, 0);
        const uint64_t cut_ns = transfer_ns(f, both[i % 2], cut, 20 * MS, SECOND);
        assert_in_range(cut_ns, all_ns, 25 * MS + (all_ns - 20 * MS) * 4 / 3);
        fixture_close(f);
    }
}

/* Those of both are used. */
static void ecmp__one_has_fewer_flows(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * 2; i++) {
        struct fixture *one = open_ecmp(1, 1), *f = i / 2 ? open_ecmp(2, 4) : open_ecmp(8, 2);
        const uint64_t one_ns = transfer_ns(one, both[i % 2], 0, 0, 0);
        (void)transfer_ns(f, both[i % 2], 0, 0, 0);
        const uint64_t two_ns = transfer_ns(f, both[i % 2], 0, 0, 0);
        assert_in_range(two_ns, one_ns * 10 / 21, one_ns * 10 / 18);
        fixture_close(one);
        fixture_close(f);
    }
}

/* What works to one is dead to the other, and so is what both have in common. */
static void ecmp__two_processes_of_a_host__each_has_its_own_flow(void **state)
{
    (void)state;
    static uint8_t data;
    for (uint8_t cut = 1; cut <= 2; cut++) {
        struct fixture *f = fixture_new();
        f->config.node_count = 3;
        f->config.hosts[2] = 2; /* that of node 1 */
        f->config.ecmp = 2;
        f->config.device.flows = 2;
        f->config.device.peer_timeout_ns = 60 * SECOND;
        fixture_open(f);
        f->world.net.cut_networks = cut;
        for (uint64_t id = 1; id <= 20; id++) {
            for (unsigned to = 1; to <= 2; to++)
                assert_int_equal(
                    fixture_post(f, 0, to, 2 * id + to, IBV_WR_SEND, 0, &data, 1, NULL), 0);
            sim_world_run_for(&f->world, id == 1 ? SECOND : 10 * MS);
            for (unsigned to = 1; to <= 2; to++)
                fixture_assert_status(f, 0, 2 * id + to, IBV_WC_SEND, IBV_WC_SUCCESS);
        }
        assert_int_equal(sim_counters(&f->world, 0)->ways_changed, 1);
        f->world.net.cut_networks = 0;
        fixture_run(f, SECOND);
        fixture_close(f);
    }
}

static void alike__losses__all_comes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct fixture *f = open_alike(4, false);
        f->world.net.impairment.loss_permille = 20;
        f->world.net.impairment.reorder_permille = 20;
        f->world.net.impairment.reorder_ns = 200000;
        for (unsigned n = 0; n < 3; n++)
            (void)transfer_ns(f, both[i], 0, 0, 0);
        fixture_close(f);
    }
}

/* It is the peer that does not answer: what it reads first came by the way that works. */
static void peer_computes__the_way_stays(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct fixture *f = open_networks(SIM_MAX_NETWORKS);
        if (i)
            both_send(f, MS);
        f->world.nodes[1].paused_until_ns = f->world.net.now_ns + 5 * SECOND;
        post(f, 0, 2);
        fixture_run(f, 10 * SECOND);
        fixture_assert_status(f, 0, 2, IBV_WC_SEND, IBV_WC_SUCCESS);
        assert_int_equal(way_of(f, 0), 0);
        assert_int_equal(way_of(f, 1), 0);
        fixture_close(f);
    }
}

/* Neither is what is lost now and then. */
static void losses__the_way_stays(void **state)
{
    (void)state;
    struct fixture *f = open_networks(2);
    both_send(f, MS);
    f->world.net.impairment.loss_permille = 100;
    for (unsigned i = 0; i < 200; i++)
        both_send(f, SECOND);
    assert_true(sim_counters(&f->world, 0)->ways_changed <= 2);
    f->world.net.impairment.loss_permille = 0;
    fixture_close(f);
}

/* ---- none leads there ---- */

static void no_way__warned_once__goes_on_later(void **state)
{
    (void)state;
    struct fixture *f = open_networks(2);
    f->world.net.cut_networks = 3;
    post(f, 0, 1);
    sim_world_run_for(&f->world, 1400 * MS);
    assert_int_equal(f->wc_count, 0);
    sim_world_run_for(&f->world, 500 * MS);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_SILENT), 1);
    assert_int_equal(f->wcs[0].wc.vendor_err, DIWARP_GONE_SILENT);
    assert_int_equal(f->wcs[0].src.rank, 1);
    char text[128];
    const struct diwarp_name nobody = {.rank = 99}, peer = f->wcs[0].src;
    struct diwarp_qp *qp = f->world.nodes[0].qp;
    assert_int_equal(diwarp_explain_peer(qp, peer, text, sizeof text), 0);
    assert_string_equal(text, "10.0.0.1 to 10.0.0.2:40000, 10.0.1.1 to 10.0.1.2:40000");
    assert_int_equal(diwarp_explain_peer(qp, peer, text, 10), 0);
    assert_string_equal(text, "10.0.0.1 ");
    assert_int_equal(diwarp_explain_peer(qp, nobody, text, sizeof text), -ENOENT);
    sim_world_run_for(&f->world, 5 * SECOND);
    f->world.net.cut_networks = 0;
    fixture_run(f, SECOND);
    fixture_assert_status(f, 0, 1, IBV_WC_SEND, IBV_WC_SUCCESS);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_SILENT), 1);
    fixture_close(f);
}

static void peer_heard_before__no_warning(void **state)
{
    (void)state;
    struct fixture *f = open_networks(1);
    both_send(f, MS);
    f->world.net.cut_networks = FIRST;
    post(f, 0, 2);
    sim_world_run_for(&f->world, 10 * SECOND);
    f->world.net.cut_networks = 0;
    fixture_run(f, SECOND);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_SILENT), 0);
    fixture_close(f);
}

/* A firewall that says so: named in the warning, and the end of the peer as a port that nobody has
 * is. */
static void prohibited__named__gone_soon(void **state)
{
    (void)state;
    struct fixture *f = open_networks(1);
    f->world.net.rejecting = true;
    f->world.net.rejection = DW_LLP_PROHIBITED;
    post(f, 0, 1);
    sim_world_run_for(&f->world, 2 * SECOND);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_SILENT), 1);
    assert_int_equal(f->wcs[0].wc.vendor_err, DIWARP_GONE_PROHIBITED);
    sim_world_run_for(&f->world, 10 * SECOND);
    assert_int_equal(fixture_find(f, 0, 0, DIWARP_WC_PEER_GONE)->wc.vendor_err,
                     DIWARP_GONE_PROHIBITED);
    fixture_assert_status(f, 0, 1, IBV_WC_SEND, IBV_WC_RETRY_EXC_ERR);
    fixture_close(f);
}

/* Each end prefers another network, and one asks those that it meets to prove themselves. */
static void ordered_differently__one_has_forgotten__they_meet(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * 3; i++) {
        struct fixture *f = open_networks(2);
        struct sim_node *nodes = f->world.nodes;
        dw_ways_change(nodes[0].ahs[1]->ways, 1);
        ((struct dw_rd *)nodes[i % 2].qp->state)->forgot = true;
        for (unsigned node = 0; node < 2; node++)
            if (node == i / 2 || i / 2 == 2)
                post(f, node, 1);
        sim_world_run_for(&f->world, 2 * SECOND);
        for (unsigned node = 0; node < 2; node++)
            if (node == i / 2 || i / 2 == 2)
                fixture_assert_status(f, node, 1, IBV_WC_SEND, IBV_WC_SUCCESS);
        fixture_close(f);
    }
}

/* A server that has forgotten a client, whose first way to it leads nowhere by now. */
static void first_way_fails__client_forgotten__it_proves_itself_by_the_other(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    f->config.networks = 2;
    f->config.strangers = true;
    f->config.forget_ns = SECOND;
    f->config.device.peer_timeout_ns = 20 * SECOND;
    fixture_open(f);
    post(f, 1, 1);
    fixture_run(f, 60 * SECOND);
    f->world.net.cut_networks = FIRST;
    post(f, 1, 2);
    sim_world_run_for(&f->world, 2 * SECOND);
    assert_true(sim_counters(&f->world, 0)->tx_resets > 0);
    fixture_assert_status(f, 1, 2, IBV_WC_SEND, IBV_WC_SUCCESS);
    assert_int_equal(fixture_count(f, 0, IBV_WC_RECV), 2);
    fixture_run(f, 60 * SECOND);
    fixture_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_choice_leads_nowhere__another_is_found),
        cmocka_unit_test(first_choice_leads_nowhere__one_sends),
        cmocka_unit_test(way_fails_amid_a_transfer__it_goes_on_by_another),
        cmocka_unit_test(alike__records_take_all_of_them),
        cmocka_unit_test(alike__some_are_cut__left_soon__taken_back),
        cmocka_unit_test(alike__one_is_longer__none_is_left),
        cmocka_unit_test(alike__one_carries_one_direction_only__all_comes),
        cmocka_unit_test(ecmp__records_take_all_links),
        cmocka_unit_test(ecmp__links_are_cut__left_soon),
        cmocka_unit_test(ecmp__one_has_fewer_flows),
        cmocka_unit_test(ecmp__two_processes_of_a_host__each_has_its_own_flow),
        cmocka_unit_test(alike__losses__all_comes),
        cmocka_unit_test(peer_computes__the_way_stays),
        cmocka_unit_test(losses__the_way_stays),
        cmocka_unit_test(no_way__warned_once__goes_on_later),
        cmocka_unit_test(peer_heard_before__no_warning),
        cmocka_unit_test(prohibited__named__gone_soon),
        cmocka_unit_test(ordered_differently__one_has_forgotten__they_meet),
        cmocka_unit_test(first_way_fails__client_forgotten__it_proves_itself_by_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
