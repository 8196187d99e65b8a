/* SPDX-License-Identifier: BSD-3-Clause */
/* UD: what one lost segment costs, and when a record is handed over. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/ud/ud.h"
#include "common/wire/rdmap.h"
#include "test/sim/sim_fixture.h"
#include "common/include/diwarp_ud.h"

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

static void write__repeated__handed_over_once(void **state)
{
    (void)state;
    struct write_case w;
    write_open(&w, UINT32_MAX);
    w.f->world.net.filter = fixture_repeat_all;
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

/* ---- what comes late, or again ---- */

enum { SHORT_BYTES = 100, TAPES = 80 };

/* The datagrams of node 0, to be played again: of one segment each. */
static struct tape {
    struct fixture *f;
    struct diwarp_mr *mr;
    uint8_t *local, *remote;
    bool records, drops;
    unsigned count;
    uint32_t bytes[TAPES];
    uint8_t datagrams[TAPES][SHORT_BYTES + 200];
} tape;

static enum sim_verdict record_tape(void *world, const struct sim_endpoint *from,
                                    const uint8_t *buf, uint32_t bytes)
{
    (void)world, (void)from;
    if (!tape.records)
        return SIM_PASS;
    assert_true(tape.count < TAPES && bytes <= sizeof tape.datagrams[0]);
    memcpy(tape.datagrams[tape.count], buf, bytes);
    tape.bytes[tape.count++] = bytes;
    return tape.drops ? SIM_DROP : SIM_PASS;
}

static void play(unsigned i)
{
    struct sim_node *node = &tape.f->world.nodes[0];
    struct iovec iov = {.iov_base = tape.datagrams[i], .iov_len = tape.bytes[i]};
    const struct dw_llp_addr to = dw_ah_addr(node->ahs[1]);
    struct dw_llp_train train = {
        .to = &to, .iov = &iov, .iov_count = 1, .segment_bytes = tape.bytes[i]};
    tape.records = false;
    assert_int_equal(dw_datagrams_send(&node->qp->port->datagrams, &train), 0);
    fixture_run(tape.f, SECOND);
}

static void put_short(uint64_t wr_id)
{
    assert_int_equal(
        fixture_post(tape.f, 0, 1, wr_id, IBV_WR_RDMA_WRITE, 0, tape.local, SHORT_BYTES, tape.mr),
        0);
    fixture_run(tape.f, SECOND);
}

static void send_short(uint64_t wr_id, unsigned to)
{
    assert_int_equal(
        fixture_post(tape.f, 0, to, wr_id, IBV_WR_SEND, 0, tape.local, SHORT_BYTES, NULL), 0);
    fixture_run(tape.f, SECOND);
}

static void post_receive(void)
{
    struct ibv_sge sge = {.addr = (uintptr_t)tape.remote, .length = SHORT_BYTES};
    struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1};
    assert_int_equal(diwarp_post_recv(tape.f->world.nodes[1].qp, &recv), 0);
}

static void tape_open(bool drops, uint32_t first_serial)
{
    memset(&tape, 0, sizeof tape);
    tape.f = fixture_new();
    tape.f->config.qp.type = DIWARP_QPT_UD;
    tape.f->config.node_count = 3;
    tape.f->config.first_serial = first_serial;
    fixture_open(tape.f);
    tape.f->world.net.filter = record_tape;
    tape.records = true;
    tape.drops = drops;
    tape.local = fixture_payload(1, SHORT_BYTES);
    tape.remote = malloc(SHORT_BYTES);
    assert_non_null(tape.remote);
    tape.mr = fixture_reg(tape.f, 1, tape.remote, SHORT_BYTES);
}

static void tape_close(void)
{
    for (unsigned i = 0; i < tape.f->wc_count; i++)
        if ((int)tape.f->wcs[i].wc.opcode == DIWARP_WC_RECORD)
            diwarp_release_record(tape.f->wcs[i].record);
    fixture_close(tape.f);
    free(tape.local);
    free(tape.remote);
}

/* All that is on tape comes once more: nobody notices, though a receive is posted. */
static void assert_replay_is_ignored(void)
{
    const unsigned received = fixture_count(tape.f, 1, IBV_WC_RECV);
    const unsigned records = fixture_count(tape.f, 1, DIWARP_WC_RECORD);
    memset(tape.remote, FILL, SHORT_BYTES);
    post_receive();
    for (unsigned i = 0; i < tape.count; i++)
        play(i);
    assert_true(sim_all_bytes(tape.remote, FILL, SHORT_BYTES));
    assert_int_equal(fixture_count(tape.f, 1, IBV_WC_RECV), received);
    assert_int_equal(fixture_count(tape.f, 1, DIWARP_WC_RECORD), records);
}

static void replay__after_long_silence__nothing_happens(void **state)
{
    (void)state;
    static const uint64_t silences_ns[] = {0, 11 * SECOND, 3600 * SECOND};
    for (size_t i = 0; i < sizeof silences_ns / sizeof *silences_ns; i++) {
        tape_open(false, 0);
        post_receive();
        put_short(1);
        send_short(2, 1);
        assert_int_equal(fixture_count(tape.f, 1, IBV_WC_RECV), 1);
        assert_int_equal(fixture_count(tape.f, 1, DIWARP_WC_RECORD), 1);
        tape.f->world.net.now_ns += silences_ns[i];
        assert_replay_is_ignored();
        tape_close();
    }
}

/* The nth Send and the nth record, each of which arrives. */
static void send_and_put(unsigned n)
{
    post_receive();
    put_short(n);
    send_short(100 + n, 1);
    assert_int_equal(fixture_count(tape.f, 1, IBV_WC_RECV), n);
    assert_int_equal(fixture_count(tape.f, 1, DIWARP_WC_RECORD), n);
}

/* Each record that is handed over comes once more after later ones have ended. */
static void replay__serials_wrap__each_once(void **state)
{
    (void)state;
    static const uint32_t firsts[] = {0, UINT32_MAX - 9, 0x7ffffff5, 0x3ffffff5, 0xbffffff5};
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        tape_open(false, firsts[i]);
        for (unsigned n = 1; n <= 20; n++) {
            send_and_put(n);
        }
        assert_replay_is_ignored();
        tape_close();
    }
}

/* So many have been lost that an old serial number looks newer than the last one that came. */
static void replay__half_of_all_serials_later__nothing_happens(void **state)
{
    (void)state;
    static const uint32_t lost[] = {0x30000000, 0x3fffffff, 0x40000000, 0x7fffffff, 0x90000000};
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
        tape_open(false, 0);
        struct sim_node *node = &tape.f->world.nodes[0];
        for (unsigned n = 1; n <= 2; n++) {
            send_and_put(n);
            struct dw_ud_target *target =
                dw_map_get(&dw_ud_qp_of(node->qp)->targets, node->ahs[1]->token ^ 1); /* its QPN */
            target->last[DW_UD_SEND] += lost[i];
            target->last[DW_UD_RECORD] += lost[i];
            node->qp->port->datagrams.number += 2ull * lost[i];
        }
        assert_replay_is_ignored();
        tape_close();
    }
}

/* A QP of the same process, where another one was: its numbers are not those of that one. */
static void qp__made_anew__its_messages_are_taken(void **state)
{
    (void)state;
    tape_open(false, 0);
    struct sim_node *node = &tape.f->world.nodes[0];
    struct diwarp_qp_attr attr = tape.f->config.qp;
    struct diwarp_qp *rd;
    attr.type = DIWARP_QPT_RD;
    attr.cq = node->cq;
    assert_int_equal(diwarp_create_qp(node->pd, &attr, &rd, NULL), 0); /* keeps the port */
    for (unsigned n = 1; n <= 3; n++) {
        send_and_put(n);
        diwarp_destroy_ah(node->ahs[1]);
        diwarp_destroy_ah(node->ahs[2]);
        node->ahs[1] = node->ahs[2] = NULL;
        diwarp_destroy_qp(node->qp);
        attr.type = DIWARP_QPT_UD;
        assert_int_equal(diwarp_create_qp(node->pd, &attr, &node->qp, NULL), 0);
        sim_node_connect(node, &tape.f->world.nodes[1]);
        sim_node_connect(node, &tape.f->world.nodes[2]);
    }
    assert_replay_is_ignored();
    diwarp_destroy_qp(rd);
    tape_close();
}

/* The last of 65 comes first, the others after it: as late as the window of seen ones allows. */
static void reordered__65_in_reverse__all_taken(void **state)
{
    (void)state;
    tape_open(true, UINT32_MAX - 20);
    for (unsigned n = 1; n <= 65; n++)
        put_short(n);
    for (unsigned n = 65; n; n--)
        play(n - 1);
    assert_int_equal(fixture_count(tape.f, 1, DIWARP_WC_RECORD), 65);
    assert_replay_is_ignored();
    tape_close();
}

/* What is sent to one destination, by whichever handle, has numbers of its own. */
static void numbers__two_handles__one_count_per_destination(void **state)
{
    (void)state;
    struct diwarp_address address;
    tape_open(false, 0);
    struct sim_node *node = &tape.f->world.nodes[0];
    struct diwarp_ah *first = node->ahs[1], *second;
    diwarp_query_address(tape.f->world.nodes[1].qp, &address);
    assert_int_equal(diwarp_create_ah(node->qp, &address, &second), 0);
    for (unsigned n = 1; n <= 6; n++) {
        tape.records = false;
        send_short(100 + n, 2);
        tape.records = true;
        node->ahs[1] = n % 2 ? first : second;
        send_short(n, 1);
        struct seen_datagram seen =
            fixture_parse(tape.f->world.net.endpoints[0], tape.datagrams[n - 1], tape.bytes[n - 1]);
        assert_int_equal(seen.ddp.msn, n);
    }
    node->ahs[1] = first;
    diwarp_destroy_ah(second);
    tape_close();
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
        cmocka_unit_test(replay__after_long_silence__nothing_happens),
        cmocka_unit_test(replay__serials_wrap__each_once),
        cmocka_unit_test(replay__half_of_all_serials_later__nothing_happens),
        cmocka_unit_test(qp__made_anew__its_messages_are_taken),
        cmocka_unit_test(reordered__65_in_reverse__all_taken),
        cmocka_unit_test(numbers__two_handles__one_count_per_destination),
        cmocka_unit_test(send__no_receive_posted__dropped_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
