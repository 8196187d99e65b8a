/* SPDX-License-Identifier: BSD-3-Clause */
/* RD queue pairs that take as many Sends as they have been told of; and processes that are known
 * without their incarnation. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

enum { SENDS = 200, BYTES = 1000 };

static void post_all(struct fixture *f, uint8_t *local)
{
    for (uint64_t i = 0; i < SENDS; i++)
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_SEND_WITH_IMM, 0, local, BYTES, NULL), 0);
}

/* Each once, though its sender has tried it often. */
static void assert_each_once(const struct fixture *f)
{
    unsigned times[SENDS] = {0};
    for (unsigned i = 0; i < f->wc_count; i++)
        if (f->wc_node[i] == 1 && f->wcs[i].wc.opcode == IBV_WC_RECV)
            times[f->wcs[i].wc.imm_data]++;
    for (unsigned i = 0; i < SENDS; i++) {
        assert_int_equal(times[i], 1);
        fixture_assert_status(f, 0, i, IBV_WC_SEND, IBV_WC_SUCCESS);
    }
}

static struct fixture *open_counted(uint64_t seed)
{
    struct fixture *f = fixture_new();
    uint64_t random = seed;
    sim_config_init(&f->config, seed);
    sim_impairment_draw(&f->config.impairment, &random);
    fixture_open(f);
    diwarp_add_recv_room(f->world.nodes[1].qp, 0);
    return f;
}

static void recv_room__none__senders_wait(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint8_t *local = fixture_payload(1, BYTES);
        struct fixture *f = open_counted(seed);
        post_all(f, local);
        sim_world_run_for(&f->world, 3 * SECOND);
        assert_int_equal(f->wc_count, 0);
        /* A datagram is tried now and then, and not all that waits behind it. */
        assert_true(sim_counters(&f->world, 1)->drop_no_buffer > 0);
        assert_true(sim_counters(&f->world, 0)->tx_resent_datagrams < SENDS);
        diwarp_add_recv_room(f->world.nodes[1].qp, SENDS);
        fixture_run(f, 60 * SECOND);
        assert_each_once(f);
        fixture_close(f);
        free(local);
    }
}

/* No more come than with the datagram that brings the last there is room for. */
static void recv_room__by_and_by__taken_by_and_by(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint8_t *local = fixture_payload(1, BYTES);
        struct fixture *f = open_counted(seed);
        struct diwarp_qp *qp = f->world.nodes[1].qp;
        post_all(f, local);
        for (unsigned room = 0; room < SENDS; room += 8) {
            diwarp_add_recv_room(qp, 8);
            sim_world_run_for(&f->world, 200 * MS);
            const unsigned taken = fixture_count(f, 1, IBV_WC_RECV);
            assert_true(taken <= room + 8 + 64 * 1024 / BYTES);
        }
        fixture_run(f, 60 * SECOND);
        assert_each_once(f);
        fixture_close(f);
        free(local);
    }
}

/* All that node 0 posted was refused. */
static struct fixture *open_refused(void)
{
    static uint8_t local[BYTES];
    struct fixture *f = fixture_new();
    fixture_open(f);
    diwarp_add_recv_room(f->world.nodes[1].qp, 0);
    post_all(f, local);
    sim_world_run_for(&f->world, SECOND);
    return f;
}

/* What was refused is tried by one at first, not by all that wait. */
static void recv_room__one_by_one__few_are_refused_again(void **state)
{
    (void)state;
    struct fixture *f = open_refused();
    const uint64_t resent = sim_counters(&f->world, 0)->tx_resent_datagrams;
    const uint64_t refused = sim_counters(&f->world, 1)->drop_no_buffer;
    for (unsigned i = 1; i <= SENDS; i++) {
        diwarp_add_recv_room(f->world.nodes[1].qp, 1);
        sim_world_run_for(&f->world, 5 * MS);
        assert_in_range(fixture_count(f, 1, IBV_WC_RECV), i, i + 64 * 1024 / BYTES);
    }
    fixture_run(f, 60 * SECOND);
    assert_each_once(f);
    assert_true(sim_counters(&f->world, 0)->tx_resent_datagrams - resent <= 4 * SENDS);
    assert_true(sim_counters(&f->world, 1)->drop_no_buffer - refused <= 4 * SENDS);
    fixture_close(f);
}

static void recv_room__told_while_the_socket_is_full__senders_go_on(void **state)
{
    (void)state;
    struct fixture *f = open_refused();
    f->world.net.full_host = 2; /* node 1 */
    diwarp_add_recv_room(f->world.nodes[1].qp, SENDS);
    sim_world_run_for(&f->world, 20 * MS);
    f->world.net.full_host = 0;
    fixture_run(f, 60 * SECOND);
    assert_each_once(f);
    fixture_close(f);
}

/* A write behind a Send that nobody takes waits with it; with nothing refused it goes. */
static void recv_room__none__writes_wait_with_sends(void **state)
{
    (void)state;
    for (unsigned refused = 0; refused < 2; refused++) {
        uint8_t *local = fixture_payload(1, BYTES), remote[BYTES];
        struct fixture *f = fixture_new();
        fixture_open(f);
        struct diwarp_qp *qp = f->world.nodes[1].qp;
        struct diwarp_mr *mr = fixture_reg(f, 1, remote, BYTES);
        diwarp_add_recv_room(qp, 0);
        for (uint64_t i = 0; refused && i < 8; i++) {
            assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_SEND, 0, local, BYTES, NULL), 0);
            sim_world_run_for(&f->world, 10 * MS);
        }
        assert_int_equal(fixture_post(f, 0, 1, 9, IBV_WR_RDMA_WRITE, 0, local, BYTES, mr), 0);
        sim_world_run_for(&f->world, 3 * SECOND);
        assert_int_equal(f->wc_count, refused ? 0 : 1);
        diwarp_add_recv_room(qp, 8);
        fixture_run(f, 60 * SECOND);
        fixture_assert_status(f, 0, 9, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
        assert_memory_equal(remote, local, BYTES);
        assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), refused ? 8 : 0);
        fixture_close(f);
        free(local);
    }
}

static struct diwarp_qp *another_qp(const struct sim_node *node)
{
    struct diwarp_qp_attr attr;
    struct diwarp_qp *qp;
    diwarp_qp_attr_init(&attr);
    attr.cq = node->cq;
    assert_int_equal(diwarp_create_qp(node->pd, &attr, &qp, NULL), 0);
    return qp;
}

/* Of those that were refused as many are told as there is room for, in turn. */
static void recv_room__of_one_at_a_time__tells_few(void **state)
{
    enum { SENDERS = 15, EACH = 8 };
    (void)state;
    uint8_t *local = fixture_payload(1, BYTES);
    struct fixture *f = fixture_new();
    f->config.node_count = 1 + SENDERS;
    fixture_open(f);
    struct diwarp_qp *qp = f->world.nodes[0].qp, *other = another_qp(&f->world.nodes[0]);
    diwarp_add_recv_room(qp, 0);
    for (unsigned from = 1; from <= SENDERS; from++)
        for (uint64_t i = 0; i < EACH; i++)
            assert_int_equal(fixture_post(f, from, 0, i, IBV_WR_SEND, 0, local, BYTES, NULL), 0);
    sim_world_run_for(&f->world, 3 * SECOND);
    const uint64_t acks = sim_counters(&f->world, 0)->tx_acks;
    for (unsigned i = 1; i <= SENDERS * EACH; i++) {
        diwarp_add_recv_room(qp, 1);
        sim_world_run_for(&f->world, 5 * MS);
        assert_int_equal(fixture_count(f, 0, IBV_WC_RECV), i);
    }
    assert_true(sim_counters(&f->world, 0)->tx_acks - acks <= 10 * SENDERS * EACH);
    fixture_run(f, 60 * SECOND);
    assert_int_equal(fixture_count(f, 0, IBV_WC_RECV), SENDERS * EACH);
    diwarp_destroy_qp(other);
    fixture_close(f);
    free(local);
}

/* A peer that is told of room and is gone leaves it to the next that asks, also when another queue
 * pair begins to count then. */
static void first_peer_is_gone(bool another_counts)
{
    enum { SENDERS = 4 };
    uint8_t *local = fixture_payload(1, BYTES);
    struct fixture *f = fixture_new();
    f->config.node_count = 1 + SENDERS;
    fixture_open(f);
    struct diwarp_qp *qp = f->world.nodes[0].qp;
    diwarp_add_recv_room(qp, 0);
    for (unsigned from = 1; from <= SENDERS; from++)
        assert_int_equal(fixture_post(f, from, 0, 1, IBV_WR_SEND, 0, local, BYTES, NULL), 0);
    sim_world_run_for(&f->world, 3 * SECOND);
    sim_node_close(&f->world.nodes[1]);
    struct diwarp_qp *other = another_qp(&f->world.nodes[0]);
    for (unsigned i = 1; i < SENDERS; i++) {
        diwarp_add_recv_room(qp, 1);
        if (another_counts && i == 1)
            diwarp_add_recv_room(other, 0);
        sim_world_run_for(&f->world, SECOND);
        assert_int_equal(fixture_count(f, 0, IBV_WC_RECV), i);
    }
    diwarp_destroy_qp(other);
    fixture_close(f);
    free(local);
}

static void recv_room__first_peer_is_gone__another_takes_it(void **state)
{
    (void)state;
    first_peer_is_gone(false);
    first_peer_is_gone(true);
}

/* Who was refused by a queue pair that goes is not kept back from another. */
static void recv_room__queue_pair_goes__others_are_free(void **state)
{
    (void)state;
    uint8_t *local = fixture_payload(1, BYTES);
    struct fixture *f = fixture_new();
    fixture_open(f);
    struct sim_node *node = &f->world.nodes[1];
    struct diwarp_qp *first = node->qp;
    struct diwarp_address address;
    diwarp_add_recv_room(first, 0);
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_SEND, 0, local, BYTES, NULL), 0);
    sim_world_run_for(&f->world, 100 * MS);
    node->qp = another_qp(node);
    diwarp_query_address(node->qp, &address);
    diwarp_destroy_ah(f->world.nodes[0].ahs[1]);
    assert_int_equal(diwarp_create_ah(f->world.nodes[0].qp, &address, &f->world.nodes[0].ahs[1]),
                     0);
    assert_int_equal(fixture_post(f, 0, 1, 2, IBV_WR_SEND, 0, local, BYTES, NULL), 0);
    diwarp_destroy_qp(first);
    fixture_run(f, 10 * SECOND);
    fixture_assert_status(f, 0, 2, IBV_WC_SEND, IBV_WC_SUCCESS);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 1);
    fixture_close(f);
    free(local);
}

/* What a peer sends to another queue pair is refused, too, and may be what the application waits
 * for before it makes room in the first. */
static void recv_room__of_two_queue_pairs__in_any_order(void **state)
{
    (void)state;
    for (unsigned first = 0; first < 4; first++) {
        uint8_t *local = fixture_payload(1, BYTES);
        struct fixture *f = fixture_new();
        fixture_open(f);
        struct sim_node *node = &f->world.nodes[1];
        struct diwarp_qp *qps[2] = {node->qp, another_qp(node)};
        struct diwarp_address address;
        for (unsigned i = 0; i < 2; i++)
            diwarp_add_recv_room(qps[i], 0);
        for (unsigned i = 0; i < 2; i++) {
            struct diwarp_ah **ah = &f->world.nodes[0].ahs[1];
            diwarp_destroy_ah(*ah);
            diwarp_query_address(qps[i ^ (first & 1)], &address);
            assert_int_equal(diwarp_create_ah(f->world.nodes[0].qp, &address, ah), 0);
            assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_SEND, 0, local, BYTES, NULL), 0);
            sim_world_run_for(&f->world, 100 * MS);
        }
        for (unsigned i = 0; i < 2; i++) {
            diwarp_add_recv_room(qps[i ^ (first >> 1)], 1);
            sim_world_run_for(&f->world, 100 * MS);
            assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), i + 1);
        }
        fixture_run(f, 60 * SECOND);
        fixture_assert_status(f, 0, 1, IBV_WC_SEND, IBV_WC_SUCCESS);
        diwarp_destroy_qp(qps[1]);
        fixture_close(f);
        free(local);
    }
}

/* ---- incarnations ---- */

static void forget_incarnation(struct fixture *f, unsigned from, unsigned to)
{
    struct sim_node *node = &f->world.nodes[from];
    struct diwarp_address address;
    diwarp_query_address(f->world.nodes[to].qp, &address);
    address.incarnation = 0;
    if (node->ahs[to])
        diwarp_destroy_ah(node->ahs[to]);
    assert_int_equal(diwarp_create_ah(node->qp, &address, &node->ahs[to]), 0);
}

static void incarnation__not_told__first_datagram_tells(void **state)
{
    (void)state;
    uint8_t *local = fixture_payload(1, BYTES);
    struct fixture *f = fixture_new();
    fixture_open(f);
    forget_incarnation(f, 0, 1);
    forget_incarnation(f, 1, 0);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(fixture_post(f, i & 1, !(i & 1), i, IBV_WR_SEND, 0, local, BYTES, NULL),
                         0);
        fixture_run(f, 10 * SECOND);
        fixture_assert_status(f, i & 1, i, IBV_WC_SEND, IBV_WC_SUCCESS);
    }
    assert_int_equal(sim_counters(&f->world, 0)->drop_source, 0);
    /* Another handle changes nothing of what is known. */
    struct diwarp_ah *first = f->world.nodes[0].ahs[1];
    f->world.nodes[0].ahs[1] = NULL;
    forget_incarnation(f, 0, 1);
    assert_int_equal(fixture_post(f, 0, 1, 20, IBV_WR_SEND, 0, local, BYTES, NULL), 0);
    fixture_run(f, 10 * SECOND);
    fixture_assert_status(f, 0, 20, IBV_WC_SEND, IBV_WC_SUCCESS);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 0);
    diwarp_destroy_ah(first);
    fixture_close(f);
    free(local);
}

/* The next process of that name is another one, which is found by the old handle, too. */
static void incarnation__not_told__restarted_peer_is_known_anew(void **state)
{
    (void)state;
    uint8_t *local = fixture_payload(1, BYTES);
    struct fixture *f = fixture_new();
    fixture_open(f);
    forget_incarnation(f, 0, 1);
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_SEND, 0, local, BYTES, NULL), 0);
    fixture_run(f, 10 * SECOND);
    fixture_assert_status(f, 0, 1, IBV_WC_SEND, IBV_WC_SUCCESS);
    sim_node_close(&f->world.nodes[1]);
    sim_node_open(&f->world, 1);
    forget_incarnation(f, 1, 0);
    assert_int_equal(fixture_post(f, 1, 0, 2, IBV_WR_SEND, 0, local, BYTES, NULL), 0);
    fixture_run(f, 10 * SECOND);
    fixture_assert_status(f, 1, 2, IBV_WC_SEND, IBV_WC_SUCCESS);
    forget_incarnation(f, 0, 1);
    assert_int_equal(fixture_post(f, 0, 1, 3, IBV_WR_SEND, 0, local, BYTES, NULL), 0);
    fixture_run(f, 10 * SECOND);
    fixture_assert_status(f, 0, 3, IBV_WC_SEND, IBV_WC_SUCCESS);
    fixture_close(f);
    free(local);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recv_room__none__senders_wait),
        cmocka_unit_test(recv_room__by_and_by__taken_by_and_by),
        cmocka_unit_test(recv_room__one_by_one__few_are_refused_again),
        cmocka_unit_test(recv_room__told_while_the_socket_is_full__senders_go_on),
        cmocka_unit_test(recv_room__none__writes_wait_with_sends),
        cmocka_unit_test(recv_room__of_one_at_a_time__tells_few),
        cmocka_unit_test(recv_room__first_peer_is_gone__another_takes_it),
        cmocka_unit_test(recv_room__queue_pair_goes__others_are_free),
        cmocka_unit_test(recv_room__of_two_queue_pairs__in_any_order),
        cmocka_unit_test(incarnation__not_told__first_datagram_tells),
        cmocka_unit_test(incarnation__not_told__restarted_peer_is_known_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
