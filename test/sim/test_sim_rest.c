/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers at rest: their state is given back when they are drained, and nothing is forgotten. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

#define REST_NS (20 * MS) /* the default */

static uint64_t active(const struct fixture *f, unsigned node)
{
    return sim_counters(&f->world, node)->peers_active;
}

static void send_one(struct fixture *f, unsigned from, unsigned to, uint64_t wr_id)
{
    uint8_t data[100] = {(uint8_t)wr_id};
    assert_int_equal(
        fixture_post(f, from, to, wr_id, IBV_WR_SEND_WITH_IMM, 0, data, sizeof data, NULL), 0);
}

/* Long enough for all to arrive and be acknowledged, too short to go to rest. */
static void settle(struct fixture *f)
{
    sim_world_run_for(&f->world, 2 * MS);
    assert_false(f->world.failed);
}

static struct fixture *open_awake(void)
{
    struct fixture *f = fixture_new();
    fixture_open(f);
    send_one(f, 0, 1, 1);
    settle(f);
    assert_int_equal(active(f, 0), 1);
    assert_int_equal(active(f, 1), 1);
    return f;
}

static void rest__when_drained_and_idle(void **state)
{
    (void)state;
    struct fixture *f = open_awake();
    const uint64_t heard_ns = sim_peer(&f->world.nodes[0], 1)->records.contact.heard_ns;
    fixture_run(f, SECOND);
    assert_int_equal(active(f, 0), 0);
    assert_int_equal(active(f, 1), 0);
    assert_null(sim_peer(&f->world.nodes[0], 1));
    assert_in_range(f->world.net.now_ns - heard_ns, REST_NS, 2 * REST_NS);
    fixture_close(f);
}

/* Nobody who is spoken with goes to rest, however often it might. */
static void rest__not_between_messages(void **state)
{
    (void)state;
    struct fixture *f = open_awake();
    const struct dw_peer *peer = sim_peer(&f->world.nodes[0], 1);
    for (uint64_t i = 2; i < 200; i++) {
        send_one(f, (unsigned)i % 2, 1 - (unsigned)i % 2, i);
        settle(f);
        assert_ptr_equal(sim_peer(&f->world.nodes[0], 1), peer);
        assert_int_equal(dw_met_of(peer)->rested, 0);
    }
    fixture_run(f, SECOND);
    fixture_close(f);
}

static void rest__goes_on_where_it_was(void **state)
{
    (void)state;
    static const uint32_t first_serials[] = {0, UINT32_MAX - 1};
    for (size_t i = 0; i < sizeof first_serials / sizeof *first_serials; i++) {
        struct fixture *f = fixture_new();
        f->config.first_serial = first_serials[i];
        fixture_open(f);
        for (uint64_t id = 1; id <= 6; id++) {
            unsigned from = id & 1;
            send_one(f, from, 1 - from, id);
            fixture_run(f, SECOND);
            assert_int_equal(active(f, from), 0);
            fixture_assert_status(f, from, id, IBV_WC_SEND, IBV_WC_SUCCESS);
        }
        assert_int_equal(fixture_count(f, 0, IBV_WC_RECV), 3);
        assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 3);
        assert_int_equal(dw_handle_met(sim_handle(&f->world.nodes[0], 1))->next_psn,
                         first_serials[i] + 3);
        assert_int_equal(dw_handle_met(sim_handle(&f->world.nodes[0], 1))->ack,
                         first_serials[i] + 3);
        assert_int_equal(sim_counters(&f->world, 0)->tx_resent_datagrams, 0);
        assert_true(dw_handle_met(sim_handle(&f->world.nodes[0], 1))->credit_kib >
                    64); /* what node 1 told last */
        fixture_close(f);
    }
}

static void rest__at_one_end_only(void **state)
{
    (void)state;
    for (unsigned awake = 0; awake < 2; awake++) {
        struct fixture *f = fixture_new();
        fixture_open(f);
        f->world.nodes[awake].device->env.rest_ns = 3600 * SECOND;
        for (uint64_t id = 1; id <= 6; id++) {
            send_one(f, id & 1, 1 - (id & 1), id);
            sim_world_run_for(&f->world, SECOND);
            assert_int_equal(active(f, awake), 1);
            assert_int_equal(active(f, 1 - awake), 0);
        }
        assert_false(f->world.failed);
        assert_int_equal(fixture_count(f, 0, IBV_WC_RECV), 3);
        assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 3);
        f->world.nodes[awake].device->env.rest_ns = REST_NS;
        fixture_run(f, 10000 * SECOND);
        fixture_close(f);
    }
}

/* ---- what comes late ---- */

static uint8_t kept[2048];
static uint32_t kept_bytes;

/* The first sequenced datagram of node 0. */
static enum sim_verdict keep_first(void *world, const struct sim_endpoint *from, const uint8_t *buf,
                                   uint32_t bytes)
{
    (void)world;
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    if (!kept_bytes && seen.from == 0 && seen.header.type == DW_LLP_DATA) {
        assert_true(bytes <= sizeof kept);
        memcpy(kept, buf, bytes);
        kept_bytes = bytes;
    }
    return SIM_PASS;
}

static void send_kept(struct fixture *f)
{
    struct sim_node *from = &f->world.nodes[0];
    const struct dw_llp_addr to = dw_ah_addr(from->ahs[1]);
    struct iovec iov = {.iov_base = kept, .iov_len = kept_bytes};
    struct dw_llp_train train = {
        .to = &to,
        .iov = &iov,
        .iov_count = 1,
        .total_bytes = kept_bytes,
        .segment_bytes = kept_bytes,
    };
    assert_true(kept_bytes > 0);
    assert_int_equal(
        from->qp->port->datagrams.llp->ops->send(from->qp->port->datagrams.llp, &train), 0);
}

static void rest__a_duplicate_wakes_it_and_is_one(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    kept_bytes = 0;
    fixture_open(f);
    f->world.net.filter = keep_first;
    send_one(f, 0, 1, 1);
    send_one(f, 0, 1, 2);
    fixture_run(f, SECOND);
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(active(f, 1), 0);
        send_kept(f);
        settle(f);
        assert_int_equal(active(f, 1), 1);
        assert_int_equal(sim_counters(&f->world, 1)->rx_dup_datagrams, i);
        fixture_run(f, SECOND);
    }
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 2);
    fixture_close(f);
}

/* A duplicate of an atomic's request must not be executed again, whoever rested in between. */
static void rest__an_atomic_is_executed_once(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint64_t word = 0, original = 7;
    kept_bytes = 0;
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, &word, sizeof word);
    f->world.net.filter = keep_first;
    assert_int_equal(
        fixture_post(f, 0, 1, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &original, sizeof original, mr),
        0);
    fixture_run(f, SECOND);
    send_kept(f);
    fixture_run(f, SECOND);
    assert_int_equal(original, 0);
    assert_int_equal(word, 1);
    fixture_assert_status(f, 0, 1, IBV_WC_FETCH_ADD, IBV_WC_SUCCESS);
    fixture_close(f);
}

static void rest__another_incarnation_takes_its_place(void **state)
{
    (void)state;
    struct fixture *f = open_awake();
    uint8_t data = 0;
    fixture_run(f, SECOND);
    sim_node_close(&f->world.nodes[0]);
    sim_node_open(&f->world, 0);
    sim_node_connect(&f->world.nodes[0], &f->world.nodes[1]);
    unsigned received = fixture_count(f, 1, IBV_WC_RECV);
    assert_int_equal(fixture_post(f, 0, 1, 2, IBV_WR_SEND, 0, &data, 1, NULL), 0);
    sim_world_run_for(&f->world, SECOND);
    assert_true(sim_counters(&f->world, 1)->drop_source > 0);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), received + 1);
    assert_int_equal(fixture_find(f, 1, 0, DIWARP_WC_PEER_GONE)->wc.vendor_err,
                     DIWARP_GONE_RESTARTED);
    fixture_close(f);
}

static void rest__gone_stays_gone(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t data = 0;
    f->config.device.peer_timeout_ns = SECOND;
    fixture_open(f);
    send_one(f, 0, 1, 1);
    fixture_run(f, SECOND);
    sim_node_close(&f->world.nodes[1]);
    send_one(f, 0, 1, 2);
    fixture_run(f, 10 * SECOND);
    fixture_assert_status(f, 0, 2, IBV_WC_SEND, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(active(f, 0), 0);
    assert_int_equal(fixture_post(f, 0, 1, 3, IBV_WR_SEND, 0, &data, 1, NULL), -EHOSTUNREACH);
    fixture_run(f, SECOND);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 1);
    fixture_close(f);
}

/* ---- what keeps it awake ---- */

/* A held record outlasts any silence: the peer waits for its release. */
static void rest__not_with_a_record_held(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    enum { BYTES = 100000 };
    uint8_t *local = fixture_payload(1, BYTES), *remote = fixture_payload(2, BYTES);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, BYTES);
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_RDMA_READ, DIWARP_SEND_HOLD, local, BYTES, mr),
                     0);
    sim_world_run_for(&f->world, SECOND);
    assert_int_equal(active(f, 0), 1);
    assert_int_equal(active(f, 1), 1);
    const struct diwarp_wc *read = fixture_find(f, 0, 1, IBV_WC_RDMA_READ);
    assert_non_null(read);
    assert_int_equal(diwarp_post_release(f->world.nodes[0].qp, read->read_id, "x", 1), 0);
    fixture_run(f, SECOND);
    assert_int_equal(fixture_count(f, 1, DIWARP_WC_RELEASE), 1);
    assert_true(sim_pattern_matches(2, 0, local, BYTES));
    fixture_close(f);
    free(local);
    free(remote);
}

/* Its answer is still to come. */
static void rest__not_while_it_owes(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    fixture_open(f);
    f->world.nodes[1].paused_until_ns = f->world.net.now_ns + SECOND;
    send_one(f, 0, 1, 1);
    sim_world_run_for(&f->world, SECOND / 2);
    assert_int_equal(active(f, 0), 1);
    fixture_run(f, SECOND);
    fixture_assert_status(f, 0, 1, IBV_WC_SEND, IBV_WC_SUCCESS);
    fixture_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rest__when_drained_and_idle),
        cmocka_unit_test(rest__not_between_messages),
        cmocka_unit_test(rest__goes_on_where_it_was),
        cmocka_unit_test(rest__at_one_end_only),
        cmocka_unit_test(rest__a_duplicate_wakes_it_and_is_one),
        cmocka_unit_test(rest__an_atomic_is_executed_once),
        cmocka_unit_test(rest__another_incarnation_takes_its_place),
        cmocka_unit_test(rest__gone_stays_gone),
        cmocka_unit_test(rest__not_with_a_record_held),
        cmocka_unit_test(rest__not_while_it_owes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
