/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who a source is: whoever has the token and a name is not yet the process of that name, and one
 * whose address nobody has vouched for costs little.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/rd/parts.h"
#include "test/net/forged_pair.h"

#define MANY 3000

static int setup(void **state)
{
    (void)state;
    forged_pair_open();
    forger.header.number = 1000;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pair_exchange(&pair);
    assert_int_equal(pair.a.errors + pair.a.gone, 0);
    forged_pair_close();
    return 0;
}

static void send_hello(void)
{
    forger.header.number++;
    forge_hello();
    forge_send(&forger);
}

/* The next datagram of that type that comes to the forger, in its buffer; others are passed over.
 */
static void hear(enum dw_llp_type type)
{
    struct dw_llp_header header = {.type = DW_LLP_TYPES};
    for (uint64_t until_ns = clock_ns() + WAIT_NS; header.type != type;) {
        struct pollfd poll_fd = {.fd = forger.fd, .events = POLLIN};
        assert_true(clock_ns() < until_ns);
        node_poll(pair.b);
        if (poll(&poll_fd, 1, 0) != 1)
            continue;
        ssize_t n = recv(forger.fd, forger.buf, sizeof forger.buf, 0);
        assert_true(n > 0 && !dw_llp_header_get(&header, forger.buf, (size_t)n));
        assert_int_equal(header.token, forger.intro.token);
    }
}

/* Sends back what the RESET in the buffer asks for; psn: the first that is unacknowledged. */
static void send_proof_of(uint32_t psn)
{
    uint8_t cookie[DW_PROOF_BYTES];
    memcpy(cookie, forger.buf + DW_LLP_HEADER_BYTES + 8, sizeof cookie);
    struct dw_llp_header header = forger.header;
    forger.header.type = DW_LLP_PROOF;
    forger.header.psn = psn;
    forge_begin(&forger);
    forge_raw(&forger, cookie, sizeof cookie);
    forge_send(&forger);
    forger.header = header;
}

static void send_proof(void)
{
    send_proof_of(0);
}

static void identity__address_names_the_incarnation(void **state)
{
    (void)state;
    struct diwarp_ah *ah = NULL;
    struct diwarp_address address = forger_address(&forger, &pair.b->address);
    assert_int_equal(diwarp_create_ah(pair.b->qp, &address, &ah), 0);
    forger.header.incarnation++; /* the first datagram of the name, not of the process */
    send_hello();
    RUN_UNTIL(pair.b->counters->drop_source == 1, pair.b);
    assert_int_equal(pair.b->recvs, 0);
    forger.header.incarnation--;
    send_hello();
    RUN_UNTIL(pair.b->recvs == 1, pair.b);
    assert_int_equal(pair.b->gone, 0);
    diwarp_destroy_ah(ah);
}

/* An intro is not to send elsewhere what the application wants to send there. */
static void identity__intro_leaves_the_given_address(void **state)
{
    (void)state;
    struct diwarp_ah *ah = NULL;
    struct diwarp_address address = forger_address(&forger, &pair.b->address);
    char before[64], after[64];
    assert_int_equal(diwarp_create_ah(pair.b->qp, &address, &ah), 0);
    diwarp_format_ah(ah, before, sizeof before);
    forger.intro.port = 1;
    send_hello();
    RUN_UNTIL(pair.b->recvs == 1, pair.b);
    diwarp_format_ah(ah, after, sizeof after);
    assert_string_equal(before, after);
    hear(DW_LLP_ACK);
    diwarp_destroy_ah(ah);
}

static void identity__another_is_taken_when_it_proves_it(void **state)
{
    (void)state;
    send_hello();
    RUN_UNTIL(pair.b->recvs == 1, pair.b);
    forger.header.incarnation++;
    send_hello();
    hear(DW_LLP_RESET);
    assert_true(dw_get_be64(forger.buf + DW_LLP_HEADER_BYTES) == forger.header.number);
    assert_int_equal(pair.b->gone, 0);
    send_proof();
    RUN_UNTIL(pair.b->gone == 1, pair.b);
    assert_int_equal(pair.b->last_gone.wc.vendor_err, DIWARP_GONE_RESTARTED);
    send_hello();
    RUN_UNTIL(pair.b->recvs == 2, pair.b);
    forger.header.incarnation--; /* of the one before there is no more */
    forger.header.flags = 0;
    send_hello();
    RUN_UNTIL(pair.b->counters->drop_source == 2, pair.b);
    assert_int_equal(pair.b->recvs, 2);
}

/* Of a cookie for another name, incarnation, token or port, or none. */
static void identity__proof_of_another_is_none(void **state)
{
    (void)state;
    send_hello();
    RUN_UNTIL(pair.b->recvs == 1, pair.b);
    forger.header.incarnation++;
    send_hello();
    hear(DW_LLP_RESET);
    const struct forger right = forger;
    for (unsigned i = 0; i < 5; i++) {
        const uint64_t dropped = pair.b->counters->drop_source;
        forger = right;
        forger.header.rank += i == 0;
        forger.header.incarnation += i == 1;
        forger.intro.token += i == 2;
        forger.intro.port = (uint16_t)(forger.intro.port + (i == 3));
        forger.buf[DW_LLP_HEADER_BYTES + 8] ^= i == 4;
        send_proof();
        RUN_UNTIL(pair.b->counters->drop_source == dropped + 1, pair.b);
    }
    forger = right;
    forger.header.type = DW_LLP_PROOF;
    forge_begin(&forger);
    forge_send(&forger); /* none */
    RUN_UNTIL(pair.b->counters->drop_short == 1, pair.b);
    assert_int_equal(pair.b->gone, 0);
}

/* The next incarnation takes the place of the one before; leaves its RESET in the buffer. */
static void begin_anew(unsigned gone)
{
    forger.header.incarnation++;
    send_hello();
    hear(DW_LLP_RESET);
    const struct forger asked = forger;
    send_proof();
    RUN_UNTIL(pair.b->gone == gone, pair.b);
    send_hello();
    RUN_UNTIL(pair.b->recvs == gone + 1, pair.b);
    forger = asked;
}

/* The network brings the PROOF of an earlier incarnation once more: it must not take the place of
 * the later one, whose messages would be delivered again. */
static void identity__repeated_proof_of_an_earlier_incarnation(void **state)
{
    (void)state;
    send_hello();
    RUN_UNTIL(pair.b->recvs == 1, pair.b);
    begin_anew(1);
    const struct forger earlier = forger;
    begin_anew(2);
    const struct forger latest = forger;
    const uint64_t dropped = pair.b->counters->drop_source;
    forger = earlier;
    send_proof();
    RUN_UNTIL(pair.b->counters->drop_source == dropped + 1, pair.b);
    assert_int_equal(pair.b->gone, 2);
    forger = latest;
    send_hello();
    RUN_UNTIL(pair.b->counters->rx_dup_datagrams == 1, pair.b);
    assert_int_equal(pair.b->recvs, 3);
}

/* One that goes on from `psn` asks, and says hello; leaves the RESET in the buffer. */
static void go_on_from(uint32_t psn, unsigned recvs)
{
    forger.header.flags |= DW_LLP_GOES_ON;
    forger.header.psn = psn;
    send_hello();
    hear(DW_LLP_RESET);
    const struct forger asked = forger;
    send_proof_of(psn);
    send_hello();
    RUN_UNTIL(pair.b->recvs == recvs, pair.b);
    forger = asked;
}

/* Likewise of earlier numbers, which are not those of the source any more. */
static void identity__repeated_proof_of_earlier_numbers(void **state)
{
    (void)state;
    go_on_from(7, 1);
    const struct forger earlier = forger;
    go_on_from(1000000, 2);
    const uint64_t dropped = pair.b->counters->drop_source;
    forger = earlier;
    send_proof_of(7);
    RUN_UNTIL(pair.b->counters->drop_source == dropped + 1, pair.b);
    send_hello(); /* would be taken for the next one */
    RUN_UNTIL(pair.b->counters->drop_source == dropped + 2, pair.b);
    assert_int_equal(pair.b->recvs, 2);
}

/* Asks node b to prove itself, after a datagram of its that is in the buffer. */
static void send_reset(void)
{
    uint8_t body[DW_RESET_BYTES] = {0};
    memcpy(body, forger.buf + 24, sizeof(uint64_t)); /* its number */
    forger.header.type = DW_LLP_RESET;
    forger.header.flags = 0;
    forger.header.credit_kib = 0;
    forge_begin(&forger);
    forge_raw(&forger, body, sizeof body);
    forge_send(&forger);
}

/* Where both ends ask each other, and both prove themselves, none takes the other's numbers: it
 * would send, and take, the same once more by those. */
static void identity__proofs_that_cross(void **state)
{
    (void)state;
    struct diwarp_ah *ah = NULL;
    forger.header.flags |= DW_LLP_GOES_ON;
    send_hello();
    hear(DW_LLP_RESET);
    const struct forger asked = forger;
    const struct diwarp_address address = forger_address(&forger, &pair.b->address);
    assert_int_equal(diwarp_create_ah(pair.b->qp, &address, &ah), 0);
    assert_int_equal(post(pair.b, ah, IBV_WR_SEND, source, 5, 0, 0, NULL, 0), 0);
    hear(DW_LLP_DATA);
    send_reset();
    hear(DW_LLP_PROOF);
    const uint64_t dropped = pair.b->counters->drop_source;
    forger = asked;
    send_proof_of(7);
    RUN_UNTIL(pair.b->counters->drop_source == dropped + 1, pair.b);
    diwarp_destroy_ah(ah);
}

/* A process of another host does not take the place of one whose address was given. */
static void identity__another_host_is_not_asked(void **state)
{
    (void)state;
    struct diwarp_ah *ah = NULL;
    struct diwarp_address address = forger_address(&forger, &pair.b->address);
    assert_int_equal(diwarp_create_ah(pair.b->qp, &address, &ah), 0);
    forger.header.incarnation++;
    forger.intro.ip[3] = 2;
    send_hello();
    RUN_UNTIL(pair.b->counters->drop_source == 1, pair.b);
    assert_int_equal(pair.b->counters->tx_resets, 0);
    diwarp_destroy_ah(ah);
}

static void identity__proven_one_is_where_it_is_said_to_be(void **state)
{
    (void)state;
    struct diwarp_ah *ah = NULL;
    forger.header.flags |= DW_LLP_GOES_ON;
    send_hello();
    hear(DW_LLP_RESET);
    send_proof();
    forger.header.flags &= (uint8_t)~DW_LLP_GOES_ON;
    send_hello();
    RUN_UNTIL(pair.b->recvs == 1, pair.b);
    const struct diwarp_address heard = forger_address(&forger, &pair.b->address);
    assert_int_equal(diwarp_create_ah(pair.b->qp, &heard, &ah), 0);
    RUN_FOR(MS, pair.b);
    assert_int_equal(pair.b->gone, 0);
    diwarp_destroy_ah(ah);
}

/* Who has proved to be elsewhere is another. */
static void identity__proven_one_is_not_where_it_is_said_to_be(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct diwarp_ah *ah = NULL;
        char text[64], want[64];
        forger.header.rank = 100 + i;
        forger.header.flags |= DW_LLP_GOES_ON;
        send_hello();
        hear(DW_LLP_RESET);
        send_proof();
        RUN_FOR(MS, pair.b);
        struct diwarp_address real = forger_address(&forger, &pair.b->address);
        real.token += i == 0;
        real.port = (uint16_t)(real.port + (i == 1));
        real.interfaces[0].ip[3] = (uint8_t)(real.interfaces[0].ip[3] + (i == 2));
        assert_int_equal(diwarp_create_ah(pair.b->qp, &real, &ah), 0);
        RUN_UNTIL(pair.b->gone == i + 1, pair.b);
        diwarp_format_ah(ah, text, sizeof text);
        snprintf(want, sizeof want, "127.0.0.%u:%u", i == 2 ? 2 : 1, real.port);
        assert_string_equal(text, want);
        diwarp_destroy_ah(ah);
    }
}

/* Names without end, each of whose addresses may be forged; and one that is there. */
static void identity__many_names_cost_little(void **state)
{
    (void)state;
    struct diwarp_memory memory;
    for (uint32_t i = 0; i < MANY; i++) {
        const uint64_t heard = pair.b->counters->rx_datagrams;
        forger.header.rank = 100 + i;
        send_hello();
        RUN_UNTIL(pair.b->counters->rx_datagrams > heard, pair.b);
        uint8_t answer[DW_LLP_HEADER_BYTES];
        while (recv(forger.fd, answer, sizeof answer, MSG_DONTWAIT) > 0)
            continue;
    }
    diwarp_query_memory(pair.b->cq, pair.b->pd, &memory);
    assert_in_range(memory.addresses, 1, MANY / 2);
    const unsigned recvs = pair.b->recvs;
    assert_in_range(pair.b->counters->tx_resets, 1, MANY);
    RUN_FOR(2 * MS, pair.b);
    forger.header.rank = 100 + MANY;
    send_hello();
    const uint64_t number = forger.header.number;
    do
        hear(DW_LLP_RESET);
    while (dw_get_be64(forger.buf + DW_LLP_HEADER_BYTES) != number);
    assert_int_equal(pair.b->recvs, recvs);
    send_proof();
    send_hello();
    RUN_UNTIL(pair.b->recvs == recvs + 1, pair.b);
}

static uint64_t known(void)
{
    struct diwarp_memory memory;
    diwarp_query_memory(pair.b->cq, pair.b->pd, &memory);
    return memory.addresses;
}

/* Names that prove to be there, and of whom that was all; but one speaks. */
static void identity__proven_and_silent__soon_forgotten(void **state)
{
    (void)state;
    enum { NAMES = 50 }; /* the forger hears one socket, and a busy peer has another */
    const uint64_t before = known(), soon_ns = 5000 * MS, start_ns = clock_ns();
    for (uint32_t i = 0; i < NAMES; i++) {
        forger.header.rank = 100 + i;
        forger.header.flags = DW_LLP_INTRO | DW_LLP_GOES_ON;
        send_hello();
        hear(DW_LLP_RESET);
        send_proof();
        RUN_FOR(MS / 10, pair.b); /* there are no more RESETs at a time */
    }
    send_hello();
    RUN_UNTIL(pair.b->recvs == 1, pair.b);
    assert_int_equal(known(), before + NAMES);
    RUN_UNTIL(known() == before + 1, pair.b);
    assert_true(clock_ns() - start_ns < soon_ns);
    forger.header.flags = 0;
    forger.header.psn++;
    send_hello();
    RUN_UNTIL(pair.b->recvs == 2, pair.b);
}

/* An STag of a record is of no use to another peer, though it knows the record's id, too. */
static void identity__record_of_another_peer(void **state)
{
    (void)state;
    enum { BYTES = 100000 };
    const struct dw_rd *rd = pair.b->qp->state;
    const struct diwarp_counters *counters = pair.b->counters;
    struct diwarp_mr *mr = diwarp_reg_mr(pair.a.pd, source, BYTES, IBV_ACCESS_REMOTE_READ);
    fill(source, BYTES, 1);
    memset(sink, 0, BYTES);
    assert_int_equal(
        post(pair.b, pair.ba, IBV_WR_RDMA_READ, sink, BYTES, IBV_SEND_SIGNALED, 0, mr, 0), 0);
    send_hello();
    RUN_UNTIL(pair.b->recvs == 1, pair.b);
    size_t slot = 0;
    const struct dw_record *own = dw_map_next(&rd->records.ends, &slot);
    const struct dw_record_control end = {.kind = DW_RECORD_ABORT, .id = own->id};
    for (unsigned lead = 0; lead < 2; lead++) {
        forger.header.type = DW_LLP_RECORD;
        forger.header.flags = lead ? DW_LLP_INTRO : 0;
        forge_begin(&forger);
        forge_write_record(&forger, own->id, own->stag, own->to, 0, BYTES, "bad", 3);
        forge_send(&forger);
        RUN_UNTIL(counters->drop_stale_record == 2 * lead + 1, pair.b);
        forger.header.type = DW_LLP_DATA;
        forger.header.psn++;
        forge_begin(&forger);
        forge_control(&forger, &end);
        forge_send(&forger);
        RUN_UNTIL(counters->drop_stale_record == 2 * lead + 2, pair.b);
    }
    assert_memory_equal(sink, "\0\0\0", 3);
    RUN_UNTIL(pair.b->reads == 1, &pair.a, pair.b);
    assert_filled(sink, BYTES, 1);
    diwarp_dereg_mr(mr);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(identity__address_names_the_incarnation),
        TEST(identity__intro_leaves_the_given_address),
        TEST(identity__another_is_taken_when_it_proves_it),
        TEST(identity__proof_of_another_is_none),
        TEST(identity__repeated_proof_of_an_earlier_incarnation),
        TEST(identity__repeated_proof_of_earlier_numbers),
        TEST(identity__proofs_that_cross),
        TEST(identity__another_host_is_not_asked),
        TEST(identity__proven_one_is_where_it_is_said_to_be),
        TEST(identity__proven_one_is_not_where_it_is_said_to_be),
        TEST(identity__many_names_cost_little),
        TEST(identity__proven_and_silent__soon_forgotten),
        TEST(identity__record_of_another_peer),
    };
    return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
