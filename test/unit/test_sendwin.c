/* SPDX-License-Identifier: BSD-3-Clause */
/* The send window, step by step. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/rel/recvwin.h"
#include "test/unit/sendwin_fixture.h"

/* One bit for each of the datagrams told lost. */
static uint64_t lost_bits(const struct dw_tx *txs, unsigned count)
{
    uint64_t bits = 0;

    for (unsigned i = 0; i < count; i++)
        bits |= (uint64_t)txs[i].lost << i;
    return bits;
}

static void sendwin_on_send__numbers_in_order(void **state)
{
    (void)state;
    struct dw_sendwin win;
    struct dw_tx txs[20];

    fill(&win, txs, 20);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(txs[i].psn, FIRST + i);
        assert_false(txs[i].lost);
    }
    assert_int_equal(win.count, 20);
    assert_int_equal(win.bytes, 20 * SIZE);
}

static void sendwin_may_send__bounds(void **state)
{
    (void)state;
    static const struct {
        unsigned sent;
        uint16_t max_datagrams, cwnd_datagrams;
        uint32_t credit_bytes;
        bool may;
    } cases[] = {
        {0, 8, 8, 10 * SIZE, true},  {0, 8, 8, 0, true}, /* one may always go */
        {0, 1, 1, 0, true},          {1, 8, 8, 2 * SIZE, true},  {1, 8, 8, 2 * SIZE - 1, false},
        {1, 1, 8, 10 * SIZE, false}, {7, 8, 8, 10 * SIZE, true}, {8, 8, 9, 10 * SIZE, false},
        {4, 8, 4, 10 * SIZE, false}, {3, 8, 4, 10 * SIZE, true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dw_sendwin win;
        struct dw_tx txs[8];
        fill(&win, txs, cases[i].sent);
        win.max_datagrams = cases[i].max_datagrams;
        win.cwnd_datagrams = cases[i].cwnd_datagrams;
        win.credit_bytes = cases[i].credit_bytes;
        assert_int_equal(dw_sendwin_may_send(&win, SIZE), cases[i].may);
    }
}

static void sendwin_is_filling__table(void **state)
{
    (void)state;
    static const struct {
        unsigned sent;
        uint16_t cwnd_datagrams;
        uint32_t credit_bytes;
        bool filling;
    } cases[] = {
        {0, 8, 80 * SIZE, false}, {5, 8, 80 * SIZE, false}, {6, 8, 80 * SIZE, true},
        {2, 8, 4 * SIZE, false},  {3, 8, 4 * SIZE, true},   {1, 2, 80 * SIZE, true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dw_sendwin win;
        struct dw_tx txs[8];
        fill(&win, txs, cases[i].sent);
        win.cwnd_datagrams = cases[i].cwnd_datagrams;
        win.credit_bytes = cases[i].credit_bytes;
        assert_int_equal(dw_sendwin_is_filling(&win), cases[i].filling);
    }
}

static void sendwin_room__table(void **state)
{
    (void)state;
    static const struct {
        unsigned sent, acked; /* the oldest of them stays */
        uint16_t cwnd_datagrams;
        uint32_t room;
    } cases[] = {
        {0, 0, 8, 8}, {0, 0, 2, 2}, {3, 0, 8, 5},
        {3, 0, 4, 1}, {8, 0, 8, 0}, {4, 0, 2, 0}, /* halved below what is out */
        {8, 7, 8, 0},                             /* the hole holds back all 8 PSNs */
        {6, 5, 8, 2}, {6, 5, 2, 1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dw_sendwin win;
        struct dw_tx txs[8];
        struct dw_list acked;
        struct dw_sendwin_result result;
        fill(&win, txs, cases[i].sent);
        dw_list_init(&acked);
        uint64_t sack = (1ull << cases[i].acked) - 1;
        assert_int_equal(on_ack(&win, FIRST, sack, 100, &acked, &result), 0);
        win.max_datagrams = 8;
        win.cwnd_datagrams = cases[i].cwnd_datagrams;
        assert_int_equal(dw_sendwin_room_datagrams(&win), cases[i].room);
    }
}

/* However few are unacknowledged, none goes further ahead of the oldest than the peer can note. */
static void sendwin_may_send__hole_bounds_the_psns(void **state)
{
    (void)state;
    struct dw_sendwin win;
    struct dw_tx txs[DW_WINDOW_DATAGRAMS];
    struct dw_list acked;
    struct dw_sendwin_result result;

    fill(&win, txs, DW_WINDOW_DATAGRAMS);
    dw_list_init(&acked);
    assert_int_equal(on_ack(&win, FIRST, UINT64_MAX, 100, &acked, &result), 0);
    assert_int_equal(win.count, DW_WINDOW_DATAGRAMS - 64);
    assert_false(dw_sendwin_may_send(&win, SIZE));
    assert_int_equal(on_ack(&win, FIRST + DW_WINDOW_DATAGRAMS, 0, 100, &acked, &result), 0);
    assert_int_equal(length(&acked), DW_WINDOW_DATAGRAMS);
    assert_true(dw_sendwin_may_send(&win, SIZE));
}

static void sendwin_on_ack__table(void **state)
{
    (void)state;
    enum { SENT = 20, NOW = 1000 };
    static const struct {
        uint32_t ack; /* after FIRST */
        uint64_t sack;
        int expected;
        unsigned acked;
        uint64_t lost;
        uint64_t rtt_ns;
    } cases[] = {
        {0, 0, 0, 0, 0, 0},
        {1, 0, 0, 1, 0, NOW - 1},
        {20, 0, 0, 20, 0, NOW - 20}, /* the rtt of the latest */
        {21, 0, -EPROTO, 0, 0, 0},   /* never sent */
        {0x7fffffff, 0, -EPROTO, 0, 0, 0},
        {UINT32_MAX, 0, 0, 0, 0, 0}, /* overtaken by a later ack */
        {0, 1, 0, 1, 0, NOW - 2},
        {0, 3, 0, 2, 0, NOW - 3},
        {0, 4, 0, 1, 1, NOW - 4}, /* sent three later: the first is lost */
        {0, 8, 0, 1, 3, NOW - 5},
        {2, 1 << 4, 0, 3, 0x1c, NOW - 8},
        {0, 1 << 18, 0, 1, 0x1ffff, NOW - 20},
        {0, UINT64_MAX, 0, 19, 1, NOW - 20}, /* the rest of the map says nothing */
        {20, UINT64_MAX, 0, 20, 0, NOW - 20},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dw_sendwin win;
        struct dw_tx txs[SENT];
        struct dw_list acked;
        struct dw_sendwin_result result;
        fill(&win, txs, SENT);
        dw_list_init(&acked);
        assert_int_equal(on_ack(&win, FIRST + cases[i].ack, cases[i].sack, NOW, &acked, &result),
                         cases[i].expected);
        assert_int_equal(result.acked, cases[i].acked);
        assert_int_equal(length(&acked), cases[i].acked);
        assert_int_equal(result.rtt_ns, cases[i].rtt_ns);
        assert_int_equal(lost_bits(txs, SENT), cases[i].lost);
        assert_int_equal(result.lost, __builtin_popcountll(cases[i].lost));
        assert_int_equal(win.count, SENT - cases[i].acked);
        assert_int_equal(win.bytes, win.count * SIZE);
        assert_int_equal(length(&win.unacked), win.count);
    }
}

static void sendwin_on_ack__of_a_resent_gives_no_rtt(void **state)
{
    (void)state;
    struct dw_sendwin win;
    struct dw_tx txs[4];
    struct dw_list acked;
    struct dw_sendwin_result result;

    fill(&win, txs, 4);
    dw_list_init(&acked);
    assert_int_equal(on_ack(&win, FIRST, 7, 50, &acked, &result), 0);
    assert_int_equal(lost_bits(txs, 4), 1);
    dw_sendwin_on_resend(&win, &txs[0], 60);
    assert_false(txs[0].lost);
    assert_int_equal(txs[0].resends, 1);
    assert_int_equal(on_ack(&win, FIRST + 4, 0, 70, &acked, &result), 0);
    assert_int_equal(result.acked, 1);
    assert_int_equal(result.rtt_ns, 0);
    assert_int_equal(win.bytes, 0);
}

/* A datagram counts as lost by the order of its last transmission, not of its first. */
static void sendwin_on_ack__resent_waits_for_a_later_one(void **state)
{
    (void)state;
    struct dw_sendwin win;
    struct dw_tx txs[10];
    struct dw_list acked;
    struct dw_sendwin_result result;

    fill(&win, txs, 7);
    dw_list_init(&acked);
    on_ack(&win, FIRST, 7, 50, &acked, &result); /* the 2nd to the 4th came */
    dw_sendwin_on_resend(&win, &txs[0], 60);
    on_ack(&win, FIRST, 0x3f, 70, &acked, &result); /* all the first sends came */
    assert_int_equal(result.acked, 3);
    assert_int_equal(result.lost, 0);
    for (unsigned i = 7; i < 10; i++) {
        txs[i] = (struct dw_tx){.truesize_bytes = SIZE};
        dw_sendwin_on_send(&win, &txs[i], 80);
    }
    on_ack(&win, FIRST, 0x1ff, 90, &acked, &result);
    assert_int_equal(result.lost, 1);
    assert_int_equal(lost_bits(txs, 10), 1);
}

/* One that was sent again on suspicion may have been acknowledged as it went out first: nothing
 * that was sent since is lost for that. */
static void sendwin_on_ack__of_a_guess_overtakes_nothing(void **state)
{
    (void)state;
    struct dw_sendwin win;
    struct dw_tx txs[7];
    struct dw_list acked;
    struct dw_sendwin_result result;

    fill(&win, txs, 7);
    dw_sendwin_on_resend(&win, &txs[0], 50);
    dw_list_init(&acked);
    on_ack(&win, FIRST + 1, 0, 60, &acked, &result);
    assert_int_equal(result.acked, 1);
    assert_int_equal(result.rtt_ns, 0);
    assert_int_equal(lost_bits(txs, 7), 0);
    on_ack(&win, FIRST + 1, 7, 70, &acked, &result); /* all but the second came */
    assert_int_equal(lost_bits(txs, 7), 1 << 1);
    dw_sendwin_on_resend(&win, &txs[1], 80); /* which is no guess */
    on_ack(&win, FIRST + 5, 0, 90, &acked, &result);
    assert_int_equal(lost_bits(txs, 7), 1 << 5);
}

/* By the echo: the guess itself, or something later, had come, or only something earlier; or the
 * guess is too old for the echo to tell. */
static void sendwin_on_ack__of_a_guess_by_echo(void **state)
{
    (void)state;
    static const struct {
        uint64_t echo_ns, echo_from_ns, lost;
    } cases[] = {{0, 0, 0},     {7, 0, 0},      {49, 0, 0}, {50, 0, 0x1e},
                 {55, 0, 0x1e}, {55, 50, 0x1e}, {55, 51, 0}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dw_sendwin win;
        struct dw_tx txs[7];
        struct dw_list acked;
        struct dw_sendwin_result result;
        fill(&win, txs, 7);
        dw_sendwin_on_resend(&win, &txs[0], 50);
        dw_list_init(&acked);
        const struct dw_ack ack = {
            .psn = FIRST + 1, .echo_ns = cases[i].echo_ns, .echo_from_ns = cases[i].echo_from_ns};
        assert_int_equal(dw_sendwin_on_ack(&win, &ack, 60, &acked, &result), 0);
        assert_int_equal(result.acked, 1);
        assert_int_equal(lost_bits(txs, 7), cases[i].lost);
    }
}

/* The ack of a resent datagram tells of the loss of those first sent before, without any SACK. */
static void sendwin_on_ack__cumulative_tells_loss_too(void **state)
{
    (void)state;
    struct dw_sendwin win;
    struct dw_tx txs[7];
    struct dw_list acked;
    struct dw_sendwin_result result;

    fill(&win, txs, 7);
    dw_list_init(&acked);
    on_ack(&win, FIRST, 7, 50, &acked, &result);
    dw_sendwin_on_resend(&win, &txs[0], 60);
    on_ack(&win, FIRST + 4, 0, 70, &acked, &result);
    assert_int_equal(result.acked, 1);
    assert_int_equal(result.lost, 1); /* of the last three, which were 3, 2, 1 earlier */
    assert_int_equal(lost_bits(txs, 7), 1 << 4);
}

static void sendwin_on_probe_reply__all_sent_before(void **state)
{
    (void)state;
    static const struct {
        uint64_t probe_ns;
        uint64_t lost;
    } cases[] = {{0, 0}, {3, 7}, {100, 0x1f}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dw_sendwin win;
        struct dw_tx txs[5];
        fill(&win, txs, 5);
        assert_int_equal(dw_sendwin_on_probe_reply(&win, cases[i].probe_ns),
                         __builtin_popcountll(cases[i].lost));
        assert_int_equal(lost_bits(txs, 5), cases[i].lost);
        assert_int_equal(dw_sendwin_on_probe_reply(&win, cases[i].probe_ns), 0); /* known now */
    }
}

static unsigned lost_count(const struct dw_tx *txs, unsigned from, unsigned end)
{
    unsigned lost = 0;
    for (unsigned i = from; i < end; i++)
        lost += txs[i].lost;
    return lost;
}

/* What lies beyond the SACK may have come, whatever has overtaken it. */
static void sendwin__only_what_was_told_of_is_lost(void **state)
{
    (void)state;
    enum { ACK = 70, END = ACK + DW_SACK_DATAGRAMS };
    struct dw_sendwin win;
    struct dw_tx txs[DW_WINDOW_DATAGRAMS];
    struct dw_list acked;
    struct dw_sendwin_result result;

    fill(&win, txs, DW_WINDOW_DATAGRAMS);
    assert_int_equal(dw_sendwin_on_probe_reply(&win, UINT64_MAX), DW_SACK_DATAGRAMS);
    assert_int_equal(lost_count(txs, 0, DW_SACK_DATAGRAMS), DW_SACK_DATAGRAMS);
    for (unsigned i = 0; i < DW_SACK_DATAGRAMS; i++)
        dw_sendwin_on_resend(&win, &txs[i], 1000);
    dw_list_init(&acked);
    assert_int_equal(on_ack(&win, FIRST + ACK, 0, 2000, &acked, &result), 0);
    assert_int_equal(result.acked, ACK);
    assert_int_equal(result.lost, DW_SACK_DATAGRAMS);
    assert_int_equal(lost_count(txs, ACK, END), DW_SACK_DATAGRAMS);
    assert_int_equal(lost_count(txs, END, DW_WINDOW_DATAGRAMS), 0);
    assert_int_equal(dw_sendwin_on_probe_reply(&win, UINT64_MAX), 0);
    assert_int_equal(on_ack(&win, FIRST + DW_WINDOW_DATAGRAMS - 1, 0, 3000, &acked, &result), 0);
    assert_int_equal(result.lost, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sendwin_on_send__numbers_in_order),
        cmocka_unit_test(sendwin_may_send__bounds),
        cmocka_unit_test(sendwin_is_filling__table),
        cmocka_unit_test(sendwin_room__table),
        cmocka_unit_test(sendwin_may_send__hole_bounds_the_psns),
        cmocka_unit_test(sendwin_on_ack__table),
        cmocka_unit_test(sendwin_on_ack__of_a_resent_gives_no_rtt),
        cmocka_unit_test(sendwin_on_ack__resent_waits_for_a_later_one),
        cmocka_unit_test(sendwin_on_ack__of_a_guess_overtakes_nothing),
        cmocka_unit_test(sendwin_on_ack__of_a_guess_by_echo),
        cmocka_unit_test(sendwin_on_ack__cumulative_tells_loss_too),
        cmocka_unit_test(sendwin_on_probe_reply__all_sent_before),
        cmocka_unit_test(sendwin__only_what_was_told_of_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
