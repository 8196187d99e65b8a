/* SPDX-License-Identifier: BSD-3-Clause */
/* The send window against a receive window, over a path with loss, duplicates and reordering. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/rel/recvwin.h"
#include "test/unit/random.h"
#include "test/unit/sendwin_fixture.h"

#define PATH      1024
#define DATAGRAMS 1500
#define SEEDS     30
#define QUIET_NS  200 /* without news, the sender probes */

enum kind { DATA, PROBE, ACK };

struct packet {
    uint64_t due_ns; /* 0: a free place */
    enum kind kind;
    uint32_t psn, ack;
    uint64_t sack;
    uint64_t sent_ns;  /* of data; of an acknowledgement, that of the data that came last */
    uint64_t probe_ns; /* of a probe and its answer; 0: none */
};

struct world {
    uint64_t seed, rng, now_ns, heard_ns, probe_ns;
    uint32_t loss_percent, delay_ns;
    uint32_t credit_bytes, sent, received;
    struct dw_sendwin sender;
    struct dw_recvwin receiver;
    uint64_t came_sent_ns;
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
    assert_for_seed(w->seed, tx->order == FIRST + w->transmissions);
    carry(w, (struct packet){.kind = DATA, .psn = tx->psn, .sent_ns = tx->sent_ns});
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
        /* Now and then the oldest goes out again on suspicion. */
        if (tx->lost || (it == w->sender.unacked.next && random_percent(&w->rng, 1))) {
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
        w->came_sent_ns = packet->sent_ns;
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
                             .sack = dw_recvwin_sack(&w->receiver),
                             .sent_ns = w->came_sent_ns,
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
        const bool came = !tx->guessed || tx->sent_ns <= packet->sent_ns;
        if (came && w->order[index_of(tx)] > w->acked_order)
            w->acked_order = w->order[index_of(tx)];
    }
}

static bool is_reported(const struct world *w, const struct dw_tx *tx)
{
    const struct dw_tx *oldest = dw_container(w->sender.unacked.next, const struct dw_tx, link);
    return tx->psn - oldest->psn < DW_SACK_DATAGRAMS;
}

/* Lost: only those for which one sent long enough after has been acknowledged, and all such in a
 * window that acknowledgements report as a whole. */
static void check_lost(const struct world *w)
{
    const bool whole = w->sender.max_datagrams <= DW_SACK_DATAGRAMS;
    for (const struct dw_list *it = w->sender.unacked.next; it != &w->sender.unacked;
         it = it->next) {
        const struct dw_tx *tx = dw_container(it, const struct dw_tx, link);
        bool overtaken = w->acked_order >= w->order[index_of(tx)] + DW_REORDER_DATAGRAMS;
        assert_for_seed(w->seed, !tx->lost || (overtaken && is_reported(w, tx)));
        if (whole || it == w->sender.unacked.next)
            assert_for_seed(w->seed, tx->lost == overtaken);
    }
}

static void sender_takes(struct world *w, const struct packet *packet)
{
    struct dw_list acked;
    struct dw_sendwin_result result;

    w->heard_ns = w->now_ns;
    dw_list_init(&acked);
    const struct dw_ack ack = {packet->ack, packet->sack, packet->sent_ns, 0};
    assert_for_seed(w->seed, dw_sendwin_on_ack(&w->sender, &ack, w->now_ns, &acked, &result) == 0);
    check_acked(w, packet, &acked, &result);
    check_lost(w);
    assert_for_seed(w->seed, result.rtt_ns <= w->now_ns);
    if (packet->probe_ns) {
        dw_sendwin_on_probe_reply(&w->sender, packet->probe_ns);
        dw_list_foreach (it, &w->sender.unacked) {
            const struct dw_tx *tx = dw_container(it, struct dw_tx, link);
            assert_for_seed(w->seed,
                            tx->lost || tx->sent_ns > packet->probe_ns || !is_reported(w, tx));
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
    const uint32_t most = 8u << random_below(&w->rng, 6);
    dw_sendwin_init(&w->sender, FIRST, most, w->credit_bytes, most, 0, 0);
    w->receiver = (struct dw_recvwin){.ack = FIRST};
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
        cmocka_unit_test(sendwin__all_arrive_over_a_lossy_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
