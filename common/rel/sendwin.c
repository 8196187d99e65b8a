/* SPDX-License-Identifier: BSD-3-Clause */
/* The send window: what is acknowledged, what is lost. Knows no sockets and no clock. */
#include "common/rel/sendwin.h"

#include <errno.h>

#include "common/base/serial.h"
#include "common/rel/recvwin.h"

/* Of one alone, only a probe could tell that it is lost. */
#define CWND_MIN_DATAGRAMS 2

void dw_sendwin_init(struct dw_sendwin *win, uint32_t first_psn, uint32_t max_datagrams,
                     uint32_t credit_bytes, uint32_t ssthresh_datagrams, uint32_t floor_datagrams,
                     uint32_t queue_max_ns)
{
    *win = (struct dw_sendwin){
        .next_psn = first_psn,
        .recovery_psn = first_psn,
        .next_order = first_psn,
        .acked_order = first_psn,
        .max_datagrams = (uint16_t)max_datagrams,
        .cwnd_datagrams =
            (uint16_t)(queue_max_ns && floor_datagrams < ssthresh_datagrams ? floor_datagrams
                                                                            : ssthresh_datagrams),
        .ssthresh_datagrams = (uint16_t)ssthresh_datagrams,
        .floor_datagrams = (uint8_t)floor_datagrams,
        .queue_max_ns = queue_max_ns,
        .credit_bytes = credit_bytes,
    };
    dw_list_init(&win->unacked);
}

static const struct dw_tx *oldest(const struct dw_sendwin *win)
{
    return dw_container(win->unacked.next, struct dw_tx, link);
}

uint32_t dw_sendwin_first_psn(const struct dw_sendwin *win)
{
    return win->count ? oldest(win)->psn : win->next_psn;
}

uint32_t dw_sendwin_renumber(struct dw_sendwin *win, uint32_t first_psn)
{
    const uint32_t more = first_psn - dw_sendwin_first_psn(win);
    dw_foreach (tx, struct dw_tx, link, &win->unacked)
        tx->psn += more;
    win->next_psn += more;
    win->recovery_psn = win->next_psn;
    return more;
}

uint32_t dw_sendwin_room_datagrams(const struct dw_sendwin *win)
{
    if (win->count >= win->cwnd_datagrams)
        return 0;
    /* An early hole keeps later PSNs from running beyond the peer's receive window. */
    const uint32_t span = win->next_psn - dw_sendwin_first_psn(win);
    const uint32_t psns = span < win->max_datagrams ? win->max_datagrams - span : 0;
    const uint32_t room = win->cwnd_datagrams - win->count;
    return room < psns ? room : psns;
}

bool dw_sendwin_is_filling(const struct dw_sendwin *win)
{
    return win->count >= win->cwnd_datagrams * 3 / 4 || win->bytes >= win->credit_bytes / 4 * 3;
}

bool dw_sendwin_may_send(const struct dw_sendwin *win, uint32_t truesize_bytes)
{
    return !win->count ||
           (dw_sendwin_room_datagrams(win) && win->bytes + truesize_bytes <= win->credit_bytes);
}

void dw_sendwin_on_send(struct dw_sendwin *win, struct dw_tx *tx, uint64_t now_ns)
{
    tx->psn = win->next_psn++;
    dw_list_append(&win->unacked, &tx->link);
    win->count++;
    win->bytes += tx->truesize_bytes;
    dw_sendwin_on_resend(win, tx, now_ns);
    tx->resends = 0;
    tx->guessed = false;
}

void dw_sendwin_on_resend(struct dw_sendwin *win, struct dw_tx *tx, uint64_t now_ns)
{
    if (tx->resends < UINT16_MAX)
        tx->resends++;
    tx->order = ++win->next_order;
    tx->sent_ns = now_ns;
    tx->guessed = !tx->lost;
    tx->lost = false;
}

/* Of this round as far as it tells, else of the one before. */
static bool queue_is_short(const struct dw_sendwin *win)
{
    uint64_t queued_ns;
    return dw_delay_query(&win->delay, &queued_ns) ? queued_ns <= win->queue_max_ns / 4
                                                   : win->queue_is_short;
}

static void begin_round(struct dw_sendwin *win)
{
    win->queue_is_short = queue_is_short(win);
    win->cwnd_acked = win->cwnd_lost = 0;
    win->cwnd_used = false;
    win->delay.round = 0;
}

/* For a loss: what is lost of what is under way now belongs to the same event. */
static void shrink(struct dw_sendwin *win, unsigned cwnd)
{
    const uint16_t half_ssthresh = win->ssthresh_datagrams / 2;
    win->recovery_psn = win->next_psn;
    begin_round(win);
    if (win->cwnd_datagrams > CWND_MIN_DATAGRAMS)
        win->cwnd_datagrams = (uint16_t)(cwnd > CWND_MIN_DATAGRAMS ? cwnd : CWND_MIN_DATAGRAMS);
    /* Where delay had shrunk it before, the loss tells nothing of what lies between. */
    win->ssthresh_datagrams =
        win->cwnd_datagrams > half_ssthresh ? win->cwnd_datagrams : half_ssthresh;
}

static void on_loss(struct dw_sendwin *win, const struct dw_tx *tx)
{
    if (dw_serial_before(tx->psn, win->recovery_psn))
        return;
    const unsigned cwnd = win->cwnd_datagrams;
    if (!win->queue_max_ns || !queue_is_short(win))
        shrink(win, cwnd * 7 / 10);
    else if (++win->cwnd_lost > 1 && win->cwnd_lost > cwnd / 8)
        shrink(win, cwnd / 2);
}

static void grow(struct dw_sendwin *win, bool doubles)
{
    const unsigned cwnd = win->cwnd_datagrams, more = doubles ? 2 * cwnd : cwnd + 1;
    if (cwnd == win->ssthresh_datagrams && cwnd < win->max_datagrams)
        win->ssthresh_datagrams++;
    win->cwnd_datagrams = more < win->ssthresh_datagrams ? (uint16_t)more : win->ssthresh_datagrams;
}

/* A round ends when as many have been acknowledged as the window has. */
static void take_round(struct dw_sendwin *win, unsigned acked)
{
    const unsigned cwnd = win->cwnd_datagrams, floor = win->floor_datagrams;
    const unsigned less = cwnd - cwnd / 4;
    uint64_t queued_ns;
    win->cwnd_acked = (win->cwnd_acked + acked) & 0x3ff;
    if (win->cwnd_acked < cwnd)
        return;
    const bool known = dw_delay_query(&win->delay, &queued_ns);
    const bool is_long = known && win->queue_max_ns && queued_ns > win->queue_max_ns;
    /* Few datagrams do not make a queue: then it is others', or the peer was busy. */
    if (is_long && win->cwnd_used && cwnd >= floor)
        win->cwnd_datagrams = (uint16_t)(less > floor ? less : floor);
    else
        grow(win, known && queued_ns <= win->queue_max_ns / 4);
    begin_round(win);
}

/* Handed over so long before something that has arrived that it would have, too. */
static bool is_overtaken(const struct dw_sendwin *win, const struct dw_tx *tx)
{
    return dw_serial_diff(win->acked_order, tx->order) >= DW_REORDER_DATAGRAMS;
}

/* Of what acknowledgements report by now, what was sent until `sent_until_ns` and, where
 * `overtaken` is set, only what was overtaken. */
static unsigned flag_lost(struct dw_sendwin *win, bool overtaken, uint64_t sent_until_ns)
{
    unsigned lost = 0;
    dw_foreach (tx, struct dw_tx, link, &win->unacked) {
        if (tx->psn - oldest(win)->psn >= DW_SACK_DATAGRAMS)
            break;
        if (tx->lost || tx->sent_ns > sent_until_ns || (overtaken && !is_overtaken(win, tx)))
            continue;
        dw_sendwin_on_lost(win, tx);
        on_loss(win, tx);
        lost++;
    }
    return lost;
}

/* Its last transmission, or something later, has come: else the ack may be that of an earlier one
 * (Eifel, RFC 3522), and what was sent between has not been overtaken. */
static bool last_has_come(const struct dw_tx *tx, const struct dw_ack *ack)
{
    return !tx->guessed || (tx->sent_ns >= ack->echo_from_ns && tx->sent_ns <= ack->echo_ns);
}

int dw_sendwin_on_ack(struct dw_sendwin *win, const struct dw_ack *ack, uint64_t now_ns,
                      struct dw_list *acked, struct dw_sendwin_result *result)
{
    bool resent = false;
    *result = (struct dw_sendwin_result){0};
    if (dw_serial_before(win->next_psn, ack->psn))
        return -EPROTO;
    if (dw_serial_before(win->recovery_psn, ack->psn))
        win->recovery_psn = ack->psn; /* left behind, it would come round to lie ahead */
    win->cwnd_used |= 2u * win->count >= win->cwnd_datagrams;
    dw_foreach (tx, struct dw_tx, link, &win->unacked) {
        const int32_t ahead = dw_serial_diff(tx->psn, ack->psn);
        if (ahead >= DW_SACK_DATAGRAMS || (ahead >= 0 && !ack->sack))
            break; /* sorted by PSN: nothing further is acknowledged */
        if (ahead == 0 || (ahead > 0 && !(ack->sack >> (ahead - 1) & 1)))
            continue;
        if (last_has_come(tx, ack) && dw_serial_before(win->acked_order, tx->order))
            win->acked_order = tx->order;
        resent |= tx->resends > 0;
        result->rtt_ns = now_ns - tx->sent_ns;
        win->count--;
        win->bytes -= tx->truesize_bytes;
        dw_list_remove(&tx->link);
        dw_list_append(acked, &tx->link);
        result->acked++;
    }
    if (!result->acked)
        return 0;
    if (resent) /* Karn: it does not say which copy came; what lay beyond the SACK waited for it */
        result->rtt_ns = 0;
    if (result->rtt_ns)
        dw_delay_on_sample(&win->delay, result->rtt_ns, now_ns);
    take_round(win, result->acked);
    /* Else all that is acknowledged was sent, once, before what is left. */
    if (win->count && (resent || ack->sack || is_overtaken(win, oldest(win))))
        result->lost = flag_lost(win, true, UINT64_MAX);
    return 0;
}

unsigned dw_sendwin_on_probe_reply(struct dw_sendwin *win, uint64_t probe_sent_ns)
{
    return flag_lost(win, false, probe_sent_ns);
}
