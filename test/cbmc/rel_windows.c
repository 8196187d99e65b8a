/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive window and the send window of RD from any state that they may have, serial
 * arithmetic, round-trip time and delay. */
#include "common/base/serial.h"
#include "common/rel/recvwin.h"
#include "common/rel/rtt.h"
#include "common/rel/sendwin.h"
#include "test/cbmc/any.h"

#ifndef SENDWIN_MOST
#define SENDWIN_MOST 2 /* datagrams under way */
#endif
#ifndef RUN_MOST
#define RUN_MOST 3 /* PSNs that one completes, at most */
#endif
#ifndef ACKS
#define ACKS 1
#endif

void serial(void);
void recvwin_takes_once(void);
void recvwin_tells_what_came(void);
void sendwin_on_ack(void);
void rtt(void);
void delay(void);

void serial(void)
{
    const uint32_t a = nondet_u32(), more = nondet_u32();
    given(more > 0 && more < 1u << 31);
    require(dw_serial_before(a, a + more) && !dw_serial_before(a + more, a), "order");
    require(dw_serial_diff(a + more, a) == (int32_t)more, "difference");
    require(!dw_serial_before(a, a), "of one");
}

/* Any that receiving leaves: what is next has not come. */
static struct dw_recvwin any_recvwin(void)
{
    struct dw_recvwin win = {.ack = nondet_u32()};
    for (unsigned i = 0; i < DW_RECVWIN_WORDS; i++)
        win.came[i] = nondet_u32();
    given(!dw_recvwin_has(&win, win.ack));
    return win;
}

/* A PSN is new once; taking it changes what is said of no other inside the window. */
void recvwin_takes_once(void)
{
    struct dw_recvwin win = any_recvwin();
    const struct dw_recvwin before = win;
    const uint32_t psn = nondet_u32(), other = before.ack + nondet_u8();
    const uint32_t run = nondet_u8();
    given(dw_recvwin_check(&win, psn) == DW_RECVWIN_NEW && other != psn);
    given(run > 0 && run < RUN_MOST && psn != win.ack + run &&
          !dw_recvwin_has(&win, win.ack + run));
    dw_recvwin_on_received(&win, psn);
    require(dw_recvwin_check(&win, psn) == DW_RECVWIN_DUPLICATE, "once");
    require(dw_recvwin_check(&win, other) == dw_recvwin_check(&before, other), "others as before");
    require(win.ack - before.ack <= DW_WINDOW_DATAGRAMS, "moves on by a window at most");
    require(!dw_recvwin_has(&win, win.ack), "what is next has not come");
    require(psn - before.ack < DW_WINDOW_DATAGRAMS, "inside the window");
}

/* The SACK says of each PSN that it reports whether it has come. */
void recvwin_tells_what_came(void)
{
    const struct dw_recvwin win = any_recvwin();
    const uint32_t i = nondet_u8();
    given(i < DW_SACK_DATAGRAMS - 1);
    const bool came = dw_recvwin_check(&win, win.ack + 1 + i) == DW_RECVWIN_DUPLICATE;
    require((dw_recvwin_sack(&win) >> i & 1) == came, "bit");
    require(came ? dw_recvwin_has_gap(&win) : true, "gap");
}

/* Count and bytes are those of the list; the list rises. */
static void check_sendwin(const struct dw_sendwin *win)
{
    uint32_t count = 0, bytes = 0, last = 0;
    dw_foreach (tx, const struct dw_tx, link, &win->unacked) {
        require(!count || dw_serial_before(last, tx->psn), "rising");
        require(dw_serial_before(tx->psn, win->next_psn), "sent");
        last = tx->psn;
        bytes += tx->truesize_bytes;
        count++;
    }
    require(count == win->count && bytes == win->bytes, "count and bytes");
}

/* Some are sent, acknowledgements of any bytes come, and a reply to a probe. */
void sendwin_on_ack(void)
{
    static struct dw_tx txs[SENDWIN_MOST];
    struct dw_sendwin win;
    struct dw_sendwin_result result;
    struct dw_list acked;
    uint32_t sent = 0, total = 0;
    dw_list_init(&acked);
    dw_sendwin_init(&win, nondet_u32(), 256, nondet_u32(), 256, 16, nondet_u32());
    for (; sent < SENDWIN_MOST; sent++) {
        txs[sent].truesize_bytes = nondet_u16();
        dw_sendwin_on_send(&win, &txs[sent], nondet_u32());
    }
    check_sendwin(&win);
    for (unsigned i = 0; i < ACKS; i++) {
        const struct dw_ack ack = {nondet_u32(), nondet_u64(), nondet_u64(), nondet_u64()};
        const uint32_t next = win.next_psn, before = win.count;
        const int rc = dw_sendwin_on_ack(&win, &ack, nondet_u32(), &acked, &result);
        total += result.acked;
        check_sendwin(&win);
        require(win.next_psn == next && total + win.count == sent, "none is lost sight of");
        require(!rc || win.count == before, "an ack of what was not sent changes nothing");
        require(rc || !win.count || !dw_serial_before(dw_sendwin_first_psn(&win), ack.psn),
                "what is before the ack is acknowledged");
        require(result.lost <= win.count, "lost ones are unacknowledged");
        require(win.cwnd_datagrams >= 2 && win.cwnd_datagrams <= 256, "congestion window");
    }
    require(dw_sendwin_on_probe_reply(&win, nondet_u64()) <= win.count, "lost by a probe");
    require(dw_sendwin_room_datagrams(&win) <= 256, "room");
}

void rtt(void)
{
    struct dw_rtt rtt = {.srtt_ns = nondet_u32(), .rttvar_ns = nondet_u32()};
    const uint64_t rto_min_ns = nondet_u32();
    /* As samples of up to 1 s leave them. */
    given(rtt.srtt_ns <= 1000000000 && rtt.rttvar_ns <= 1000000000);
    dw_rtt_on_sample(&rtt, nondet_u64());
    require(rtt.srtt_ns > 0 && rtt.srtt_ns <= 1000000000, "estimate");
    require(rtt.rttvar_ns <= 1000000000, "variation");
    const uint64_t rto_ns = dw_rtt_rto_ns(&rtt, rto_min_ns, nondet_u32());
    require(rto_ns >= rto_min_ns || rto_ns == DW_RTO_MAX_NS, "not below the least");
    require(rto_ns <= DW_RTO_MAX_NS || rto_ns == rto_min_ns, "not above the most");
}

void delay(void)
{
    struct dw_delay delay = {
        .round = nondet_u16(), .base = {nondet_u16(), nondet_u16()}, .period = nondet_u8()};
    uint64_t queued_ns;
    dw_delay_on_sample(&delay, nondet_u64(), nondet_u64());
    require(delay.base[0] && delay.round && delay.base[0] <= UINT16_MAX, "a sample");
    require(dw_delay_query(&delay, &queued_ns), "the round had one");
    require(queued_ns < (uint64_t)UINT16_MAX << DW_DELAY_UNIT_SHIFT, "queued");
}
