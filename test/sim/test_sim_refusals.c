/* SPDX-License-Identifier: BSD-3-Clause */
/* Accesses that are refused: whose request it was ends with the error, whatever is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

#define RECORD_BYTES (300u << 10)
#define SMALL_BYTES  100u
#define LOST         3

/* Both nodes count their requests from 1: the refusal of one must not end its namesake. */
static void refusal__same_id_as_a_record_of_the_peer(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t *local = fixture_payload(1, RECORD_BYTES), *remote = fixture_payload(2, RECORD_BYTES);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 0, remote, RECORD_BYTES);
    struct diwarp_mr wrong = {.addr = remote, .stag = mr->stag ^ 1};
    assert_int_equal(fixture_post(f, 1, 0, 1, IBV_WR_RDMA_WRITE, 0, local, RECORD_BYTES, mr), 0);
    assert_int_equal(fixture_post(f, 0, 1, 2, IBV_WR_RDMA_WRITE, 0, local, 100, &wrong), 0);
    fixture_run(f, 2 * SECOND);
    fixture_assert_status(f, 1, 1, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
    fixture_assert_status(f, 0, 2, IBV_WC_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR);
    assert_memory_equal(local, remote, RECORD_BYTES);
    fixture_close(f);
    free(local);
    free(remote);
}

static enum sim_verdict lose_aborts(void *world, const struct sim_endpoint *from,
                                    const uint8_t *buf, uint32_t bytes)
{
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    if (seen.control.kind != DW_RECORD_ABORT || fixture_of(world)->hits == LOST)
        return SIM_PASS;
    fixture_of(world)->hits++;
    return SIM_DROP;
}

/* The first ABORT, so that both writes are acknowledged while it is under way; then what would end
 * the one that was placed. */
static enum sim_verdict lose_last_acks(void *world, const struct sim_endpoint *from,
                                       const uint8_t *buf, uint32_t bytes)
{
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    bool refusing = seen.header.flags & DW_LLP_REFUSING;
    bool first_abort = refusing && !fixture_of(world)->hits;
    if (seen.from != 1 || !(first_abort || (!refusing && seen.header.ack)) ||
        fixture_of(world)->hits == LOST)
        return SIM_PASS;
    fixture_of(world)->hits++;
    return SIM_DROP;
}

/* A write that is refused and one that is not, while a filter loses datagrams LOST times. The
 * Send makes the target acknowledge all that has come. */
static void refused_and_placed(bool send_too,
                               enum sim_verdict (*filter)(void *, const struct sim_endpoint *,
                                                          const uint8_t *, uint32_t))
{
    struct fixture *f = fixture_new();
    uint8_t *local = fixture_payload(1, SMALL_BYTES), *remote = fixture_payload(2, SMALL_BYTES);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, SMALL_BYTES);
    struct diwarp_mr wrong = {.addr = remote, .stag = mr->stag ^ 1};
    f->world.net.filter = filter;
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_RDMA_WRITE, 0, local, SMALL_BYTES, &wrong), 0);
    assert_int_equal(fixture_post(f, 0, 1, 2, IBV_WR_RDMA_WRITE, 0, local, SMALL_BYTES, mr), 0);
    sim_world_run_for(&f->world, MS / 10);
    if (send_too)
        assert_int_equal(
            fixture_post(f, 0, 1, 3, IBV_WR_SEND_WITH_IMM, 0, local, SMALL_BYTES, NULL), 0);
    fixture_run(f, 2 * SECOND);
    assert_int_equal(f->hits, LOST);
    fixture_assert_status(f, 0, 1, IBV_WC_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR);
    fixture_assert_status(f, 0, 2, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
    assert_memory_equal(local, remote, SMALL_BYTES);
    fixture_close(f);
    free(local);
    free(remote);
}

/* Small writes have no state at their source but the datagram. */
static void refusal__of_a_small_write__lost(void **state)
{
    (void)state;
    refused_and_placed(true, lose_aborts);
}

/* Nothing is unacknowledged then: the source has to ask, for the sake of what it held back. */
static void refusal__of_a_small_write__last_acknowledgement_lost(void **state)
{
    (void)state;
    refused_and_placed(false, lose_last_acks);
}

/* Nothing is lost, so nothing goes twice. */
static void refusal__of_a_small_write__nothing_lost__nothing_twice(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t *local = fixture_payload(1, SMALL_BYTES), *remote = fixture_payload(2, SMALL_BYTES);
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, SMALL_BYTES);
    struct diwarp_mr wrong = {.addr = remote, .stag = mr->stag ^ 1};
    for (unsigned i = 1; i <= 20; i++) {
        assert_int_equal(
            fixture_post(f, 0, 1, i, IBV_WR_RDMA_WRITE, 0, local, SMALL_BYTES, i % 2 ? &wrong : mr),
            0);
        sim_world_run_for(&f->world, MS / 100);
    }
    fixture_run(f, 2 * SECOND);
    for (unsigned i = 1; i <= 20; i++)
        fixture_assert_status(f, 0, i, IBV_WC_RDMA_WRITE,
                              i % 2 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
    assert_int_equal(sim_counters(&f->world, 0)->tx_resent_datagrams, 0);
    assert_int_equal(sim_counters(&f->world, 1)->tx_resent_datagrams, 0);
    assert_true(f->world.nodes[1].cq->device->served >= 20); /* answered, or placed */
    fixture_close(f);
    free(local);
    free(remote);
}

/* A third node has learnt of the STag of a region that is bound to another. */
static void refusal__of_another_peer(void **state)
{
    (void)state;
    static const int completions[] = {IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ,
                                      IBV_WC_FETCH_ADD};
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE,
                                                 IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
    static const uint32_t bytes[] = {SMALL_BYTES, RECORD_BYTES, RECORD_BYTES, 8};
    struct fixture *f = fixture_new();
    uint8_t *local = fixture_payload(1, RECORD_BYTES), *remote = fixture_payload(2, RECORD_BYTES);
    uint8_t *kept = fixture_payload(2, RECORD_BYTES);
    f->config.node_count = 3;
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 0, remote, RECORD_BYTES);
    diwarp_bind_mr(mr, (struct diwarp_name){.job = f->config.job, .rank = 1});
    for (unsigned node = 2; node; node--) {
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(fixture_post(f, node, 0, i, opcodes[i], 0, local, bytes[i], mr), 0);
        fixture_run(f, 2 * SECOND);
        for (unsigned i = 0; i < 4; i++)
            fixture_assert_status(f, node, i, completions[i],
                                  node == 2 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
        if (node == 2)
            assert_memory_equal(remote, kept, RECORD_BYTES);
    }
    fixture_close(f);
    free(local);
    free(remote);
    free(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusal__same_id_as_a_record_of_the_peer),
        cmocka_unit_test(refusal__of_a_small_write__lost),
        cmocka_unit_test(refusal__of_a_small_write__last_acknowledgement_lost),
        cmocka_unit_test(refusal__of_a_small_write__nothing_lost__nothing_twice),
        cmocka_unit_test(refusal__of_another_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
