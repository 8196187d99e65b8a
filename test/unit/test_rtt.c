/* SPDX-License-Identifier: BSD-3-Clause */
/* The round-trip estimate and the time-out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/rel/rtt.h"
#include "test/unit/random.h"

#define RTO_MIN_NS 200000ull

static void rtt_init__initial_time_out(void **state)
{
    (void)state;
    struct dw_rtt rtt;

    rtt = (struct dw_rtt){0};
    assert_int_equal(dw_rtt_rto_ns(&rtt, RTO_MIN_NS, 0), DW_RTO_INITIAL_NS);
    assert_int_equal(dw_rtt_rto_ns(&rtt, DW_RTO_INITIAL_NS + 1, 0), DW_RTO_INITIAL_NS + 1);
}

static void rtt_on_sample__sequences(void **state)
{
    (void)state;
    static const struct {
        uint64_t samples[3];
        unsigned count;
        uint64_t srtt_ns, rttvar_ns;
    } cases[] = {
        {{8000}, 1, 8000, 4000},        /* RFC 6298 (2.2) */
        {{8000, 8000}, 2, 8000, 3000},  /* RFC 6298 (2.3) */
        {{8000, 16000}, 2, 9000, 5000}, /* a slower one */
        {{8000, 0}, 2, 7000, 5000},     /* a faster one */
        {{8000, 8000, 8000}, 3, 8000, 2250},
        {{0}, 1, 1, 0}, /* never back to "no sample" */
        {{0, 0}, 2, 1, 0},
        {{1, 0}, 2, 1, 0},
        {{UINT64_MAX}, 1, 1000000000, 1000000000 / 2},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dw_rtt rtt;
        rtt = (struct dw_rtt){0};
        for (unsigned s = 0; s < cases[i].count; s++)
            dw_rtt_on_sample(&rtt, cases[i].samples[s]);
        assert_int_equal(rtt.srtt_ns, cases[i].srtt_ns);
        assert_int_equal(rtt.rttvar_ns, cases[i].rttvar_ns);
    }
}

static void rtt_rto__backoff(void **state)
{
    (void)state;
    static const struct {
        uint32_t srtt_ns, rttvar_ns;
        unsigned backoff;
        uint64_t rto_ns;
    } cases[] = {
        {1000000, 250000, 0, 2000000},
        {1000000, 250000, 1, 4000000},
        {1000000, 250000, 5, 64000000},
        {1000000, 250000, 6, DW_RTO_MAX_NS},
        {1000000, 250000, UINT32_MAX, DW_RTO_MAX_NS},
        {10000, 1000, 0, RTO_MIN_NS}, /* doubles from the floor */
        {10000, 1000, 2, 4 * RTO_MIN_NS},
        {DW_RTO_MAX_NS, 1, 0, DW_RTO_MAX_NS},
        {UINT32_MAX, UINT32_MAX, 3, DW_RTO_MAX_NS},
        {0, 0, 1, 2 * DW_RTO_INITIAL_NS},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dw_rtt rtt = {cases[i].srtt_ns, cases[i].rttvar_ns};
        assert_int_equal(dw_rtt_rto_ns(&rtt, RTO_MIN_NS, cases[i].backoff), cases[i].rto_ns);
    }
}

static void rtt_rto__floor_above_the_ceiling(void **state)
{
    (void)state;
    const struct dw_rtt rtt = {1000000, 250000};
    const uint64_t floor_ns = 10 * DW_RTO_MAX_NS;

    assert_int_equal(dw_rtt_rto_ns(&rtt, floor_ns, 0), floor_ns);
    assert_int_equal(dw_rtt_rto_ns(&rtt, floor_ns, 5), floor_ns);
}

static void rtt_on_sample__follows_a_change(void **state)
{
    (void)state;
    struct dw_rtt rtt;

    rtt = (struct dw_rtt){0};
    for (unsigned i = 0; i < 100; i++)
        dw_rtt_on_sample(&rtt, 10000);
    assert_in_range(dw_rtt_rto_ns(&rtt, 0, 0), 10000, 10100);
    for (unsigned i = 0; i < 100; i++)
        dw_rtt_on_sample(&rtt, 1000000);
    assert_in_range(rtt.srtt_ns, 999000, 1000000);
    for (unsigned i = 0; i < 200; i++)
        dw_rtt_on_sample(&rtt, 10000);
    assert_in_range(rtt.srtt_ns, 10000, 10100);
}

/* The peer computed for a second; then, for comparison, the path has become as long. */
static void rtt_on_sample__one_that_stands_out(void **state)
{
    (void)state;
    struct dw_rtt rtt;

    rtt = (struct dw_rtt){0};
    for (unsigned i = 0; i < 100; i++)
        dw_rtt_on_sample(&rtt, 50000);
    dw_rtt_on_sample(&rtt, 1000000000);
    assert_in_range(dw_rtt_rto_ns(&rtt, RTO_MIN_NS, 0), RTO_MIN_NS, 4000000);
    for (unsigned i = 0; i < 40; i++)
        dw_rtt_on_sample(&rtt, 90000000);
    assert_in_range(rtt.srtt_ns, 80000000, 90000000);
}

/* Whatever the samples, the estimate stays among them and the time-out within its limits. */
static void rtt__stays_in_bounds(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        uint64_t rng = seed, largest = 1;
        struct dw_rtt rtt;

        rtt = (struct dw_rtt){0};
        for (unsigned step = 0; step < 2000; step++) {
            uint64_t sample = random_next(&rng) >> (24 + random_below(&rng, 40));
            if (sample > largest)
                largest = sample;
            dw_rtt_on_sample(&rtt, sample);
            uint64_t rto = dw_rtt_rto_ns(&rtt, RTO_MIN_NS, random_below(&rng, 10));
            assert_for_seed(seed, rtt.srtt_ns >= 1 && rtt.srtt_ns <= largest);
            assert_for_seed(seed, rtt.rttvar_ns <= largest);
            assert_for_seed(seed, rto >= RTO_MIN_NS && rto <= DW_RTO_MAX_NS);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rtt_init__initial_time_out),
        cmocka_unit_test(rtt_on_sample__sequences),
        cmocka_unit_test(rtt_rto__backoff),
        cmocka_unit_test(rtt_rto__floor_above_the_ceiling),
        cmocka_unit_test(rtt_on_sample__follows_a_change),
        cmocka_unit_test(rtt_on_sample__one_that_stands_out),
        cmocka_unit_test(rtt__stays_in_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
