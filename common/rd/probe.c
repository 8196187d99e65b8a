/* SPDX-License-Identifier: BSD-3-Clause */
/* Probes and the path's MTU. A probe's PSN is when it was sent, in units of 1 us: so its reply
 * tells that, however many probes have followed. */
#include "common/rd/parts.h"

#define PROBE_CLOCK_SHIFT 10
/* Of a probe's PSN the part that is its time. */
#define CLOCK_MASK 0x1fffffffu
/* Beside it: it is one of a pair, and that asks for the path's sake, not for what is stuck. */
#define OF_PATH 0x20000000u
#define PADDED  0x40000000u
#define BARE    0x80000000u
/* Loss alone does not take the larger one of so many pairs in a row: all there is ends with that.
 */
#define PAIRS_LOST_MIN 16
/* What every path lets through, in a packet of IPv4. */
#define ALWAYS_PASSES_BYTES (DW_MTU_MIN_BYTES - 28)

/* ---- datagrams that do not get through ---- */

uint32_t dw_probe_stuck_bytes(const struct dw_peer *peer)
{
    const struct dw_datagram *oldest =
        dw_container(peer->sendwin.unacked.next, struct dw_datagram, tx.link);
    uint32_t bytes = 0;
    if (peer->sendwin.count && oldest->tx.resends >= DW_OFTEN)
        bytes = oldest->bytes + DW_TRAILER_BYTES;
    if (peer->asked_again >= DW_OFTEN)
        bytes = dw_ah_datagram_max_bytes(&dw_handle_of(peer)->ah);
    return bytes > ALWAYS_PASSES_BYTES ? bytes : 0;
}

bool dw_probe_pair_is_due(const struct dw_peer *peer, uint64_t now_ns)
{
    const struct dw_contact *contact = &peer->records.contact;
    /* One that is silent says nothing of the path, and has to read them all one day. */
    return now_ns / DW_ASK_NS != contact->probe_sent_ns / DW_ASK_NS &&
           contact->heard_ns >= contact->probe_sent_ns && dw_probe_stuck_bytes(peer);
}

void dw_probe_on_acked(struct dw_peer *peer, const struct dw_list *acked)
{
    if (!peer->pairs_lost)
        return;
    dw_foreach (datagram, const struct dw_datagram, tx.link, acked)
        if (datagram->bytes > ALWAYS_PASSES_BYTES)
            peer->pairs_lost = 0;
}

void dw_probe_on_asked_again(struct dw_peer *peer)
{
    if (peer->asked_again < 2 * DW_OFTEN)
        peer->asked_again++;
    if (peer->asked_again >= DW_OFTEN)
        dw_timers_wake(peer, peer->records.contact.heard_ns + DW_ASK_NS);
}

bool dw_probe_is_too_narrow(struct dw_peer *peer)
{
    const uint64_t limit_ns = dw_rd_of(peer)->port->device->attr.peer_timeout_ns;
    if (!dw_probe_stuck_bytes(peer))
        peer->pairs_lost = 0;
    return limit_ns && peer->pairs_lost >= PAIRS_LOST_MIN &&
           (peer->pairs_lost * DW_ASK_NS > limit_ns || peer->pairs_lost == UINT16_MAX);
}

/* ---- probes ---- */

static uint32_t clock_of(uint64_t now_ns)
{
    return (uint32_t)(now_ns >> PROBE_CLOCK_SHIFT) & CLOCK_MASK;
}

static uint64_t sent_ns_of(uint32_t psn, uint64_t now_ns)
{
    uint32_t age = (clock_of(now_ns) - psn) & CLOCK_MASK;
    return age <= CLOCK_MASK / 2 ? now_ns - ((age + 1ull) << PROBE_CLOCK_SHIFT) : 0;
}

void dw_probe(struct dw_peer *peer, uint64_t now_ns)
{
    struct dw_contact *contact = &peer->records.contact;
    const bool paired = dw_probe_pair_is_due(peer, now_ns);
    if (contact->probe_sent_ns <= contact->heard_ns)
        peer->records.silent_since = dw_silence_clock(now_ns);
    contact->probe_sent_ns = now_ns & INT64_MAX;
    contact->probe_answered = false;
    peer->probe_acked = true;
    if (peer->unreachables == DW_OFTEN) /* until ICMP says so of this one, too */
        peer->unreachables--;
    dw_rd_of(peer)->counters->tx_probes++;
    /* The padded one first: on a path that keeps order its answer comes before the other's. A full
     * socket takes neither; where only the padded one is refused, the path is narrow in this host.
     */
    if (paired)
        dw_control_padded_probe(peer, clock_of(now_ns) | PADDED, dw_probe_stuck_bytes(peer), false);
    (void)dw_control_send(peer, DW_LLP_PROBE, clock_of(now_ns) | (paired ? BARE : 0));
    if (paired && peer->asked_again)
        peer->asked_again--;
}

void dw_probe_ask(struct dw_record_peer *records, uint64_t now_ns)
{
    struct dw_peer *peer = dw_peer_of_records(records);
    const struct dw_contact *contact = &records->contact;
    if (contact->probe_answered || now_ns >= contact->probe_sent_ns + dw_peer_rto_ns(records, 0))
        dw_probe(peer, now_ns);
}

/* ---- the path's MTU ---- */

uint8_t dw_probe_cwnd_floor(const struct dw_handle *handle)
{
    uint32_t payload = dw_ah_datagram_max_bytes(&handle->ah) - DW_LLP_HEADER_BYTES -
                       DW_INTRO_BYTES - DW_SEND_SEGMENT_BYTES - DW_TRAILER_BYTES;
    uint32_t datagrams = (DW_FIRST_BYTES - 1) / payload + 1;
    if (datagrams < DW_RECORDWIN_LEAST)
        datagrams = DW_RECORDWIN_LEAST;
    return datagrams < UINT8_MAX ? (uint8_t)datagrams : UINT8_MAX;
}

void dw_probe_on_path(void *state, struct dw_path *path)
{
    (void)state;
    dw_foreach (peer, struct dw_peer, path_link, &path->awake) {
        peer->sendwin.floor_datagrams = dw_probe_cwnd_floor(dw_handle_of(peer));
        if (dw_path_deadline_ns(path) != UINT64_MAX)
            dw_timers_wake(peer, dw_path_deadline_ns(path));
    }
}

/* Nothing of the length in question gets through. */
static void on_pair_lost(struct dw_peer *peer, uint64_t now_ns)
{
    struct dw_path *path = dw_handle_of(peer)->ah.path;
    if (peer->pairs_lost < UINT16_MAX)
        peer->pairs_lost++;
    if (peer->pairs_lost < DW_OFTEN ||
        !dw_path_on_black_hole(path, dw_probe_stuck_bytes(peer), now_ns))
        return;
    dw_rd_of(peer)->counters->paths_narrowed++;
    dw_probe_on_path(dw_rd_of(peer), path);
}

/* By whoever is heard: one that is silent says nothing of the path. */
void dw_probe_path(struct dw_peer *peer, uint64_t now_ns)
{
    struct dw_path *path = dw_handle_of(peer)->ah.path;
    const struct dw_contact *contact = &peer->records.contact;
    const bool silent = !dw_handle_of(peer)->heard || contact->heard_ns < contact->probe_sent_ns;
    const uint32_t bytes = silent ? 0 : dw_path_probe_bytes(path, now_ns);
    if (bytes) {
        const uint32_t clock = clock_of(now_ns);
        dw_control_padded_probe(peer, clock | OF_PATH | PADDED, bytes, true);
        (void)dw_control_send(peer, DW_LLP_PROBE, clock | OF_PATH | BARE);
        dw_path_on_probe_sent(path, clock, dw_peer_rto_ns(&peer->records, 0), now_ns);
        dw_rd_of(peer)->counters->tx_probes++;
    }
    if (!silent && dw_path_deadline_ns(path) != UINT64_MAX)
        dw_timers_wake(peer, dw_path_deadline_ns(path));
}

static void on_path_reply(struct dw_peer *peer, uint32_t psn, uint64_t now_ns)
{
    struct dw_path *path = dw_handle_of(peer)->ah.path;
    if (dw_path_on_probe_reply(path, psn & CLOCK_MASK, psn & PADDED, now_ns))
        dw_probe_on_path(dw_rd_of(peer), path);
    dw_probe_path(peer, now_ns);
}

uint64_t dw_probe_on_reply(struct dw_peer *peer, uint32_t psn, uint64_t now_ns)
{
    struct dw_contact *contact = &peer->records.contact;
    const uint64_t sent_ns = sent_ns_of(psn, now_ns);
    if (psn & OF_PATH) {
        on_path_reply(peer, psn, now_ns);
        return 0;
    }
    if (psn & PADDED)
        peer->pairs_lost = 0;
    else if (psn & BARE)
        on_pair_lost(peer, now_ns);
    if (sent_ns > contact->probe_sent_ns)
        return 0; /* of one that was never sent */
    if ((psn & CLOCK_MASK) == clock_of(contact->probe_sent_ns))
        contact->probe_answered = true;
    return sent_ns;
}
