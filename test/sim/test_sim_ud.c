/* SPDX-License-Identifier: BSD-3-Clause */
/* UD: what one lost segment costs, and when a record is handed over. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/rel/record.h"
#include "common/ud/ud.h"
#include "common/wire/ddp.h"
#include "common/wire/rdmap.h"
#include "test/sim/sim_fixture.h"

#define RECORD_BYTES 20000u
#define RECORD_TIME  (50 * MS)
#define FILL         0xee

/* A Write-Record from node 0 to node 1, of which segment number `lost` does not arrive. */
struct write_case {
    struct fixture *f;
    uint8_t *local, *remote;
    unsigned lost, segments;
    struct dw_range hole;
};

static struct write_case *current; /* the filter's */

static enum sim_verdict lose_one(void *world, const struct sim_endpoint *from, const uint8_t *buf,
                                 uint32_t bytes)
{
    (void)world;
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    struct dw_write_record wr;
    assert_int_equal(dw_write_record_get(&wr, seen.segment.payload, seen.segment.bytes), 0);
    if (current->segments++ != current->lost)
        return SIM_PASS;
    current->hole =
        (struct dw_range){wr.offset, wr.offset + seen.segment.bytes - DW_WRITE_RECORD_BYTES};
    return SIM_DROP;
}

static void write_open(struct write_case *w, unsigned lost)
{
    *w = (struct write_case){.f = fixture_new(), .lost = lost};
    current = w;
    w->f->config.qp.type = DIWARP_QPT_UD;
    w->f->config.qp.record_time_ns = RECORD_TIME;
    fixture_open(w->f);
    w->f->world.net.filter = lose_one;
    w->local = fixture_payload(1, RECORD_BYTES);
    w->remote = malloc(RECORD_BYTES);
    assert_non_null(w->remote);
    memset(w->remote, FILL, RECORD_BYTES);
    struct diwarp_mr *mr = fixture_reg(w->f, 1, w->remote, RECORD_BYTES);
    assert_int_equal(fixture_post(w->f, 0, 1, 1, IBV_WR_RDMA_WRITE, 0, w->local, RECORD_BYTES, mr),
                     0);
}

static struct diwarp_record *write_handed_over(struct write_case *w, bool full)
{
    struct diwarp_record_info info;
    const struct diwarp_wc *wc = fixture_find(w->f, 1, 0, DIWARP_WC_RECORD);
    assert_non_null(wc);
    diwarp_query_record(wc->record, &info);
    assert_int_equal(info.full, full);
    assert_int_equal(info.src.rank, 0);
    assert_int_equal(info.length, RECORD_BYTES);
    assert_ptr_equal(info.addr, w->remote);
    assert_int_equal(wc->wc.byte_len, info.valid_bytes);
    return wc->record;
}

static void write_close(struct write_case *w)
{
    fixture_close(w->f);
    free(w->local);
    free(w->remote);
}

static void write__nothing_lost__handed_over_at_once(void **state)
{
    (void)state;
    struct write_case w;
    write_open(&w, UINT32_MAX);
    uint64_t start_ns = w.f->world.net.now_ns;
    fixture_run(w.f, SECOND);
    assert_true(w.f->world.net.now_ns - start_ns < MS);
    diwarp_release_record(write_handed_over(&w, true));
    assert_memory_equal(w.local, w.remote, RECORD_BYTES);
    write_close(&w);
}

/* Each segment in turn, the last included. */
static void write__any_segment_lost__exactly_that_hole(void **state)
{
    (void)state;
    struct write_case w;
    for (unsigned lost = 0, segments = 1; lost < segments; lost++) {
        write_open(&w, lost);
        uint64_t start_ns = w.f->world.net.now_ns;
        fixture_run(w.f, SECOND);
        assert_true(w.f->world.net.now_ns - start_ns >= RECORD_TIME);
        assert_true(w.f->world.net.now_ns - start_ns < RECORD_TIME + MS);
        segments = w.segments;
        assert_true(segments > 10);
        struct diwarp_record *record = write_handed_over(&w, false);
        struct diwarp_range ranges[3];
        bool inner = w.hole.start > 0 && w.hole.end < RECORD_BYTES;
        assert_int_equal(diwarp_record_ranges(record, ranges, 3), inner ? 2 : 1);
        assert_int_equal(ranges[0].start, w.hole.start ? 0 : w.hole.end);
        assert_int_equal(ranges[0].end, w.hole.start ? w.hole.start : RECORD_BYTES);
        if (inner) {
            assert_int_equal(ranges[1].start, w.hole.end);
            assert_int_equal(ranges[1].end, RECORD_BYTES);
        }
        uint32_t hole_bytes = w.hole.end - w.hole.start;
        assert_true(sim_all_bytes(w.remote + w.hole.start, FILL, hole_bytes));
        assert_true(sim_pattern_matches(1, 0, w.remote, w.hole.start));
        assert_true(
            sim_pattern_matches(1, w.hole.end, w.remote + w.hole.end, RECORD_BYTES - w.hole.end));
        diwarp_release_record(record);
        write_close(&w);
    }
}

/* The application sees the map grow, before any completion. */
static void write__under_way__map_can_be_asked(void **state)
{
    (void)state;
    struct write_case w;
    struct diwarp_record_info info;
    write_open(&w, 3);
    sim_world_run_for(&w.f->world, RECORD_TIME / 2);
    struct diwarp_record *record = diwarp_find_record(w.f->world.nodes[1].qp, NULL, 0);
    assert_non_null(record);
    diwarp_query_record(record, &info);
    assert_false(info.full);
    assert_int_equal(info.valid_bytes, RECORD_BYTES - (w.hole.end - w.hole.start));
    fixture_run(w.f, SECOND);
    diwarp_release_record(write_handed_over(&w, false));
    write_close(&w);
}

static enum sim_verdict repeat_all(void *world, const struct sim_endpoint *from, const uint8_t *buf,
                                   uint32_t bytes)
{
    (void)world, (void)from, (void)buf, (void)bytes;
    return SIM_REPEAT;
}

static void write__repeated__handed_over_once(void **state)
{
    (void)state;
    struct write_case w;
    write_open(&w, UINT32_MAX);
    w.f->world.net.filter = repeat_all;
    struct diwarp_mr *mr = fixture_reg(w.f, 1, w.remote, RECORD_BYTES);
    for (uint64_t i = 2; i < 6; i++)
        assert_int_equal(
            fixture_post(w.f, 0, 1, i, IBV_WR_RDMA_WRITE, 0, w.local, RECORD_BYTES, mr), 0);
    fixture_run(w.f, SECOND);
    assert_int_equal(fixture_count(w.f, 1, DIWARP_WC_RECORD), 5);
    for (unsigned i = 0; i < w.f->wc_count; i++)
        if ((int)w.f->wcs[i].wc.opcode == DIWARP_WC_RECORD)
            diwarp_release_record(w.f->wcs[i].record);
    write_close(&w);
}

/* ---- Sends ---- */

static struct fixture *send_open(uint8_t *buf, uint32_t bytes)
{
    struct fixture *f = fixture_new();
    f->config.qp.type = DIWARP_QPT_UD;
    f->config.qp.record_time_ns = RECORD_TIME;
    fixture_open(f);
    struct ibv_sge sge = {.addr = (uintptr_t)buf, .length = bytes};
    struct ibv_recv_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1};
    assert_int_equal(diwarp_post_recv(f->world.nodes[1].qp, &wr), 0);
    return f;
}

static enum sim_verdict lose_last(void *world, const struct sim_endpoint *from, const uint8_t *buf,
                                  uint32_t bytes)
{
    struct fixture *f = fixture_of(world);
    struct seen_datagram seen = fixture_parse(from, buf, bytes);
    return seen.ddp.last && seen.ddp.mo && !f->hits++ ? SIM_DROP : SIM_PASS;
}

static void send__segment_lost__receive_serves_the_next(void **state)
{
    (void)state;
    uint8_t *buf = malloc(RECORD_BYTES), *local = fixture_payload(3, RECORD_BYTES);
    assert_non_null(buf);
    struct fixture *f = send_open(buf, RECORD_BYTES);
    f->world.net.filter = lose_last;
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_SEND, 0, local, RECORD_BYTES, NULL), 0);
    fixture_run(f, SECOND);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 0);
    assert_int_equal(sim_counters(&f->world, 1)->rx_partial_msgs, 1);
    assert_int_equal(fixture_post(f, 0, 1, 2, IBV_WR_SEND, 0, local, RECORD_BYTES, NULL), 0);
    fixture_run(f, SECOND);
    fixture_assert_status(f, 1, 7, IBV_WC_RECV, IBV_WC_SUCCESS);
    assert_memory_equal(buf, local, RECORD_BYTES);
    fixture_close(f);
    free(buf);
    free(local);
}

static void send__receive_too_short__says_so(void **state)
{
    (void)state;
    enum { SHORT = 5000 };
    uint8_t *buf = malloc(SHORT + 1), *local = fixture_payload(3, RECORD_BYTES);
    assert_non_null(buf);
    buf[SHORT] = FILL;
    struct fixture *f = send_open(buf, SHORT);
    assert_int_equal(fixture_post(f, 0, 1, 1, IBV_WR_SEND, 0, local, RECORD_BYTES, NULL), 0);
    fixture_run(f, SECOND);
    fixture_assert_status(f, 1, 7, IBV_WC_RECV, IBV_WC_LOC_LEN_ERR);
    assert_int_equal(buf[SHORT], FILL);
    fixture_close(f);
    free(buf);
    free(local);
}

/* A target that was not sent to for long takes what comes then, whatever has been sent to others
 * meanwhile. */
static void source__silent_for_long__its_numbers_begin_anew(void **state)
{
    (void)state;
    enum { BYTES = 100 };
    struct fixture *f = fixture_new();
    f->config.qp.type = DIWARP_QPT_UD;
    fixture_open(f);
    uint8_t *local = fixture_payload(1, BYTES), remote[BYTES];
    struct diwarp_mr *mr = fixture_reg(f, 1, remote, BYTES);
    struct ibv_sge sge = {.addr = (uintptr_t)remote, .length = BYTES};
    struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1};
    struct dw_ud *ud = f->world.nodes[0].qp->ud;
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(diwarp_post_recv(f->world.nodes[1].qp, &recv), 0);
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_SEND, 0, local, BYTES, NULL), 0);
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_RDMA_WRITE, 0, local, BYTES, mr), 0);
        fixture_run(f, SECOND);
        assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), i);
        assert_int_equal(fixture_count(f, 1, DIWARP_WC_RECORD), i);
        diwarp_release_record(f->wcs[f->wc_count - 1].record);
        ud->next_msn += 0x90000000;
        ud->next_record += 0x48000000;
        f->world.net.now_ns += 11 * SECOND;
    }
    fixture_close(f);
    free(local);
}

static void send__no_receive_posted__dropped_and_counted(void **state)
{
    (void)state;
    uint8_t buf[16] = {0}, local[16] = {0};
    struct fixture *f = send_open(buf, sizeof buf);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(fixture_post(f, 0, 1, i, IBV_WR_SEND, 0, local, sizeof local, NULL), 0);
    fixture_run(f, SECOND);
    assert_int_equal(fixture_count(f, 1, IBV_WC_RECV), 1);
    assert_int_equal(sim_counters(&f->world, 1)->drop_no_buffer, 2);
    fixture_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write__nothing_lost__handed_over_at_once),
        cmocka_unit_test(write__any_segment_lost__exactly_that_hole),
        cmocka_unit_test(write__under_way__map_can_be_asked),
        cmocka_unit_test(write__repeated__handed_over_once),
        cmocka_unit_test(send__segment_lost__receive_serves_the_next),
        cmocka_unit_test(send__receive_too_short__says_so),
        cmocka_unit_test(source__silent_for_long__its_numbers_begin_anew),
        cmocka_unit_test(send__no_receive_posted__dropped_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
