/* SPDX-License-Identifier: BSD-3-Clause */
/* Many that send to one at once: what its buffer, a switch's queue and its memory take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

enum { INCAST_SENDERS = 15, INCAST_SENDS = 20, INCAST_SEEDS = 20, INCAST_BYTES = 60000 };

/* Jain's index of the messages that have come from each sender so far: 1000 when they are equal. */
static unsigned incast_jain_permille(const struct fixture *f)
{
    unsigned came[INCAST_SENDERS] = {0}, sum = 0, squares = 0;
    for (unsigned i = 0; i < f->wc_count; i++)
        if (f->wc_node[i] == INCAST_SENDERS && (int)f->wcs[i].wc.opcode == IBV_WC_RECV)
            came[f->wcs[i].src.rank]++;
    for (unsigned n = 0; n < INCAST_SENDERS; n++) {
        sum += came[n];
        squares += came[n] * came[n];
    }
    return 1000 * sum / INCAST_SENDERS * sum / squares;
}

/* At most a quarter of what is sent, and hardly more than the sink had no room for. */
static void incast_assert_few_resent(struct fixture *f)
{
    uint64_t sent = 0, resent = 0;
    for (unsigned n = 0; n < INCAST_SENDERS; n++) {
        sent += sim_counters(&f->world, n)->tx_datagrams;
        resent += sim_counters(&f->world, n)->tx_resent_datagrams;
        assert_int_equal(sim_counters(&f->world, n)->tx_resent_record_bytes, 0);
    }
    assert_true(resent > 0);
    assert_true(4 * resent <= sent);
    assert_true(10 * resent <= 11 * f->world.net.overflowed);
}

static void incast_post(struct fixture *f, unsigned from, uint8_t *local, struct diwarp_mr *mr)
{
    for (unsigned i = 0; i < INCAST_SENDS; i++)
        assert_int_equal(
            fixture_post(f, from, INCAST_SENDERS, i, IBV_WR_SEND_WITH_IMM, 0, local, 4000, NULL),
            0);
    assert_int_equal(
        fixture_post(f, from, INCAST_SENDERS, 500, IBV_WR_RDMA_WRITE, 0, local, INCAST_BYTES, mr),
        0);
}

static void incast_run(uint64_t seed)
{
    struct fixture *f = fixture_new();
    uint8_t *local = fixture_payload(1, INCAST_BYTES), *remote[INCAST_SENDERS];
    f->config.seed = seed;
    f->config.node_count = INCAST_SENDERS + 1;
    f->config.device.rcvbuf_bytes = 2 * 106496;
    f->config.impairment.jitter_ns = 20000;
    fixture_open(f);
    for (unsigned n = 0; n < INCAST_SENDERS; n++) {
        remote[n] = fixture_payload(2, INCAST_BYTES);
        incast_post(f, n, local, fixture_reg(f, INCAST_SENDERS, remote[n], INCAST_BYTES));
    }
    while (fixture_count(f, INCAST_SENDERS, IBV_WC_RECV) < INCAST_SENDERS * INCAST_SENDS / 2)
        assert_true(sim_world_step(&f->world));
    /* Some of whom nothing has found room wait for their first time-out then. */
    assert_true(incast_jain_permille(f) >= 550);
    fixture_run(f, 10 * SECOND);
    assert_int_equal(fixture_count(f, INCAST_SENDERS, IBV_WC_RECV), INCAST_SENDERS * INCAST_SENDS);
    assert_int_equal(incast_jain_permille(f), 1000);
    incast_assert_few_resent(f);
    for (unsigned n = 0; n < INCAST_SENDERS; n++) {
        assert_memory_equal(local, remote[n], INCAST_BYTES);
        free(remote[n]);
    }
    fixture_close(f);
    free(local);
}

/* 15 to 1, with the receive buffer of an untuned host: all of it comes, little of it twice, and
 * each sender has its share on the way. */
static void incast__small_buffer(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= INCAST_SEEDS; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        incast_run(seed);
    }
}

/* Several senders to one, through a port of 1 Gb/s with a queue of 8 ms: how many come twice.
 */
static uint64_t resent_through_port(uint64_t queue_delay_ns)
{
    enum { SENDERS = 8, SENDS = 50, BYTES = 60000 };
    struct fixture *f = fixture_new();
    uint8_t *local = fixture_payload(1, BYTES);
    uint64_t resent = 0;
    f->config.node_count = SENDERS + 1;
    f->config.device.queue_delay_ns = queue_delay_ns;
    f->config.impairment.port_bytes_per_ns = 0.125;
    f->config.impairment.port_bytes = 1 << 20;
    fixture_open(f);
    for (unsigned n = 0; n < SENDERS; n++)
        for (unsigned i = 0; i < SENDS; i++)
            assert_int_equal(fixture_post(f, n, SENDERS, i, IBV_WR_SEND, 0, local, BYTES, NULL), 0);
    fixture_run(f, 10 * SECOND);
    assert_int_equal(fixture_count(f, SENDERS, IBV_WC_RECV), SENDERS * SENDS);
    for (unsigned n = 0; n < SENDERS; n++)
        resent += sim_counters(&f->world, n)->tx_resent_datagrams;
    assert_true(resent >= f->world.net.port_dropped);
    fixture_close(f);
    free(local);
    return resent;
}

/* Senders learn of a switch's queue by its delay, before it overflows. */
static void congestion__delay_shrinks_the_window_before_loss(void **state)
{
    (void)state;
    uint64_t by_loss = resent_through_port(0), by_delay = resent_through_port(MS);
    assert_true(by_loss > 500);
    assert_true(by_delay < by_loss / 20);
}

/* More long messages at a time than there is memory to put them together: all come in the end.
 */
static void many__long_messages_beyond_the_memory_for_them(void **state)
{
    (void)state;
    enum { BYTES = 400000, EACH = 3, SENDERS = SIM_MAX_NODES - 1 };
    struct fixture *f = fixture_new();
    uint8_t *data = fixture_payload(1, BYTES);
    f->config.node_count = SIM_MAX_NODES;
    f->config.qp.max_msg_bytes = BYTES;
    f->config.impairment.loss_permille = 20;
    fixture_open(f);
    for (unsigned from = 1; from <= SENDERS; from++)
        for (unsigned i = 0; i < EACH; i++)
            assert_int_equal(fixture_post(f, from, 0, i, IBV_WR_SEND, 0, data, BYTES, NULL), 0);
    fixture_run(f, 100 * SECOND);
    assert_int_equal(fixture_count(f, 0, IBV_WC_RECV), SENDERS * EACH);
    assert_true(sim_counters(&f->world, 0)->drop_no_buffer > 0);
    fixture_close(f);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(incast__small_buffer),
        cmocka_unit_test(congestion__delay_shrinks_the_window_before_loss),
        cmocka_unit_test(many__long_messages_beyond_the_memory_for_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
