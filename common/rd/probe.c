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
    else if (peer->asked_again)
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
    peer->asked_again = true;
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

/* With that PSN, and one before it that is padded to so many bytes, unless they are 0. The padded
 * one goes first: on a path that keeps order its answer comes before the other's. */
static void send_probe(struct dw_peer *peer, uint32_t psn, uint32_t bytes, bool whole)
{
    if (bytes)
        dw_control_padded_probe(peer, psn | PADDED, bytes, whole);
    (void)dw_control_send(peer, DW_LLP_PROBE, psn | (bytes ? BARE : 0));
    dw_rd_of(peer)->counters->tx_probes++;
}

void dw_probe(struct dw_peer *peer, uint64_t now_ns)
{
    struct dw_contact *contact = &peer->records.contact;
    const bool paired = dw_probe_pair_is_due(peer, now_ns);
    if (contact->probe_sent_ns <= contact->heard_ns)
        peer->records.silent_since = dw_silence_clock(dw_rd_of(peer));
    contact->probe_sent_ns = now_ns & INT64_MAX;
    contact->probe_answered = false;
    peer->probe_acked = true;
    peer->unreachable = false; /* until ICMP says so of this one, too */
    /* A full socket takes neither; where only the padded one is refused, the path is narrow in this
     * host. */
    send_probe(peer, clock_of(now_ns), paired ? dw_probe_stuck_bytes(peer) : 0, false);
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
    if (datagrams > UINT8_MAX)
        return UINT8_MAX;
    return datagrams > DW_RECORDWIN_LEAST ? (uint8_t)datagrams : DW_RECORDWIN_LEAST;
}

void dw_probe_on_path(void *state, struct dw_path *path)
{
    (void)state;
    dw_foreach (peer, struct dw_peer, path_link, &path->awake) {
        dw_sendwin_set_floor(&peer->sendwin, dw_probe_cwnd_floor(dw_handle_of(peer)));
        if (dw_path_deadline_ns(path) != UINT64_MAX)
            dw_timers_wake(peer, dw_path_deadline_ns(path));
    }
}

/* By a peer that is heard: one that is silent says nothing of the path. */
void dw_probe_path(struct dw_peer *peer, uint64_t now_ns)
{
    struct dw_path *path = dw_handle_of(peer)->ah.path;
    const struct dw_contact *contact = &peer->records.contact;
    if (!dw_handle_of(peer)->heard || contact->heard_ns < contact->probe_sent_ns)
        return;
    const uint32_t bytes = dw_path_probe_bytes(path, now_ns);
    if (bytes) {
        send_probe(peer, clock_of(now_ns) | OF_PATH, bytes, true);
        dw_path_on_probe_sent(path, clock_of(now_ns), dw_peer_rto_ns(&peer->records, 0), now_ns);
    }
    if (dw_path_deadline_ns(path) != UINT64_MAX)
        dw_timers_wake(peer, dw_path_deadline_ns(path));
}

/* ---- replies ---- */

static void on_path_reply(struct dw_peer *peer, uint32_t psn, uint64_t now_ns)
{
    struct dw_path *path = dw_handle_of(peer)->ah.path;
    if (dw_path_on_probe_reply(path, psn & CLOCK_MASK, psn & PADDED, now_ns))
        dw_probe_on_path(dw_rd_of(peer), path);
    dw_probe_path(peer, now_ns);
}

static void on_pair_lost(struct dw_peer *peer, uint64_t now_ns)
{
    struct dw_path *path = dw_handle_of(peer)->ah.path;
    if (peer->pairs_lost < UINT16_MAX)
        peer->pairs_lost++;
    if (peer->pairs_lost >= DW_OFTEN &&
        dw_path_on_black_hole(path, dw_probe_stuck_bytes(peer), now_ns)) {
        dw_rd_of(peer)->counters->paths_narrowed++;
        dw_probe_on_path(dw_rd_of(peer), path);
    }
}

uint64_t dw_probe_on_reply(struct dw_peer *peer, uint32_t psn, uint64_t now_ns)
{
    struct dw_contact *contact = &peer->records.contact;
    const uint32_t age = (clock_of(now_ns) - psn) & CLOCK_MASK;
    const uint64_t sent_ns = now_ns - ((age + 1ull) << PROBE_CLOCK_SHIFT);
    if (psn & OF_PATH) {
        on_path_reply(peer, psn, now_ns);
        return 0;
    }
    if (psn & PADDED) {
        peer->pairs_lost = 0;
        peer->asked_again = false;
    } else if (psn & BARE) {
        on_pair_lost(peer, now_ns);
    }
    if (age > CLOCK_MASK / 2 || sent_ns > contact->probe_sent_ns)
        return 0; /* of one that was never sent */
    if ((psn & CLOCK_MASK) == clock_of(contact->probe_sent_ns))
        contact->probe_answered = true;
    return sent_ns;
}
