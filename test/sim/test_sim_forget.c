/* SPDX-License-Identifier: BSD-3-Clause */
/* Strangers that a node met and forgot: it does not grow with them, and they lose nothing by it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

/* Node 1 has the address of node 0, the server, which has that of nobody. */
static struct fixture *open_server(uint32_t first_serial)
{
    struct fixture *f = fixture_new();
    f->config.strangers = true;
    f->config.forget_ns = SECOND;
    f->config.first_serial = first_serial;
    f->config.device.peer_timeout_ns = 20 * SECOND;
    fixture_open(f);
    return f;
}

static uint64_t known(const struct fixture *f)
{
    struct diwarp_memory memory;
    diwarp_query_memory(f->world.nodes[0].cq, f->world.nodes[0].pd, &memory);
    return memory.addresses;
}

static uint64_t resets(const struct fixture *f, unsigned node)
{
    return sim_counters(&f->world, node)->tx_resets;
}

static void send_one(struct fixture *f, unsigned from, uint64_t wr_id)
{
    uint8_t data[100] = {(uint8_t)wr_id};
    assert_int_equal(
        fixture_post(f, from, 1 - from, wr_id, IBV_WR_SEND_WITH_IMM, 0, data, sizeof data, NULL),
        0);
}

/* Until there is nobody left to be forgotten. */
static void run_until_forgotten(struct fixture *f)
{
    fixture_run(f, 60 * SECOND);
    assert_int_equal(known(f), 0);
    assert_int_equal(fixture_count(f, 0, DIWARP_WC_PEER_GONE), 0);
    assert_int_equal(fixture_count(f, 1, DIWARP_WC_PEER_GONE), 0);
}

/* Each has a name of its own, says one thing and is gone without a word. */
static void server__meets_many__remembers_few(void **state)
{
    (void)state;
    enum { CLIENTS = 1000 };
    struct fixture *f = open_server(0);
    uint64_t most = 0;
    for (unsigned i = 1; i <= CLIENTS; i++) {
        sim_node_close(&f->world.nodes[1]);
        f->world.config.job = 100 + i;
        sim_node_open(&f->world, 1);
        sim_node_connect(&f->world.nodes[1], &f->world.nodes[0]);
        send_one(f, 1, i);
        sim_world_run_for(&f->world, SECOND);
        if (f->world.failed)
            fail_msg("%s", f->world.failure);
        assert_int_equal(fixture_count(f, 0, IBV_WC_RECV), 1);
        f->wc_count = 0;
        most = known(f) > most ? known(f) : most;
    }
    assert_in_range(most, 1, 50);
    run_until_forgotten(f);
    /* Those before were asked at the port of the last: dropped there for their tokens. */
    sim_world_fini(&f->world);
    free(f);
}

/* What is sent to one that has forgotten arrives, once, as if it had not. */
static void peer__forgotten__goes_on(void **state)
{
    (void)state;
    static const uint32_t first_serials[] = {0, UINT32_MAX - 1};
    for (unsigned i = 0; i < sizeof first_serials / sizeof *first_serials; i++) {
        struct fixture *f = open_server(first_serials[i]);
        uint8_t *local = fixture_payload(1, 100000), *remote = fixture_payload(2, 100000);
        uint64_t original = 0, *word = (uint64_t *)(void *)remote;
        *word = 0;
        struct diwarp_mr *mr = fixture_reg(f, 0, remote, 100000);
        for (uint64_t id = 1; id <= 5; id++) {
            send_one(f, 1, id);
            send_one(f, 1, 10 + id);
            assert_int_equal(fixture_post(f, 1, 0, id, IBV_WR_RDMA_READ, 0, local, 100000, mr), 0);
            assert_int_equal(fixture_post(f, 1, 0, id, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &original,
                                          sizeof original, mr),
                             0);
            run_until_forgotten(f);
            assert_int_equal(fixture_count(f, 0, IBV_WC_RECV), 2 * id);
            assert_int_equal(*word, id);
            assert_true(resets(f, 0) >= id - 1);
            fixture_assert_status(f, 1, id, IBV_WC_SEND, IBV_WC_SUCCESS);
            fixture_assert_status(f, 1, id, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
            fixture_assert_status(f, 1, id, IBV_WC_FETCH_ADD, IBV_WC_SUCCESS);
        }
        fixture_close(f);
        free(local);
        free(remote);
    }
}

/* What the application has given back is a stranger like others, and may be given again. */
static void given__destroyed__forgotten(void **state)
{
    (void)state;
    struct fixture *f = open_server(0);
    struct sim_node *server = &f->world.nodes[0];
    for (uint64_t id = 1; id <= 6; id += 2) {
        send_one(f, 1, id);
        sim_world_run_for(&f->world, SECOND);
        sim_node_connect(server, &f->world.nodes[1]);
        send_one(f, 0, id + 1);
        sim_world_run_for(&f->world, 60 * SECOND);
        assert_int_equal(known(f), 1);
        diwarp_destroy_ah(server->ahs[1]);
        server->ahs[1] = NULL;
        run_until_forgotten(f);
        assert_int_equal(fixture_count(f, 0, IBV_WC_RECV), (id + 1) / 2);
        assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), (id + 1) / 2);
    }
    fixture_close(f);
}

/* The one that has forgotten begins; both do at the same time. */
static void server__forgot__begins(void **state)
{
    (void)state;
    for (unsigned both = 0; both < 2; both++) {
        struct fixture *f = open_server(0);
        send_one(f, 1, 1);
        run_until_forgotten(f);
        sim_node_connect(&f->world.nodes[0], &f->world.nodes[1]);
        send_one(f, 0, 2);
        if (both)
            send_one(f, 1, 3);
        fixture_run(f, 60 * SECOND);
        assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 1);
        fixture_assert_status(f, 0, 2, IBV_WC_SEND, IBV_WC_SUCCESS);
        send_one(f, 0, 4);
        send_one(f, 1, 5);
        fixture_run(f, 60 * SECOND);
        assert_int_equal(fixture_count(f, 0, IBV_WC_RECV), 2 + both);
        assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 2);
        fixture_assert_status(f, 1, 5, IBV_WC_SEND, IBV_WC_SUCCESS);
        assert_int_equal(fixture_count(f, 1, DIWARP_WC_PEER_GONE), 0);
        fixture_close(f);
    }
}

static enum sim_verdict drop_of_server(void *world, const struct sim_endpoint *from,
                                       const uint8_t *buf, uint32_t bytes)
{
    (void)world;
    return fixture_parse(from, buf, bytes).from ? SIM_PASS : SIM_DROP;
}

/* It does not know that its message has arrived, and computes for long: it is not forgotten before
 * it does, for it would send it again. */
static void peer__unconfirmed__not_forgotten(void **state)
{
    (void)state;
    struct fixture *f = open_server(0);
    f->world.net.filter = drop_of_server;
    send_one(f, 1, 1);
    sim_world_run_for(&f->world, MS / 10);
    assert_int_equal(fixture_count(f, 0, IBV_WC_RECV), 1);
    f->world.nodes[1].paused_until_ns = f->world.net.now_ns + 10 * SECOND;
    sim_world_run_for(&f->world, 9 * SECOND);
    f->world.net.filter = NULL;
    assert_int_equal(known(f), 1);
    run_until_forgotten(f);
    fixture_assert_status(f, 1, 1, IBV_WC_SEND, IBV_WC_SUCCESS);
    assert_int_equal(fixture_count(f, 0, IBV_WC_RECV), 1);
    assert_int_equal(resets(f, 0), 0);
    fixture_close(f);
}

/* First answers of one that forgot are lost. */
static enum sim_verdict drop_resets(void *world, const struct sim_endpoint *from,
                                    const uint8_t *buf, uint32_t bytes)
{
    struct dw_llp_header header;
    (void)from;
    assert_int_equal(dw_llp_header_get(&header, buf, bytes), 0);
    const bool one = header.type == DW_LLP_RESET || header.type == DW_LLP_PROOF;
    return one && fixture_of(world)->hits++ < 5 ? SIM_DROP : SIM_PASS;
}

static void peer__forgotten__resets_lost(void **state)
{
    (void)state;
    struct fixture *f = open_server(0);
    send_one(f, 1, 1);
    run_until_forgotten(f);
    f->world.net.filter = drop_resets;
    for (uint64_t id = 2; id < 100; id++)
        send_one(f, 1, id);
    run_until_forgotten(f);
    assert_true(f->hits > 5);
    assert_int_equal(fixture_count(f, 0, IBV_WC_RECV), 99);
    fixture_close(f);
}

/* Its socket has room for one datagram, and the link is slow: what waits for room must not keep the
 * proof from leaving. */
static void peer__forgotten__socket_full(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t *local = fixture_payload(1, 100000);
    f->config.strangers = true;
    f->config.forget_ns = SECOND;
    f->config.device.peer_timeout_ns = 20 * SECOND;
    f->config.device.sndbuf_bytes = 16384;
    f->config.device.send_window_datagrams = 2;
    f->config.mtu_bytes = 65536;
    f->config.impairment.bytes_per_ns = 0.125;
    fixture_open(f);
    send_one(f, 1, 1);
    run_until_forgotten(f);
    for (uint64_t id = 2; id < 6; id++)
        assert_int_equal(fixture_post(f, 1, 0, id, IBV_WR_SEND_WITH_IMM, 0, local, 60000, NULL), 0);
    run_until_forgotten(f);
    assert_int_equal(fixture_count(f, 0, IBV_WC_RECV), 5);
    assert_in_range(resets(f, 0), 1, 100);
    fixture_close(f);
    free(local);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(server__meets_many__remembers_few),
        cmocka_unit_test(peer__forgotten__goes_on),
        cmocka_unit_test(given__destroyed__forgotten),
        cmocka_unit_test(server__forgot__begins),
        cmocka_unit_test(peer__unconfirmed__not_forgotten),
        cmocka_unit_test(peer__forgotten__resets_lost),
        cmocka_unit_test(peer__forgotten__socket_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
