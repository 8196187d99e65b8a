/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers of an RD QP: their state, taken when needed and given back when they have been idle; the
 * timer that acknowledges late and probes the silent; and what happens when one is gone.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/rd/atomic.h"
#include "common/rd/deliver.h"
#include "common/rd/path.h"
#include "common/rd/peer.h"
#include "common/record/rdma.h"
#include "common/rd/send.h"
#include "common/rd/transmit.h"

/* Asks a silent peer whose answer we wait for, though nothing is unacknowledged. */
#define KEEPALIVE_NS 1000000000ull
/* Doublings of the interval between probes: from 3 us to the longest there is. */
#define BACKOFF_MAX 15
/* The way to a peer is doubted when it has been silent for so many intervals of probes, or has
 * asked so often though it must have had our answers. */
#define SILENT_RTOS_DOUBT 8
#define PROBES_DOUBT      3
/* ICMP says "port unreachable" this often, and probes get no answer for so long: the process died.
 * Of another host a firewall says so, too, while its rules are loaded anew. Our own host's refusal
 * to send to a peer is borne as long as another's. */
#define UNREACHABLES_GONE     5
#define UNREACHABLE_OWN_NS    500000000ull
#define UNREACHABLE_REMOTE_NS 10000000000ull
/* Until the peer tells its credit: what any socket holds. */
#define CREDIT_FIRST_KIB 64
/* What may be on its way to a peer whatever the delay: a long eager message, or some short ones. */
#define CWND_FLOOR_BYTES     (64u << 10)
#define CWND_FLOOR_DATAGRAMS 16
/* A probe's PSN is when it was sent, in units of 1 us: so its reply tells that, however many probes
 * have followed. Of one older than 17 s nothing is taken. */
#define PROBE_CLOCK_SHIFT 10
#define PROBE_AGE_MAX     (1u << 24)
/* Places in the table of address handles that one call looks at. */
#define REST_LOOKS 256

struct dw_peer *dw_peer_find(const struct diwarp_qp *qp, struct diwarp_name name)
{
    const struct diwarp_ah *ah = dw_ah_find(qp, name);
    return ah ? ah->peer : NULL;
}

struct dw_peer *dw_peer_next(const struct diwarp_qp *qp, size_t *slot)
{
    const struct diwarp_ah *ah;
    while ((ah = dw_map_next(&qp->ahs, slot)))
        if (ah->peer)
            return ah->peer;
    return NULL;
}

bool dw_peer_owes(const struct dw_peer *peer)
{
    return peer->sendwin.count || !dw_list_empty(&peer->awaiting) || !dw_list_empty(&peer->sinks) ||
           !dw_list_empty(&peer->sources) || !dw_list_empty(&peer->atomics) ||
           !dw_list_empty(&peer->assemblies);
}

void dw_peer_wake(struct dw_peer *peer, uint64_t deadline_ns)
{
    if (!peer->timer.slot || deadline_ns < peer->timer.deadline_ns)
        dw_heap_set(&peer->qp->timers, &peer->timer, deadline_ns);
}

static uint64_t probe_due_ns(const struct dw_peer *peer)
{
    uint64_t last = peer->asked_ns > peer->probe_sent_ns ? peer->asked_ns : peer->probe_sent_ns;
    if (peer->sendwin.count || !dw_list_empty(&peer->awaiting))
        return last + dw_peer_rto_ns(peer, peer->backoff);
    if (peer->heard_ns > last)
        last = peer->heard_ns;
    return last + KEEPALIVE_NS;
}

void dw_peer_on_asked(struct dw_peer *peer, uint64_t now_ns)
{
    peer->asked_ns = now_ns;
    /* The timer may be set far ahead, to keep alive what is owed to us. */
    dw_peer_wake(peer, probe_due_ns(peer));
}

void dw_peer_on_record(struct dw_peer *peer, uint64_t now_ns)
{
    if (!peer->sendwin.count)
        dw_peer_on_asked(peer, now_ns);
}

void dw_peer_watch(struct dw_peer *peer)
{
    dw_peer_wake(peer, probe_due_ns(peer));
}

/* Silence counts from the first probe without an answer: with nothing owed there is none. */
static bool silent_for(const struct dw_peer *peer, uint64_t limit_ns, uint64_t now_ns)
{
    const uint32_t silent = dw_silence_clock(now_ns) - peer->silent_since;
    return peer->probe_sent_ns > peer->heard_ns &&
           (uint64_t)silent << DW_SILENCE_CLOCK_SHIFT > limit_ns;
}

/* To what has been heard, or may have got something, a route may come back. */
static uint64_t patience_ns(const struct dw_peer *peer)
{
    uint64_t limit_ns = peer->qp->device->attr.peer_timeout_ns;
    bool never = peer->send_error && !peer->sent && !peer->ah->heard;
    if (!limit_ns)
        return UINT64_MAX;
    return never && limit_ns > UNREACHABLE_REMOTE_NS ? UNREACHABLE_REMOTE_NS : limit_ns;
}

static uint32_t probe_clock(uint64_t now_ns)
{
    return (uint32_t)(now_ns >> PROBE_CLOCK_SHIFT) & DW_PATH_CLOCK_MASK;
}

static uint64_t probe_sent_ns(uint32_t psn, uint64_t now_ns)
{
    uint32_t age = (probe_clock(now_ns) - psn) & DW_PATH_CLOCK_MASK;
    return age <= PROBE_AGE_MAX ? now_ns - ((age + 1ull) << PROBE_CLOCK_SHIFT) : 0;
}

static void doubt(struct dw_peer *peer)
{
    struct dw_llp *llp = peer->qp->llp;
    if (llp->ops->doubt)
        llp->ops->doubt(llp, &peer->ah->addr);
}

static void probe(struct dw_peer *peer, uint64_t now_ns)
{
    const bool paired = dw_path_pair_is_due(peer, now_ns);
    if (silent_for(peer, SILENT_RTOS_DOUBT * dw_peer_rto_ns(peer, 0), now_ns))
        doubt(peer);
    if (peer->probe_sent_ns <= peer->heard_ns)
        peer->silent_since = dw_silence_clock(now_ns);
    peer->probe_sent_ns = now_ns;
    peer->probe_answered = false;
    peer->qp->counters.tx_probes++;
    if (paired)
        dw_path_send_pair(peer, probe_clock(now_ns));
    else
        (void)dw_transmit_bare(peer, DW_LLP_PROBE, probe_clock(now_ns));
}

void dw_peer_ask(struct dw_peer *peer, uint64_t now_ns)
{
    if (peer->probe_answered || now_ns >= peer->probe_sent_ns + dw_peer_rto_ns(peer, 0))
        probe(peer, now_ns);
}

uint64_t dw_peer_on_probe_reply(struct dw_peer *peer, uint32_t psn, uint64_t now_ns)
{
    const uint64_t sent_ns = probe_sent_ns(psn, now_ns);
    dw_path_on_probe_reply(peer, psn);
    if (sent_ns > peer->probe_sent_ns)
        return 0; /* of one that was never sent */
    if ((psn & DW_PATH_CLOCK_MASK) == probe_clock(peer->probe_sent_ns))
        peer->probe_answered = true;
    return sent_ns;
}

/* Those that had gathered in the socket while nobody read it come at once. One that keeps alive
 * what it waits for looks the same; the other way costs it little. */
void dw_peer_on_probe(struct dw_peer *peer, uint64_t heard_before_ns, uint64_t now_ns)
{
    /* Who was told that there is no room asks until there is. */
    if (peer->told_full)
        return;
    /* By the least time-out that it may have: its own is not known. */
    if (now_ns < heard_before_ns + peer->qp->device->attr.rto_min_ns / 2)
        return;
    if (peer->probes < PROBES_DOUBT && ++peer->probes == PROBES_DOUBT)
        doubt(peer);
}

/* May fire early: deadlines are moved forward lazily, so that sending costs no heap operation. */
static void on_timer(struct dw_timer *timer, uint64_t now_ns)
{
    struct dw_peer *peer = dw_container(timer, struct dw_peer, timer);
    if (peer->ah->gone)
        return;
    if (peer->ack_owed_datagrams && now_ns >= dw_peer_ack_due_ns(peer, now_ns))
        (void)dw_transmit_ack(peer);
    if (dw_path_is_too_narrow(peer)) {
        dw_peer_fail(peer, DIWARP_GONE_TOO_LARGE);
        return;
    }
    if (dw_peer_owes(peer)) {
        if (silent_for(peer, patience_ns(peer), now_ns)) {
            dw_peer_fail(peer, peer->send_error ? DIWARP_GONE_NOT_SENT : DIWARP_GONE_SILENT);
            return;
        }
        if (now_ns >= probe_due_ns(peer)) {
            if (peer->backoff < BACKOFF_MAX)
                peer->backoff++;
            probe(peer, now_ns);
        } else if (dw_path_pair_is_due(peer, now_ns)) {
            probe(peer, now_ns); /* though it is heard: it asks for parts of records */
        }
        dw_peer_wake(peer, probe_due_ns(peer));
        if (dw_path_stuck_bytes(peer))
            dw_peer_wake(peer, now_ns + DW_PATH_PAIR_NS);
    }
    if (peer->ack_owed_datagrams && !dw_list_linked(&peer->ack_link))
        dw_peer_wake(peer, dw_peer_ack_due_ns(peer, now_ns));
}

/* ---- taking and giving back ---- */

static uint8_t cwnd_floor(const struct diwarp_ah *ah)
{
    uint32_t payload = ah->datagram_max_bytes - DW_LLP_HEADER_BYTES - DW_INTRO_BYTES -
                       DW_SEND_SEGMENT_BYTES - DW_CRC_BYTES;
    uint32_t datagrams = (CWND_FLOOR_BYTES - 1) / payload + 1;
    if (datagrams < CWND_FLOOR_DATAGRAMS)
        datagrams = CWND_FLOOR_DATAGRAMS;
    return datagrams < UINT8_MAX ? (uint8_t)datagrams : UINT8_MAX;
}

void dw_peer_on_narrowed(struct dw_peer *peer)
{
    dw_sendwin_raise_floor(&peer->sendwin, cwnd_floor(peer->ah));
}

struct dw_peer *dw_peer_of_ah(struct diwarp_ah *ah)
{
    if (ah->peer)
        return ah->peer;
    struct diwarp_qp *qp = ah->qp;
    struct dw_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    if (dw_heap_reserve(&qp->timers)) {
        free(peer);
        return NULL;
    }
    const struct diwarp_device_attr *attr = &qp->device->attr;
    if (!ah->met) {
        ah->met = true;
        ah->next_psn = ah->ack = ah->send_msn = qp->device->env.first_serial;
        ah->credit_kib = CREDIT_FIRST_KIB;
        ah->ssthresh_datagrams = attr->send_window_datagrams & ((1u << DW_CWND_BITS) - 1);
        ah->recordwin = (struct dw_recordwin){0};
        dw_rtt_init(&ah->rtt);
    }
    peer->qp = qp;
    peer->ah = ah;
    peer->index = ++qp->next_peer_index;
    peer->number = qp->number & DW_NUMBER_MAX;
    peer->heard_ns = dw_device_now_ns(qp->device);
    peer->timer.fire = on_timer;
    dw_sendwin_init(&peer->sendwin, ah->next_psn, attr->send_window_datagrams,
                    (uint32_t)ah->credit_kib << 10);
    dw_sendwin_set_congestion(&peer->sendwin, ah->ssthresh_datagrams, cwnd_floor(ah),
                              (uint32_t)attr->queue_delay_ns);
    dw_recvwin_init(&peer->recvwin, ah->ack);
    ah->records_due_bytes = 0;
    ah->record_round = (struct dw_record_round){0};
    struct dw_list *heads[] = {&peer->flush_link, &peer->pending,  &peer->awaiting,
                               &peer->assemblies, &peer->ack_link, &peer->sinks,
                               &peer->sources,    &peer->atomics};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        dw_list_init(heads[i]);
    qp->counters.peers_active++;
    dw_qp_trim_later(qp, peer->heard_ns);
    return ah->peer = peer;
}

/* All is sent, acknowledged and delivered, both ways, and it waits for nothing: its windows are two
 * numbers now. */
static bool may_rest(const struct dw_peer *peer, uint64_t now_ns)
{
    uint64_t last_ns = peer->asked_ns > peer->heard_ns ? peer->asked_ns : peer->heard_ns;
    if (now_ns < last_ns + peer->qp->device->env.rest_ns)
        return false;
    bool holds = dw_peer_owes(peer) || peer->open || !dw_list_empty(&peer->pending) ||
                 dw_list_linked(&peer->ack_link) || dw_list_linked(&peer->flush_link);
    return !holds && (peer->ah->gone || (!dw_recvwin_has_gap(&peer->recvwin) &&
                                         !peer->ack_owed_datagrams && !peer->told_full));
}

static void release(struct dw_peer *peer)
{
    struct diwarp_qp *qp = peer->qp;
    struct diwarp_ah *ah = peer->ah;
    dw_heap_set(&qp->timers, &peer->timer, DW_NEVER);
    if (qp->number < peer->number)
        qp->number = peer->number;
    ah->next_psn = peer->sendwin.next_psn;
    ah->ack = peer->recvwin.ack;
    ah->credit_kib = (uint16_t)(peer->sendwin.credit_bytes >> 10);
    if (!ah->credit_kib)
        ah->credit_kib = CREDIT_FIRST_KIB; /* it does not tell who rests when it has room again */
    ah->ssthresh_datagrams = peer->sendwin.ssthresh_datagrams & ((1u << DW_CWND_BITS) - 1);
    ah->peer = NULL;
    dw_heap_unreserve(&qp->timers);
    qp->counters.peers_active--;
    free(peer);
}

bool dw_peer_rest_some(struct diwarp_qp *qp, uint64_t now_ns, bool *more)
{
    for (unsigned i = 0; i < REST_LOOKS && qp->trim_slot < qp->ahs.capacity; i++) {
        const struct diwarp_ah *ah = qp->ahs.slots[qp->trim_slot++].value;
        if (ah && ah->peer && may_rest(ah->peer, now_ns)) {
            release(ah->peer);
            qp->trimmed = true;
        }
    }
    *more = qp->counters.peers_active > 0;
    if (qp->trim_slot < qp->ahs.capacity)
        return false;
    qp->trim_slot = 0;
    return true;
}

/* ---- the end of a peer ---- */

static void drop_works(struct dw_peer *peer, struct dw_list *list, bool tell)
{
    dw_list_foreach (it, list) {
        struct dw_work *work = dw_container(it, struct dw_work, link);
        dw_list_remove(it);
        if (tell && !work->own_message)
            dw_cq_complete(peer->qp, work->wr_id, true, work->opcode, IBV_WC_RETRY_EXC_ERR, 0);
        dw_work_put(peer->qp, work);
    }
}

static void drop_datagrams(struct dw_peer *peer)
{
    dw_list_foreach (it, &peer->sendwin.unacked) {
        struct dw_datagram *datagram = dw_container(it, struct dw_datagram, tx.link);
        dw_list_remove(it);
        dw_datagram_put(peer->qp, datagram);
    }
    peer->sendwin.count = 0;
    peer->sendwin.bytes = 0;
    if (peer->open)
        dw_datagram_put(peer->qp, peer->open);
    peer->open = NULL;
}

static void clear(struct dw_peer *peer, bool tell)
{
    dw_list_remove(&peer->flush_link);
    dw_list_remove(&peer->ack_link);
    drop_datagrams(peer);
    drop_works(peer, &peer->pending, tell);
    drop_works(peer, &peer->awaiting, tell);
    dw_list_foreach (a, &peer->sinks) {
        struct dw_sink *sink = dw_container(a, struct dw_sink, peer_link);
        tell && !sink->held ? dw_sink_fail(sink, IBV_WC_RETRY_EXC_ERR) : dw_sink_destroy(sink);
    }
    dw_list_foreach (b, &peer->sources) {
        struct dw_source *source = dw_container(b, struct dw_source, peer_link);
        tell ? dw_source_fail(source, IBV_WC_RETRY_EXC_ERR) : dw_source_destroy(source);
    }
    dw_list_foreach (c, &peer->atomics) {
        struct dw_atomic *atomic = dw_container(c, struct dw_atomic, link);
        if (!tell)
            atomic->signaled = false;
        dw_atomic_end(peer->qp, atomic, tell ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
    }
    dw_deliver_forget(peer);
    dw_heap_set(&peer->qp->timers, &peer->timer, DW_NEVER);
}

void dw_peer_destroy(struct dw_peer *peer)
{
    clear(peer, false);
    release(peer);
}

static uint32_t gone_detail(const struct dw_peer *peer, enum diwarp_gone why)
{
    return why == DIWARP_GONE_NOT_SENT    ? peer->send_error
           : why == DIWARP_GONE_TOO_LARGE ? dw_path_stuck_bytes(peer)
                                          : 0;
}

void dw_peer_fail(struct dw_peer *peer, enum diwarp_gone why)
{
    if (peer->ah->gone)
        return;
    peer->ah->gone = true;
    peer->qp->counters.peers_gone++;
    struct diwarp_wc wc = {
        .wc = {.status = IBV_WC_RETRY_EXC_ERR,
               .opcode = (enum ibv_wc_opcode)DIWARP_WC_PEER_GONE,
               .vendor_err = why,
               .byte_len = gone_detail(peer, why),
               .qp_num = peer->qp->num},
        .src = peer->ah->name,
    };
    dw_cq_push(peer->qp->cq, &wc);
    clear(peer, true);
}

void dw_peer_restart(struct diwarp_ah *ah, uint32_t incarnation)
{
    struct dw_peer *peer = ah->met && !ah->gone ? dw_peer_of_ah(ah) : ah->peer;
    if (peer) {
        dw_peer_fail(peer, DIWARP_GONE_RESTARTED);
        dw_peer_destroy(peer);
    }
    ah->incarnation = incarnation;
    ah->met = ah->heard = ah->gone = false;
}

static bool same_addr(const struct dw_llp_addr *a, const struct dw_llp_addr *b)
{
    return a->port == b->port && dw_llp_same_host(a, b);
}

static bool is_own(const struct diwarp_device *device, const struct dw_llp_addr *addr)
{
    for (unsigned i = 0; i < device->interface_count; i++) {
        const struct diwarp_interface *interface = &device->interfaces[i];
        if (interface->family == addr->family &&
            !memcmp(interface->ip, addr->ip, addr->family == AF_INET6 ? 16 : 4))
            return true;
    }
    return false;
}

/* How long a peer may be both silent and unreachable. */
static uint64_t unreachable_ns(const struct dw_peer *peer)
{
    const struct diwarp_device *device = peer->qp->device;
    uint64_t limit_ns =
        is_own(device, &peer->ah->addr) ? UNREACHABLE_OWN_NS : UNREACHABLE_REMOTE_NS;
    if (!device->attr.peer_timeout_ns)
        return UINT64_MAX;
    return limit_ns < device->attr.peer_timeout_ns ? limit_ns : device->attr.peer_timeout_ns;
}

void dw_peer_on_unreachable(struct diwarp_qp *qp, const struct dw_llp_addr *addr, uint64_t now_ns)
{
    /* Linear: this is rare, and an index by address would cost every peer. */
    struct dw_peer *peer;
    for (size_t slot = 0; (peer = dw_peer_next(qp, &slot));) {
        if (peer->ah->gone || !same_addr(&peer->ah->addr, addr))
            continue;
        if (peer->unreachables < UNREACHABLES_GONE)
            peer->unreachables++;
        if (peer->unreachables == UNREACHABLES_GONE && dw_peer_owes(peer) &&
            silent_for(peer, unreachable_ns(peer), now_ns))
            dw_peer_fail(peer, DIWARP_GONE_UNREACHABLE);
        return;
    }
}
