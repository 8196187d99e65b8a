/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends: what shares a datagram, what a long one is made of, and what is repeated when one is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

#define LONG_BYTES 40000u
/* At least so many datagrams of 1500 bytes. */
#define LONG_DATAGRAMS (LONG_BYTES / 1500)

static enum sim_verdict lose_first_ack(void *world, const struct sim_endpoint *from,
                                       const uint8_t *buf, uint32_t bytes)
{
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    return seen.header.type == DW_LLP_ACK && !fixture_of(world)->hits++ ? SIM_DROP : SIM_PASS;
}

static enum sim_verdict lose_one_amid(void *world, const struct sim_endpoint *from,
                                      const uint8_t *buf, uint32_t bytes)
{
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    bool amid = seen.ddp.opcode == DW_RDMAP_SEND_IMM && seen.ddp.mo > LONG_BYTES / 2;
    return amid && !fixture_of(world)->hits++ ? SIM_DROP : SIM_PASS;
}

static enum sim_verdict lose_send(void *world, const struct sim_endpoint *from, const uint8_t *buf,
                                  uint32_t bytes)
{
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    return seen.ddp.opcode == DW_RDMAP_SEND_IMM && !fixture_of(world)->hits++ ? SIM_DROP : SIM_PASS;
}

/* A long one is payload 7, and counted in `posted`. */
static void check_long(struct sim_world *world, struct sim_node *node, const struct diwarp_wc *wc)
{
    if (wc->wc.opcode == IBV_WC_RECV && wc->wc.byte_len == LONG_BYTES) {
        assert_true(sim_pattern_matches(7, 0, wc->data, LONG_BYTES));
        fixture_of(world)->posted++;
    }
    fixture_on_wc(world, node, wc);
}

static void check_alignment(struct sim_world *world, struct sim_node *node,
                            const struct diwarp_wc *wc)
{
    if (wc->wc.opcode == IBV_WC_RECV)
        assert_int_equal((uintptr_t)wc->data % 8, 0);
    fixture_on_wc(world, node, wc);
}

/* Messages of any length that share datagrams, and the datagrams of a long one. */
static void send__payload_is_aligned(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t data[3000] = {0};
    unsigned sent = 0;
    fixture_open(f);
    f->world.on_wc = check_alignment;
    for (uint32_t bytes = 1; bytes < sizeof data; bytes += bytes / 16 + 1, sent++)
        assert_int_equal(fixture_post(f, 0, 1, 0, IBV_WR_SEND, 0, data, bytes, NULL), 0);
    fixture_run(f, SECOND);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), sent);
    assert_true(sim_counters(&f->world, 0)->tx_coalesced_msgs > sent / 2);
    fixture_close(f);
}

static void send__ack_lost__delivered_once(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t data[64] = {0};
    fixture_open(f);
    f->world.net.filter = lose_first_ack;
    assert_int_equal(fixture_post(f, 0, 1, 9, IBV_WR_SEND_WITH_IMM, 0, data, sizeof data, NULL), 0);
    fixture_run(f, 2 * SECOND);
    assert_int_equal(f->hits, 1);
    fixture_assert_status(f, 0, 9, IBV_WC_SEND, IBV_WC_SUCCESS);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 1);
    /* The probe's answer says that the datagram is there. */
    assert_int_equal(sim_counters(&f->world, 0)->tx_resent_datagrams, 0);
    assert_int_equal(sim_counters(&f->world, 0)->tx_probes, 1);
    /* An acknowledgement that nobody asked for and an answered probe are nothing to wake up for. */
    assert_int_equal(f->world.nodes[0].cq->device->served, 1);
    assert_int_equal(f->world.nodes[1].cq->device->served, 0);
    fixture_close(f);
}

/* Who runs the RNIC as long as that serves somebody would try again without a pause. */
static void send__socket_full__serves_nobody(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t data[64] = {0};
    fixture_open(f);
    f->world.net.full_host = 2; /* node 1 */
    assert_int_equal(fixture_post(f, 0, 1, 9, IBV_WR_SEND_WITH_IMM, 0, data, sizeof data, NULL), 0);
    sim_world_run_for(&f->world, SECOND / 100);
    assert_int_equal(f->world.nodes[0].cq->device->served, 0);
    f->world.net.full_host = 0;
    fixture_run(f, 2 * SECOND);
    assert_int_equal(f->world.nodes[0].cq->device->served, 1);
    fixture_assert_status(f, 0, 9, IBV_WC_SEND, IBV_WC_SUCCESS);
    fixture_close(f);
}

/* What the peer waits for is not left to its next time-out; the first, after 20 ms, is in vain. */
static void send__ack_meets_a_full_socket__follows(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t data[64] = {0};
    fixture_open(f);
    f->world.net.full_host = 1; /* node 0 */
    assert_int_equal(fixture_post(f, 0, 1, 9, IBV_WR_SEND_WITH_IMM, 0, data, sizeof data, NULL), 0);
    sim_world_run_for(&f->world, SECOND / 33);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 1);
    assert_int_equal(sim_counters(&f->world, 0)->tx_probes, 1);
    assert_int_equal(sim_counters(&f->world, 1)->tx_acks, 0);
    f->world.net.full_host = 0;
    sim_world_run_for(&f->world, SECOND / 1000);
    fixture_assert_status(f, 0, 9, IBV_WC_SEND, IBV_WC_SUCCESS);
    assert_int_equal(sim_counters(&f->world, 0)->tx_probes, 1);
    assert_int_equal(sim_counters(&f->world, 1)->tx_acks, 1);
    fixture_run(f, 2 * SECOND);
    fixture_close(f);
}

/* A program that computes between its sends may be far from its next call of MPI: only bursts wait
 * for company. */
static void send__after_a_pause__goes_at_once(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t data[64] = {0};
    fixture_open(f);
    const struct diwarp_counters *counters = sim_counters(&f->world, 0);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_SEND_WITH_IMM, 0, data, sizeof data, NULL),
                         0);
        assert_int_equal(counters->tx_datagrams, i + 1);
        f->world.net.now_ns += 10000;
    }
    for (uint64_t i = 3; i < 9; i++)
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_SEND_WITH_IMM, 0, data, sizeof data, NULL),
                         0);
    assert_int_equal(counters->tx_datagrams, 4);
    fixture_run(f, 2 * SECOND);
    assert_int_equal(counters->tx_coalesced_msgs, 4);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 9);
    fixture_close(f);
}

static enum sim_verdict take_time(void *world, const struct sim_endpoint *from, const uint8_t *buf,
                                  uint32_t bytes)
{
    (void)from;
    (void)buf;
    (void)bytes;
    ((struct sim_world *)world)->net.now_ns += 5000;
    return SIM_PASS;
}

/* A slow send call is no pause: the second post takes the first call for one, the others wait. What
 * a run sends goes by the time when it began, which is before the end of the last call. */
static void send__slow_calls__still_a_burst(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t data[64] = {0};
    fixture_open(f);
    f->world.net.filter = take_time;
    for (uint64_t i = 0; i < 9; i++) {
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_SEND_WITH_IMM, 0, data, sizeof data, NULL),
                         0);
        if (i == 1)
            f->world.net.now_ns -= 4000;
    }
    assert_int_equal(sim_counters(&f->world, 0)->tx_datagrams, 2);
    fixture_run(f, 2 * SECOND);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 9);
    fixture_close(f);
}

/* The window is not spent on them when the peer does not read. */
static void send__after_pauses__in_vain__in_few_datagrams(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint8_t data[64] = {0};
    f->config.device.send_window_datagrams = 64;
    fixture_open(f);
    for (uint64_t i = 0; i < 140; i++) {
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_SEND_WITH_IMM, IBV_SEND_INLINE, data,
                                      sizeof data, NULL),
                         0);
        f->world.net.now_ns += 10000;
    }
    assert_in_range(sim_counters(&f->world, 0)->tx_datagrams, 2, 60);
    fixture_run(f, 2 * SECOND);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 140);
    fixture_close(f);
}

/* With a message each way behind them, so that both know the other's credit. */
static struct fixture *open_acquainted(enum diwarp_switch crc, uint32_t mtu_bytes)
{
    struct fixture *f = fixture_new();
    uint8_t data[64] = {0};
    f->config.device.crc = crc;
    f->config.mtu_bytes = mtu_bytes;
    fixture_open(f);
    f->world.on_wc = check_long;
    for (unsigned node = 0; node < 2; node++)
        assert_int_equal(fixture_post(f, node, !node, 1, IBV_WR_SEND_WITH_IMM, 0, data, 64, NULL),
                         0);
    fixture_run(f, SECOND);
    return f;
}

static void send__long__inline__leaves_at_once(void **state)
{
    (void)state;
    struct fixture *f = open_acquainted(DIWARP_ON, 1500);
    uint8_t *data = fixture_payload(7, LONG_BYTES);
    const struct diwarp_counters *counters = sim_counters(&f->world, 0);
    uint64_t datagrams = counters->tx_datagrams;
    assert_int_equal(
        fixture_post(f, 0, 1, 2, IBV_WR_SEND_WITH_IMM, IBV_SEND_INLINE, data, LONG_BYTES, NULL), 0);
    assert_in_range(counters->tx_datagrams - datagrams, LONG_DATAGRAMS, LONG_DATAGRAMS + 4);
    memset(data, 0, LONG_BYTES); /* the caller's again */
    fixture_run(f, SECOND);
    assert_int_equal(f->posted, 1);
    assert_int_equal(counters->tx_resent_datagrams, 0);
    fixture_close(f);
    free(data);
}

/* Not with a send call for each datagram. */
static void send__long__leaves_in_trains(void **state)
{
    const uint32_t mtu_bytes[] = {1500, 9000};
    uint8_t *data = fixture_payload(7, LONG_BYTES);
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct fixture *f = open_acquainted(DIWARP_ON, mtu_bytes[i]);
        const struct diwarp_counters *sender = sim_counters(&f->world, 0);
        const uint64_t calls = sender->tx_syscalls;
        assert_int_equal(fixture_post(f, 0, 1, 2, IBV_WR_SEND_WITH_IMM, 0, data, LONG_BYTES, NULL),
                         0);
        fixture_run(f, SECOND);
        assert_int_equal(f->posted, 1);
        assert_in_range(sender->tx_syscalls - calls, 1, 3);
        fixture_close(f);
    }
    free(data);
}

static void one_of_a_long_lost__that_one_travels_again(enum diwarp_switch crc)
{
    struct fixture *f = open_acquainted(crc, 1500);
    uint8_t *data = fixture_payload(7, LONG_BYTES);
    f->world.net.filter = lose_one_amid;
    assert_int_equal(fixture_post(f, 0, 1, 2, IBV_WR_SEND_WITH_IMM, 0, data, LONG_BYTES, NULL), 0);
    fixture_run(f, 2 * SECOND);
    fixture_assert_status(f, 0, 2, IBV_WC_SEND, IBV_WC_SUCCESS);
    assert_int_equal(f->posted, 1);
    assert_int_equal(sim_counters(&f->world, 0)->tx_resent_datagrams, 1);
    fixture_close(f);
    free(data);
}

static void send__long__one_lost__that_one_travels_again(void **state)
{
    (void)state;
    one_of_a_long_lost__that_one_travels_again(DIWARP_ON);
}

static void send__long__one_lost__without_crc(void **state)
{
    (void)state;
    one_of_a_long_lost__that_one_travels_again(DIWARP_OFF);
}

/* Nothing of it is sent, and it may be posted again. */
static void send__long__inline_beyond_the_window__refused_whole(void **state)
{
    (void)state;
    struct fixture *f = open_acquainted(DIWARP_ON, 1500);
    uint8_t *data = fixture_payload(7, LONG_BYTES);
    const struct diwarp_counters *counters = sim_counters(&f->world, 0);
    unsigned posted = 0;
    int rc;
    while (!(rc = fixture_post(f, 0, 1, 2 + posted, IBV_WR_SEND_WITH_IMM, IBV_SEND_INLINE, data,
                               LONG_BYTES, NULL)))
        posted++;
    assert_int_equal(rc, -EAGAIN);
    assert_in_range(posted, 1, 10);
    uint64_t datagrams = counters->tx_datagrams;
    assert_int_equal(
        fixture_post(f, 0, 1, 90, IBV_WR_SEND_WITH_IMM, IBV_SEND_INLINE, data, LONG_BYTES, NULL),
        -EAGAIN);
    assert_int_equal(counters->tx_datagrams, datagrams);
    /* In the same instant, to wait for room. */
    assert_int_equal(fixture_post(f, 0, 1, 90, IBV_WR_SEND_WITH_IMM,
                                  IBV_SEND_SIGNALED | DIWARP_SEND_BUFFERED, data, LONG_BYTES, NULL),
                     0);
    fixture_run(f, SECOND);
    fixture_assert_status(f, 0, 90, IBV_WC_SEND, IBV_WC_SUCCESS);
    assert_int_equal(
        fixture_post(f, 0, 1, 91, IBV_WR_SEND_WITH_IMM, IBV_SEND_INLINE, data, LONG_BYTES, NULL),
        0);
    fixture_run(f, SECOND);
    assert_int_equal(f->posted, posted + 2);
    fixture_close(f);
    free(data);
}

/* More than the window holds: the rest follows the acknowledgements. */
static void send__long__many__all_in_order(void **state)
{
    (void)state;
    struct fixture *f = open_acquainted(DIWARP_ON, 1500);
    uint8_t *data = fixture_payload(7, LONG_BYTES);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(
            fixture_post(f, 0, 1, 2 + i, IBV_WR_SEND_WITH_IMM, 0, data, LONG_BYTES, NULL), 0);
    fixture_run(f, 2 * SECOND);
    assert_int_equal(f->posted, 20);
    uint32_t expected = 2;
    for (unsigned i = 0; i < f->wc_count; i++)
        if (f->wc_node[i] == 1 && f->wcs[i].wc.opcode == IBV_WC_RECV && f->wcs[i].wc.byte_len > 64)
            assert_int_equal(f->wcs[i].wc.imm_data, expected++);
    assert_int_equal(sim_counters(&f->world, 0)->tx_resent_datagrams, 0);
    fixture_close(f);
    free(data);
}

/* Reads until the Send of node 0 has come. */
static void read_again_on_wc(struct sim_world *world, struct sim_node *node,
                             const struct diwarp_wc *wc)
{
    struct fixture *f = world->app;
    bool again = wc->wc.opcode == IBV_WC_RDMA_READ && !f->posted;
    if (wc->wc.opcode != IBV_WC_RDMA_READ)
        fixture_on_wc(world, node, wc);
    f->posted |= wc->wc.opcode == IBV_WC_RECV;
    if (again)
        assert_int_equal(fixture_post(f, 1, 0, 2, IBV_WR_RDMA_READ, 0, f->sink, 8, f->source_mr),
                         0);
}

/* A lost Send comes soon although its sender serves one read of its destination after the other. */
static void send__lost_before_reads_without_end(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    fixture_open(f);
    f->world.net.filter = lose_send;
    f->world.on_wc = read_again_on_wc;
    uint8_t *remote = fixture_payload(1, 8), *local = fixture_payload(2, 8);
    f->source_mr = fixture_reg(f, 0, remote, 8);
    f->sink = local;
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_SEND_WITH_IMM, 0, remote, 8, NULL), 0);
    assert_int_equal(fixture_post(f, 1, 0, 2, IBV_WR_RDMA_READ, 0, local, 8, f->source_mr), 0);
    fixture_run(f, SECOND / 10);
    assert_int_equal(f->hits, 2);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 1);
    fixture_close(f);
    free(local);
    free(remote);
}

/* The answer to a probe comes after the next probe has left: it tells of the loss all the same. */
static void send__lost_on_a_path_longer_than_the_time_out(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    f->config.impairment.delay_ns = 60 * MS;
    fixture_open(f);
    f->world.net.filter = lose_send;
    uint8_t *data = fixture_payload(1, 8);
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_SEND_WITH_IMM, 0, data, 8, NULL), 0);
    fixture_run(f, SECOND);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 1);
    fixture_close(f);
    free(data);
}

/* Of 200 Sends each tenth has a fence. */
enum { FENCED_SENDS = 200, FENCE_EACH = 10, FENCED_BYTES = 6000 };

static void post_with_fences(struct fixture *f, uint8_t *data, uint32_t bytes)
{
    for (uint64_t i = 0; i < FENCED_SENDS; i++) {
        const unsigned flags = i % FENCE_EACH ? 0 : IBV_SEND_FENCE;
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_SEND_WITH_IMM, flags, data, bytes, NULL),
                         0);
    }
}

/* Of the Sends that came: how many overtook another; all since a fence come after all before it. */
static unsigned count_overtaking(const struct fixture *f)
{
    unsigned last = 0, came = 0, overtaking = 0;
    for (unsigned i = 0; i < f->wc_count; i++) {
        if (f->wc_node[i] != 1 || f->wcs[i].wc.opcode != IBV_WC_RECV)
            continue;
        const unsigned number = f->wcs[i].wc.imm_data;
        assert_int_equal(number / FENCE_EACH, came / FENCE_EACH);
        overtaking += number < last;
        last = number;
        came++;
    }
    assert_int_equal(came, FENCED_SENDS);
    return overtaking;
}

static void send__fence__what_was_before_comes_before(void **state)
{
    (void)state;
    uint8_t *data = fixture_payload(1, FENCED_BYTES);
    unsigned overtaking = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct fixture *f = fixture_new();
        uint64_t random = seed;
        sim_config_init(&f->config, seed);
        sim_impairment_draw(&f->config.impairment, &random);
        fixture_open(f);
        post_with_fences(f, data, seed % 4 ? 600 : FENCED_BYTES);
        fixture_run(f, 600 * SECOND);
        overtaking += count_overtaking(f);
        fixture_close(f);
    }
    assert_true(overtaking > 100); /* between fences */
    free(data);
}

/* A read of 64 bytes, id of its completion, and its release. Datagrams that the release sent. */
static uint64_t read_and_release(struct fixture *f, struct diwarp_mr *mr, uint64_t id, size_t bytes)
{
    static uint8_t local[64];
    assert_int_equal(fixture_post(f, 0, 1, id, IBV_WR_RDMA_READ, DIWARP_SEND_HOLD, local, 64, mr),
                     0);
    sim_world_run_for(&f->world, MS);
    const struct diwarp_wc *wc = fixture_find(f, 0, id, IBV_WC_RDMA_READ);
    const uint64_t before = sim_counters(&f->world, 0)->tx_datagrams;
    assert_int_equal(diwarp_post_release(f->world.nodes[0].qp, wc->read_id, local, bytes), 0);
    return sim_counters(&f->world, 0)->tx_datagrams - before;
}

static void release__without_data__goes_with_a_post_or_the_next_run(void **state)
{
    (void)state;
    struct fixture *f = open_acquainted(DIWARP_ON, 1500);
    uint8_t remote[64] = {0}, data[500] = {0};
    const uint64_t *sent = &sim_counters(&f->world, 0)->tx_datagrams;
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, sizeof remote);
    assert_int_equal(read_and_release(f, mr, 10, 1), 1);
    assert_int_equal(read_and_release(f, mr, 11, 0), 0);
    uint64_t before = *sent;
    assert_int_equal(fixture_post(f, 0, 1, 2, IBV_WR_SEND, 0, data, sizeof data, NULL), 0);
    assert_int_equal(*sent - before, 1);
    assert_int_equal(read_and_release(f, mr, 12, 0), 0);
    before = *sent;
    sim_world_run_for(&f->world, MS / 10);
    assert_int_equal(*sent - before, 1);
    fixture_run(f, SECOND);
    diwarp_dereg_mr(mr);
    fixture_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send__payload_is_aligned),
        cmocka_unit_test(send__ack_lost__delivered_once),
        cmocka_unit_test(send__socket_full__serves_nobody),
        cmocka_unit_test(send__ack_meets_a_full_socket__follows),
        cmocka_unit_test(send__after_a_pause__goes_at_once),
        cmocka_unit_test(send__slow_calls__still_a_burst),
        cmocka_unit_test(send__after_pauses__in_vain__in_few_datagrams),
        cmocka_unit_test(send__long__inline__leaves_at_once),
        cmocka_unit_test(send__long__leaves_in_trains),
        cmocka_unit_test(send__long__one_lost__that_one_travels_again),
        cmocka_unit_test(send__long__one_lost__without_crc),
        cmocka_unit_test(send__long__inline_beyond_the_window__refused_whole),
        cmocka_unit_test(send__long__many__all_in_order),
        cmocka_unit_test(send__lost_before_reads_without_end),
        cmocka_unit_test(release__without_data__goes_with_a_post_or_the_next_run),
        cmocka_unit_test(send__fence__what_was_before_comes_before),
        cmocka_unit_test(send__lost_on_a_path_longer_than_the_time_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
