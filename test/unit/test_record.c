/* SPDX-License-Identifier: BSD-3-Clause */
/* Both ends of a Write-Record, step by step. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/rel/record.h"

#define SEGMENT 100 /* bytes of a segment */
#define REORDER (3 * SEGMENT)
#define HOLES   4

static void assert_holes(const struct dw_range *holes, unsigned n, const struct dw_range *expected,
                         unsigned expected_count)
{
    assert_int_equal(n, expected_count);
    assert_memory_equal(holes, expected, n * sizeof *holes);
}

static void init_sink(struct dw_record_sink *sink, uint32_t total, uint64_t now_ns)
{
    *sink = (struct dw_record_sink){
        .total = total, .reorder_bytes = REORDER, .again_bytes = REORDER, .heard_ns = now_ns};
}

/* The i-th segment came. */
static int64_t came(struct dw_record_sink *sink, uint32_t i)
{
    uint32_t offset = i * SEGMENT;
    uint32_t left = sink->total - offset;

    return dw_record_sink_on_segment(sink, offset, left < SEGMENT ? left : SEGMENT, i + 1);
}

static void record_sink__full_when_all_came(void **state)
{
    (void)state;
    static const uint32_t order[] = {3, 0, 2, 2, 1, 0};
    static const int64_t new_bytes[] = {50, SEGMENT, SEGMENT, 0, SEGMENT, 0};
    struct dw_record_sink sink;
    uint32_t due = 3 * SEGMENT + 50;

    init_sink(&sink, due, 7);
    assert_int_equal(sink.heard_ns, 7);
    sink.granted = sink.total;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        assert_int_equal(came(&sink, order[i]), new_bytes[i]);
        due -= (uint32_t)new_bytes[i];
        assert_int_equal(dw_record_sink_due_bytes(&sink), due);
        assert_int_equal(dw_record_sink_full(&sink), due == 0);
        assert_int_equal(sink.heard_ns, order[i] + 1);
    }
    dw_ranges_fini(&sink.map);
}

static void record_sink__nothing_is_full_at_once(void **state)
{
    (void)state;
    struct dw_record_sink sink;
    struct dw_range holes[HOLES];

    init_sink(&sink, 0, 0);
    assert_true(dw_record_sink_full(&sink));
    assert_int_equal(dw_record_sink_on_gap(&sink, UINT32_MAX, holes, HOLES), 0);
    assert_int_equal(dw_record_sink_on_timeout(&sink, UINT32_MAX, holes, HOLES), 0);
    dw_ranges_fini(&sink.map);
}

static void record_sink_on_gap__after_reordering_only(void **state)
{
    (void)state;
    static const struct {
        uint32_t segment;
        unsigned count;
        struct dw_range holes[1];
    } steps[] = {
        {0, 0, {{0}}},
        {2, 0, {{0}}}, /* 1 is missing, but may just be late */
        {3, 0, {{0}}},
        {4, 1, {{SEGMENT, 2 * SEGMENT}}},
        {5, 0, {{0}}}, /* asked for already */
        {8, 0, {{0}}},
        {9, 1, {{6 * SEGMENT, 7 * SEGMENT}}}, /* byte by byte: the rest is not as late yet */
        {10, 1, {{7 * SEGMENT, 8 * SEGMENT}}},
        {1, 0, {{0}}},
    };
    struct dw_record_sink sink;
    struct dw_range holes[HOLES];

    init_sink(&sink, 20 * SEGMENT, 0);
    sink.granted = sink.total;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        assert_int_equal(came(&sink, steps[i].segment), SEGMENT);
        assert_holes(holes, dw_record_sink_on_gap(&sink, UINT32_MAX, holes, HOLES), steps[i].holes,
                     steps[i].count);
    }
    dw_ranges_fini(&sink.map);
}

static void record_sink_on_gap__what_did_not_fit_comes_next(void **state)
{
    (void)state;
    struct dw_record_sink sink;
    struct dw_range holes[2];

    init_sink(&sink, 20 * SEGMENT, 0);
    sink.granted = sink.total;
    for (uint32_t i = 1; i < 15; i += 2)
        came(&sink, i);
    for (uint32_t first = 0; first < 12; first += 4) {
        const struct dw_range expected[2] = {
            {first * SEGMENT, (first + 1) * SEGMENT},
            {(first + 2) * SEGMENT, (first + 3) * SEGMENT},
        };
        /* highest is 14 segments: those up to the 11th are told lost. */
        assert_holes(holes, dw_record_sink_on_gap(&sink, UINT32_MAX, holes, 2), expected, 2);
    }
    assert_int_equal(dw_record_sink_on_gap(&sink, UINT32_MAX, holes, 2), 0);
    dw_ranges_fini(&sink.map);
}

static void record_sink_on_overtaken__asks_once(void **state)
{
    (void)state;
    enum { SEGMENTS = 8 };
    struct dw_record_sink sink;
    struct dw_range holes[HOLES];
    const struct dw_range lost[2] = {{2 * SEGMENT, 3 * SEGMENT}, {7 * SEGMENT, 8 * SEGMENT}};

    init_sink(&sink, SEGMENTS * SEGMENT, 0);
    sink.granted = sink.total;
    for (uint32_t i = 0; i < SEGMENTS - 1; i++)
        if (i != 2)
            came(&sink, i);
    assert_holes(holes, dw_record_sink_on_overtaken(&sink, holes, HOLES), lost, 2);
    assert_int_equal(dw_record_sink_on_overtaken(&sink, holes, HOLES), 0);
    assert_int_equal(dw_record_sink_on_gap(&sink, UINT32_MAX, holes, HOLES), 0);
    assert_int_equal(sink.backoff, 0);
    dw_ranges_fini(&sink.map);
}

static void record_sink_on_timeout__last_segment_lost(void **state)
{
    (void)state;
    enum { SEGMENTS = 50, TOTAL = SEGMENTS * SEGMENT - 33 };
    struct dw_record_sink sink;
    struct dw_range holes[HOLES];
    const struct dw_range last = {(SEGMENTS - 1) * SEGMENT, TOTAL};

    init_sink(&sink, TOTAL, 0);
    sink.granted = TOTAL;
    for (uint32_t i = 0; i < SEGMENTS - 1; i++) {
        came(&sink, i);
        assert_int_equal(dw_record_sink_on_gap(&sink, UINT32_MAX, holes, HOLES), 0);
    }
    /* Again and again, as the answer may be lost too. */
    for (unsigned round = 1; round <= 3; round++) {
        assert_holes(holes, dw_record_sink_on_timeout(&sink, UINT32_MAX, holes, HOLES), &last, 1);
        assert_int_equal(sink.backoff, round);
    }
    assert_int_equal(came(&sink, SEGMENTS - 1), SEGMENT - 33);
    assert_int_equal(sink.backoff, 0);
    assert_true(dw_record_sink_full(&sink));
    dw_ranges_fini(&sink.map);
}

static void record_sink_on_timeout__only_below_the_grant(void **state)
{
    (void)state;
    static const struct dw_range expected[] = {{0, SEGMENT}, {2 * SEGMENT, 5 * SEGMENT}};
    struct dw_record_sink sink;
    struct dw_range holes[HOLES];

    init_sink(&sink, 20 * SEGMENT, 0);
    sink.granted = 5 * SEGMENT;
    came(&sink, 1);
    assert_holes(holes, dw_record_sink_on_timeout(&sink, UINT32_MAX, holes, HOLES), expected, 2);
    assert_holes(holes, dw_record_sink_on_timeout(&sink, UINT32_MAX, holes, 1), expected, 1);
    dw_ranges_fini(&sink.map);
}

/* What was lost of a queue that was full fills it no more: it is asked for as other bytes come. */
static void record_sink__asks_at_the_rate_at_which_it_gets(void **state)
{
    (void)state;
    struct dw_record_sink sink;
    struct dw_range holes[HOLES];
    const struct dw_range first = {SEGMENT, 4 * SEGMENT}, second = {4 * SEGMENT, 5 * SEGMENT};

    init_sink(&sink, 20 * SEGMENT, 0);
    sink.granted = sink.total;
    came(&sink, 0);
    came(&sink, 15);
    /* Three at first, and what came, but no more than so much is saved up. */
    assert_holes(holes, dw_record_sink_on_gap(&sink, REORDER, holes, HOLES), &first, 1);
    assert_int_equal(dw_record_sink_on_gap(&sink, REORDER, holes, HOLES), 0);
    came(&sink, 16);
    assert_holes(holes, dw_record_sink_on_gap(&sink, REORDER, holes, HOLES), &second, 1);
    dw_ranges_fini(&sink.map);
}

static void record_sink_on_timeout__the_rest_follows_as_it_comes(void **state)
{
    (void)state;
    struct dw_record_sink sink;
    struct dw_range holes[HOLES];
    const struct dw_range first = {0, 2 * SEGMENT}, second = {2 * SEGMENT, 3 * SEGMENT};

    init_sink(&sink, 8 * SEGMENT, 0);
    sink.granted = sink.total;
    came(&sink, 5);
    assert_holes(holes, dw_record_sink_on_timeout(&sink, 2 * SEGMENT, holes, HOLES), &first, 1);
    came(&sink, 0);
    assert_holes(holes, dw_record_sink_on_gap(&sink, REORDER, holes, HOLES), &second, 1);
    came(&sink, 1);
    assert_int_equal(dw_record_sink_on_gap(&sink, REORDER, holes, HOLES), 1);
    assert_int_equal(holes[0].start, 3 * SEGMENT);
    dw_ranges_fini(&sink.map);
}

/* Neither a time-out nor offsets next to 2^32 make a gap be asked for twice. */
static void record_sink_on_gap__asks_once_next_to_4_gib(void **state)
{
    (void)state;
    static const struct dw_range expected[] = {{SEGMENT, 0xfff00000}, {0xfff00064, UINT32_MAX}};
    struct dw_record_sink sink;
    struct dw_range holes[HOLES];

    init_sink(&sink, UINT32_MAX, 0);
    sink.granted = UINT32_MAX;
    dw_record_sink_on_segment(&sink, 0, SEGMENT, 1);
    dw_record_sink_on_segment(&sink, 0xfff00000, SEGMENT, 1);
    assert_holes(holes, dw_record_sink_on_timeout(&sink, UINT32_MAX, holes, HOLES), expected, 2);
    assert_int_equal(dw_record_sink_on_gap(&sink, UINT32_MAX, holes, HOLES), 0);
    dw_record_sink_on_segment(&sink, 0xfffff000, SEGMENT, 2);
    assert_int_equal(dw_record_sink_on_gap(&sink, UINT32_MAX, holes, HOLES), 0);
    dw_ranges_fini(&sink.map);
}

static void record_sink_on_segment__map_full_of_ranges(void **state)
{
    (void)state;
    struct dw_record_sink sink;

    init_sink(&sink, UINT32_MAX, 0);
    sink.granted = sink.total;
    for (uint32_t i = 0; i < DW_RANGES_MAX; i++)
        assert_int_equal(dw_record_sink_on_segment(&sink, 4 * i, 1, 1), 1);
    const uint32_t highest = dw_ranges_end(&sink.map);
    assert_int_equal(dw_record_sink_on_segment(&sink, 4 * DW_RANGES_MAX, 1, 2), -ENOMEM);
    assert_int_equal(dw_ranges_end(&sink.map), highest); /* as if it had not come */
    assert_int_equal(sink.heard_ns, 1);
    assert_int_equal(dw_record_sink_on_segment(&sink, 1, 3, 3), 3);
    dw_ranges_fini(&sink.map);
}

static void record_source__sends_what_is_granted(void **state)
{
    (void)state;
    enum { TOTAL = 250 };
    static const struct {
        uint32_t granted;
        struct dw_range next;
    } steps[] = {
        {50, {0, 50}}, {200, {50, 150}}, {200, {150, 200}}, {100, {0, 0}}, {TOTAL, {200, TOTAL}},
    };
    struct dw_record_source source;
    struct dw_range range;
    bool again;

    source = (struct dw_record_source){.total = TOTAL, .granted = 0};
    assert_false(dw_record_source_ready(&source));
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        bool any = steps[i].next.end != 0;
        assert_true(dw_record_source_on_status(&source, (struct dw_record_by){0}, steps[i].granted,
                                               NULL, 0));
        assert_int_equal(dw_record_source_ready(&source), any);
        assert_int_equal(dw_record_source_next(&source, 0, SEGMENT, &range, &again), any);
        assert_false(again);
        if (any)
            assert_memory_equal(&range, &steps[i].next, sizeof range);
    }
    dw_ranges_fini(&source.again);
}

static void record_source_on_status__outside_the_record(void **state)
{
    (void)state;
    enum { TOTAL = 250 };
    static const struct {
        uint32_t granted;
        struct dw_range missing[2];
        bool good;
    } cases[] = {
        {TOTAL, {{0, 10}, {20, TOTAL}}, true},
        {TOTAL + 1, {{0, 10}, {20, 30}}, false},
        {TOTAL, {{0, 10}, {20, TOTAL + 1}}, false},
        {TOTAL, {{0, 10}, {20, 20}}, false},
        {TOTAL, {{0, 10}, {30, 20}}, false},
        {TOTAL, {{0, 10}, {UINT32_MAX, 0}}, false},
        {0, {{20, 30}, {0, 10}}, true}, /* their order is not ours to judge */
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dw_record_source source;
        struct dw_range range;
        bool again;
        source = (struct dw_record_source){.total = TOTAL, .granted = SEGMENT};
        assert_true(dw_record_source_next(&source, 0, SEGMENT, &range, &again));
        assert_int_equal(dw_record_source_on_status(&source, (struct dw_record_by){0},
                                                    cases[i].granted, cases[i].missing, 2),
                         cases[i].good);
        if (!cases[i].good) {
            assert_int_equal(source.again.count, 0);
            assert_int_equal(source.granted, SEGMENT);
        } else {
            assert_int_equal(source.again.count, 2);
        }
        dw_ranges_fini(&source.again);
    }
}

static void record_source_next__again_goes_first(void **state)
{
    (void)state;
    static const struct dw_range missing[] = {{150, 170}, {50, 60}, {150, 260}, {300, 310}};
    static const struct {
        struct dw_range range;
        bool again;
    } expected[] = {
        {{50, 60}, true},
        {{150, 200}, true}, /* the rest was not sent yet */
        {{200, 300}, false},
        {{300, 400}, false},
    };
    struct dw_record_source source;
    struct dw_range range;
    bool again;

    source = (struct dw_record_source){.total = 400, .granted = 400};
    for (unsigned i = 0; i < 2; i++)
        assert_true(dw_record_source_next(&source, 0, SEGMENT, &range, &again));
    assert_true(dw_record_source_on_status(&source, (struct dw_record_by){0}, 400, missing, 4));
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_true(dw_record_source_ready(&source));
        assert_true(dw_record_source_next(&source, 0, SEGMENT, &range, &again));
        assert_memory_equal(&range, &expected[i].range, sizeof range);
        assert_int_equal(again, expected[i].again);
    }
    assert_false(dw_record_source_ready(&source));
    assert_false(dw_record_source_next(&source, 0, SEGMENT, &range, &again));
    dw_ranges_fini(&source.again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record_sink__full_when_all_came),
        cmocka_unit_test(record_sink__nothing_is_full_at_once),
        cmocka_unit_test(record_sink_on_gap__after_reordering_only),
        cmocka_unit_test(record_sink_on_gap__what_did_not_fit_comes_next),
        cmocka_unit_test(record_sink_on_overtaken__asks_once),
        cmocka_unit_test(record_sink_on_timeout__last_segment_lost),
        cmocka_unit_test(record_sink_on_timeout__only_below_the_grant),
        cmocka_unit_test(record_sink_on_gap__asks_once_next_to_4_gib),
        cmocka_unit_test(record_sink__asks_at_the_rate_at_which_it_gets),
        cmocka_unit_test(record_sink_on_timeout__the_rest_follows_as_it_comes),
        cmocka_unit_test(record_sink_on_segment__map_full_of_ranges),
        cmocka_unit_test(record_source__sends_what_is_granted),
        cmocka_unit_test(record_source_on_status__outside_the_record),
        cmocka_unit_test(record_source_next__again_goes_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
