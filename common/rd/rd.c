/* SPDX-License-Identifier: BSD-3-Clause */
/* The lists of the service that a peer is in, and when it is asked. */
#include "common/rd/rd.h"

/* So long after a loss the path is a lossy one: then what is lost is looked for after a round trip
 * or two, and not only after rto_min_ns. Half: where one datagram in 10^4 is lost more of them wait
 * for that; twice: a peer that computes is asked in vain for longer. */
#define LOSSY_NS 1000000000ull
/* What is sent again on mere suspicion is no longer than a packet of Ethernet. */
#define TAIL_MAX_BYTES 1472

void dw_rd_begin_epoch(struct dw_rd *rd, uint64_t now_ns)
{
    if (now_ns < rd->epoch_end_ns)
        return;
    rd->senders = rd->epoch_senders;
    rd->epoch_senders = rd->resets = 0;
    rd->epoch_end_ns = now_ns + DW_EPOCH_NS;
}

void dw_peer_doom(struct dw_peer *peer, enum diwarp_gone why)
{
    if (!dw_peer_is_live(peer))
        return;
    dw_handle_set_state(dw_handle_of(peer), DW_PEER_DOOMED);
    peer->doom = why & 15u;
    dw_list_remove(&peer->flush_link);
    dw_list_append(&dw_rd_of(peer)->doomed, &peer->flush_link);
}

/* Two units are 268 ms; modulo 2^8, and odd: 0 is never. */
static uint8_t loss_clock(uint64_t now_ns)
{
    return (uint8_t)(now_ns >> 27 | 1);
}

/* Forgets what was long ago, before its time comes round again. */
static bool is_lossy(const struct dw_peer *peer)
{
    struct dw_met *met = dw_met_of(peer);
    if (met->lost_at &&
        (uint8_t)(loss_clock(dw_rd_of(peer)->port->ran_ns) - met->lost_at) > LOSSY_NS >> 27)
        met->lost_at = 0;
    return met->lost_at;
}

uint64_t dw_peer_rto_ns(const struct dw_record_peer *records, unsigned backoff)
{
    const struct dw_peer *peer = dw_peer_of_records(records);
    const uint64_t min_ns = is_lossy(peer) ? 0 : dw_rd_of(peer)->port->device->attr.rto_min_ns;
    return dw_rtt_rto_ns(&dw_met_of(peer)->rtt, min_ns, backoff);
}

void dw_peer_on_lost(struct dw_record_peer *records, uint64_t now_ns)
{
    dw_met_of(dw_peer_of_records(records))->lost_at = loss_clock(now_ns);
}

void dw_peer_look_again(struct dw_peer *peer)
{
    dw_rd_of(peer)->starved = false;
    if (!dw_list_linked(&peer->flush_link))
        dw_list_append(&dw_rd_of(peer)->flush, &peer->flush_link);
}

static void list_for_ack(struct dw_peer *peer, bool ack_soon, bool told_full)
{
    struct dw_rd *rd = dw_rd_of(peer);
    peer->ack_soon = ack_soon;
    peer->told_full = told_full;
    dw_list_remove(&peer->ack_link);
    if (ack_soon || told_full)
        dw_list_append(ack_soon ? &rd->ack : &rd->full, &peer->ack_link);
}

void dw_peer_ack_soon(struct dw_peer *peer)
{
    if (!peer->ack_soon)
        dw_peer_ack_last(peer);
}

void dw_peer_ack_last(struct dw_peer *peer)
{
    list_for_ack(peer, true, peer->told_full);
}

/* Which of several queue pairs refused it is not kept: it is refused until one has room again. */
static bool has_no_receive(const struct dw_peer *peer)
{
    const struct dw_rd *rd = dw_rd_of(peer);
    return peer->qp_full &&
           (rd->port->counting_qps > 1 || (rd->refuser && !dw_qp_takes_sends(rd->refuser)));
}

bool dw_peer_is_refused(const struct dw_peer *peer)
{
    return dw_rd_of(peer)->port->refuses_data || has_no_receive(peer);
}

void dw_peer_on_told(struct dw_peer *peer)
{
    peer->qp_full = has_no_receive(peer);
    list_for_ack(peer, false, dw_peer_is_refused(peer));
    peer->ack_owed = 0;
    peer->ack_owed_bytes = 0;
}

/* ---- its timer: moved forward lazily, so that sending costs no heap operation; it may fire early,
 * and looks again ---- */

bool dw_timers_peer_owes(const struct dw_peer *peer)
{
    return peer->sendwin.count || !dw_list_empty(&peer->awaiting) ||
           !dw_list_empty(&peer->records.ends) || !dw_list_empty(&peer->assemblies) ||
           (peer->confirming && !dw_peer_is_confirmed(peer));
}

void dw_timers_wake(struct dw_peer *peer, uint64_t deadline_ns)
{
    if (!peer->timer.slot || deadline_ns < peer->timer.deadline_ns)
        dw_heap_set(&dw_rd_of(peer)->port->timers, &peer->timer, deadline_ns);
}

uint64_t dw_timers_probe_due_ns(const struct dw_peer *peer)
{
    const struct dw_contact *contact = &peer->records.contact;
    uint64_t last =
        contact->asked_ns > contact->probe_sent_ns ? contact->asked_ns : contact->probe_sent_ns;
    if (peer->sendwin.count || !dw_list_empty(&peer->awaiting))
        return last + dw_peer_rto_ns(&peer->records, peer->backoff);
    if (contact->heard_ns > last)
        last = contact->heard_ns;
    return last + DW_ASK_NS;
}

uint64_t dw_timers_tail_due_ns(const struct dw_peer *peer)
{
    if (!peer->sendwin.count || !peer->sendwin.credit_bytes || !is_lossy(peer))
        return DW_NEVER;
    const struct dw_datagram *oldest =
        dw_container(peer->sendwin.unacked.next, struct dw_datagram, tx.link);
    const uint32_t srtt_ns = dw_met_of(peer)->rtt.srtt_ns;
    const bool suits = srtt_ns && !oldest->tx.resends && oldest->bytes <= TAIL_MAX_BYTES;
    return suits ? oldest->tx.sent_ns + 2ull * srtt_ns : DW_NEVER;
}

void dw_timers_on_asked(struct dw_peer *peer, uint64_t now_ns)
{
    peer->records.contact.asked_ns = now_ns;
    /* The timer may be set far ahead, to keep alive what is owed to us. */
    dw_timers_watch(peer);
}

void dw_timers_on_record(struct dw_record_peer *records, uint64_t now_ns)
{
    struct dw_peer *peer = dw_peer_of_records(records);
    if (!peer->sendwin.count)
        dw_timers_on_asked(peer, now_ns);
}

void dw_timers_watch(struct dw_peer *peer)
{
    const uint64_t probe_ns = dw_timers_probe_due_ns(peer), tail_ns = dw_timers_tail_due_ns(peer);
    dw_timers_wake(peer, probe_ns < tail_ns ? probe_ns : tail_ns);
}
