/* SPDX-License-Identifier: BSD-3-Clause */
/* An application that does not look for so long that there is no room for more: its peers are told,
 * hold back, and go on as soon as it looks again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

/* Over all senders, more than there is room for. One message is a datagram: none is half there. */
#define BYTES 1300u
#define SENDS 999u
#define AWAY  (2 * SECOND)

/* There are more of them than the fixture keeps; in `posted`. */
static void count_received(struct sim_world *world, struct sim_node *node,
                           const struct diwarp_wc *wc)
{
    (void)node;
    fixture_of(world)->posted += wc->wc.opcode == IBV_WC_RECV;
}

static const struct dw_sendwin *window_to_0(const struct fixture *f, unsigned from)
{
    const struct dw_rd *rd = sim_rd_of(&f->world.nodes[from]);
    return &dw_container(rd->awake.next, struct dw_peer, awake_link)->sendwin;
}

/* Nodes from 1 on send to node 0, whose application is away for 2 s. Returns how long after that
 * all has come. */
static uint64_t arrive_after_absence(struct fixture *f, unsigned senders)
{
    uint8_t *data = fixture_payload(1, BYTES);
    f->world.nodes[0].unpolled = true;
    for (unsigned from = 1; from <= senders; from++)
        for (unsigned i = 0; i < SENDS / senders; i++)
            assert_int_equal(fixture_post(f, from, 0, i, IBV_WR_SEND, 0, data, BYTES, NULL), 0);
    sim_world_run_for(&f->world, AWAY);
    assert_true(f->posted < SENDS);
    f->world.nodes[0].unpolled = false;
    const uint64_t back_ns = f->world.net.now_ns;
    const unsigned cwnd = window_to_0(f, 1)->cwnd_datagrams;
    while (f->posted < SENDS)
        assert_true(sim_world_step(&f->world));
    assert_true(window_to_0(f, 1)->cwnd_datagrams >= cwnd); /* nothing was lost for congestion */
    const uint64_t took_ns = f->world.net.now_ns - back_ns;
    free(data);
    return took_ns;
}

static struct fixture *begin(unsigned senders)
{
    struct fixture *f = fixture_new();
    f->config.node_count = senders + 1;
    f->config.helper = true;
    f->config.rest_ns = 10 * MS; /* between two probes: who was refused is not forgotten */
    fixture_open(f);
    f->world.on_wc = count_received;
    return f;
}

static void room__again__told_at_once(void **state)
{
    (void)state;
    static const unsigned senders[] = {1, 3};
    for (unsigned i = 0; i < sizeof senders / sizeof *senders; i++) {
        struct fixture *f = begin(senders[i]);
        assert_in_range(arrive_after_absence(f, senders[i]), 0, 5 * MS);
        for (unsigned from = 1; from <= senders[i]; from++)
            /* What was on its way when the room ended, and no more. */
            assert_in_range(sim_counters(&f->world, from)->tx_resent_datagrams, 0, 256);
        fixture_run(f, 2 * SECOND);
        fixture_close(f);
    }
}

/* All that node 0 says by itself, and not for being asked, is lost. */
static enum sim_verdict lose_acks(void *world, const struct sim_endpoint *from, const uint8_t *buf,
                                  uint32_t bytes)
{
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    if (seen.from || seen.header.type != DW_LLP_ACK)
        return SIM_PASS;
    fixture_of(world)->hits++;
    return SIM_DROP;
}

static void room__again__all_told_is_lost__asked_for(void **state)
{
    (void)state;
    struct fixture *f = begin(1);
    f->world.net.filter = lose_acks;
    (void)arrive_after_absence(f, 1);
    assert_true(f->hits > 1);
    fixture_run(f, 2 * SECOND);
    fixture_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(room__again__told_at_once),
        cmocka_unit_test(room__again__all_told_is_lost__asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
