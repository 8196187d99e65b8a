/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Grants: what may be under way to the sinks of a QP. All share its budget, the room in our receive
 * buffer; those of a peer its record window, the room on the way from there.
 */
#include "common/record/grant.h"

#include "common/record/sink.h"
#include "common/rd/transmit.h"

/* No grant below this part of the budget, unless it ends the record: each costs a datagram. */
#define GRANT_MIN_SHARE_DEN 4
/* What a record takes of the budget at least: its datagram's truesize in our receive buffer. */
#define RECORD_MIN_BYTES 1024

static bool budget_is_spent(const struct diwarp_qp *qp)
{
    return qp->granted_bytes >= qp->grant_budget_long_bytes ||
           (uint64_t)qp->granted_records * RECORD_MIN_BYTES >= qp->grant_budget_bytes;
}

uint32_t dw_record_window_bytes(const struct dw_peer *peer)
{
    uint64_t window = dw_recordwin_bytes(peer->ah->recordwin, dw_record_payload_bytes(peer));
    uint32_t budget = peer->ah->datagram_max_bytes < DW_LLP_LONG_BYTES
                          ? peer->qp->grant_budget_bytes
                          : peer->qp->grant_budget_long_bytes;
    return window < budget ? (uint32_t)window : budget;
}

bool dw_grants_are_whole(const struct dw_peer *peer)
{
    return dw_record_window_bytes(peer) / GRANT_MIN_SHARE_DEN >= dw_record_payload_bytes(peer);
}

/* Of a bound, what is granted already and what the sink lacks; 0: wait. */
static uint32_t share(const struct dw_sink *sink, uint32_t bound, uint64_t granted)
{
    uint32_t room = granted < bound ? bound - (uint32_t)granted : 0;
    uint32_t left = sink->record.total - sink->record.granted;
    if (room >= left)
        return left;
    if (room < bound / GRANT_MIN_SHARE_DEN)
        return 0;
    /* Whole datagrams: a remainder would travel in one of its own. */
    uint32_t payload = dw_record_payload_bytes(sink->peer);
    return room > payload ? room - room % payload : room;
}

/* Room that is too small for what is oldest is kept for it: small records, one after the other,
 * would have all of it. */
static uint32_t share_of_window(const struct dw_sink *sink)
{
    const struct diwarp_ah *ah = sink->peer->ah;
    uint32_t window = dw_record_window_bytes(sink->peer);
    if (ah->recordwin.awaited &&
        (uint64_t)ah->records_due_bytes + window / GRANT_MIN_SHARE_DEN > window)
        return 0;
    return share(sink, window, ah->records_due_bytes);
}

static uint32_t share_of_budget(const struct dw_sink *sink)
{
    const struct diwarp_qp *qp = sink->peer->qp;
    if (!sink->long_datagrams)
        return share(sink, qp->grant_budget_bytes, qp->granted_bytes);
    /* The others take as much more of the buffer. */
    const uint64_t others = (qp->granted_bytes - qp->granted_long_bytes) *
                            qp->grant_budget_long_bytes / qp->grant_budget_bytes;
    return share(sink, qp->grant_budget_long_bytes, qp->granted_long_bytes + others);
}

/* What may be granted to the sink now; 0: wait. */
static uint32_t grantable(const struct dw_sink *sink)
{
    uint32_t of_budget = share_of_budget(sink);
    uint32_t of_window = share_of_window(sink);
    return of_budget < of_window ? of_budget : of_window;
}

static bool grant(struct dw_sink *sink, uint64_t now_ns)
{
    uint32_t bytes = sink->counted || !budget_is_spent(sink->peer->qp) ? grantable(sink) : 0;
    if (!bytes)
        return false;
    sink->peer->qp->granted_records += !sink->counted;
    sink->counted = true;
    /* Nothing was due: the silence until now was ours. */
    if (!dw_record_sink_due_bytes(&sink->record))
        sink->record.heard_ns = now_ns;
    sink->record.granted += bytes;
    dw_sink_add_due(sink, bytes);
    if (sink->record.granted == sink->record.total)
        dw_list_remove(&sink->want_link);
    dw_sink_arm(sink);
    return true;
}

/* A write was opened by the source itself; of a read it knows once the request has left. A grant
 * that overtakes the request would be lost until the time-out. */
static bool is_known_to_source(const struct dw_sink *sink)
{
    return sink->region ||
           (sink->requested && dw_serial_before(sink->request_psn, sink->peer->sendwin.next_psn));
}

static bool is_unrequested(const struct dw_sink *sink)
{
    return !sink->region && !sink->requested;
}

/* One that is silent is not granted more before what it has been granted goes on. */
static bool may_be_granted(const struct dw_sink *sink)
{
    return is_known_to_source(sink) && !sink->peer->sinks_aside && share_of_window(sink) > 0;
}

static void park(struct dw_sink *sink)
{
    sink->parked = true;
    dw_list_remove(&sink->want_link);
}

/* Every run walks the list: what waits for its request to be sent, for a silent peer, or for room
 * in a peer's window, which may be thousands, is not in it meanwhile. */
static void park_if_it_waits(struct dw_sink *sink)
{
    bool full = !share_of_window(sink);
    if (!sink->peer->sinks_aside && !is_unrequested(sink) && !full)
        return;
    if (full)
        sink->peer->ah->recordwin.awaited = true;
    park(sink);
}

static void unpark(struct dw_sink *sink)
{
    if (!sink->parked)
        return;
    sink->parked = false;
    dw_list_append(&sink->peer->qp->want, &sink->want_link);
}

/* As many as the window now has room for, the oldest first. */
static void unpark_some(struct dw_peer *peer)
{
    uint32_t window = dw_record_window_bytes(peer), least = window / GRANT_MIN_SHARE_DEN;
    uint32_t due = peer->ah->records_due_bytes;
    if (peer->sinks_aside || (uint64_t)due + least > window)
        return;
    uint32_t room = window - due;
    dw_list_foreach (it, &peer->sinks) {
        struct dw_sink *sink = dw_container(it, struct dw_sink, peer_link);
        if (dw_list_linked(&sink->want_link) && is_known_to_source(sink))
            return; /* it has the room, once it is its turn */
        if (!sink->parked || is_unrequested(sink))
            continue;
        uint32_t left = sink->record.total - sink->record.granted;
        unpark(sink);
        if (left >= room)
            return;
        room -= left;
    }
    peer->ah->recordwin.awaited = false;
}

void dw_sink_add_due(struct dw_sink *sink, int64_t bytes)
{
    struct dw_peer *peer = sink->peer;
    peer->qp->granted_bytes += (uint64_t)bytes;
    if (sink->long_datagrams)
        peer->qp->granted_long_bytes += (uint64_t)bytes;
    peer->ah->records_due_bytes += (uint32_t)bytes;
    if (bytes <= 0 && peer->ah->recordwin.awaited)
        unpark_some(peer);
}

void dw_rdma_on_requested(struct dw_peer *peer, uint32_t id, uint32_t psn)
{
    struct dw_sink *sink = dw_map_get(&peer->qp->sinks, dw_record_key(peer, id));
    if (!sink)
        return;
    sink->requested = true;
    sink->request_psn = psn;
    unpark(sink);
}

uint32_t dw_sink_first_grant(struct dw_sink *sink, uint64_t now_ns)
{
    struct diwarp_qp *qp = sink->peer->qp;
    if (sink->peer->ah->recordwin.awaited) {
        park(sink); /* behind those that wait */
        return 0;
    }
    if (budget_is_spent(qp))
        return 0;
    /* Those before it come first, but for what cannot be told yet. */
    dw_list_foreach (it, &qp->want) {
        struct dw_sink *older = dw_container(it, struct dw_sink, want_link);
        if (older == sink && !sink->peer->sinks_aside)
            grant(sink, now_ns);
        if (older == sink || may_be_granted(older))
            break;
        park_if_it_waits(older);
    }
    return sink->record.granted;
}

bool dw_rdma_may_grant(const struct diwarp_qp *qp)
{
    if (budget_is_spent(qp))
        return false;
    dw_list_foreach (it, &qp->want) {
        const struct dw_sink *sink = dw_container(it, struct dw_sink, want_link);
        if (may_be_granted(sink))
            return grantable(sink) > 0;
    }
    return false;
}

void dw_rdma_grant(struct diwarp_qp *qp, uint64_t now_ns)
{
    if (budget_is_spent(qp))
        return;
    dw_list_foreach (it, &qp->want) {
        struct dw_sink *sink = dw_container(it, struct dw_sink, want_link);
        if (!may_be_granted(sink)) {
            park_if_it_waits(sink);
            continue;
        }
        if (!grant(sink, now_ns))
            return; /* younger ones wait behind it */
        dw_sink_send_status(sink, NULL, 0);
    }
}

void dw_sink_set_aside(struct dw_sink *sink)
{
    if (sink->aside || sink->peer->sinks_aside == DW_SINKS_ASIDE_MAX)
        return;
    sink->aside = true;
    sink->peer->sinks_aside++;
    dw_sink_add_due(sink, -(int64_t)dw_record_sink_due_bytes(&sink->record));
    sink->peer->qp->granted_records -= sink->counted;
}

void dw_sink_take_back(struct dw_sink *sink)
{
    if (!sink->aside)
        return;
    sink->aside = false;
    dw_sink_add_due(sink, dw_record_sink_due_bytes(&sink->record));
    sink->peer->qp->granted_records += sink->counted;
    if (--sink->peer->sinks_aside > 0)
        return;
    dw_list_foreach (it, &sink->peer->sinks)
        unpark(dw_container(it, struct dw_sink, peer_link));
}
