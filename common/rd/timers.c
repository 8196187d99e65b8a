/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines are moved forward lazily, so that sending costs no heap operation: the timer may fire
 * early, and looks again. */
#include "common/rd/timers.h"

/* Asks a silent peer whose answer we wait for, though nothing is unacknowledged. */
#define KEEPALIVE_NS 1000000000ull

bool dw_timers_peer_owes(const struct dw_peer *peer)
{
    return peer->sendwin.count || !dw_list_empty(&peer->awaiting) ||
           !dw_list_empty(&peer->records.sinks) || !dw_list_empty(&peer->records.sources) ||
           peer->atomics || peer->assemblies || (peer->confirming && !dw_peer_is_confirmed(peer));
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
        return last + dw_peer_rto_ns(peer, peer->backoff);
    if (contact->heard_ns > last)
        last = contact->heard_ns;
    return last + KEEPALIVE_NS;
}

void dw_timers_on_asked(struct dw_peer *peer, uint64_t now_ns)
{
    peer->records.contact.asked_ns = now_ns;
    /* The timer may be set far ahead, to keep alive what is owed to us. */
    dw_timers_watch(peer);
}

void dw_timers_on_record(struct dw_peer *peer, uint64_t now_ns)
{
    if (!peer->sendwin.count)
        dw_timers_on_asked(peer, now_ns);
}

void dw_timers_watch(struct dw_peer *peer)
{
    dw_timers_wake(peer, dw_timers_probe_due_ns(peer));
}

/* Silence counts from the first probe without an answer: with nothing owed there is none. */
bool dw_timers_silent_for(const struct dw_peer *peer, uint64_t limit_ns, uint64_t now_ns)
{
    const uint32_t silent = dw_silence_clock(now_ns) - peer->silent_since;
    return peer->records.contact.probe_sent_ns > peer->records.contact.heard_ns &&
           (uint64_t)silent << DW_SILENCE_CLOCK_SHIFT > limit_ns;
}
