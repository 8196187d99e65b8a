/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Grants: what may be under way to the sinks of a port. All share its budget, the room in our
 * receive buffer; those of a peer its record window, the room on the way from there.
 */
#include "common/record/grant.h"

/* No grant below this part of the budget, unless it ends the record: each costs a datagram. */
#define GRANT_MIN_SHARE_DEN 4
/* What a record takes of the budget at least: its datagram's truesize in our receive buffer. */
#define RECORD_MIN_BYTES 1024

static uint32_t due_of(const struct dw_sink *sink)
{
    return dw_record_sink_due_bytes(&sink->record);
}

static bool budget_is_spent(const struct dw_records *records)
{
    return records->granted_bytes >= records->grant_budget_long_bytes ||
           (uint64_t)records->granted_records * RECORD_MIN_BYTES >= records->grant_budget_bytes;
}

uint32_t dw_grant_window_bytes(const struct dw_record_peer *peer)
{
    uint64_t window = dw_recordwin_bytes(peer->win, dw_record_payload_bytes(peer));
    uint32_t budget = peer->ah->peer_datagram_bytes < DW_LLP_LONG_BYTES
                          ? peer->records->grant_budget_bytes
                          : peer->records->grant_budget_long_bytes;
    return window < budget ? (uint32_t)window : budget;
}

bool dw_grants_are_whole(const struct dw_record_peer *peer)
{
    return dw_grant_window_bytes(peer) / GRANT_MIN_SHARE_DEN >= dw_record_payload_bytes(peer);
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
    const struct dw_record_peer *peer = sink->peer;
    uint32_t window = dw_grant_window_bytes(peer);
    if (peer->win.awaited && (uint64_t)peer->due_bytes + window / GRANT_MIN_SHARE_DEN > window)
        return 0;
    return share(sink, window, peer->due_bytes);
}

static uint32_t share_of_budget(const struct dw_sink *sink)
{
    const struct dw_records *records = sink->peer->records;
    if (!sink->long_datagrams)
        return share(sink, records->grant_budget_bytes, records->granted_bytes);
    /* The others take as much more of the buffer. */
    const uint64_t others = (records->granted_bytes - records->granted_long_bytes) *
                            records->grant_budget_long_bytes / records->grant_budget_bytes;
    return share(sink, records->grant_budget_long_bytes, records->granted_long_bytes + others);
}

/* What may be granted to the sink now; 0: wait. */
static uint32_t grantable(const struct dw_sink *sink)
{
    uint32_t of_budget = share_of_budget(sink);
    uint32_t of_window = share_of_window(sink);
    return of_budget < of_window ? of_budget : of_window;
}

static void add_due(struct dw_sink *sink, int64_t bytes)
{
    if (dw_grant_is_free(sink))
        return;
    struct dw_records *records = sink->peer->records;
    records->granted_bytes += (uint64_t)bytes;
    if (sink->long_datagrams)
        records->granted_long_bytes += (uint64_t)bytes;
    sink->peer->due_bytes += (uint32_t)bytes;
}

/* Something is due of the sink, or not any more. */
static void count_record(struct dw_sink *sink, int count)
{
    if (!dw_grant_is_free(sink))
        sink->peer->records->granted_records += (uint32_t)count;
}

static void give(struct dw_sink *sink, uint32_t bytes, uint64_t now_ns)
{
    /* Nothing was due: the silence until now was ours. */
    if (!due_of(sink))
        sink->record.heard_ns = now_ns;
    sink->record.granted += bytes;
    add_due(sink, bytes);
    if (sink->record.granted == sink->record.total)
        dw_sink_set_state(sink, DW_SINK_GRANTED);
    dw_sink_arm(sink);
}

static bool grant(struct dw_sink *sink, uint64_t now_ns)
{
    const bool counted = due_of(sink) && !sink->aside;
    uint32_t bytes = counted || !budget_is_spent(sink->peer->records) ? grantable(sink) : 0;
    if (!bytes)
        return false;
    count_record(sink, !counted);
    give(sink, bytes, now_ns);
    return true;
}

/* A write was opened by the source itself; of a read it knows once the request has left. A grant
 * that overtakes the request would be lost until the time-out. */
static bool is_known_to_source(const struct dw_sink *sink)
{
    const struct dw_record_peer *peer = sink->peer;
    return sink->region || peer->records->ops->has_left(peer, sink->request_psn);
}

/* One that is silent is not granted more before what it has been granted goes on. */
static bool may_be_granted(const struct dw_sink *sink)
{
    return is_known_to_source(sink) && !sink->peer->sinks_aside && share_of_window(sink) > 0;
}

/* Every run walks the list: what waits for a silent peer, or for room in a peer's window, which may
 * be thousands, is not in it meanwhile. */
static void park_if_it_waits(struct dw_sink *sink)
{
    bool full = !share_of_window(sink);
    if (!sink->peer->sinks_aside && !full)
        return;
    sink->peer->win.awaited = true;
    dw_sink_set_state(sink, DW_SINK_PARKED);
}

/* As many as the window now has room for, the oldest first, once those before them have theirs. So
 * what is under way, which is passed over, is so for a good part of the window each time. */
static void unpark_some(struct dw_record_peer *peer)
{
    uint32_t window = dw_grant_window_bytes(peer), least = window / GRANT_MIN_SHARE_DEN;
    if (peer->sinks_wanting || peer->sinks_aside || (uint64_t)peer->due_bytes + least > window)
        return;
    uint32_t room = window - least - peer->due_bytes; /* beyond it they would be parked again */
    dw_list_foreach (it, &peer->sinks) {
        struct dw_sink *sink = dw_container(it, struct dw_sink, peer_link);
        /* Requests leave in order: of our own reads, none behind this one has left. */
        if (sink->state == DW_SINK_ASKING && !peer->asked_count)
            break;
        if (sink->state != DW_SINK_PARKED)
            continue;
        uint32_t left = sink->record.total - sink->record.granted;
        dw_sink_set_state(sink, DW_SINK_WANTING);
        if (left >= room)
            return;
        room -= left;
    }
    peer->win.awaited = false;
}

void dw_grant_on_came(struct dw_sink *sink, uint32_t bytes)
{
    add_due(sink, -(int64_t)bytes);
    /* Nothing of it is under way: others may have its place. */
    if (bytes && !due_of(sink))
        count_record(sink, -1);
    if (sink->peer->win.awaited)
        unpark_some(sink->peer);
}

uint32_t dw_grant_first(struct dw_sink *sink, uint64_t now_ns)
{
    struct dw_records *records = sink->peer->records;
    if (dw_grant_is_free(sink)) {
        give(sink, sink->record.total, now_ns);
        return sink->record.granted;
    }
    if (sink->peer->win.awaited || sink->peer->sinks_aside || budget_is_spent(records))
        return 0;
    /* Those before it come first, but for what cannot be told yet. */
    dw_list_foreach (it, &records->want) {
        struct dw_sink *older = dw_container(it, struct dw_sink, want_link);
        if (older == sink)
            break;
        if (may_be_granted(older))
            return 0;
        park_if_it_waits(older);
    }
    (void)grant(sink, now_ns);
    return sink->record.granted;
}

bool dw_grant_is_due(const struct dw_records *records)
{
    if (budget_is_spent(records))
        return false;
    dw_list_foreach (it, &records->want) {
        const struct dw_sink *sink = dw_container(it, struct dw_sink, want_link);
        if (may_be_granted(sink))
            return grantable(sink) > 0;
    }
    return false;
}

static void grant_in_turn(struct dw_records *records, uint64_t now_ns)
{
    if (budget_is_spent(records))
        return;
    dw_list_foreach (it, &records->want) {
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

/* Who polls rarely while records are under way gets more of them for each poll. */
static void fit_budgets(struct dw_records *records, uint64_t now_ns)
{
    const bool absent = records->left_some && now_ns - records->ran_ns >= DW_AWAY_NS;
    const bool rarely = records->granted_records && (records->polled_rarely || absent);
    if (rarely == records->polled_rarely)
        return;
    records->polled_rarely = rarely;
    dw_records_size_budgets(records);
}

void dw_grant_run(struct dw_records *records, uint64_t now_ns)
{
    fit_budgets(records, now_ns);
    grant_in_turn(records, now_ns);
    records->ran_ns = now_ns;
    records->left_some = records->granted_records > 0;
}

void dw_grant_set_aside(struct dw_sink *sink)
{
    const uint32_t due = due_of(sink);
    if (sink->aside || sink->peer->sinks_aside == DW_SINKS_ASIDE_MAX)
        return;
    sink->aside = true;
    sink->peer->sinks_aside++;
    add_due(sink, -(int64_t)due);
    count_record(sink, -(due > 0));
}

void dw_grant_take_back(struct dw_sink *sink)
{
    const uint32_t due = due_of(sink);
    if (!sink->aside)
        return;
    sink->aside = false;
    add_due(sink, due);
    count_record(sink, due > 0);
    if (--sink->peer->sinks_aside == 0)
        unpark_some(sink->peer);
}
