/* SPDX-License-Identifier: BSD-3-Clause */
/* The window of a peer's records: how it grows, what it takes for a queue that overflows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/rel/recordwin.h"

#define PAYLOAD   1400u
#define MOST      DW_RECORDWIN_MOST
#define FIRST     (DW_RECORDWIN_FIRST_BYTES / PAYLOAD)
#define BASE_NS   50000u
#define SECOND_NS 1000000000ull
#define QUEUE_NS  (BASE_NS + DW_RECORDWIN_QUEUE_NS)

/* So many datagrams come, each so long after what it answers; one in each `lost_of` of them has
 * been asked for again. All of the window is used. */
static void pass(struct dw_recordwin *win, uint32_t datagrams, uint32_t lost_of, uint64_t took_ns)
{
    for (uint32_t i = 1; i <= datagrams; i++) {
        dw_recordwin_on_full(win);
        dw_recordwin_on_answer(win, took_ns, 0);
        if (lost_of && i % lost_of == 0)
            dw_recordwin_on_lost(win, 1, PAYLOAD);
        else
            dw_recordwin_on_came(win, 1, PAYLOAD);
    }
}

static void recordwin__at_first(void **state)
{
    (void)state;
    const struct dw_recordwin win = {.datagrams = 0};

    assert_int_equal(dw_recordwin_datagrams(&win, PAYLOAD), FIRST);
    assert_int_equal(dw_recordwin_datagrams(&win, 1), DW_RECORDWIN_FIRST_BYTES);
    assert_int_equal(dw_recordwin_datagrams(&win, 1u << 20), DW_RECORDWIN_LEAST);
}

static void recordwin__doubles_until_something_is_cut(void **state)
{
    (void)state;
    struct dw_recordwin win = {.datagrams = 0};

    pass(&win, FIRST - 1, 0, BASE_NS);
    assert_int_equal(dw_recordwin_datagrams(&win, PAYLOAD), FIRST);
    pass(&win, 1, 0, BASE_NS);
    assert_int_equal(win.datagrams, 2 * FIRST);
    pass(&win, 2 * FIRST, 0, BASE_NS);
    assert_int_equal(win.datagrams, 4 * FIRST);
    pass(&win, 4 * FIRST, 2, BASE_NS);
    assert_int_equal(win.datagrams, 2 * FIRST);
    pass(&win, 2 * FIRST, 0, BASE_NS);
    assert_int_equal(win.datagrams, 2 * FIRST + 2 * FIRST / 8 + 1);
}

static void recordwin__not_used__does_not_grow(void **state)
{
    (void)state;
    struct dw_recordwin win = {.datagrams = 100};

    dw_recordwin_on_came(&win, 100, PAYLOAD);
    assert_int_equal(win.datagrams, 100);
    dw_recordwin_on_full(&win);
    dw_recordwin_on_came(&win, 100, PAYLOAD);
    assert_int_equal(win.datagrams, 200);
}

/* A link that loses one datagram in ten is no queue. */
static void recordwin__loss_without_a_queue__not_cut(void **state)
{
    (void)state;
    struct dw_recordwin win = {.datagrams = 0};

    pass(&win, 3 * FIRST, 10, BASE_NS);
    assert_int_equal(win.datagrams, 4 * FIRST);
    assert_false(win.cut);
    pass(&win, 4 * FIRST, 7, BASE_NS);
    assert_int_equal(win.datagrams, 2 * FIRST);
}

static void recordwin__queue__ends_the_doubling(void **state)
{
    (void)state;
    struct dw_recordwin win = {.datagrams = 100};

    pass(&win, 1, 0, BASE_NS);
    pass(&win, 99, 0, QUEUE_NS);
    assert_int_equal(win.datagrams, 200); /* the fastest of the round was as always */
    pass(&win, 200, 0, QUEUE_NS);
    assert_int_equal(win.datagrams, 201);
    pass(&win, 201, 0, QUEUE_NS);
    assert_int_equal(win.datagrams, 202);
    assert_int_equal(dw_recordwin_part_datagrams(&win, PAYLOAD), 50);
}

/* Once for all that is lost of a round; grants are small while the queue lasts. */
static void recordwin__loss_behind_a_queue__shrinks_once_a_round(void **state)
{
    (void)state;
    struct dw_recordwin win = {.datagrams = 100};

    pass(&win, 100, 0, BASE_NS);
    pass(&win, 100, 0, QUEUE_NS);
    dw_recordwin_on_lost(&win, 1, PAYLOAD);
    assert_int_equal(win.datagrams, 200); /* the first round of the queue */
    pass(&win, 150, 0, QUEUE_NS);
    dw_recordwin_on_lost(&win, 1, PAYLOAD);
    assert_int_equal(win.datagrams, 140);
    assert_int_equal(dw_recordwin_part_datagrams(&win, PAYLOAD), DW_RECORDWIN_BURST);
    pass(&win, 140, 2, QUEUE_NS);
    assert_int_equal(win.datagrams, 140);
    pass(&win, 1, 1, QUEUE_NS);
    assert_int_equal(win.datagrams, 98);
    pass(&win, 98, 0, BASE_NS);
    assert_int_equal(win.datagrams, 98);
    assert_int_equal(dw_recordwin_part_datagrams(&win, PAYLOAD), 98 / 4);
    pass(&win, 98, 0, BASE_NS);
    assert_int_equal(win.datagrams, 98 + 98 / 8 + 1);
}

static void recordwin__marked__shrinks_once_a_round(void **state)
{
    (void)state;
    struct dw_recordwin win = {.datagrams = 100};

    dw_recordwin_on_marked(&win, PAYLOAD);
    assert_int_equal(win.datagrams, 70);
    dw_recordwin_on_marked(&win, PAYLOAD);
    assert_int_equal(win.datagrams, 70);
    pass(&win, 70, 0, BASE_NS);
    dw_recordwin_on_marked(&win, PAYLOAD);
    assert_int_equal(win.datagrams, 49);
}

/* Losses at the beginning of a round, before anything tells of the queue. */
static void recordwin__nothing_tells__as_it_was(void **state)
{
    (void)state;
    struct dw_recordwin win = {.datagrams = 100};

    pass(&win, 100, 0, BASE_NS);
    pass(&win, 200, 0, QUEUE_NS);
    dw_recordwin_on_lost(&win, 1, PAYLOAD);
    assert_int_equal(win.datagrams, 201 * 7 / 10);
}

static void recordwin__bounds(void **state)
{
    (void)state;
    struct dw_recordwin win = {.datagrams = 0};

    pass(&win, 1u << 20, 0, BASE_NS);
    assert_int_equal(win.datagrams, MOST);
    dw_recordwin_on_lost(&win, MOST, PAYLOAD);
    assert_int_equal(win.datagrams, MOST / 2);
    for (unsigned i = 0; i < 100; i++)
        dw_recordwin_on_lost(&win, MOST, PAYLOAD);
    assert_int_equal(win.datagrams, DW_RECORDWIN_LEAST);
    pass(&win, 1u << 15, 1, QUEUE_NS);
    assert_int_equal(win.datagrams, DW_RECORDWIN_LEAST);
}

/* A way that has become longer is no queue, after a while. */
static void recordwin__base__is_forgotten_slowly(void **state)
{
    (void)state;
    struct dw_recordwin win = {.datagrams = 100};

    pass(&win, 100, 0, BASE_NS);
    pass(&win, 200, 0, QUEUE_NS);
    assert_true(win.queue);
    dw_recordwin_on_answer(&win, QUEUE_NS, 9 * SECOND_NS);
    dw_recordwin_on_came(&win, win.datagrams, PAYLOAD);
    assert_false(win.queue);
}

static void recordwin__past__is_kept(void **state)
{
    (void)state;
    const struct dw_recordwin before = {.datagrams = 123, .cut = true, .seen = 7, .queue = true};
    const struct dw_recordwin win = dw_recordwin_from(dw_recordwin_past(&before));

    assert_int_equal(win.datagrams, 123);
    assert_true(win.cut);
    assert_int_equal(win.seen, 0);
    assert_false(win.queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recordwin__at_first),
        cmocka_unit_test(recordwin__doubles_until_something_is_cut),
        cmocka_unit_test(recordwin__not_used__does_not_grow),
        cmocka_unit_test(recordwin__loss_without_a_queue__not_cut),
        cmocka_unit_test(recordwin__queue__ends_the_doubling),
        cmocka_unit_test(recordwin__loss_behind_a_queue__shrinks_once_a_round),
        cmocka_unit_test(recordwin__marked__shrinks_once_a_round),
        cmocka_unit_test(recordwin__nothing_tells__as_it_was),
        cmocka_unit_test(recordwin__bounds),
        cmocka_unit_test(recordwin__base__is_forgotten_slowly),
        cmocka_unit_test(recordwin__past__is_kept),
    };

    return cmocka_run_group_tests_name("recordwin", tests, NULL, NULL);
}
