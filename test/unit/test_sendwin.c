/* SPDX-License-Identifier: BSD-3-Clause */
/* The send window: step by step, then against a receive window over a lossy, reordering path. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/rel/recvwin.h"
#include "common/rel/sendwin.h"
#include "test/unit/random.h"

#define FIRST    0xfffffff0u /* PSNs cross the wrap in each test */
#define CWND_MIN 2
#define SIZE     100 /* truesize of a datagram in the step tests */

/* A window with `count` datagrams sent, the i-th at time i + 1. */
static void fill(struct dw_sendwin *win, struct dw_tx *txs, unsigned count)
{
    dw_sendwin_init(win, FIRST, DW_WINDOW_DATAGRAMS, UINT32_MAX);
    for (unsigned i = 0; i < count; i++) {
        txs[i] = (struct dw_tx){.truesize_bytes = SIZE};
        dw_sendwin_on_send(win, &txs[i], i + 1);
    }
}

static unsigned length(const struct dw_list *list)
{
    unsigned n = 0;

    for (const struct dw_list *it = list->next; it != list; it = it->next)
        n++;
    return n;
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
        uint32_t max_datagrams, cwnd_datagrams, credit_bytes;
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
        uint32_t cwnd_datagrams, credit_bytes;
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
        uint32_t cwnd_datagrams, room;
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
    assert_int_equal(dw_sendwin_on_ack(&win, FIRST, UINT64_MAX >> 1, 100, &acked, &result), 0);
    assert_int_equal(win.count, 1);
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
    win.cwnd_datagrams = 4;
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

/* ---- a path with loss, duplicates and reordering ---- */

#define PATH      256
#define DATAGRAMS 1500
#define SEEDS     30
#define QUIET_NS  200 /* without news, the sender probes */

enum kind { DATA, PROBE, ACK };

struct packet {
    uint64_t due_ns; /* 0: a free place */
    enum kind kind;
    uint32_t psn, ack;
    uint64_t sack;
    uint64_t probe_ns; /* of a probe and its answer; 0: none */
};

struct world {
    uint64_t seed, rng, now_ns, heard_ns, probe_ns;
    uint32_t loss_percent, delay_ns;
    uint32_t credit_bytes, sent, received;
    struct dw_sendwin sender;
    struct dw_recvwin receiver;
    struct packet path[PATH];
    struct dw_tx txs[DATAGRAMS];
    uint32_t order[DATAGRAMS]; /* the model's transmission count at the last one */
    uint32_t transmissions, acked_order;
};

static void carry(struct world *w, struct packet packet)
{
    unsigned copies = random_percent(&w->rng, 3) ? 2 : 1;

    for (unsigned i = 0; i < PATH && copies; i++) {
        if (w->path[i].due_ns)
            continue;
        copies--;
        if (random_percent(&w->rng, w->loss_percent))
            continue;
        packet.due_ns = w->now_ns + 10 + random_below(&w->rng, w->delay_ns);
        w->path[i] = packet;
    }
}

static uint32_t index_of(const struct dw_tx *tx)
{
    return tx->psn - FIRST;
}

static void transmit(struct world *w, const struct dw_tx *tx)
{
    w->order[index_of(tx)] = ++w->transmissions;
    assert_for_seed(w->seed, tx->order == w->transmissions);
    carry(w, (struct packet){.kind = DATA, .psn = tx->psn});
}

static void check_window(const struct world *w)
{
    const struct dw_sendwin *win = &w->sender;
    uint32_t bytes = 0, next = FIRST;

    for (const struct dw_list *it = win->unacked.next; it != &win->unacked; it = it->next) {
        const struct dw_tx *tx = dw_container(it, const struct dw_tx, link);
        bytes += tx->truesize_bytes;
        assert_for_seed(w->seed, !dw_serial_before(tx->psn, next));
        next = tx->psn + 1;
    }
    assert_for_seed(w->seed, length(&win->unacked) == win->count);
    assert_for_seed(w->seed, bytes == win->bytes);
    assert_for_seed(w->seed, win->count <= 1 || win->bytes <= win->credit_bytes);
    assert_for_seed(w->seed,
                    win->cwnd_datagrams >= CWND_MIN && win->cwnd_datagrams <= win->max_datagrams);
}

static void sender_sends(struct world *w)
{
    dw_list_foreach (it, &w->sender.unacked) {
        struct dw_tx *tx = dw_container(it, struct dw_tx, link);
        if (tx->lost) {
            dw_sendwin_on_resend(&w->sender, tx, w->now_ns);
            transmit(w, tx);
        }
    }
    /* A whole train by one look at the room; the credit is asked for each. */
    for (uint32_t room = dw_sendwin_room_datagrams(&w->sender); w->sent < DATAGRAMS && room;
         room--) {
        struct dw_tx *tx = &w->txs[w->sent];
        tx->truesize_bytes = 1 + random_below(&w->rng, 2000);
        if (!dw_sendwin_may_send(&w->sender, tx->truesize_bytes))
            break;
        dw_sendwin_on_send(&w->sender, tx, w->now_ns);
        assert_for_seed(w->seed, tx->psn == FIRST + w->sent);
        w->sent++;
        transmit(w, tx);
    }
    if (w->sender.count && w->now_ns - w->heard_ns > QUIET_NS) {
        w->heard_ns = w->now_ns;
        carry(w, (struct packet){.kind = PROBE, .probe_ns = w->now_ns});
    }
}

static void receiver_takes(struct world *w, const struct packet *packet)
{
    if (packet->kind == DATA) {
        enum dw_recvwin_verdict verdict = dw_recvwin_check(&w->receiver, packet->psn);
        assert_for_seed(w->seed, verdict != DW_RECVWIN_BEYOND); /* the sender's bound */
        if (verdict == DW_RECVWIN_NEW && random_percent(&w->rng, 2))
            return; /* no buffer */
        if (verdict == DW_RECVWIN_NEW) {
            dw_recvwin_on_received(&w->receiver, packet->psn);
            w->received++;
        }
    }
    carry(w, (struct packet){.kind = ACK,
                             .ack = w->receiver.ack,
                             .sack = w->receiver.sack,
                             .probe_ns = packet->probe_ns});
}

/* What left the window must have been acknowledged: every one on the list, nothing else. */
static void check_acked(struct world *w, const struct packet *packet, struct dw_list *acked,
                        const struct dw_sendwin_result *result)
{
    assert_for_seed(w->seed, length(acked) == result->acked);
    dw_list_foreach (it, acked) {
        const struct dw_tx *tx = dw_container(it, struct dw_tx, link);
        int32_t ahead = dw_serial_diff(tx->psn, packet->ack);
        assert_for_seed(w->seed, ahead < 0 || (ahead > 0 && packet->sack >> (ahead - 1) & 1));
        if (w->order[index_of(tx)] > w->acked_order)
            w->acked_order = w->order[index_of(tx)];
    }
}

/* Lost: exactly those for which one sent long enough after has been acknowledged. */
static void check_lost(const struct world *w)
{
    for (const struct dw_list *it = w->sender.unacked.next; it != &w->sender.unacked;
         it = it->next) {
        const struct dw_tx *tx = dw_container(it, const struct dw_tx, link);
        bool overtaken = w->acked_order >= w->order[index_of(tx)] + DW_REORDER_DATAGRAMS;
        assert_for_seed(w->seed, tx->lost == overtaken);
    }
}

static void sender_takes(struct world *w, const struct packet *packet)
{
    struct dw_list acked;
    struct dw_sendwin_result result;

    w->heard_ns = w->now_ns;
    dw_list_init(&acked);
    assert_for_seed(w->seed, dw_sendwin_on_ack(&w->sender, packet->ack, packet->sack, w->now_ns,
                                               &acked, &result) == 0);
    check_acked(w, packet, &acked, &result);
    check_lost(w);
    assert_for_seed(w->seed, result.rtt_ns <= w->now_ns);
    if (packet->probe_ns) {
        dw_sendwin_on_probe_reply(&w->sender, packet->probe_ns);
        dw_list_foreach (it, &w->sender.unacked) {
            const struct dw_tx *tx = dw_container(it, struct dw_tx, link);
            assert_for_seed(w->seed, tx->lost || tx->sent_ns > packet->probe_ns);
        }
    }
    check_window(w);
    sender_sends(w); /* so that nothing stays flagged lost until the next ack */
}

static void run(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->seed = w->rng = seed;
    w->now_ns = w->heard_ns = 1;
    w->loss_percent = random_below(&w->rng, 4) * 8;
    w->delay_ns = 1 + random_below(&w->rng, 60);
    w->credit_bytes = random_percent(&w->rng, 50) ? 10000 : 1000000;
    dw_sendwin_init(&w->sender, FIRST, 8u << random_below(&w->rng, 4), w->credit_bytes);
    dw_recvwin_init(&w->receiver, FIRST);
    while (w->sent < DATAGRAMS || w->sender.count) {
        assert_for_seed(seed, ++w->now_ns < 10000000);
        sender_sends(w);
        check_window(w);
        for (unsigned i = 0; i < PATH; i++) {
            struct packet packet = w->path[i];
            if (!packet.due_ns || packet.due_ns > w->now_ns)
                continue;
            w->path[i].due_ns = 0;
            if (packet.kind == ACK)
                sender_takes(w, &packet);
            else
                receiver_takes(w, &packet);
        }
    }
    assert_for_seed(seed, w->received == DATAGRAMS);
    assert_for_seed(seed, w->receiver.ack == FIRST + DATAGRAMS);
    assert_for_seed(seed, w->sender.bytes == 0);
}

static void sendwin__all_arrive_over_a_lossy_path(void **state)
{
    (void)state;
    static struct world world;

    for (uint64_t seed = 0; seed < SEEDS; seed++)
        run(&world, seed);
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
        cmocka_unit_test(sendwin_cwnd__halves_once_for_one_event),
        cmocka_unit_test(sendwin_cwnd__never_above_a_small_window),
        cmocka_unit_test(sendwin_cwnd__grows_by_one_a_window),
        cmocka_unit_test(sendwin_cwnd__loss_long_after_the_last),
        cmocka_unit_test(sendwin__all_arrive_over_a_lossy_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
