/* SPDX-License-Identifier: BSD-3-Clause */
/* The link of test/net/forwarder: rate, queue, delay, AQM, ECN marks and faults, on a clock that is
 * set by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/net/bottleneck.h"

#define MS    1000000ull
#define NEVER UINT64_MAX
/* A packet of 1000 bytes takes a millisecond. */
#define RATE_BPS    8e6
#define PACKET      1000
#define NOT_ECT     0
#define ECT0        2
#define CE          3
#define TOS_BYTE    1
#define NUMBER_BYTE 100 /* of a packet made here: which one it is */

static struct bottleneck_options some_options(void)
{
    return (struct bottleneck_options){
        .rate_bps = RATE_BPS, .queue_bytes = 1000000, .burst_bytes = 1000000, .seed = 1};
}

static uint16_t header_sum(const uint8_t *data)
{
    uint32_t sum = 0;
    for (int i = 0; i < 20; i += 2)
        sum += (uint32_t)data[i] << 8 | data[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

static void make_ipv4(uint8_t data[PACKET], unsigned tos, uint8_t number)
{
    memset(data, 0, PACKET);
    data[0] = 0x45;
    data[TOS_BYTE] = (uint8_t)tos;
    data[8] = 64;
    data[9] = 17;
    data[12] = 10;
    data[16] = 10;
    data[NUMBER_BYTE] = number;
    const uint16_t checksum = (uint16_t)~header_sum(data);
    data[10] = (uint8_t)(checksum >> 8);
    data[11] = (uint8_t)checksum;
}

static void put(struct bottleneck *link, unsigned tos, uint8_t number, uint64_t now_ns)
{
    uint8_t data[PACKET];
    make_ipv4(data, tos, number);
    bottleneck_put(link, data, sizeof data, now_ns);
}

/* The number of the packet that has crossed; -1: none. */
static int taken(struct bottleneck *link, uint64_t now_ns)
{
    struct bottleneck_packet *const packet = bottleneck_take(link, now_ns);
    const int number = packet ? packet->data[NUMBER_BYTE] : -1;
    free(packet);
    return number;
}

static unsigned drain(struct bottleneck *link, uint64_t now_ns)
{
    unsigned count = 0;
    while (taken(link, now_ns) >= 0)
        count++;
    return count;
}

static void bottleneck_take__at_the_rate_and_after_the_delay(void **state)
{
    (void)state;
    struct bottleneck link;
    struct bottleneck_options options = some_options();
    options.delay_ns = 10 * MS;
    bottleneck_init(&link, &options);
    assert_int_equal(bottleneck_deadline_ns(&link), NEVER);
    for (uint8_t i = 0; i < 3; i++)
        put(&link, NOT_ECT, i, 5 * MS);
    assert_int_equal(taken(&link, 5 * MS), -1);
    assert_int_equal(bottleneck_deadline_ns(&link), 6 * MS); /* when the second begins to leave */
    for (uint8_t i = 0; i < 3; i++) {
        assert_int_equal(taken(&link, (16 + i) * MS - 1), -1);
        assert_int_equal(taken(&link, (16 + i) * MS), i);
    }
    assert_int_equal(bottleneck_deadline_ns(&link), NEVER);
    assert_int_equal(link.counters.bytes_out, 3 * PACKET);
    assert_int_equal(link.packets, 0);
    bottleneck_fini(&link);
}

/* Of ten that were ready long ago the bucket has room for four, and one more is on its way. */
static void bottleneck_take__late_no_more_than_a_burst(void **state)
{
    (void)state;
    struct bottleneck link;
    struct bottleneck_options options = some_options();
    options.burst_bytes = 4 * PACKET;
    bottleneck_init(&link, &options);
    for (uint8_t i = 0; i < 10; i++)
        put(&link, NOT_ECT, i, 0);
    assert_int_equal(drain(&link, 100 * MS), 4);
    assert_int_equal(drain(&link, 101 * MS), 1);
    bottleneck_fini(&link);
}

static void bottleneck_put__no_more_than_the_queue_holds(void **state)
{
    (void)state;
    struct bottleneck link;
    struct bottleneck_options options = some_options();
    options.queue_bytes = 5 * PACKET + PACKET / 2;
    bottleneck_init(&link, &options);
    for (uint8_t i = 0; i < 9; i++)
        put(&link, NOT_ECT, i, 0);
    assert_int_equal(link.counters.overflowed, 4);
    assert_int_equal(link.counters.queue_bytes_max, 5 * PACKET);
    for (uint64_t ms = 1; ms <= 9; ms++)
        (void)drain(&link, ms * MS);
    assert_int_equal(link.counters.out, 5);
    bottleneck_fini(&link);
}

static void bottleneck_put__bounded_without_a_rate(void **state)
{
    (void)state;
    struct bottleneck link;
    struct bottleneck_options options = {.delay_ns = 10 * MS, .seed = 1};
    bottleneck_init(&link, &options);
    for (uint32_t i = 0; i < BOTTLENECK_PACKETS_MAX + 3; i++)
        put(&link, NOT_ECT, 0, 0);
    assert_int_equal(link.counters.overflowed, 3);
    assert_int_equal(drain(&link, 10 * MS), BOTTLENECK_PACKETS_MAX);
    bottleneck_fini(&link);
}

/* Packets of that kind, one every 800 us for 400 ms, a quarter too many; then time to leave. */
static void overload(struct bottleneck *link, unsigned tos, uint64_t *marked)
{
    struct bottleneck_packet *packet;
    for (uint64_t now_ns = 0; now_ns < 800 * MS; now_ns += 4 * MS / 5) {
        if (now_ns < 400 * MS)
            put(link, tos, 0, now_ns);
        while ((packet = bottleneck_take(link, now_ns))) {
            *marked += (packet->data[TOS_BYTE] & 3) == CE;
            assert_int_equal(header_sum(packet->data), 0xffff);
            free(packet);
        }
    }
}

/* What AQM does to packets of that kind. */
static struct bottleneck_counters counters_after(enum bottleneck_aqm aqm, bool ecn, unsigned tos)
{
    struct bottleneck link;
    struct bottleneck_options options = some_options();
    uint64_t marked = 0;
    options.aqm = aqm;
    options.ecn = ecn;
    options.step_bytes = 10 * PACKET;
    options.codel_target_ns = 5 * MS;
    options.codel_interval_ns = 50 * MS;
    bottleneck_init(&link, &options);
    overload(&link, tos, &marked);
    assert_int_equal(link.packets, 0);
    assert_int_equal(marked, link.counters.marked);
    const struct bottleneck_counters counters = link.counters;
    bottleneck_fini(&link);
    return counters;
}

static void bottleneck_aqm__marks_or_drops(void **state)
{
    (void)state;
    const enum bottleneck_aqm kinds[] = {BOTTLENECK_STEP, BOTTLENECK_CODEL};
    for (int i = 0; i < 2; i++) {
        struct bottleneck_counters counters = counters_after(kinds[i], true, ECT0);
        assert_true(counters.marked > 0);
        assert_int_equal(counters.aqm_dropped, 0);
        counters = counters_after(kinds[i], true, NOT_ECT);
        assert_int_equal(counters.marked, 0);
        assert_true(counters.aqm_dropped > 0);
        counters = counters_after(kinds[i], false, ECT0);
        assert_int_equal(counters.marked, 0);
        assert_true(counters.aqm_dropped > 0);
    }
    assert_int_equal(counters_after(BOTTLENECK_TAIL_DROP, true, ECT0).marked, 0);
}

/* The queue of a step stays as long as the step; without AQM it grows by a packet in five. */
static void bottleneck_step__bounds_the_queue(void **state)
{
    (void)state;
    assert_int_equal(counters_after(BOTTLENECK_STEP, false, NOT_ECT).queue_bytes_max, 11 * PACKET);
    assert_true(counters_after(BOTTLENECK_TAIL_DROP, false, NOT_ECT).queue_bytes_max > 90 * PACKET);
}

/* RFC 8289: nothing in the first interval above the target, then one, then ever more often. */
static void bottleneck_codel__after_an_interval_then_more_often(void **state)
{
    (void)state;
    struct bottleneck link;
    struct bottleneck_options options = some_options();
    uint64_t times_ms[8] = {0}, last = 0;
    unsigned count = 0;
    options.aqm = BOTTLENECK_CODEL;
    options.codel_target_ns = 5 * MS;
    options.codel_interval_ns = 50 * MS;
    bottleneck_init(&link, &options);
    for (int i = 0; i < 500; i++)
        put(&link, NOT_ECT, 0, 0);
    for (uint64_t ms = 0; ms < 300 && count < 8; ms++) {
        (void)drain(&link, ms * MS);
        if (link.counters.aqm_dropped > last)
            times_ms[count++] = ms;
        last = link.counters.aqm_dropped;
    }
    assert_int_equal(count, 8);
    assert_in_range(times_ms[0], 54, 57);
    assert_in_range(times_ms[1] - times_ms[0], 49, 51);
    assert_in_range(times_ms[2] - times_ms[1], 34, 37); /* 50 / sqrt(2) */
    assert_in_range(times_ms[3] - times_ms[2], 28, 30);
    bottleneck_fini(&link);
}

static void bottleneck_mark__versions_and_code_points(void **state)
{
    (void)state;
    for (unsigned tos = 0; tos < 256; tos++) {
        uint8_t v4[PACKET], v6[40] = {0x60};
        const bool capable = (tos & 3) == 1 || (tos & 3) == 2;
        make_ipv4(v4, tos, 0);
        v6[0] = (uint8_t)(0x60 | tos >> 4);
        v6[1] = (uint8_t)(tos << 4 | 0xf);
        assert_int_equal(bottleneck_mark(v4, sizeof v4), capable);
        assert_int_equal(bottleneck_mark(v6, sizeof v6), capable);
        const unsigned expected = capable ? tos | CE : tos;
        assert_int_equal(v4[TOS_BYTE], expected);
        assert_int_equal((v6[0] & 15) << 4 | v6[1] >> 4, expected);
        assert_int_equal(v6[1] & 15, 15); /* of the flow label */
        assert_int_equal(header_sum(v4), 0xffff);
        assert_false(bottleneck_mark(v4, 19));
        assert_false(bottleneck_mark(v6, 39));
    }
}

static uint32_t sum_of(const uint8_t *data, uint32_t bytes)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i + 1 < bytes; i += 2)
        sum += (uint32_t)data[i] << 8 | data[i + 1];
    return sum;
}

/* The headers stay; half of the damage escapes the sum of words. */
static void bottleneck_corrupt__with_and_without_a_trace_in_the_sum(void **state)
{
    (void)state;
    uint8_t intact[PACKET], data[PACKET];
    make_ipv4(intact, 0, 9);
    for (uint32_t i = 28; i < PACKET; i++)
        intact[i] = (uint8_t)(i * 37);
    for (uint64_t random = 0; random < 2000; random++) {
        memcpy(data, intact, PACKET);
        assert_true(bottleneck_corrupt(data, PACKET, random));
        assert_memory_equal(data, intact, 28);
        assert_true(memcmp(data, intact, PACKET) != 0);
        assert_int_equal(sum_of(data, PACKET) == sum_of(intact, PACKET), random % 2 == 0);
    }
    assert_false(bottleneck_corrupt(data, 31, 1));
    memset(data + 28, 5, PACKET - 28);
    assert_false(bottleneck_corrupt(data, PACKET, 0));
    data[0] = 0;
    assert_false(bottleneck_corrupt(data, PACKET, 1));
}

/* A held packet lets those pass that leave while it waits, and none else. */
static void bottleneck_reorder__by_a_time(void **state)
{
    (void)state;
    struct bottleneck link;
    struct bottleneck_options options = some_options();
    options.reorder = 1;
    options.reorder_ns = 11 * MS / 2;
    bottleneck_init(&link, &options);
    put(&link, NOT_ECT, 0, 0);
    assert_int_equal(taken(&link, 0), -1);
    link.options.reorder = 0;
    for (uint8_t i = 1; i < 8; i++)
        put(&link, NOT_ECT, i, 0);
    const int order[] = {1, 2, 3, 4, 5, 0, 6, 7};
    const uint64_t times_ms[] = {2, 3, 4, 5, 6, 7, 7, 8};
    for (int i = 0; i < 8; i++)
        assert_int_equal(taken(&link, times_ms[i] * MS), order[i]);
    bottleneck_fini(&link);
}

static struct bottleneck_counters after_faults(uint64_t seed)
{
    struct bottleneck link;
    struct bottleneck_options options = {
        .loss = 0.1, .duplicate = 0.05, .reorder = 0.02, .corrupt = 0.2, .seed = seed};
    bottleneck_init(&link, &options);
    for (int i = 0; i < 20000; i++)
        put(&link, NOT_ECT, 1, 0);
    assert_int_equal(drain(&link, 0),
                     link.counters.in - link.counters.lost + link.counters.duplicated);
    const struct bottleneck_counters counters = link.counters;
    bottleneck_fini(&link);
    return counters;
}

static void bottleneck_faults__as_often_as_asked_and_by_seed(void **state)
{
    (void)state;
    const struct bottleneck_counters first = after_faults(7), again = after_faults(7);
    const struct bottleneck_counters other = after_faults(8);
    assert_memory_equal(&first, &again, sizeof first);
    assert_memory_not_equal(&first, &other, sizeof first);
    assert_in_range(first.lost, 1800, 2200);
    assert_in_range(first.duplicated, 750, 1050);
    assert_in_range(first.reordered, 300, 470);
    assert_in_range(first.corrupted, 3300, 4300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bottleneck_take__at_the_rate_and_after_the_delay),
        cmocka_unit_test(bottleneck_take__late_no_more_than_a_burst),
        cmocka_unit_test(bottleneck_put__no_more_than_the_queue_holds),
        cmocka_unit_test(bottleneck_put__bounded_without_a_rate),
        cmocka_unit_test(bottleneck_aqm__marks_or_drops),
        cmocka_unit_test(bottleneck_step__bounds_the_queue),
        cmocka_unit_test(bottleneck_codel__after_an_interval_then_more_often),
        cmocka_unit_test(bottleneck_mark__versions_and_code_points),
        cmocka_unit_test(bottleneck_corrupt__with_and_without_a_trace_in_the_sum),
        cmocka_unit_test(bottleneck_reorder__by_a_time),
        cmocka_unit_test(bottleneck_faults__as_often_as_asked_and_by_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
