/* SPDX-License-Identifier: BSD-3-Clause */
/* One loss at a time: what is repeated, and only that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/sim/sim_fixture.h"

#define RECORD_BYTES 100000u

/* ---- filters: each loses the first datagram of a kind ---- */

static enum sim_verdict lose_last_segment(void *world, const struct sim_endpoint *from,
                                          const uint8_t *buf, uint32_t bytes)
{
    struct fixture *f = fixture_of(world);
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    if (seen.ddp.opcode != DW_RDMAP_WRITE_RECORD || !seen.ddp.last || f->hits++)
        return SIM_PASS;
    f->hit_bytes = seen.segment.bytes - DW_WRITE_RECORD_BYTES;
    return SIM_DROP;
}

static enum sim_verdict lose_read_request(void *world, const struct sim_endpoint *from,
                                          const uint8_t *buf, uint32_t bytes)
{
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    return seen.ddp.opcode == DW_RDMAP_READ_REQUEST && !fixture_of(world)->hits++ ? SIM_DROP
                                                                                  : SIM_PASS;
}

static enum sim_verdict lose_control(void *world, const struct sim_endpoint *from,
                                     const uint8_t *buf, uint32_t bytes, uint8_t kind)
{
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    return seen.control.kind == kind && !fixture_of(world)->hits++ ? SIM_DROP : SIM_PASS;
}

static enum sim_verdict lose_complete(void *world, const struct sim_endpoint *from,
                                      const uint8_t *buf, uint32_t bytes)
{
    return lose_control(world, from, buf, bytes, DW_RECORD_COMPLETE);
}

static enum sim_verdict lose_open(void *world, const struct sim_endpoint *from, const uint8_t *buf,
                                  uint32_t bytes)
{
    return lose_control(world, from, buf, bytes, DW_RECORD_OPEN);
}

static enum sim_verdict lose_status(void *world, const struct sim_endpoint *from,
                                    const uint8_t *buf, uint32_t bytes)
{
    return lose_control(world, from, buf, bytes, DW_RECORD_STATUS);
}

/* ---- one RDMA operation from node 0 to node 1 under a filter ---- */

struct transfer {
    struct fixture *f;
    uint8_t *local, *remote;
    struct diwarp_mr *mr;
    bool read;
};

typedef enum sim_verdict filter_fn(void *, const struct sim_endpoint *, const uint8_t *, uint32_t);

static struct transfer transfer_post(bool read, uint32_t bytes, filter_fn *filter)
{
    struct transfer t = {.f = fixture_new(), .read = read};
    t.f->config.device.record_window_bytes = 64u << 10;
    fixture_open(t.f);
    t.f->world.net.filter = filter;
    t.local = fixture_payload(read ? 2 : 1, bytes);
    t.remote = fixture_payload(read ? 1 : 2, bytes);
    t.mr = fixture_reg(t.f, 1, t.remote, bytes);
    assert_int_equal(fixture_post(t.f, 0, 1, 5, read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 0,
                                  t.local, bytes, t.mr),
                     0);
    return t;
}

static void transfer_close(struct transfer *t)
{
    fixture_close(t->f);
    free(t->local);
    free(t->remote);
}

/* Both ends are done with it within limit_ns; what timers remain to fire then find nothing to do.
 */
static void transfer_finish(struct transfer *t, uint32_t bytes, uint64_t limit_ns)
{
    struct fixture *f = t->f;
    uint64_t until_ns = f->world.net.now_ns + limit_ns;
    const struct dw_rd *ends[] = {sim_rd_of(&f->world.nodes[0]), sim_rd_of(&f->world.nodes[1])};
    while (ends[0]->records.ends.count + ends[1]->records.ends.count + !f->wc_count) {
        assert_true(f->world.net.now_ns < until_ns);
        assert_true(sim_world_step(&f->world));
    }
    fixture_run(f, 2 * SECOND);
    fixture_assert_status(f, 0, 5, t->read ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
    assert_true(sim_pattern_matches(1, 0, t->read ? t->local : t->remote, bytes));
}

static void record_last_segment_lost__only_its_range_resent(bool read)
{
    struct transfer t = transfer_post(read, RECORD_BYTES, lose_last_segment);
    unsigned source = read ? 1 : 0;
    transfer_finish(&t, RECORD_BYTES, 100 * MS);
    assert_true(t.f->hits >= 2);
    assert_true(t.f->hit_bytes > 0);
    assert_int_equal(sim_counters(&t.f->world, source)->tx_resent_record_bytes, t.f->hit_bytes);
    assert_int_equal(sim_counters(&t.f->world, !source)->rx_dup_record_bytes, 0);
    assert_int_equal(sim_counters(&t.f->world, 0)->tx_resent_datagrams, 0);
    transfer_close(&t);
}

static void read__last_segment_lost(void **state)
{
    (void)state;
    record_last_segment_lost__only_its_range_resent(true);
}

static void write__last_segment_lost(void **state)
{
    (void)state;
    record_last_segment_lost__only_its_range_resent(false);
}

/* A round trip takes 10 us: whatever is lost, the repetition must be a matter of milliseconds. */
static void one_loss__soon_repaired(bool read, filter_fn *filter, uint64_t limit_ns)
{
    struct transfer t = transfer_post(read, RECORD_BYTES, filter);
    transfer_finish(&t, RECORD_BYTES, limit_ns);
    assert_true(t.f->hits >= 1);
    transfer_close(&t);
}

static void read_request__lost(void **state)
{
    (void)state;
    one_loss__soon_repaired(true, lose_read_request, 100 * MS);
}

static void read_complete__lost(void **state)
{
    (void)state;
    one_loss__soon_repaired(true, lose_complete, 100 * MS);
}

static void write_open__lost(void **state)
{
    (void)state;
    one_loss__soon_repaired(false, lose_open, 100 * MS);
}

static void write_status__lost(void **state)
{
    (void)state;
    one_loss__soon_repaired(false, lose_status, 100 * MS);
}

static void write_complete__lost(void **state)
{
    (void)state;
    one_loss__soon_repaired(false, lose_complete, 100 * MS);
}

static void everything__repeated__each_once(void **state)
{
    (void)state;
    struct fixture *f = fixture_new();
    uint64_t word = 0, original = 77;
    uint8_t *local = fixture_payload(1, RECORD_BYTES), *remote = fixture_payload(2, RECORD_BYTES);
    fixture_open(f);
    f->world.net.filter = fixture_repeat_all;
    struct diwarp_mr *word_mr = fixture_reg(f, 1, &word, sizeof word);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, RECORD_BYTES);
    for (uint64_t i = 0; i < 50; i++)
        assert_int_equal(
            fixture_post(f, 0, 1, i, IBV_WR_SEND_WITH_IMM, 0, local, (uint32_t)i * 1000, NULL), 0);
    assert_int_equal(fixture_post(f, 0, 1, 60, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &original,
                                  sizeof original, word_mr),
                     0);
    assert_int_equal(fixture_post(f, 0, 1, 61, IBV_WR_RDMA_WRITE, 0, local, RECORD_BYTES, mr), 0);
    fixture_run(f, 2 * SECOND);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 50);
    assert_int_equal(fixture_count(f, 0, IBV_WC_SEND), 50);
    assert_int_equal(word, 1);
    assert_int_equal(original, 0);
    fixture_assert_status(f, 0, 61, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
    assert_memory_equal(local, remote, RECORD_BYTES);
    fixture_close(f);
    free(local);
    free(remote);
}

/* Copied while checked: damaged segments come again. */
static void reads__large_and_damaged(void **state)
{
    (void)state;
    static const uint32_t mtus[] = {1500, 9000, 65536};
    enum { LARGE = 3 << 20, MTUS = sizeof mtus / sizeof *mtus };
    for (size_t i = 0; i < MTUS; i++) {
        struct fixture *f = fixture_new();
        f->config.mtu_bytes = mtus[i];
        f->config.impairment.corrupt_permille = 20;
        f->config.impairment.loss_permille = 10;
        uint8_t *remote = fixture_payload(1, LARGE), *local = fixture_payload(2, LARGE);
        fixture_open(f);
        struct diwarp_mr *mr = fixture_reg(f, 1, remote, LARGE);
        assert_int_equal(
            fixture_post(f, 0, 1, 7, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, local, LARGE, mr), 0);
        fixture_run(f, 20 * SECOND);
        fixture_assert_status(f, 0, 7, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
        assert_memory_equal(local, remote, LARGE);
        assert_true(sim_counters(&f->world, 0)->drop_crc + sim_counters(&f->world, 0)->drop_token +
                        sim_counters(&f->world, 0)->drop_header >
                    0);
        fixture_close(f);
        free(local);
        free(remote);
    }
}

/* ---- errors ---- */

static void deregistered__while_read(void **state)
{
    (void)state;
    struct transfer t = transfer_post(true, 10 * RECORD_BYTES, NULL);
    sim_world_run_for(&t.f->world, 50000);
    diwarp_dereg_mr(t.mr);
    fixture_run(t.f, 2 * SECOND);
    fixture_assert_status(t.f, 0, 5, IBV_WC_RDMA_READ, IBV_WC_REM_ABORT_ERR);
    transfer_close(&t);
}

static void deregistered__while_written(void **state)
{
    (void)state;
    struct transfer t = transfer_post(false, 10 * RECORD_BYTES, NULL);
    sim_world_run_for(&t.f->world, 50000);
    diwarp_dereg_mr(t.mr);
    uint8_t *before = malloc(10 * RECORD_BYTES);
    assert_non_null(before);
    memcpy(before, t.remote, 10 * RECORD_BYTES);
    fixture_run(t.f, 2 * SECOND);
    fixture_assert_status(t.f, 0, 5, IBV_WC_RDMA_WRITE, IBV_WC_REM_ABORT_ERR);
    assert_memory_equal(before, t.remote, 10 * RECORD_BYTES);
    transfer_close(&t);
    free(before);
}

/* Short reads of every length, of which each copies the beginning of what is to be read. */
enum { SHORT_READS = 1000 };

static void post_short_reads(struct fixture *f, uint8_t *local, struct diwarp_mr *mr)
{
    for (uint32_t i = 0; i < SHORT_READS; i++)
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_RDMA_READ, 0,
                                      local + i * DW_SHORT_READ_BYTES, 1 + i % DW_SHORT_READ_BYTES,
                                      mr),
                         0);
}

static void assert_short_reads(const struct fixture *f, const uint8_t *local, const uint8_t *remote)
{
    assert_int_equal(fixture_count(f, 0, IBV_WC_RDMA_READ), SHORT_READS);
    for (uint32_t i = 0; i < SHORT_READS; i++) {
        fixture_assert_status(f, 0, i, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
        assert_memory_equal(local + i * DW_SHORT_READ_BYTES, remote, 1 + i % DW_SHORT_READ_BYTES);
    }
}

static void short_reads(unsigned loss_permille)
{
    struct fixture *f = fixture_new();
    const uint32_t all = SHORT_READS * DW_SHORT_READ_BYTES;
    uint8_t *remote = fixture_payload(1, DW_SHORT_READ_BYTES), *local = fixture_payload(2, all);
    f->config.impairment.loss_permille = loss_permille;
    fixture_open(f);
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, DW_SHORT_READ_BYTES);
    post_short_reads(f, local, mr);
    fixture_run(f, 2 * SECOND);
    assert_short_reads(f, local, remote);
    if (!loss_permille) {
        assert_int_equal(sim_counters(&f->world, 0)->tx_record_status, 0);
        assert_in_range(sim_counters(&f->world, 0)->tx_datagrams, 1, SHORT_READS / 4);
        assert_in_range(sim_counters(&f->world, 1)->tx_datagrams, 1, SHORT_READS / 4);
    }
    fixture_close(f);
    free(local);
    free(remote);
}

/* They and their answers share datagrams; there is nothing to grant. */
static void reads__short__share_datagrams(void **state)
{
    (void)state;
    short_reads(0);
}

static void reads__short__lost(void **state)
{
    (void)state;
    short_reads(100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read__last_segment_lost),
        cmocka_unit_test(write__last_segment_lost),
        cmocka_unit_test(read_request__lost),
        cmocka_unit_test(read_complete__lost),
        cmocka_unit_test(write_open__lost),
        cmocka_unit_test(write_status__lost),
        cmocka_unit_test(write_complete__lost),
        cmocka_unit_test(everything__repeated__each_once),
        cmocka_unit_test(reads__large_and_damaged),
        cmocka_unit_test(reads__short__share_datagrams),
        cmocka_unit_test(reads__short__lost),
        cmocka_unit_test(deregistered__while_read),
        cmocka_unit_test(deregistered__while_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
