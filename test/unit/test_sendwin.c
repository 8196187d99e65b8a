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

#define SIZE 100     /* truesize of a datagram */
#define US   1000ull /* in nanoseconds */

/* A window with `count` datagrams sent, the i-th at time i + 1. */
static void fill(struct dw_sendwin *win, struct dw_tx *txs, unsigned count)
{
    dw_sendwin_init(win, FIRST, DW_WINDOW_DATAGRAMS, UINT32_MAX);
    for (unsigned i = 0; i < count; i++) {
        txs[i] = (struct dw_tx){.truesize_bytes = SIZE};
        dw_sendwin_on_send(win, &txs[i], i + 1);
    }
}

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
        assert_int_equal(dw_sendwin_on_ack(&win, FIRST, sack, 100, &acked, &result), 0);
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
    assert_int_equal(dw_sendwin_on_ack(&win, FIRST, UINT64_MAX, 100, &acked, &result), 0);
    assert_int_equal(win.count, DW_WINDOW_DATAGRAMS - 64);
    assert_false(dw_sendwin_may_send(&win, SIZE));
    assert_int_equal(dw_sendwin_on_ack(&win, FIRST + DW_WINDOW_DATAGRAMS, 0, 100, &acked, &result),
                     0);
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
        assert_int_equal(
            dw_sendwin_on_ack(&win, FIRST + cases[i].ack, cases[i].sack, NOW, &acked, &result),
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
    assert_int_equal(dw_sendwin_on_ack(&win, FIRST, 7, 50, &acked, &result), 0);
    assert_int_equal(lost_bits(txs, 4), 1);
    dw_sendwin_on_resend(&win, &txs[0], 60);
    assert_false(txs[0].lost);
    assert_int_equal(txs[0].resends, 1);
    assert_int_equal(dw_sendwin_on_ack(&win, FIRST + 4, 0, 70, &acked, &result), 0);
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
    dw_sendwin_on_ack(&win, FIRST, 7, 50, &acked, &result); /* the 2nd to the 4th came */
    dw_sendwin_on_resend(&win, &txs[0], 60);
    dw_sendwin_on_ack(&win, FIRST, 0x3f, 70, &acked, &result); /* all the first sends came */
    assert_int_equal(result.acked, 3);
    assert_int_equal(result.lost, 0);
    for (unsigned i = 7; i < 10; i++) {
        txs[i] = (struct dw_tx){.truesize_bytes = SIZE};
        dw_sendwin_on_send(&win, &txs[i], 80);
    }
    dw_sendwin_on_ack(&win, FIRST, 0x1ff, 90, &acked, &result);
    assert_int_equal(result.lost, 1);
    assert_int_equal(lost_bits(txs, 10), 1);
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
    dw_sendwin_on_ack(&win, FIRST, 7, 50, &acked, &result);
    dw_sendwin_on_resend(&win, &txs[0], 60);
    dw_sendwin_on_ack(&win, FIRST + 4, 0, 70, &acked, &result);
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
    assert_int_equal(dw_sendwin_on_ack(&win, FIRST + ACK, 0, 2000, &acked, &result), 0);
    assert_int_equal(result.acked, ACK);
    assert_int_equal(result.lost, DW_SACK_DATAGRAMS);
    assert_int_equal(lost_count(txs, ACK, END), DW_SACK_DATAGRAMS);
    assert_int_equal(lost_count(txs, END, DW_WINDOW_DATAGRAMS), 0);
    assert_int_equal(dw_sendwin_on_probe_reply(&win, UINT64_MAX), 0);
    assert_int_equal(
        dw_sendwin_on_ack(&win, FIRST + DW_WINDOW_DATAGRAMS - 1, 0, 3000, &acked, &result), 0);
    assert_int_equal(result.lost, 1);
}

static void sendwin_cwnd__halves_once_for_one_event(void **state)
{
    (void)state;
    struct dw_sendwin win;
    struct dw_tx txs[DW_WINDOW_DATAGRAMS];

    fill(&win, txs, 32);
    assert_int_equal(win.cwnd_datagrams, DW_WINDOW_DATAGRAMS);
    assert_int_equal(dw_sendwin_on_probe_reply(&win, 10), 10);
    assert_int_equal(win.cwnd_datagrams, DW_WINDOW_DATAGRAMS / 2);
    assert_int_equal(dw_sendwin_on_probe_reply(&win, 32), 22); /* sent before the first was told */
    assert_int_equal(win.cwnd_datagrams, DW_WINDOW_DATAGRAMS / 2);
    for (unsigned i = 32; i < 40; i++) {
        txs[i] = (struct dw_tx){.truesize_bytes = SIZE};
        dw_sendwin_on_send(&win, &txs[i], i + 1);
        dw_sendwin_on_probe_reply(&win, i + 1); /* a new event each */
    }
    assert_int_equal(win.cwnd_datagrams, CWND_MIN);
}

static void sendwin_cwnd__never_above_a_small_window(void **state)
{
    (void)state;
    for (uint32_t max = 1; max <= 5; max++) {
        struct dw_sendwin win;
        struct dw_tx tx = {.truesize_bytes = SIZE};
        dw_sendwin_init(&win, FIRST, max, UINT32_MAX);
        dw_sendwin_on_send(&win, &tx, 1);
        assert_int_equal(dw_sendwin_on_probe_reply(&win, 2), 1);
        assert_int_equal(win.cwnd_datagrams, max < CWND_MIN ? max : CWND_MIN);
    }
}

static void sendwin_cwnd__grows_by_one_a_window(void **state)
{
    (void)state;
    struct dw_sendwin win;
    struct dw_list acked;
    struct dw_sendwin_result result;
    unsigned sent = 0;

    dw_sendwin_init(&win, FIRST, 8, UINT32_MAX);
    win.cwnd_datagrams = win.ssthresh_datagrams = 4;
    dw_list_init(&acked);
    for (uint32_t cwnd = 4; cwnd < 8; cwnd++) {
        assert_int_equal(win.cwnd_datagrams, cwnd);
        for (uint32_t i = 0; i < cwnd; i++) {
            struct dw_tx tx = {.truesize_bytes = SIZE};
            dw_sendwin_on_send(&win, &tx, 1);
            assert_int_equal(dw_sendwin_on_ack(&win, FIRST + ++sent, 0, 2, &acked, &result), 0);
            dw_list_remove(&tx.link);
        }
    }
    for (unsigned i = 0; i < 100; i++) {
        struct dw_tx tx = {.truesize_bytes = SIZE};
        dw_sendwin_on_send(&win, &tx, 1);
        dw_sendwin_on_ack(&win, FIRST + ++sent, 0, 2, &acked, &result);
        dw_list_remove(&tx.link);
    }
    assert_int_equal(win.cwnd_datagrams, 8);
}

/* A round that sends as many as the window has, each of which waits so long in a queue. */
static void pass_round(struct dw_sendwin *win, uint64_t rtt_ns)
{
    static uint64_t now_ns;
    struct dw_tx txs[DW_WINDOW_DATAGRAMS];
    struct dw_list acked;
    struct dw_sendwin_result result;
    unsigned n = win->cwnd_datagrams;

    dw_list_init(&acked);
    for (unsigned i = 0; i < n; i++) {
        txs[i] = (struct dw_tx){.truesize_bytes = SIZE};
        dw_sendwin_on_send(win, &txs[i], now_ns);
    }
    now_ns += rtt_ns;
    assert_int_equal(dw_sendwin_on_ack(win, win->next_psn, 0, now_ns, &acked, &result), 0);
    assert_int_equal(result.acked, n);
}

static void sendwin_cwnd__follows_the_delay(void **state)
{
    (void)state;
    static const struct {
        uint64_t rtt_ns;
        uint16_t cwnd_datagrams;
    } rounds[] = {
        {100 * US, 40},  {100 * US, 64},  {1000 * US, 64}, {1200 * US, 48}, {1200 * US, 36},
        {5000 * US, 27}, {5000 * US, 21}, {5000 * US, 20}, {5000 * US, 20}, /* no less */
        {600 * US, 21},                                  /* a queue, not too long */
        {120 * US, 42},  {90 * US, 64},   {90 * US, 64}, /* none any more */
    };
    struct dw_sendwin win;

    dw_sendwin_init(&win, FIRST, 64, UINT32_MAX);
    dw_sendwin_set_congestion(&win, 64, 20, 1000 * US);
    assert_int_equal(win.cwnd_datagrams, 20);
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
        pass_round(&win, rounds[i].rtt_ns);
        assert_int_equal(win.cwnd_datagrams, rounds[i].cwnd_datagrams);
    }
}

static void sendwin_cwnd__delay_of_a_few_or_without_a_limit_is_nothing(void **state)
{
    (void)state;
    struct dw_sendwin win;
    struct dw_list acked;
    struct dw_sendwin_result result;

    dw_sendwin_init(&win, FIRST, 64, UINT32_MAX);
    win.queue_max_ns = 1000 * US;
    dw_list_init(&acked);
    for (unsigned i = 0; i < 1000; i++) {
        struct dw_tx tx = {.truesize_bytes = SIZE};
        dw_sendwin_on_send(&win, &tx, 0);
        dw_sendwin_on_ack(&win, win.next_psn, 0, i ? 9000 * US : 10 * US, &acked, &result);
        dw_list_remove(&tx.link);
    }
    assert_int_equal(win.cwnd_datagrams, 64);
    win.queue_max_ns = 0;
    pass_round(&win, 9000 * US);
    assert_int_equal(win.cwnd_datagrams, 64);
}

/* What loss has taken comes back one by one, whatever the delay. */
static void sendwin_cwnd__no_doubling_after_loss(void **state)
{
    (void)state;
    struct dw_sendwin win;
    struct dw_tx tx = {.truesize_bytes = SIZE};

    dw_sendwin_init(&win, FIRST, 64, UINT32_MAX);
    win.queue_max_ns = 1000 * US;
    dw_sendwin_on_send(&win, &tx, 1);
    assert_int_equal(dw_sendwin_on_probe_reply(&win, 2), 1);
    dw_list_remove(&tx.link);
    win.count = 0;
    win.bytes = 0;
    for (unsigned cwnd = 32; cwnd < 40; cwnd++) {
        assert_int_equal(win.cwnd_datagrams, cwnd);
        pass_round(&win, 50 * US);
    }
}

/* A peer that lost nothing for half the PSNs still slows down at its next loss. */
static void sendwin_cwnd__loss_long_after_the_last(void **state)
{
    (void)state;
    static const uint32_t ahead[] = {1, 0x7ffffff0, 0x80000010, 0xfffffff0};

    for (size_t i = 0; i < sizeof ahead / sizeof ahead[0]; i++) {
        struct dw_sendwin win;
        struct dw_tx tx = {.truesize_bytes = SIZE};
        struct dw_list acked;
        struct dw_sendwin_result result;
        dw_sendwin_init(&win, FIRST, 8, UINT32_MAX);
        dw_list_init(&acked);
        /* Stands for all the datagrams between, each acknowledged. */
        for (uint32_t left = ahead[i]; left; left -= left < 1 << 30 ? left : 1 << 30) {
            win.next_psn += left < 1 << 30 ? left : 1 << 30;
            assert_int_equal(dw_sendwin_on_ack(&win, win.next_psn, 0, 1, &acked, &result), 0);
        }
        dw_sendwin_on_send(&win, &tx, 2);
        assert_int_equal(dw_sendwin_on_probe_reply(&win, 3), 1);
        assert_int_equal(win.cwnd_datagrams, 4);
    }
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
        cmocka_unit_test(sendwin_on_ack__cumulative_tells_loss_too),
        cmocka_unit_test(sendwin_on_probe_reply__all_sent_before),
        cmocka_unit_test(sendwin__only_what_was_told_of_is_lost),
        cmocka_unit_test(sendwin_cwnd__halves_once_for_one_event),
        cmocka_unit_test(sendwin_cwnd__never_above_a_small_window),
        cmocka_unit_test(sendwin_cwnd__grows_by_one_a_window),
        cmocka_unit_test(sendwin_cwnd__follows_the_delay),
        cmocka_unit_test(sendwin_cwnd__delay_of_a_few_or_without_a_limit_is_nothing),
        cmocka_unit_test(sendwin_cwnd__no_doubling_after_loss),
        cmocka_unit_test(sendwin_cwnd__loss_long_after_the_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
