/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Grants: what may be under way to the sinks of a port. All share its budget, the room in our
 * receive buffer; those of a peer its record window, the room on the way from there.
 */
#include "common/rd/parts.h"

#include <assert.h>
#include <errno.h>

/* Of the socket's buffer the part that is left to eager datagrams; and of what may be under way,
 * that of the least grant, unless it ends its record, for each costs a datagram. */
#define PART_DEN 4
/* Under way for all records: not divided among them, so that the oldest record is whole soonest.
 * More would fall out of the cache on its way; half does not fill long paths. */
#define RECORD_WINDOW_BYTES (1u << 20)

/* ---- budgets ---- */

static uint32_t mtu_max_bytes(const struct dw_port *port, uint64_t budget, uint64_t long_budget)
{
    bool longs =
        dw_datagram_max_bytes(port, AF_INET6, (uint32_t)(long_budget / 2)) >= DW_LLP_LONG_BYTES;
    uint64_t half = (longs ? long_budget : budget) / 2;
    /* Where two do not fit, a large one does better than one small one at a time. */
    if (half > DW_LLP_TRAIN_BYTES ||
        2 * (uint64_t)dw_llp_truesize((uint32_t)half) > port->datagrams.llp->rcvbuf_bytes)
        return UINT32_MAX;
    return (uint32_t)half;
}

static uint32_t within_window(uint64_t payload, uint32_t window)
{
    if (payload < DW_INLINE_WRITE_BYTES)
        payload = DW_INLINE_WRITE_BYTES;
    return window < payload ? window : (uint32_t)payload;
}

void dw_records_size_budgets(struct dw_records *records)
{
    struct dw_port *port = records->port;
    const struct diwarp_device_attr *attr = &port->device->attr;
    records->eager_budget_bytes = port->datagrams.llp->rcvbuf_bytes / PART_DEN;
    /* The kernel charges truesize: what is left for payload depends on the datagram. Of those that
     * are not long, plan for those of MTU 1500. */
    const uint64_t truesize = port->datagrams.llp->rcvbuf_bytes - records->eager_budget_bytes;
    uint64_t payload = truesize * 1400 / dw_llp_truesize(1472);
    uint64_t long_payload =
        truesize * (DW_LLP_LONG_BYTES - 72) / dw_llp_truesize(DW_LLP_LONG_BYTES);
    uint32_t window = attr->record_window_bytes;
    if (!window)
        window = attr->shared_cores || records->polled_rarely ? DW_RECORD_TURN_BYTES
                                                              : RECORD_WINDOW_BYTES;
    if (port->mtu_max_bytes == UINT32_MAX)
        port->mtu_max_bytes = mtu_max_bytes(port, payload, long_payload);
    records->grant_budget_bytes = within_window(payload, window);
    records->grant_budget_long_bytes = within_window(long_payload, window);
}

/* ---- records and peers ---- */

void dw_records_init(struct dw_records *records, struct dw_port *port)
{
    records->port = port;
    records->counters = &port->datagrams.counters;
    records->next_id = port->device->env.first_serial;
    dw_map_init(&records->sinks, dw_device_random(port->device));
    dw_map_init(&records->sources, dw_device_random(port->device));
    dw_list_init(&records->want);
    dw_list_init(&records->ready);
    dw_list_init(&records->held);
    dw_records_size_budgets(records);
}

void dw_records_fini(struct dw_records *records)
{
    dw_map_fini(&records->sinks);
    dw_map_fini(&records->sources);
}

uint32_t dw_record_next_id(const struct dw_record_peer *peer, uint32_t from_source)
{
    struct dw_records *records = peer->records;
    const struct dw_map *map = from_source ? &records->sources : &records->sinks;
    uint32_t id;
    do {
        id = ++records->next_id & ~DW_RECORD_ID_FROM_SOURCE;
    } while (!id || dw_map_get(map, dw_record_key(peer, id | from_source)));
    return id | from_source;
}

/* ---- states ---- */

void dw_sink_set_state(struct dw_sink *sink, enum dw_sink_state state)
{
    static const bool may_follow[DW_SINK_STATES][DW_SINK_STATES] = {
        [DW_SINK_ASKING] =
            {[DW_SINK_WANTING] = true, [DW_SINK_GRANTED] = true, [DW_SINK_ENDED] = true},
        [DW_SINK_WANTING] =
            {[DW_SINK_PARKED] = true, [DW_SINK_GRANTED] = true, [DW_SINK_ENDED] = true},
        [DW_SINK_PARKED] = {[DW_SINK_WANTING] = true, [DW_SINK_ENDED] = true},
        [DW_SINK_GRANTED] = {[DW_SINK_HELD] = true, [DW_SINK_ENDED] = true},
        [DW_SINK_HELD] = {[DW_SINK_ENDED] = true},
    };
    struct dw_record_peer *peer = sink->peer;
    assert(may_follow[sink->state][state]);
    if (sink->state == DW_SINK_WANTING) {
        peer->sinks_wanting--;
        dw_list_remove(&sink->want_link);
    }
    sink->state = (uint8_t)state;
    if (state == DW_SINK_WANTING) {
        peer->sinks_wanting++;
        dw_list_append(&peer->records->want, &sink->want_link);
    }
}

void dw_source_set_state(struct dw_source *source, enum dw_source_state state)
{
    static const bool may_follow[DW_SOURCE_STATES][DW_SOURCE_STATES] = {
        [DW_SOURCE_WAITING] = {[DW_SOURCE_READY] = true, [DW_SOURCE_ENDED] = true},
        [DW_SOURCE_READY] = {[DW_SOURCE_WAITING] = true, [DW_SOURCE_ENDED] = true},
    };
    assert(may_follow[source->state][state]);
    source->state = (uint8_t)state;
    if (state == DW_SOURCE_READY)
        dw_list_append(&source->peer->records->ready, &source->ready_link);
    else
        dw_list_remove(&source->ready_link);
}

/* ---- what a sink tells and waits for ---- */

void dw_sink_on_requested(struct dw_record_peer *peer, uint32_t id, uint32_t psn)
{
    struct dw_sink *sink = dw_sink_of(peer, id);
    if (!sink || (sink->state != DW_SINK_ASKING && sink->state != DW_SINK_GRANTED))
        return;
    sink->request_psn = psn;
    if (sink->state == DW_SINK_ASKING)
        dw_sink_set_state(sink, DW_SINK_WANTING);
}

void dw_sink_send_status(struct dw_sink *sink, const struct dw_range *missing, unsigned count)
{
    struct dw_record_control status = {
        .kind = DW_RECORD_STATUS,
        .id = sink->id,
        .range_count = (uint16_t)count,
        .granted = sink->record.granted,
    };
    for (unsigned i = 0; i < count; i++)
        status.ranges[i] = (struct dw_record_range){missing[i].start, missing[i].end};
    dw_list_remove(&sink->held_link);
    if (dw_control_record(dw_peer_of_records(sink->peer), sink->qpns, &status) == -EAGAIN)
        dw_list_append(&sink->peer->records->held, &sink->held_link);
    else
        sink->peer->records->counters->tx_record_status++;
}

void dw_sinks_tell_held(struct dw_records *records)
{
    const struct dw_record_peer *full = NULL;
    unsigned refusals = 0;
    dw_foreach (sink, struct dw_sink, held_link, &records->held) {
        if (sink->peer == full) /* another may have a socket of its own */
            continue;
        dw_sink_send_status(sink, NULL, 0);
        if (!dw_list_linked(&sink->held_link))
            continue;
        full = sink->peer;
        if (++refusals == DW_REFUSALS_PER_RUN)
            return;
    }
}

uint64_t dw_sink_rto_ns(const struct dw_sink *sink)
{
    return dw_peer_rto_ns(dw_peer_of_records(sink->peer), sink->record.backoff);
}

void dw_sink_arm(struct dw_sink *sink)
{
    if (!sink->timer.slot)
        dw_heap_set(&sink->peer->records->port->timers, &sink->timer,
                    sink->record.heard_ns + dw_sink_rto_ns(sink));
}

/* ---- grants ---- */

static uint32_t due_of(const struct dw_sink *sink)
{
    return dw_record_sink_due_bytes(&sink->record);
}

static bool budget_is_spent(const struct dw_records *records)
{
    return records->granted_bytes >= records->grant_budget_long_bytes ||
           (uint64_t)records->granted_records * dw_llp_truesize(DW_RECORD_OVERHEAD_BYTES) >=
               records->grant_budget_bytes;
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
    return dw_grant_window_bytes(peer) / PART_DEN >= dw_record_payload_bytes(peer);
}

/* Of a bound, what is granted already and what the sink lacks; 0: wait. */
static uint32_t share(const struct dw_sink *sink, uint32_t bound, uint64_t granted)
{
    uint32_t room = granted < bound ? bound - (uint32_t)granted : 0;
    uint32_t left = sink->record.total - sink->record.granted;
    if (room >= left)
        return left;
    if (room < bound / PART_DEN)
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
    if (peer->win.awaited && (uint64_t)peer->due_bytes + window / PART_DEN > window)
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
 * that overtakes the request would be lost until the time-out. One that is silent is not granted
 * more before what it has been granted goes on. */
static bool may_be_granted(const struct dw_sink *sink)
{
    const struct dw_record_peer *peer = sink->peer;
    const uint32_t next_psn = dw_peer_of_records(sink->peer)->sendwin.next_psn;
    const bool known = sink->region || dw_serial_before(sink->request_psn, next_psn);
    return known && !peer->sinks_aside && share_of_window(sink) > 0;
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
    uint32_t window = dw_grant_window_bytes(peer), least = window / PART_DEN;
    if (peer->sinks_wanting || peer->sinks_aside || (uint64_t)peer->due_bytes + least > window)
        return;
    uint32_t room = window - least - peer->due_bytes; /* beyond it they would be parked again */
    dw_foreach (sink, struct dw_sink, peer_link, &peer->sinks) {
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
    dw_foreach (older, struct dw_sink, want_link, &records->want) {
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
    dw_foreach (sink, const struct dw_sink, want_link, &records->want) {
        if (may_be_granted(sink))
            return grantable(sink) > 0;
    }
    return false;
}

static void grant_in_turn(struct dw_records *records, uint64_t now_ns)
{
    if (budget_is_spent(records))
        return;
    dw_foreach (sink, struct dw_sink, want_link, &records->want) {
        if (!may_be_granted(sink)) {
            park_if_it_waits(sink);
            continue;
        }
        if (!grant(sink, now_ns))
            return; /* younger ones wait behind it */
        dw_sink_send_status(sink, NULL, 0);
    }
}

void dw_grant_run(struct dw_records *records, uint64_t now_ns)
{
    /* Who polls rarely while records are under way gets more of them for each poll. */
    const bool absent = records->left_some && now_ns - records->granted_ns >= DW_AWAY_NS;
    const bool rarely = records->granted_records && (records->polled_rarely || absent);
    if (rarely != records->polled_rarely) {
        records->polled_rarely = rarely;
        dw_records_size_budgets(records);
    }
    grant_in_turn(records, now_ns);
    records->granted_ns = now_ns;
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
