/* SPDX-License-Identifier: BSD-3-Clause */
/* The timer heap: order, moves and removals, and callbacks that change it while it runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/heap.h"
#include "common/base/list.h"
#include "test/unit/random.h"

#define SEEDS  20
#define STEPS  3000
#define TIMERS 100

struct alarm {
    struct dw_timer timer;
    struct dw_heap *heap;
    unsigned fired;
    uint64_t rearm_ns;    /* what its callback sets itself to; 0: nothing */
    struct alarm *cancel; /* whom its callback takes out */
};

static uint64_t last_deadline_ns; /* of the timers fired in this run */

static void on_alarm(struct dw_timer *timer, uint64_t now_ns)
{
    struct alarm *alarm = dw_container(timer, struct alarm, timer);

    assert_int_equal(timer->slot, 0);
    assert_true(timer->deadline_ns <= now_ns);
    assert_true(timer->deadline_ns >= last_deadline_ns);
    last_deadline_ns = timer->deadline_ns;
    alarm->fired++;
    if (alarm->rearm_ns)
        assert_int_equal(dw_heap_set(alarm->heap, timer, alarm->rearm_ns), 0);
    if (alarm->cancel)
        assert_int_equal(dw_heap_set(alarm->heap, &alarm->cancel->timer, DW_NEVER), 0);
}

static void run(struct dw_heap *heap, uint64_t now_ns)
{
    last_deadline_ns = 0;
    dw_heap_run(heap, now_ns, SIZE_MAX);
}

static void fill(struct dw_heap *heap, struct alarm *alarms, const uint64_t *deadlines, size_t n)
{
    *heap = (struct dw_heap){0};
    for (size_t i = 0; i < n; i++) {
        alarms[i] = (struct alarm){.timer.fire = on_alarm, .heap = heap};
        assert_int_equal(dw_heap_set(heap, &alarms[i].timer, deadlines[i]), 0);
    }
}

static void heap_next__never_when_empty(void **state)
{
    (void)state;
    struct dw_heap heap;
    struct alarm alarm = {.timer.fire = on_alarm};

    heap = (struct dw_heap){0};
    assert_true(dw_heap_next_ns(&heap) == DW_NEVER);
    assert_int_equal(dw_heap_set(&heap, &alarm.timer, DW_NEVER), 0);
    assert_true(dw_heap_next_ns(&heap) == DW_NEVER);
    run(&heap, DW_NEVER - 1);
    assert_int_equal(alarm.fired, 0);
    dw_heap_fini(&heap);
}

static void heap_run__no_more_than_asked_for(void **state)
{
    (void)state;
    static const uint64_t deadlines[] = {30, 10, 20, 40};
    struct dw_heap heap;
    struct alarm alarms[4];

    fill(&heap, alarms, deadlines, 4);
    last_deadline_ns = 0;
    dw_heap_run(&heap, 100, 0);
    assert_int_equal(heap.count, 4);
    dw_heap_run(&heap, 100, 3);
    assert_int_equal(heap.count, 1);
    assert_int_equal(alarms[3].fired, 0);
    dw_heap_run(&heap, 100, 3);
    assert_int_equal(alarms[3].fired, 1);
    dw_heap_fini(&heap);
}

static void heap_set__moves_and_removes(void **state)
{
    (void)state;
    struct dw_heap heap;
    struct alarm alarms[3];

    fill(&heap, alarms, (const uint64_t[]){30, 10, 20}, 3);
    assert_int_equal(dw_heap_next_ns(&heap), 10);
    assert_int_equal(dw_heap_set(&heap, &alarms[1].timer, 40), 0);
    assert_int_equal(dw_heap_next_ns(&heap), 20);
    assert_int_equal(dw_heap_set(&heap, &alarms[1].timer, 5), 0);
    assert_int_equal(dw_heap_next_ns(&heap), 5);
    assert_int_equal(dw_heap_set(&heap, &alarms[1].timer, DW_NEVER), 0);
    assert_int_equal(dw_heap_set(&heap, &alarms[1].timer, DW_NEVER), 0);
    assert_int_equal(heap.count, 2);
    run(&heap, 100);
    assert_int_equal(alarms[0].fired + alarms[2].fired, 2);
    assert_int_equal(alarms[1].fired, 0);
    dw_heap_fini(&heap);
}

static void heap_run__only_what_is_due(void **state)
{
    (void)state;
    struct dw_heap heap;
    struct alarm alarms[4];

    fill(&heap, alarms, (const uint64_t[]){12, 10, 11, 10}, 4);
    run(&heap, 9);
    assert_int_equal(heap.count, 4);
    run(&heap, 11);
    assert_int_equal(heap.count, 1);
    assert_int_equal(alarms[0].fired, 0);
    run(&heap, 12);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(alarms[i].fired, 1);
    dw_heap_fini(&heap);
}

/* One whose callback sets itself to the past neither fires again nor keeps others from firing. */
static void heap_run__rearmed_in_the_past_waits(void **state)
{
    (void)state;
    static const uint64_t rearm_ns[] = {1, 9, 10};

    for (size_t i = 0; i < sizeof rearm_ns / sizeof rearm_ns[0]; i++) {
        struct dw_heap heap;
        struct alarm alarms[4];
        fill(&heap, alarms, (const uint64_t[]){8, 9, 10, 1000}, 4);
        alarms[0].rearm_ns = rearm_ns[i];
        run(&heap, 10);
        assert_int_equal(alarms[0].fired, 1);
        assert_int_equal(alarms[1].fired, 1);
        assert_int_equal(alarms[2].fired, 1);
        assert_int_equal(alarms[3].fired, 0);
        assert_true(dw_heap_next_ns(&heap) <= 11);
        run(&heap, 11);
        assert_int_equal(alarms[0].fired, 2);
        dw_heap_fini(&heap);
    }
}

/* Outside of a run the past is as good as any deadline. */
static void heap_set__in_the_past(void **state)
{
    (void)state;
    struct dw_heap heap;
    struct alarm alarm;

    fill(&heap, &alarm, (const uint64_t[]){5}, 1);
    run(&heap, 10);
    assert_int_equal(dw_heap_set(&heap, &alarm.timer, 5), 0);
    assert_int_equal(dw_heap_next_ns(&heap), 5);
    run(&heap, 10);
    assert_int_equal(alarm.fired, 2);
    dw_heap_fini(&heap);
}

static void heap_run__rearmed_later_is_kept(void **state)
{
    (void)state;
    struct dw_heap heap;
    struct alarm alarm;

    fill(&heap, &alarm, (const uint64_t[]){8}, 1);
    alarm.rearm_ns = 50;
    run(&heap, 10);
    assert_int_equal(dw_heap_next_ns(&heap), 50);
    run(&heap, 49);
    assert_int_equal(alarm.fired, 1);
    dw_heap_fini(&heap);
}

static void heap_run__callback_cancels_one_due(void **state)
{
    (void)state;
    struct dw_heap heap;
    struct alarm alarms[3];

    fill(&heap, alarms, (const uint64_t[]){1, 2, 3}, 3);
    alarms[0].cancel = &alarms[1];
    run(&heap, 10);
    assert_int_equal(alarms[0].fired, 1);
    assert_int_equal(alarms[1].fired, 0);
    assert_int_equal(alarms[2].fired, 1);
    assert_int_equal(heap.count, 0);
    dw_heap_fini(&heap);
}

static void check_heap(uint64_t seed, const struct dw_heap *heap, const struct alarm *alarms)
{
    uint64_t earliest = DW_NEVER;
    size_t count = 0;

    for (unsigned i = 0; i < TIMERS; i++) {
        const struct dw_timer *timer = &alarms[i].timer;
        if (!timer->slot)
            continue;
        assert_for_seed(seed, heap->slots[timer->slot] == timer);
        count++;
        if (timer->deadline_ns < earliest)
            earliest = timer->deadline_ns;
    }
    assert_for_seed(seed, count == heap->count);
    assert_for_seed(seed, dw_heap_next_ns(heap) == earliest);
}

/* Runs the heap: each timer due in the model fires once, no other does. */
static void run_checked(uint64_t seed, struct dw_heap *heap, struct alarm *alarms, uint64_t now_ns)
{
    unsigned expected[TIMERS];

    for (unsigned i = 0; i < TIMERS; i++)
        expected[i] =
            alarms[i].fired + (alarms[i].timer.slot && alarms[i].timer.deadline_ns <= now_ns);
    run(heap, now_ns);
    for (unsigned i = 0; i < TIMERS; i++)
        assert_for_seed(seed, alarms[i].fired == expected[i]);
}

static void heap__agrees_with_an_array(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint64_t rng = seed, now_ns = 1000;
        struct dw_heap heap;
        struct alarm alarms[TIMERS] = {0};

        heap = (struct dw_heap){0};
        for (unsigned i = 0; i < TIMERS; i++)
            alarms[i] = (struct alarm){.timer.fire = on_alarm, .heap = &heap};
        for (unsigned step = 0; step < STEPS; step++) {
            struct alarm *alarm = &alarms[random_below(&rng, TIMERS)];
            /* Few values, so that many are equal. */
            uint64_t deadline_ns = now_ns - 20 + random_below(&rng, 60);
            if (random_percent(&rng, 20))
                deadline_ns = DW_NEVER;
            assert_int_equal(dw_heap_set(&heap, &alarm->timer, deadline_ns), 0);
            alarm->rearm_ns = random_percent(&rng, 30) ? deadline_ns : 0;
            if (random_percent(&rng, 5))
                run_checked(seed, &heap, alarms, now_ns += 10);
            check_heap(seed, &heap, alarms);
        }
        dw_heap_fini(&heap);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap_next__never_when_empty),
        cmocka_unit_test(heap_run__no_more_than_asked_for),
        cmocka_unit_test(heap_set__moves_and_removes),
        cmocka_unit_test(heap_run__only_what_is_due),
        cmocka_unit_test(heap_run__rearmed_in_the_past_waits),
        cmocka_unit_test(heap_set__in_the_past),
        cmocka_unit_test(heap_run__rearmed_later_is_kept),
        cmocka_unit_test(heap_run__callback_cancels_one_due),
        cmocka_unit_test(heap__agrees_with_an_array),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
