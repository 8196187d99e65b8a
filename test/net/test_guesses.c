/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who guesses: tokens, from outside; STags, as a process that has the token and is known. And who
 * need not guess, because he knows an STag that serves another. Nothing is placed, read or changed,
 * each guess is counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/net/forged_pair.h"
#include "test/unit/random.h"

#define GUESSES 20000u
/* Sent at once: what fits any receive buffer. */
#define BATCH 16

static uint64_t rng = 5;

static int setup(void **state)
{
    (void)state;
    forged_pair_open();
    fill(source, 4096, 1);
    fill(sink, 4096, 2);
    return 0;
}

/* Takes what b has answered, so that b does not find the forger silent. */
static void hear_all(void)
{
    struct dw_llp_header header;
    while (forger_hear(&forger, &header, 0))
        if (header.type == DW_LLP_DATA && header.psn == forger.header.ack)
            forger.header.ack++;
}

static void await_batch(uint64_t datagrams)
{
    RUN_UNTIL(pair.b->counters->rx_datagrams >= datagrams, pair.b);
    hear_all();
}

static void introduce(void)
{
    forge_introduction();
    forger.header.flags = 0;
    hear_all();
}

static void assert_untouched(void)
{
    assert_filled(source, 4096, 1);
    assert_filled(sink, 4096, 2);
    pair_exchange(&pair);
    assert_int_equal(pair.b->errors + pair.a.errors + pair.a.gone, 0);
}

static void token__guessed(void **state)
{
    (void)state;
    const uint64_t token = forger.header.token;
    for (unsigned i = 1; i <= GUESSES; i++) {
        forger.header.token = token ^ (1ull << i % 64) ^ (i < 64 ? 0 : random_next(&rng) << 8);
        forge_begin(&forger);
        forge_message(&forger, 1, "hello", 5);
        forge_send(&forger);
        if (i % BATCH == 0)
            RUN_UNTIL(pair.b->counters->rx_datagrams == i, pair.b);
    }
    RUN_UNTIL(pair.b->counters->rx_datagrams == GUESSES, pair.b);
    assert_int_equal(pair.b->counters->drop_token, GUESSES);
    assert_int_equal(pair.b->recvs + pair.b->counters->peers_active, 0);
    assert_int_equal(pair.b->counters->tx_datagrams, 0);
    assert_untouched();
}

/* A read, a write or an atomic of that STag, at an address that is ours. */
static void forge_access(unsigned kind, uint32_t stag, uint32_t id)
{
    uint8_t head[DW_READ_REQUEST_BYTES + DW_ATOMIC_REQUEST_BYTES];
    struct dw_ddp_header ddp = {.last = true, .qn = DW_QN_REQUEST, .msn = 1};
    const struct dw_read_request read = {.sink_stag = 1,
                                         .size = 64,
                                         .source_stag = stag,
                                         .source_to = (uintptr_t)source,
                                         .record_id = id,
                                         .granted = 64};
    const struct dw_atomic_request atomic = {.opcode = DW_ATOMIC_FETCH_ADD,
                                             .request_id = id,
                                             .stag = stag,
                                             .to = (uintptr_t)sink,
                                             .add_swap = 1,
                                             .add_swap_mask = UINT64_MAX};

    if (kind == 0) {
        forge_write_record(&forger, DW_RECORD_ID_FROM_SOURCE | id, stag, (uintptr_t)sink, 0, 3,
                           "bad", 3);
        return;
    }
    ddp.opcode = kind == 1 ? DW_RDMAP_READ_REQUEST : DW_RDMAP_ATOMIC_REQUEST;
    if (kind == 1)
        dw_read_request_put(head, &read);
    else
        dw_atomic_request_put(head, &atomic);
    forge_segment(&forger, &ddp, head, kind == 1 ? DW_READ_REQUEST_BYTES : DW_ATOMIC_REQUEST_BYTES,
                  NULL, 0);
}

static void guess_stags(unsigned count, uint32_t (*guess)(void))
{
    const uint64_t dropped = pair.b->counters->drop_stag;
    const uint64_t datagrams = pair.b->counters->rx_datagrams;
    for (unsigned i = 1; i <= count; i++) {
        forge_begin(&forger);
        forge_access(i % 3, guess(), i);
        forge_send(&forger);
        forger.header.psn++;
        if (i % BATCH == 0 || i == count)
            await_batch(datagrams + i);
    }
    assert_int_equal(pair.b->counters->drop_stag, dropped + count);
    assert_int_equal(pair.b->counters->tx_record_segments, 0);
    assert_int_equal(pair.b->counters->rx_record_segments, 0);
    assert_int_equal(pair.b->counters->peers_gone, 0);
}

static uint32_t any_stag(void)
{
    uint32_t stag;
    do
        stag = (uint32_t)random_next(&rng);
    while (stag == pair.mr_sink->stag || stag == pair.mr_source->stag);
    return stag;
}

static uint32_t near_stag(void)
{
    const uint32_t stag = pair.mr_sink->stag ^ 1u << random_below(&rng, 32);
    return stag == pair.mr_source->stag ? ~stag : stag;
}

static uint32_t stag_of_sink(void)
{
    return pair.mr_sink->stag;
}

static void stag__guessed(void **state)
{
    (void)state;
    introduce();
    guess_stags(GUESSES, any_stag);
    guess_stags(1000, near_stag);
    assert_untouched();
}

static void stag__of_another_peer(void **state)
{
    (void)state;
    introduce();
    diwarp_bind_mr(pair.mr_sink, pair.a.address.name);
    guess_stags(1000, stag_of_sink);
    assert_untouched();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, forged_pair_teardown)
    const struct CMUnitTest tests[] = {
        TEST(token__guessed),
        TEST(stag__guessed),
        TEST(stag__of_another_peer),
    };
    return cmocka_run_group_tests_name("guesses", tests, NULL, NULL);
}
