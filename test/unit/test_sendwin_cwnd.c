/* SPDX-License-Identifier: BSD-3-Clause */
/* The congestion window: what loss and delay make of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/rel/recvwin.h"
#include "test/unit/sendwin_fixture.h"

#define US 1000ull /* in nanoseconds */

static void sendwin_cwnd__shrinks_once_for_one_event(void **state)
{
    (void)state;
    struct dw_sendwin win;
    struct dw_tx txs[DW_WINDOW_DATAGRAMS];

    fill(&win, txs, 32);
    assert_int_equal(win.cwnd_datagrams, DW_WINDOW_DATAGRAMS);
    assert_int_equal(dw_sendwin_on_probe_reply(&win, 10), 10);
    assert_int_equal(win.cwnd_datagrams, DW_WINDOW_DATAGRAMS * 7 / 10);
    assert_int_equal(dw_sendwin_on_probe_reply(&win, 32), 22); /* sent before the first was told */
    assert_int_equal(win.cwnd_datagrams, DW_WINDOW_DATAGRAMS * 7 / 10);
    for (unsigned i = 32; i < 48; i++) {
        txs[i] = (struct dw_tx){.truesize_bytes = SIZE};
        dw_sendwin_on_send(&win, &txs[i], i + 1);
        dw_sendwin_on_probe_reply(&win, i + 1); /* a new event each */
    }
    assert_int_equal(win.cwnd_datagrams, CWND_MIN);
}

/* What the peer had no room for, and what was sent meanwhile, says nothing of the network. */
static void sendwin_cwnd__room_again__stays(void **state)
{
    (void)state;
    enum { COUNT = DW_SACK_DATAGRAMS + 10 };
    struct dw_sendwin win;
    struct dw_tx txs[COUNT];

    fill(&win, txs, COUNT);
    txs[3].lost = true;
    dw_sendwin_on_refusal(&win);
    (void)dw_sendwin_on_probe_reply(&win, UINT64_MAX);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(txs[i].lost, i < DW_SACK_DATAGRAMS);
    assert_int_equal(win.cwnd_datagrams, DW_WINDOW_DATAGRAMS);
    for (unsigned i = 0; i < DW_SACK_DATAGRAMS; i++)
        dw_sendwin_on_resend(&win, &txs[i], 1000);
    assert_int_equal(dw_sendwin_on_probe_reply(&win, 2000), DW_SACK_DATAGRAMS);
    assert_int_equal(win.cwnd_datagrams, DW_WINDOW_DATAGRAMS);
}

static void sendwin_cwnd__never_above_a_small_window(void **state)
{
    (void)state;
    for (uint32_t max = 1; max <= 5; max++) {
        struct dw_sendwin win;
        struct dw_tx tx = {.truesize_bytes = SIZE};
        dw_sendwin_init(&win, FIRST, max, UINT32_MAX, max, 0, 0);
        dw_sendwin_on_send(&win, &tx, 1);
        assert_int_equal(dw_sendwin_on_probe_reply(&win, 2), 1);
        const uint32_t less = max * 7 / 10;
        assert_int_equal(win.cwnd_datagrams, max < CWND_MIN    ? max
                                             : less < CWND_MIN ? CWND_MIN
                                                               : less);
    }
}

static void sendwin_cwnd__grows_by_one_a_window(void **state)
{
    (void)state;
    struct dw_sendwin win;
    struct dw_list acked;
    struct dw_sendwin_result result;
    unsigned sent = 0;

    dw_sendwin_init(&win, FIRST, 8, UINT32_MAX, 8, 0, 0);
    win.cwnd_datagrams = win.ssthresh_datagrams = 4;
    dw_list_init(&acked);
    for (uint32_t cwnd = 4; cwnd < 8; cwnd++) {
        assert_int_equal(win.cwnd_datagrams, cwnd);
        for (uint32_t i = 0; i < cwnd; i++) {
            struct dw_tx tx = {.truesize_bytes = SIZE};
            dw_sendwin_on_send(&win, &tx, 1);
            assert_int_equal(on_ack(&win, FIRST + ++sent, 0, 2, &acked, &result), 0);
            dw_list_remove(&tx.link);
        }
    }
    for (unsigned i = 0; i < 100; i++) {
        struct dw_tx tx = {.truesize_bytes = SIZE};
        dw_sendwin_on_send(&win, &tx, 1);
        on_ack(&win, FIRST + ++sent, 0, 2, &acked, &result);
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
    assert_int_equal(on_ack(win, win->next_psn, 0, now_ns, &acked, &result), 0);
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

    dw_sendwin_init(&win, FIRST, 64, UINT32_MAX, 64, 20, 1000 * US);
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

    dw_sendwin_init(&win, FIRST, 64, UINT32_MAX, 64, 0, 0);
    win.queue_max_ns = 1000 * US;
    dw_list_init(&acked);
    for (unsigned i = 0; i < 1000; i++) {
        struct dw_tx tx = {.truesize_bytes = SIZE};
        dw_sendwin_on_send(&win, &tx, 0);
        on_ack(&win, win.next_psn, 0, i ? 9000 * US : 10 * US, &acked, &result);
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

    dw_sendwin_init(&win, FIRST, 64, UINT32_MAX, 64, 0, 0);
    win.queue_max_ns = 1000 * US;
    dw_sendwin_on_send(&win, &tx, 1);
    assert_int_equal(dw_sendwin_on_probe_reply(&win, 2), 1);
    dw_list_remove(&tx.link);
    win.count = 0;
    win.bytes = 0;
    for (unsigned cwnd = 44; cwnd < 52; cwnd++) {
        assert_int_equal(win.cwnd_datagrams, cwnd);
        pass_round(&win, 50 * US);
    }
}

/* The first `lost` datagrams of a round, each of which waits so long in a queue. */
static void lose_of_round(struct dw_sendwin *win, unsigned lost, uint64_t rtt_ns)
{
    static uint64_t now_ns;
    struct dw_tx txs[DW_WINDOW_DATAGRAMS];
    struct dw_list acked;
    struct dw_sendwin_result result;
    const uint32_t first = win->next_psn;
    const unsigned n = win->cwnd_datagrams < 60 ? win->cwnd_datagrams : 60;

    dw_list_init(&acked);
    for (unsigned i = 0; i < n; i++) {
        txs[i] = (struct dw_tx){.truesize_bytes = SIZE};
        dw_sendwin_on_send(win, &txs[i], now_ns);
    }
    now_ns += rtt_ns;
    const uint64_t sack = ((1ull << n) - 1) >> lost << (lost - 1); /* bit 0: first + 1 */
    assert_int_equal(on_ack(win, first, sack & ((1ull << (n - 1)) - 1), now_ns, &acked, &result),
                     0);
    assert_int_equal(result.lost, lost);
    for (unsigned i = 0; i < lost; i++)
        dw_sendwin_on_resend(win, &txs[i], now_ns);
    assert_int_equal(on_ack(win, win->next_psn, 0, now_ns, &acked, &result), 0);
}

static void sendwin_cwnd__loss_without_a_queue(void **state)
{
    (void)state;
    static const struct {
        unsigned lost;
        uint64_t rtt_ns;
        unsigned cwnd_datagrams;
    } cases[] = {
        {1, 100 * US, 48},            /* a bad link */
        {6, 100 * US, 48},            /* one in eight */
        {7, 100 * US, 24},            /* too many */
        {1, 400 * US, 48 * 7 / 10},   /* there is a queue */
        {20, 2000 * US, 48 * 7 / 10}, /* one event */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dw_sendwin win;
        dw_sendwin_init(&win, FIRST, 48, UINT32_MAX, 48, 4, 1000 * US);
        for (unsigned k = 0; k < 8; k++)
            pass_round(&win, 100 * US);
        assert_int_equal(win.cwnd_datagrams, 48);
        lose_of_round(&win, cases[i].lost, cases[i].rtt_ns);
        assert_in_range(win.cwnd_datagrams, cases[i].cwnd_datagrams, cases[i].cwnd_datagrams + 1);
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
        dw_sendwin_init(&win, FIRST, 8, UINT32_MAX, 8, 0, 0);
        dw_list_init(&acked);
        /* Stands for all the datagrams between, each acknowledged. */
        for (uint32_t left = ahead[i]; left; left -= left < 1 << 30 ? left : 1 << 30) {
            win.next_psn += left < 1 << 30 ? left : 1 << 30;
            assert_int_equal(on_ack(&win, win.next_psn, 0, 1, &acked, &result), 0);
        }
        dw_sendwin_on_send(&win, &tx, 2);
        assert_int_equal(dw_sendwin_on_probe_reply(&win, 3), 1);
        assert_int_equal(win.cwnd_datagrams, 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sendwin_cwnd__shrinks_once_for_one_event),
        cmocka_unit_test(sendwin_cwnd__room_again__stays),
        cmocka_unit_test(sendwin_cwnd__never_above_a_small_window),
        cmocka_unit_test(sendwin_cwnd__grows_by_one_a_window),
        cmocka_unit_test(sendwin_cwnd__follows_the_delay),
        cmocka_unit_test(sendwin_cwnd__delay_of_a_few_or_without_a_limit_is_nothing),
        cmocka_unit_test(sendwin_cwnd__no_doubling_after_loss),
        cmocka_unit_test(sendwin_cwnd__loss_without_a_queue),
        cmocka_unit_test(sendwin_cwnd__loss_long_after_the_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
