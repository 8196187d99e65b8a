/* SPDX-License-Identifier: BSD-3-Clause */
/* The peer's timer, probes, and the path's MTU. A probe's PSN is when it was sent, in units of 1
 * us: so its reply tells that, however many probes have followed. */
#include "common/rd/parts.h"

#include <string.h>

#include "common/llp/interface.h"

/* Doublings of the interval between probes: from 3 us to the longest there is. */
#define BACKOFF_MAX 15
/* ICMP says "port unreachable" often, and probes get no answer for so long: the process of another
 * host died. Linux sends six of these errors at once, then one a second, so that the death is known
 * after 1 to 2 s. Half: a firewall that loads its rules for half a second would end the job. */
#define NO_PORT_REMOTE_NS 1000000000ull
/* A firewall prohibits it, or our own host refuses to send to a peer: somebody may mend that. */
#define PROHIBITED_NS 10000000000ull
/* Of a process never heard, within which a user wants to know. */
#define WARN_NS 1500000000ull
/* Of a probe's PSN the part that is its time. */
#define CLOCK_MASK 0x1fffffffu
/* Beside it: it is one of a pair, and that asks for the path's sake, not for what is stuck. */
#define OF_PATH 0x20000000u
#define PADDED  0x40000000u
#define BARE    0x80000000u
/* Loss alone does not take the larger one of so many pairs in a row: the peer ends with that. */
#define PAIRS_LOST_MIN 16
/* So often ways that do not work are looked at, while large records come. Half: more is sent in
 * vain; twice: one that is back is used that much later. */
#define LOOK_NS 1000000000ull
/* What every path lets through, in a packet of IPv4. */
#define ALWAYS_PASSES_BYTES (DW_MTU_MIN_BYTES - 28)

/* ---- datagrams that do not get through ---- */

/* Length of the largest that do not seem to; 0: there are none. */
static uint32_t stuck_bytes(const struct dw_peer *peer)
{
    const struct dw_datagram *oldest =
        dw_container(peer->sendwin.unacked.next, struct dw_datagram, tx.link);
    uint32_t bytes = 0;
    if (peer->sendwin.count && oldest->tx.resends >= DW_OFTEN)
        bytes = oldest->bytes + dw_trailer_bytes(peer);
    else if (peer->asked_again >= DW_OFTEN)
        bytes = dw_ah_datagram_max_bytes(&dw_handle_of(peer)->ah);
    return bytes > ALWAYS_PASSES_BYTES ? bytes : 0;
}

/* The next probe is to be a pair, with one padded to that; 0: not yet. */
static uint32_t pair_bytes(const struct dw_peer *peer, uint64_t now_ns)
{
    const struct dw_contact *contact = &peer->records.contact;
    /* One that is silent says nothing of the path, and has to read them all one day. */
    const bool due = now_ns / DW_ASK_NS != contact->probe_sent_ns / DW_ASK_NS ||
                     (peer->pairs_lost && peer->pairs_lost < DW_OFTEN);
    return due && contact->heard_ns >= contact->probe_sent_ns ? stuck_bytes(peer) : 0;
}

static void on_answer(struct dw_peer *peer)
{
    peer->trying = false;
    peer->unanswered = 0;
    dw_handle_of(peer)->ah.ways->answered = true;
}

void dw_probe_on_record_came(struct dw_peer *peer, uint8_t way)
{
    if (!way || way == dw_path_number(dw_ah_path(&dw_handle_of(peer)->ah)))
        on_answer(peer);
}

void dw_probe_on_acked(struct dw_peer *peer, const struct dw_list *acked)
{
    on_answer(peer);
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

/* For peer_timeout nothing has got through but what every path lets through. */
static bool is_too_narrow(struct dw_peer *peer)
{
    const uint64_t limit_ns = dw_rd_of(peer)->port->device->attr.peer_timeout_ns;
    if (!stuck_bytes(peer))
        peer->pairs_lost = 0;
    return limit_ns && peer->pairs_lost >= PAIRS_LOST_MIN &&
           (peer->pairs_lost * DW_ASK_NS > limit_ns || peer->pairs_lost == UINT16_MAX);
}

/* ---- probes ---- */

static uint32_t clock_of(uint64_t now_ns)
{
    return (uint32_t)(now_ns >> DW_PROBE_CLOCK_SHIFT) & CLOCK_MASK;
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

static void probe_by(struct dw_peer *peer, unsigned index, uint32_t psn, uint32_t bytes)
{
    const struct dw_ways *ways = dw_handle_of(peer)->ah.ways;
    const struct dw_path *path = ways->paths[index];
    const struct dw_way way = {.path = path, .id = dw_way_number(path->flow, index)};
    dw_control_by_way(peer, DW_LLP_PROBE, psn, &way, bytes);
}

/* The peer does not answer: a bare probe goes by each other way, too, where the current one was
 * ever answered only after DW_OFTEN probes in a row. The intro tells where the reply is to go. */
static void try_others(struct dw_peer *peer, uint64_t now_ns)
{
    const struct dw_ways *ways = dw_handle_of(peer)->ah.ways;
    if (ways->count == 1 || peer->unanswered < (ways->answered ? DW_OFTEN : 1))
        return;
    peer->trying = true;
    for (unsigned i = 0; i < ways->count; i++)
        if (i != ways->current)
            probe_by(peer, i, clock_of(now_ns), 0);
}

void dw_probe(struct dw_peer *peer, uint64_t now_ns)
{
    struct dw_contact *contact = &peer->records.contact;
    const uint32_t padded_bytes = pair_bytes(peer, now_ns);
    if (contact->probe_sent_ns <= contact->heard_ns)
        peer->records.silent_since = dw_silence_clock(dw_rd_of(peer));
    contact->probe_sent_ns = now_ns & INT64_MAX;
    contact->probe_answered = false;
    peer->probe_acked = true;
    if (peer->unreachables == DW_OFTEN) /* until ICMP says so of this one, too */
        peer->unreachables--;
    /* A full socket takes neither; where only the padded one is refused, the path is narrow in this
     * host. */
    send_probe(peer, clock_of(now_ns), padded_bytes, false);
    if (peer->unanswered < DW_OFTEN)
        peer->unanswered++;
    try_others(peer, now_ns);
    if (padded_bytes && peer->asked_again)
        peer->asked_again--;
}

void dw_probe_ask(struct dw_record_peer *records, uint64_t now_ns)
{
    struct dw_peer *peer = dw_peer_of_records(records);
    const struct dw_contact *contact = &records->contact;
    if (contact->probe_answered || now_ns >= contact->probe_sent_ns + dw_peer_rto_ns(records, 0))
        dw_probe(peer, now_ns);
}

/* ---- ways beside the current one ---- */

/* As long as what is to take it; the reply tells that it works. */
static void probe_beside(struct dw_peer *peer, unsigned index, uint64_t now_ns)
{
    probe_by(peer, index, clock_of(now_ns) | PADDED,
             dw_ah_datagram_max_bytes(&dw_handle_of(peer)->ah));
    dw_rd_of(peer)->counters->tx_probes++;
}

void dw_probe_ask_by(struct dw_record_peer *records, uint8_t id, uint64_t now_ns)
{
    const struct dw_ways *ways = records->ah->ways;
    const unsigned index = dw_ways_from(ways, id);
    if (index < ways->count)
        probe_beside(dw_peer_of_records(records), index, now_ns);
}

void dw_probe_look_for_ways(struct dw_record_peer *records, uint64_t now_ns)
{
    const unsigned unknown = dw_ways_to_look_at(records->ah->ways, LOOK_NS, now_ns);
    for (unsigned i = 0; unknown >> i; i++)
        if (unknown >> i & 1)
            probe_beside(dw_peer_of_records(records), i, now_ns);
}

/* ---- the path's MTU ---- */

uint8_t dw_probe_cwnd_floor(const struct dw_handle *handle)
{
    uint32_t payload = dw_ah_datagram_max_bytes(&handle->ah) - DW_LLP_HEADER_BYTES -
                       DW_INTRO_BYTES - DW_SEND_SEGMENT_BYTES -
                       dw_ah_port(&handle->ah)->datagrams.seal.trailer_bytes;
    uint32_t datagrams = (DW_FIRST_BYTES - 1) / payload + 1;
    if (datagrams > UINT8_MAX)
        return UINT8_MAX;
    return datagrams > DW_RECORDWIN_LEAST ? (uint8_t)datagrams : DW_RECORDWIN_LEAST;
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

/* All whom the same ways lead to go by another one, of which nothing is known. announce: they are
 * to answer by it, too. */
static void change_way(struct dw_peer *peer, unsigned to, bool announce)
{
    struct dw_ways *ways = dw_handle_of(peer)->ah.ways;
    struct dw_path *before = dw_ways_path(ways);
    dw_ways_change(ways, to);
    dw_foreach (other, struct dw_peer, path_link, &before->awake) {
        if (dw_handle_of(other)->ah.ways != ways)
            continue;
        dw_list_remove(&other->path_link);
        dw_list_append(&dw_ways_path(ways)->awake, &other->path_link);
        other->introduced &= !announce;
        other->trying = false;
        other->unanswered = 0;
        other->backoff = 0;
        other->unreachables = 0;
        other->pairs_lost = 0;
        other->sendwin.delay = (struct dw_delay){0};
        dw_met_of(other)->rtt = (struct dw_rtt){0};
        dw_timers_watch(other);
    }
    dw_rd_of(peer)->counters->ways_changed++;
    dw_probe_on_path(dw_rd_of(peer), dw_ways_path(ways));
}

void dw_probe_on_way_left(struct dw_record_peer *records, uint8_t id, uint8_t other)
{
    struct dw_ways *ways = records->ah->ways;
    const unsigned left = dw_ways_from(ways, id);
    const unsigned to = other ? dw_ways_from(ways, other) : ways->count;
    if (left == ways->current && to < ways->count)
        change_way(dw_peer_of_records(records), to, true);
    if (left < ways->count)
        dw_ways_leave(ways, left);
}

static struct dw_llp_addr host_of(const struct dw_intro *intro)
{
    struct dw_llp_addr host = {.family = intro->family};
    memcpy(host.ip, intro->ip, sizeof host.ip);
    return host;
}

static unsigned way_to(const struct dw_peer *peer, const struct dw_intro *intro)
{
    const struct dw_llp_addr host = host_of(intro);
    return dw_ways_find(dw_handle_of(peer)->ah.ways, &host, intro->flow);
}

void dw_probe_answer(struct dw_peer *peer, const struct dw_arrival *arrival)
{
    const struct dw_llp_header *header = &arrival->header;
    const struct dw_ways *ways = dw_handle_of(peer)->ah.ways;
    const unsigned index = arrival->intro ? way_to(peer, arrival->intro) : ways->count;
    /* It asks for a way that we do not know, or for a flow that we lack. */
    if (index == ways->count && header->path &&
        (header->psn & PADDED || (arrival->intro && arrival->intro->flow)))
        return;
    const struct dw_way way = {
        .path = index < ways->count ? ways->paths[index] : dw_ways_path(ways), .id = header->path};
    dw_control_by_way(peer, DW_LLP_PROBE_REPLY, header->psn, &way, 0);
}

void dw_probe_on_intro(struct dw_peer *peer, const struct dw_intro *intro)
{
    const struct dw_ways *ways = dw_handle_of(peer)->ah.ways;
    const struct dw_llp_addr host = host_of(intro);
    unsigned index = way_to(peer, intro);
    if (index == ways->count && !dw_llp_same_host(&dw_ways_path(ways)->host, &host))
        index = dw_ways_find(ways, &host, 0); /* it has more flows than we have */
    if (index < ways->count && index != ways->current)
        change_way(peer, index, false); /* by which it is reached, it knows */
}

/* True: the way is the current one now. */
static bool on_reply_by(struct dw_peer *peer, uint8_t id, uint32_t psn, uint64_t now_ns)
{
    struct dw_ways *ways = dw_handle_of(peer)->ah.ways;
    const unsigned index = dw_way_place(id);
    const uint64_t age_ns = (uint64_t)((clock_of(now_ns) - psn) & CLOCK_MASK)
                            << DW_PROBE_CLOCK_SHIFT;
    if (index >= ways->count || ways->paths[index]->flow != dw_way_flow(id))
        return false;
    if (psn & PADDED && ways->apart >> index & 1 && age_ns < LOOK_NS) {
        ways->working |= (uint8_t)(1u << index);
        dw_sinks_on_way_reply(&peer->records, dw_path_number(ways->paths[index]), now_ns - age_ns,
                              now_ns);
    }
    if (!peer->trying || index == ways->current)
        return false;
    change_way(peer, index, true);
    return true;
}

/* By a peer that is heard: one that is silent says nothing of the path. */
static void probe_path(struct dw_peer *peer, uint64_t now_ns)
{
    struct dw_path *path = dw_ah_path(&dw_handle_of(peer)->ah);
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

static void on_pair_lost(struct dw_peer *peer, uint64_t now_ns)
{
    struct dw_path *path = dw_ah_path(&dw_handle_of(peer)->ah);
    if (peer->pairs_lost < UINT16_MAX)
        peer->pairs_lost++;
    if (peer->pairs_lost < DW_OFTEN)
        dw_timers_wake(peer, now_ns);
    if (peer->pairs_lost >= DW_OFTEN && dw_path_on_black_hole(path, stuck_bytes(peer), now_ns)) {
        dw_rd_of(peer)->counters->paths_narrowed++;
        dw_probe_on_path(dw_rd_of(peer), path);
    }
}

uint64_t dw_probe_on_reply(struct dw_peer *peer, const struct dw_llp_header *header,
                           uint64_t now_ns)
{
    const uint32_t psn = header->psn;
    struct dw_contact *contact = &peer->records.contact;
    const uint32_t age = (clock_of(now_ns) - psn) & CLOCK_MASK;
    const uint64_t sent_ns = now_ns - ((age + 1ull) << DW_PROBE_CLOCK_SHIFT);
    struct dw_path *path = dw_ah_path(&dw_handle_of(peer)->ah);
    if (header->path && !on_reply_by(peer, header->path, psn, now_ns))
        return 0;
    on_answer(peer);
    if (psn & OF_PATH) {
        if (dw_path_on_probe_reply(path, psn & CLOCK_MASK, psn & PADDED, now_ns))
            dw_probe_on_path(dw_rd_of(peer), path);
        probe_path(peer, now_ns);
        return 0;
    }
    if (psn & PADDED) {
        peer->pairs_lost = 0;
        peer->asked_again = 0;
    } else if (psn & BARE) {
        on_pair_lost(peer, now_ns);
    }
    if (age > CLOCK_MASK / 2 || sent_ns > contact->probe_sent_ns)
        return 0; /* of one that was never sent */
    if ((psn & CLOCK_MASK) == clock_of(contact->probe_sent_ns))
        contact->probe_answered = true;
    return sent_ns;
}

/* ---- the timer ---- */

/* Why it is silent, if this host, or ICMP so many times, has said so. */
static enum diwarp_gone reason(const struct dw_peer *peer, unsigned told)
{
    if (peer->send_error)
        return DIWARP_GONE_NOT_SENT;
    if (peer->unreachables < told)
        return DIWARP_GONE_SILENT;
    return peer->prohibited ? DIWARP_GONE_PROHIBITED : DIWARP_GONE_UNREACHABLE;
}

/* How long it may be silent. To what has been heard, or may have got something, a route may come
 * back. */
static uint64_t patience_ns(const struct dw_peer *peer)
{
    const struct diwarp_device *device = dw_rd_of(peer)->port->device;
    const struct dw_llp_addr *host = &dw_ah_path(&dw_handle_of(peer)->ah)->host;
    const uint64_t limit_ns = device->attr.peer_timeout_ns;
    const bool never = peer->send_error && !peer->sent && !dw_handle_of(peer)->heard;
    const bool unreachable = peer->unreachables == DW_OFTEN;
    uint64_t soon_ns = never || unreachable ? PROHIBITED_NS : UINT64_MAX;
    if (unreachable && !peer->prohibited)
        soon_ns = NO_PORT_REMOTE_NS;
    if (unreachable &&
        dw_interfaces_have(device->interfaces, device->interface_count, host->family, host->ip))
        soon_ns = DW_ASK_NS;
    return !limit_ns ? UINT64_MAX : soon_ns < limit_ns ? soon_ns : limit_ns;
}

void dw_peer_tell(const struct dw_peer *peer, enum diwarp_wc_opcode opcode, enum diwarp_gone why)
{
    const uint32_t detail = why == DIWARP_GONE_NOT_SENT    ? peer->send_error
                            : why == DIWARP_GONE_TOO_LARGE ? stuck_bytes(peer)
                                                           : 0;
    dw_foreach (qp, struct diwarp_qp, link, &dw_rd_of(peer)->port->qps) {
        const struct diwarp_wc wc = {
            .wc = {.status = opcode == DIWARP_WC_PEER_GONE ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS,
                   .opcode = (enum ibv_wc_opcode)opcode,
                   .vendor_err = why,
                   .byte_len = detail,
                   .qp_num = qp->num},
            .src = dw_handle_of(peer)->ah.name,
        };
        if (qp->service == dw_rd_of(peer)->handles.ahs.service)
            dw_cq_push(qp->cq, &wc);
    }
}

/* Where it is on this host nothing is in the way: it has not begun, or waits for a core. */
static void warn_of_silence(struct dw_peer *peer, uint64_t silent_ns)
{
    const struct diwarp_device *device = dw_rd_of(peer)->port->device;
    const struct dw_path *path = dw_ah_path(&dw_handle_of(peer)->ah);
    if (silent_ns < WARN_NS || peer->warned || dw_handle_of(peer)->heard ||
        device->interfaces[path->local_interface].loopback)
        return;
    peer->warned = true;
    dw_peer_tell(peer, DIWARP_WC_PEER_SILENT, reason(peer, 1));
}

static void ask_silent(struct dw_peer *peer, uint64_t now_ns)
{
    /* Silence counts from the first probe without an answer: with nothing owed there is none. */
    const bool silent = peer->records.contact.probe_sent_ns > peer->records.contact.heard_ns;
    const uint64_t silent_ns =
        silent ? dw_silence_ns(dw_rd_of(peer), peer->records.silent_since) : 0;
    warn_of_silence(peer, silent_ns);
    if (silent_ns > patience_ns(peer)) {
        /* The application need not hear that a peer of which it wants nothing is silent. */
        peer->confirming = false;
        peer->data_acked = true;
        if (dw_timers_peer_owes(peer))
            dw_peer_doom(peer, reason(peer, DW_OFTEN));
        return;
    }
    const bool due = now_ns >= dw_timers_probe_due_ns(peer);
    if (due && peer->backoff < BACKOFF_MAX)
        peer->backoff++;
    if (due || pair_bytes(peer, now_ns)) /* this though it is heard */
        dw_probe(peer, now_ns);
    dw_timers_watch(peer);
    if (stuck_bytes(peer))
        dw_timers_wake(peer, now_ns + DW_ASK_NS);
}

void dw_probe_on_timer(struct dw_timer *timer, uint64_t now_ns)
{
    struct dw_peer *peer = dw_container(timer, struct dw_peer, timer);
    if (!dw_peer_is_live(peer))
        return;
    if (peer->ack_owed)
        (void)dw_control_ack(peer);
    if (is_too_narrow(peer)) {
        dw_peer_doom(peer, DIWARP_GONE_TOO_LARGE);
        return;
    }
    if (now_ns >= dw_timers_tail_due_ns(peer))
        dw_transmit_again(
            peer, dw_container(peer->sendwin.unacked.next, struct dw_datagram, tx.link), now_ns);
    if (dw_timers_peer_owes(peer))
        ask_silent(peer, now_ns);
    else
        peer->confirming = false; /* what comes later is another question */
    probe_path(peer, now_ns);
}
