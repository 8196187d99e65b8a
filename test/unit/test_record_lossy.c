/* SPDX-License-Identifier: BSD-3-Clause */
/* Both ends of a Write-Record, driven against each other over a lossy path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/rel/record.h"
#include "test/unit/random.h"

#define SEGMENT   100 /* bytes of a segment */
#define REORDER   (3 * SEGMENT)
#define HOLES     4
#define TOTAL_MAX 40000
#define PATH      64
#define SEEDS     200
#define QUIET_NS  300 /* without news, the sink asks again */

struct segment {
    uint64_t due_ns; /* 0: a free place */
    uint32_t offset, length;
};

struct status {
    uint64_t due_ns; /* 0: a free place */
    uint32_t granted;
    unsigned count;
    struct dw_range missing[HOLES];
};

struct world {
    uint64_t seed, rng, now_ns;
    uint32_t loss_percent, delay_ns, window;
    bool first_only; /* only what goes out for the first time is lost: and never a status */
    struct dw_record_source source;
    struct dw_record_sink sink;
    struct segment segments[PATH];
    struct status statuses[PATH];
    uint64_t lost_bytes, again_bytes;
    uint8_t sent[TOTAL_MAX]; /* how often each byte went out */
    uint8_t placed[TOTAL_MAX];
};

static bool is_lost(struct world *w, bool again)
{
    return !(w->first_only && again) && random_percent(&w->rng, w->loss_percent);
}

static void source_sends(struct world *w)
{
    struct dw_range range;
    bool again;

    for (unsigned i = 0; i < PATH; i++) {
        struct segment *slot = &w->segments[i];
        if (slot->due_ns)
            continue;
        bool ready = dw_record_source_ready(&w->source);
        uint32_t max = 1 + random_below(&w->rng, SEGMENT);
        assert_for_seed(w->seed,
                        dw_record_source_next(&w->source, 0, max, &range, &again) == ready);
        if (!ready)
            return;
        assert_for_seed(w->seed, range.start < range.end && range.end - range.start <= max);
        assert_for_seed(w->seed, range.end <= w->source.granted);
        for (uint32_t at = range.start; at < range.end; at++)
            assert_for_seed(w->seed, again == (w->sent[at] != 0) && ++w->sent[at] < 200);
        if (again)
            w->again_bytes += range.end - range.start;
        if (is_lost(w, again))
            w->lost_bytes += range.end - range.start;
        else
            *slot = (struct segment){w->now_ns + 10 + random_below(&w->rng, w->delay_ns),
                                     range.start, range.end - range.start};
        if (random_percent(&w->rng, 30))
            return;
    }
}

static void sink_tells(struct world *w, const struct dw_range *holes, unsigned count)
{
    /* The budget: so much granted and not yet here. */
    uint32_t due = dw_record_sink_due_bytes(&w->sink);
    uint32_t more = due < w->window ? w->window - due : 0;
    uint32_t left = w->sink.total - w->sink.granted;

    w->sink.granted += more < left ? more : left;
    for (unsigned i = 0; i < count; i++)
        for (uint32_t at = holes[i].start; at < holes[i].end; at++)
            assert_for_seed(w->seed, !w->placed[at]);
    for (unsigned i = 0; i < PATH; i++) {
        if (w->statuses[i].due_ns)
            continue;
        if (is_lost(w, w->first_only))
            return;
        w->statuses[i] = (struct status){.due_ns = w->now_ns + 10 + random_below(&w->rng, 20),
                                         .granted = w->sink.granted,
                                         .count = count};
        memcpy(w->statuses[i].missing, holes, count * sizeof *holes);
        return;
    }
}

static void sink_takes(struct world *w, const struct segment *segment)
{
    struct dw_range holes[HOLES];
    int64_t new_bytes = 0;

    for (uint32_t at = segment->offset; at < segment->offset + segment->length; at++) {
        new_bytes += !w->placed[at];
        w->placed[at] = 1;
    }
    assert_for_seed(w->seed, dw_record_sink_on_segment(&w->sink, segment->offset, segment->length,
                                                       w->now_ns) == new_bytes);
    unsigned count = dw_record_sink_on_gap(&w->sink, UINT32_MAX, holes, HOLES);
    if (count || dw_record_sink_due_bytes(&w->sink) < w->window / 2)
        sink_tells(w, holes, count);
}

static void deliver(struct world *w)
{
    struct dw_range holes[HOLES];

    for (unsigned i = 0; i < PATH; i++) {
        struct status *status = &w->statuses[i];
        if (status->due_ns && status->due_ns <= w->now_ns) {
            assert_for_seed(w->seed, dw_record_source_on_status(
                                         &w->source, (struct dw_record_by){0}, status->granted,
                                         status->missing, status->count));
            status->due_ns = 0;
        }
        struct segment segment = w->segments[i];
        if (segment.due_ns && segment.due_ns <= w->now_ns) {
            w->segments[i].due_ns = random_percent(&w->rng, 3) ? w->now_ns + 5 : 0; /* a copy */
            sink_takes(w, &segment);
        }
    }
    if (w->now_ns - w->sink.heard_ns > QUIET_NS) {
        w->sink.heard_ns = w->now_ns;
        sink_tells(w, holes, dw_record_sink_on_timeout(&w->sink, UINT32_MAX, holes, HOLES));
    }
}

static void run(struct world *w, uint64_t seed, bool first_only)
{
    memset(w, 0, sizeof *w);
    w->seed = w->rng = seed;
    w->first_only = first_only;
    w->loss_percent = random_below(&w->rng, 4) * 10;
    w->delay_ns = 1 + (first_only ? 0 : random_below(&w->rng, 50));
    w->window = SEGMENT + random_below(&w->rng, 10000);
    w->now_ns = 1;
    uint32_t total = 1 + random_below(&w->rng, TOTAL_MAX);
    const uint32_t granted = w->window < total ? w->window : total;
    w->sink = (struct dw_record_sink){.total = total,
                                      .granted = granted,
                                      .reorder_bytes = REORDER,
                                      .again_bytes = REORDER,
                                      .heard_ns = w->now_ns};
    w->source = (struct dw_record_source){.total = total, .granted = granted};
    while (!dw_record_sink_full(&w->sink)) {
        assert_for_seed(seed, ++w->now_ns < 1000000);
        source_sends(w);
        deliver(w);
        assert_for_seed(seed,
                        w->sink.granted <= total && dw_ranges_end(&w->sink.map) <= w->sink.granted);
        assert_for_seed(seed, w->source.granted <= w->sink.granted);
    }
    for (uint32_t at = 0; at < total; at++)
        assert_for_seed(seed, w->placed[at]);
    dw_ranges_fini(&w->sink.map);
    dw_ranges_fini(&w->source.again);
}

static void record__full_over_a_lossy_path(void **state)
{
    (void)state;
    static struct world world;

    for (uint64_t seed = 0; seed < SEEDS; seed++)
        run(&world, seed, false);
}

/* When nothing is reordered and no repair is lost, each lost byte goes out once more, no other. */
static void record__resends_what_was_lost_and_no_more(void **state)
{
    (void)state;
    static struct world world;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        run(&world, seed, true);
        assert_for_seed(seed, world.again_bytes == world.lost_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record__full_over_a_lossy_path),
        cmocka_unit_test(record__resends_what_was_lost_and_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
