/* SPDX-License-Identifier: BSD-3-Clause */
/* Records whose parts come by several ways: what is due by which, what is lost, what a source sends
 * where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/rel/record.h"

#define SEGMENT 100
#define REORDER (3 * SEGMENT)
#define STRIPE  1000
#define HOLES   8
#define AGAIN   9 /* in the order of what is asked for */

static void init_sink(struct dw_record_sink *sink, uint32_t total)
{
    *sink = (struct dw_record_sink){
        .total = total, .reorder_bytes = REORDER, .again_bytes = total, .heard_ns = 1};
}

/* Of the sink: stripes by these ways, one after the other. */
static void grant(struct dw_record_sink *sink, const uint8_t *ways, unsigned count)
{
    assert_true(dw_record_sink_split(sink));
    for (unsigned i = 0; i < count; i++)
        dw_record_sink_grant(sink, STRIPE, ways[i], 1 + i);
}

/* It came by the way of its stripe; index of that. */
static unsigned came(struct dw_record_sink *sink, uint32_t offset)
{
    struct dw_stripes *stripes = sink->stripes;
    const unsigned i = dw_stripes_find(stripes, offset);
    assert_int_equal(dw_record_sink_on_segment(sink, offset, SEGMENT, 2), SEGMENT);
    stripes->list[i].came_end = offset + SEGMENT;
    assert_int_equal(dw_stripe_on_came(stripes, i, &sink->map), SEGMENT);
    return i;
}

static void split__what_was_granted_before_comes_by_way_0(void **state)
{
    (void)state;
    struct dw_record_sink sink;
    init_sink(&sink, 4 * STRIPE);
    dw_record_sink_grant(&sink, STRIPE, 0, 0);
    assert_int_equal(dw_record_sink_on_segment(&sink, 0, SEGMENT, 2), SEGMENT);
    assert_int_equal(dw_record_sink_on_segment(&sink, 300, SEGMENT, 2), SEGMENT);
    grant(&sink, (const uint8_t[]){3}, 1);
    assert_int_equal(sink.stripes->count, 2);
    assert_int_equal(sink.stripes->list[0].due_bytes, STRIPE - 2 * SEGMENT);
    assert_int_equal(sink.stripes->list[0].came_end, 400);
    assert_int_equal(sink.stripes->list[1].way, 3);
    assert_int_equal(sink.granted, 2 * STRIPE);
    dw_record_sink_fini(&sink);
}

static void stripes__whole_ones_are_forgotten(void **state)
{
    (void)state;
    struct dw_record_sink sink;
    init_sink(&sink, 3 * STRIPE);
    grant(&sink, (const uint8_t[]){1, 2, 1}, 3);
    for (uint32_t at = STRIPE; at < 2 * STRIPE; at += SEGMENT)
        (void)came(&sink, at);
    dw_stripes_trim(sink.stripes);
    assert_int_equal(sink.stripes->count, 2);
    assert_int_equal(dw_stripes_find(sink.stripes, 0), 0);
    assert_int_equal(dw_stripes_find(sink.stripes, 2 * STRIPE), 1);
    assert_int_equal(dw_stripes_find(sink.stripes, 3 * STRIPE), 2);
    dw_record_sink_fini(&sink);
}

/* What comes by one way says nothing of another. */
static void gap__only_of_the_same_way(void **state)
{
    (void)state;
    struct dw_record_sink sink;
    struct dw_range holes[HOLES];
    init_sink(&sink, 3 * STRIPE);
    grant(&sink, (const uint8_t[]){1, 2, 1}, 3);
    (void)came(&sink, 0);
    unsigned at = came(&sink, STRIPE + 900);
    assert_int_equal(dw_record_sink_on_stripe_gap(&sink, at, AGAIN, UINT32_MAX, holes, HOLES), 1);
    assert_int_equal(holes[0].start, STRIPE);
    assert_int_equal(holes[0].end, STRIPE + 700); /* 700 to 900 may have been overtaken */
    assert_int_equal(dw_record_sink_on_stripe_gap(&sink, at, AGAIN, UINT32_MAX, holes, HOLES), 0);
    /* 100 bytes of the next stripe by way 1: of the first one 200 less may have been overtaken. */
    at = came(&sink, 2 * STRIPE);
    assert_int_equal(dw_record_sink_on_stripe_gap(&sink, at, AGAIN, UINT32_MAX, holes, HOLES), 0);
    (void)came(&sink, 2 * STRIPE + 100);
    at = came(&sink, 2 * STRIPE + 200);
    assert_int_equal(dw_record_sink_on_stripe_gap(&sink, at, AGAIN, UINT32_MAX, holes, HOLES), 1);
    assert_int_equal(holes[0].start, SEGMENT);
    assert_int_equal(holes[0].end, STRIPE);
    dw_record_sink_fini(&sink);
}

static void way_timeout__all_that_is_due_by_it(void **state)
{
    (void)state;
    struct dw_record_sink sink;
    struct dw_range holes[HOLES];
    init_sink(&sink, 3 * STRIPE);
    grant(&sink, (const uint8_t[]){1, 2, 1}, 3);
    (void)came(&sink, 500);
    assert_int_equal(dw_record_sink_on_way_lost(&sink, 1, AGAIN, 1200, holes, HOLES), 3);
    assert_int_equal(holes[0].end, 500);
    assert_int_equal(holes[1].start, 600);
    assert_int_equal(holes[1].end, STRIPE);
    assert_int_equal(holes[2].start, 2 * STRIPE);
    assert_int_equal(holes[2].end, 2 * STRIPE + 300); /* no more than that at a time */
    dw_record_sink_fini(&sink);
}

/* By way 1, with numbers before that. */
static unsigned overtaken(struct dw_record_sink *sink, uint32_t before, bool once,
                          struct dw_range *holes)
{
    return dw_record_sink_on_way_overtaken(sink, 1, before, once, AGAIN, holes, HOLES);
}

/* What was asked for before something that came, by the same way, and has not come is lost; even if
 * it was asked for again, but not since. */
static void overtaken__what_was_asked_for_before(void **state)
{
    (void)state;
    struct dw_record_sink sink;
    struct dw_range holes[HOLES];
    init_sink(&sink, 3 * STRIPE);
    grant(&sink, (const uint8_t[]){1, 1, 2}, 3);
    assert_false(dw_record_sink_is_due_before(&sink, 1, 1));
    assert_int_equal(overtaken(&sink, 1, false, holes), 0);
    assert_true(dw_record_sink_is_due_before(&sink, 1, 2));
    assert_int_equal(overtaken(&sink, 2, false, holes), 1);
    assert_int_equal(holes[0].start, 0);
    assert_int_equal(holes[0].end, STRIPE);
    assert_int_equal(overtaken(&sink, 2, false, holes), 0);
    assert_int_equal(overtaken(&sink, AGAIN + 1, true, holes), 1); /* the other one, once */
    assert_int_equal(holes[0].start, STRIPE);
    assert_int_equal(overtaken(&sink, AGAIN + 1, true, holes), 0);
    sink.again_bytes = 2 * STRIPE;
    assert_int_equal(overtaken(&sink, AGAIN + 1, false, holes), 2);
    dw_record_sink_fini(&sink);
}

/* Numbers begin again at 0. */
static void overtaken__numbers_wrap(void **state)
{
    (void)state;
    struct dw_record_sink sink;
    struct dw_range holes[HOLES];
    init_sink(&sink, 2 * STRIPE);
    dw_record_sink_grant(&sink, STRIPE, 0, UINT32_MAX);
    assert_true(dw_record_sink_split(&sink));
    dw_record_sink_grant(&sink, STRIPE, 0, 0);
    assert_int_equal(overtaken(&sink, UINT32_MAX, false, holes), 0);
    assert_int_equal(dw_record_sink_on_way_overtaken(&sink, 0, 0, false, 1, holes, HOLES), 1);
    assert_int_equal(holes[0].start, 0);
    dw_record_sink_fini(&sink);
}

/* A stripe tells of others when more of it came than reordering explains, and all for the first
 * time. */
static void tells__in_order__once(void **state)
{
    (void)state;
    struct dw_record_sink sink;
    struct dw_range holes[HOLES];
    init_sink(&sink, STRIPE);
    grant(&sink, (const uint8_t[]){1}, 1);
    const struct dw_stripe *stripe = &sink.stripes->list[0];
    (void)came(&sink, 100);
    assert_false(dw_stripe_tells(stripe, REORDER));
    const unsigned at = came(&sink, 300);
    assert_true(dw_stripe_tells(stripe, REORDER));
    assert_int_equal(dw_record_sink_on_stripe_gap(&sink, at, AGAIN, UINT32_MAX, holes, HOLES), 1);
    assert_int_equal(stripe->order, AGAIN);
    assert_false(dw_stripe_tells(stripe, REORDER));
    dw_record_sink_fini(&sink);
}

static void move__what_is_due_of_it_by_another_way(void **state)
{
    (void)state;
    struct dw_record_sink sink;
    struct dw_range holes[HOLES];
    init_sink(&sink, 2 * STRIPE);
    grant(&sink, (const uint8_t[]){1, 2}, 2);
    (void)came(&sink, 0);
    (void)came(&sink, 500);
    sink.again_bytes = 0;
    assert_int_equal(dw_record_sink_move(&sink, 0, 2, AGAIN, holes, HOLES), 2);
    assert_int_equal(holes[0].start, SEGMENT);
    assert_int_equal(holes[0].end, 500);
    assert_int_equal(holes[1].end, STRIPE);
    assert_int_equal(sink.stripes->list[0].way, 2);
    assert_int_equal(dw_record_sink_on_way_lost(&sink, 1, AGAIN, STRIPE, holes, HOLES), 0);
    dw_record_sink_fini(&sink);
}

/* ---- source ---- */

static const struct dw_record_by by_1 = {.way = 1, .timestamp = 7};
static const struct dw_record_by by_2 = {.way = 2, .timestamp = 8};

/* All that there is to send by the way that is next; its bytes from..until. */
static struct dw_range send_all(struct dw_record_source *source, uint8_t way)
{
    struct dw_range range, all = {0};
    bool again;
    while (dw_record_source_ready(source) && dw_record_source_by(source).way == way &&
           dw_record_source_next(source, way, SEGMENT, &range, &again)) {
        if (!all.end)
            all.start = range.start;
        all.end = range.end;
    }
    return all;
}

static void assert_range(struct dw_range range, uint32_t start, uint32_t end)
{
    assert_int_equal(range.start, start);
    assert_int_equal(range.end, end);
}

/* Statuses that overtake each other: each grants its own range by its own way. */
static void source__sends_each_range_by_its_way(void **state)
{
    (void)state;
    struct dw_record_source source = {.total = 4 * STRIPE, .granted = 500};
    const struct dw_range first = {500, STRIPE}, second = {STRIPE, 2 * STRIPE};
    assert_true(dw_record_source_on_status(&source, by_2, 2 * STRIPE, &second, 1));
    assert_true(dw_record_source_on_status(&source, by_1, STRIPE, &first, 1));
    assert_range(send_all(&source, 0), 0, 500); /* granted before */
    assert_int_equal(dw_record_source_by(&source).timestamp, by_2.timestamp);
    assert_range(send_all(&source, 2), STRIPE, 2 * STRIPE);
    assert_range(send_all(&source, 1), 500, STRIPE);
    assert_false(dw_record_source_ready(&source));
    dw_record_source_fini(&source);
}

/* The last grant before the split comes after the first of another way, a part of which is sent. */
static void source__grant_overtaken_by_a_split__is_sent(void **state)
{
    (void)state;
    static const struct dw_record_by by_0 = {0};
    const struct dw_range second = {STRIPE, 2 * STRIPE};
    for (unsigned sent = 0; sent < 2; sent++) {
        struct dw_record_source source = {.total = 4 * STRIPE, .granted = 500};
        struct dw_range range;
        bool again;
        assert_true(dw_record_source_on_status(&source, by_2, 2 * STRIPE, &second, 1));
        assert_range(send_all(&source, 0), 0, 500);
        if (sent)
            assert_true(dw_record_source_next(&source, 2, SEGMENT, &range, &again));
        assert_true(dw_record_source_on_status(&source, by_0, STRIPE, NULL, 0));
        if (!sent)
            assert_range(send_all(&source, 0), 500, STRIPE);
        assert_range(send_all(&source, 2), sent ? range.end : STRIPE, 2 * STRIPE);
        if (sent)
            assert_range(send_all(&source, 0), 500, STRIPE);
        assert_false(dw_record_source_ready(&source));
        dw_record_source_fini(&source);
    }
}

/* The way was left: nothing goes by it any more. */
static void source__moved_ranges_go_once(void **state)
{
    (void)state;
    struct dw_record_source source = {.total = 4 * STRIPE};
    const struct dw_range all = {0, 2 * STRIPE}, tail = {600, 3 * STRIPE};
    assert_true(dw_record_source_on_status(&source, by_1, 2 * STRIPE, &all, 1));
    assert_true(dw_record_source_on_status(&source, by_2, 2 * STRIPE, &tail, 1));
    assert_range(send_all(&source, 1), 0, 600);
    assert_range(send_all(&source, 2), 600, 3 * STRIPE);
    assert_false(dw_record_source_ready(&source));
    dw_record_source_fini(&source);
}

static void source__moved_from_within__the_rest_stays(void **state)
{
    (void)state;
    struct dw_record_source source = {.total = 4 * STRIPE};
    const struct dw_range all = {0, 2 * STRIPE}, within = {600, STRIPE};
    assert_true(dw_record_source_on_status(&source, by_1, 2 * STRIPE, &all, 1));
    assert_true(dw_record_source_on_status(&source, by_2, 2 * STRIPE, &within, 1));
    assert_int_equal(source.pieces->count, 3);
    assert_range(source.pieces->list[0].range, 0, 600);
    assert_range(source.pieces->list[1].range, STRIPE, 2 * STRIPE);
    assert_int_equal(source.pieces->list[1].by.way, 1);
    assert_range(source.pieces->list[2].range, 600, STRIPE);
    assert_int_equal(source.pieces->list[2].by.way, 2);
    dw_record_source_fini(&source);
}

/* Who is asked for the same again, before it went, is not to send it later for that. */
static void source__asked_for_again_by_the_same_way__keeps_its_place(void **state)
{
    (void)state;
    struct dw_record_source source = {.total = 4 * STRIPE};
    const struct dw_range first = {200, STRIPE}, second = {STRIPE, 2 * STRIPE};
    const struct dw_range again[] = {{0, 100}, {100, 600}, {700, 1500}};
    assert_true(dw_record_source_on_status(&source, by_1, STRIPE, &first, 1));
    assert_true(dw_record_source_on_status(&source, by_2, 2 * STRIPE, &second, 1));
    assert_true(dw_record_source_on_status(&source, by_1, 2 * STRIPE, again, 3));
    assert_range(send_all(&source, 1), 200, STRIPE);
    assert_range(send_all(&source, 2), 1500, 2 * STRIPE);
    assert_range(send_all(&source, 1), 0, 1500);
    assert_false(dw_record_source_ready(&source));
    dw_record_source_fini(&source);
}

static void source__what_a_full_socket_refuses_goes_later(void **state)
{
    (void)state;
    struct dw_record_source source = {.total = STRIPE};
    const struct dw_range all = {0, STRIPE};
    struct dw_range taken[2];
    bool again;
    assert_true(dw_record_source_on_status(&source, by_1, STRIPE, &all, 1));
    for (unsigned i = 0; i < 2; i++)
        assert_true(dw_record_source_next(&source, 1, SEGMENT, &taken[i], &again));
    assert_false(dw_record_source_next(&source, 2, SEGMENT, &taken[0], &again));
    dw_record_source_put_back(&source, by_1, (const struct dw_range[]){{0, 100}, {100, 200}}, 2);
    assert_range(send_all(&source, 1), 0, STRIPE);
    dw_record_source_fini(&source);
}

static void source__more_ranges_than_fit__no_harm(void **state)
{
    (void)state;
    struct dw_record_source source = {.total = 1000 * STRIPE};
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < 2 * DW_RECORD_PIECES_MAX; i++) {
        const struct dw_range range = {i * STRIPE, i * STRIPE + SEGMENT};
        assert_true(dw_record_source_on_status(&source, by_1, 0, &range, 1));
    }
    struct dw_range range;
    bool again;
    while (dw_record_source_next(&source, 1, SEGMENT, &range, &again))
        bytes += range.end - range.start;
    assert_int_equal(bytes, DW_RECORD_PIECES_MAX * SEGMENT); /* the sink asks for the others */
    dw_record_source_fini(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split__what_was_granted_before_comes_by_way_0),
        cmocka_unit_test(stripes__whole_ones_are_forgotten),
        cmocka_unit_test(gap__only_of_the_same_way),
        cmocka_unit_test(way_timeout__all_that_is_due_by_it),
        cmocka_unit_test(overtaken__what_was_asked_for_before),
        cmocka_unit_test(overtaken__numbers_wrap),
        cmocka_unit_test(tells__in_order__once),
        cmocka_unit_test(move__what_is_due_of_it_by_another_way),
        cmocka_unit_test(source__sends_each_range_by_its_way),
        cmocka_unit_test(source__grant_overtaken_by_a_split__is_sent),
        cmocka_unit_test(source__moved_ranges_go_once),
        cmocka_unit_test(source__moved_from_within__the_rest_stays),
        cmocka_unit_test(source__asked_for_again_by_the_same_way__keeps_its_place),
        cmocka_unit_test(source__what_a_full_socket_refuses_goes_later),
        cmocka_unit_test(source__more_ranges_than_fit__no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
