/* SPDX-License-Identifier: BSD-3-Clause */
/* Grants: what may be under way to the sinks of a port. All share its budget, the room in our
 * receive buffer; those of a peer its record window, the room on the way from there. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/record/records.h"

/* A quarter of the socket's buffer is left to eager datagrams; and no grant is less than a quarter
 * of the bound, unless it completes its record: each costs a datagram, the STATUS. */
#define PART_DEN 4
/* Under way for all records: not divided among them, so that the oldest record is whole soonest.
 * More would fall out of the cache on its way; half does not fill long paths. */
#define RECORD_WINDOW_BYTES (1u << 20)
/* Records from this on come by several ways: a train by each of two. */
#define SPLIT_MIN_BYTES (2 * DW_LLP_TRAIN_BYTES)
/* Half: twice the grants, each a datagram; twice: bursts of 60 kB at 250 Mb/s, beyond what many a
 * port holds. */
#define BURST_NS 1000000u
/* Half: the end of records waits twice as often for a way that is slow; twice: one that has become
 * faster is idle for twice as long. */
#define IDLE_DEN 4

void dw_records_size_budgets(struct dw_records *records)
{
    struct dw_port *port = records->port;
    const struct diwarp_device_attr *attr = &port->device->attr;
    const uint32_t rcvbuf_bytes = port->datagrams.llp->rcvbuf_bytes;
    const bool seldom = attr->shared_cores || records->polled_rarely;
    records->eager_budget_bytes = rcvbuf_bytes / PART_DEN;
    records->grant_budget_bytes = rcvbuf_bytes - records->eager_budget_bytes;
    records->window_bytes = attr->record_window_bytes ? attr->record_window_bytes
                            : seldom                  ? DW_RECORD_TURN_BYTES
                                                      : RECORD_WINDOW_BYTES;
    /* Two of the longest datagrams are to be under way, one sent while one is received. Where two
     * do not fit, a large one at a time does better than a small one. */
    const uint64_t half = records->grant_budget_bytes / 2;
    const uint32_t like = half < dw_llp_truesize(DW_LLP_LONG_BYTES) ? 1472 : DW_LLP_LONG_BYTES;
    const uint64_t bytes =
        half * (like - dw_record_overhead_bytes(records)) / dw_llp_truesize(like);
    if (port->mtu_max_bytes == UINT32_MAX && bytes <= DW_LLP_TRAIN_BYTES &&
        2 * dw_llp_truesize((uint32_t)bytes) <= rcvbuf_bytes)
        port->mtu_max_bytes = (uint32_t)bytes;
}

/* Its records from now on come by several ways. NULL: no memory. */
static struct dw_record_way *make_ways(struct dw_record_peer *peer)
{
    struct dw_record_way *ways = calloc(dw_record_ways_count(peer->records), sizeof *ways);
    if (!ways || dw_map_put(&peer->records->ways, peer->index, ways)) {
        free(ways);
        return NULL;
    }
    peer->by_ways = true;
    ways->heard_ns = peer->contact.heard_ns;
    dw_foreach (sink, struct dw_record, link, &peer->ends)
        if (sink->is_sink)
            sink->ways = ways;
    return ways;
}

void dw_record_ways_free(struct dw_record_peer *peer)
{
    if (peer->by_ways)
        free(dw_map_remove(&peer->records->ways, peer->index));
    peer->by_ways = false;
}

/* What comes by one of several ways before it is the turn of another, in one burst: what that way
 * takes a millisecond for, but no more than a train, and no less than a few datagrams. */
static uint32_t stripe_bytes(const struct dw_record *sink, uint8_t way)
{
    const uint32_t payload = dw_record_payload_bytes(sink->peer);
    const uint32_t pace = way ? sink->ways[way].ns_per_kib : 0;
    const uint32_t least = DW_RECORDWIN_BURST * payload;
    uint32_t bytes = pace ? (BURST_NS << 10) / pace : DW_LLP_TRAIN_BYTES;
    bytes = bytes > least ? bytes : least;
    bytes = bytes < DW_LLP_TRAIN_BYTES ? bytes : DW_LLP_TRAIN_BYTES;
    return bytes > payload ? bytes - bytes % payload : payload;
}

/* As little is worth a grant by that way. */
static uint64_t least_charge(const struct dw_record *sink, uint8_t way, uint64_t least)
{
    const uint64_t most =
        sink->in.stripes ? dw_record_charge(sink, stripe_bytes(sink, way)) : least;
    return least < most ? least : most;
}

/* Of a bound, of which so much is due already, what the sink may have: at least so much, or all
 * that is left of it; 0: wait. */
static uint32_t share(const struct dw_record *sink, uint64_t bound, uint64_t due, uint64_t least)
{
    const uint64_t room = due < bound ? ((bound - due) << 10) / sink->cost_per_kib : 0;
    const uint32_t left = sink->in.total - sink->in.granted;
    if (room >= left)
        return left;
    if (due + least > bound)
        return 0;
    /* Whole datagrams: a remainder would travel in one of its own. */
    const uint32_t payload = dw_record_payload_bytes(sink->peer);
    return (uint32_t)(room > payload ? room - room % payload : room);
}

/* Charged, by that way. */
static uint64_t due_by(const struct dw_record *sink, uint8_t way)
{
    if (way)
        return dw_record_charge(sink, sink->ways[way].due_bytes);
    uint64_t others = 0;
    for (unsigned i = 1; sink->ways && i < dw_record_ways_count(sink->peer->records); i++)
        others += dw_record_charge(sink, sink->ways[i].due_bytes);
    return sink->peer->due_bytes > others ? sink->peer->due_bytes - others : 0;
}

/* Of the window of what comes by that way. */
static uint32_t share_of_way(const struct dw_record *sink, uint8_t way)
{
    const struct dw_record_peer *peer = sink->peer;
    const uint64_t each = dw_llp_truesize(peer->ah->peer_datagram_bytes);
    const uint32_t payload = dw_record_payload_bytes(peer);
    const struct dw_recordwin *win = dw_sink_win(sink, way);
    return share(sink, dw_recordwin_datagrams(win, payload) * each, due_by(sink, way),
                 least_charge(sink, way, dw_recordwin_part_datagrams(win, payload) * each));
}

/* What the sink may have next, and by which way. */
struct choice {
    uint8_t way;
    uint32_t bytes;
};

static struct choice by_current(const struct dw_record *sink, uint32_t most)
{
    const uint32_t bytes = share_of_way(sink, 0);
    return (struct choice){.bytes = bytes < most ? bytes : most};
}

/* When so much more would have come by that way, as fast as what came before; less a quarter of
 * the time that it has been idle, for it may have become faster. */
static uint64_t done_ns(const struct dw_record *sink, uint8_t way, uint32_t bytes)
{
    const struct dw_record_way *its = &sink->ways[way];
    const uint64_t ns = ((uint64_t)its->due_bytes + bytes) * its->ns_per_kib >> 10;
    const uint64_t idle_ns =
        its->due_bytes ? 0 : (sink->peer->records->port->ran_ns - its->came_ns) / IDLE_DEN;
    return ns > idle_ns ? ns - idle_ns : 0;
}

uint8_t dw_grant_soonest_way(const struct dw_record *sink, uint32_t bytes)
{
    const struct dw_ways *ways = sink->peer->ah->ways;
    const unsigned together = dw_ways_together(ways);
    uint8_t soonest = 0;
    for (unsigned i = 0; together >> i; i++) {
        const uint8_t way = dw_path_number(ways->paths[i]);
        const bool sooner = !soonest || done_ns(sink, way, bytes) < done_ns(sink, soonest, bytes);
        if (together >> i & 1 && sooner)
            soonest = way;
    }
    return soonest;
}

/* The way by which it comes soonest, of those that have room; none, where it comes much sooner by
 * one that will have some. */
static struct choice by_one_of(const struct dw_record *sink, unsigned together)
{
    const struct dw_ways *ways = sink->peer->ah->ways;
    const uint32_t left = sink->in.total - sink->in.granted;
    uint64_t soonest_ns = DW_NEVER, best_ns = DW_NEVER;
    struct choice best = {0};
    for (unsigned i = 0; together >> i; i++) {
        if (!(together >> i & 1))
            continue;
        const uint8_t way = dw_path_number(ways->paths[i]);
        const uint32_t bytes = share_of_way(sink, way), most = stripe_bytes(sink, way);
        const uint64_t ns = done_ns(sink, way, most);
        if (bytes < most && bytes < left)
            dw_recordwin_on_full(dw_sink_win(sink, way));
        if (ns < soonest_ns)
            soonest_ns = ns;
        if (!bytes || ns >= best_ns)
            continue;
        best = (struct choice){.way = way, .bytes = bytes < most ? bytes : most};
        best_ns = ns;
    }
    return best_ns / 3 * 2 > soonest_ns ? (struct choice){0} : best;
}

/* The source of a read is to have sent something of its first stripe before it gets more, for else
 * a grant may come by another way before the request. */
static struct choice choose(struct dw_record *sink)
{
    const struct dw_ways *ways = sink->peer->ah->ways;
    const bool known = sink->region || sink->in.map.bytes;
    const unsigned together = sink->in.total >= SPLIT_MIN_BYTES ? dw_ways_together(ways) : 0;
    if (together && !known)
        return by_current(sink, sink->in.granted ? 0 : stripe_bytes(sink, 0));
    const bool split =
        together && (sink->ways || make_ways(sink->peer)) && dw_record_sink_split(&sink->in);
    if (!sink->in.stripes)
        return by_current(sink, UINT32_MAX);
    if (!dw_stripes_may_add(sink->in.stripes))
        return (struct choice){0};
    if (split)
        return by_one_of(sink, together);
    const struct choice choice = by_current(sink, stripe_bytes(sink, 0));
    if (choice.bytes < stripe_bytes(sink, 0))
        dw_recordwin_on_full(&sink->peer->win);
    return choice;
}

static uint32_t share_of_budget(const struct dw_record *sink)
{
    const struct dw_records *records = sink->peer->records;
    const uint64_t window = dw_record_charge(sink, records->window_bytes);
    const uint64_t budget = records->grant_budget_bytes;
    const uint64_t bound = window < budget ? window : budget;
    return share(sink, bound, records->due_bytes, least_charge(sink, 0, bound / PART_DEN));
}

/* What may be granted to the sink now; 0 bytes: wait. */
static struct choice grantable(struct dw_record *sink)
{
    struct choice choice = choose(sink);
    const uint32_t of_budget = share_of_budget(sink);
    if (!sink->in.stripes && choice.bytes <= of_budget &&
        choice.bytes < sink->in.total - sink->in.granted)
        dw_recordwin_on_full(&sink->peer->win);
    if (choice.bytes > of_budget)
        choice.bytes = of_budget;
    return choice;
}

static struct dw_record *oldest_wanting(const struct dw_record_peer *peer)
{
    return dw_container(peer->want.next, struct dw_record, turn_link);
}

/* Puts the peer's oldest sink that wants a grant among those whose turn each run looks at, unless
 * the peer is set aside or its window has no room for the least grant. Younger sinks wait with it:
 * small records, one after the other, would use up that room. */
static void take_turn(struct dw_record_peer *peer)
{
    if (dw_list_empty(&peer->want))
        return;
    struct dw_record *sink = oldest_wanting(peer);
    dw_list_remove(&sink->grant_link);
    if (peer->aside)
        return;
    if (choose(sink).bytes)
        dw_list_append(&peer->records->want, &sink->grant_link);
    else if (!sink->in.stripes)
        dw_recordwin_on_full(&peer->win);
}

void dw_record_set_state(struct dw_record *record, enum dw_record_state state)
{
    static const bool may_follow[DW_RECORD_STATES][DW_RECORD_STATES] = {
        [DW_RECORD_ASKING] = {[DW_RECORD_WANTING] = true, [DW_RECORD_GRANTED] = true},
        [DW_RECORD_WANTING] = {[DW_RECORD_GRANTED] = true},
        [DW_RECORD_GRANTED] = {[DW_RECORD_HELD] = true},
        [DW_RECORD_WAITING] = {[DW_RECORD_READY] = true},
        [DW_RECORD_READY] = {[DW_RECORD_WAITING] = true},
    };
    struct dw_record_peer *peer = record->peer;
    assert(may_follow[record->state][state] || state == DW_RECORD_ENDED); /* any state may end */
    bool next = record->state == DW_RECORD_WANTING && dw_list_linked(&record->grant_link);
    dw_list_remove(&record->turn_link);
    if (next)
        dw_list_remove(&record->grant_link);
    record->state = (uint8_t)state;
    if (state == DW_RECORD_READY)
        dw_list_append(&peer->records->ready, &record->turn_link);
    if (state == DW_RECORD_WANTING) {
        next |= dw_list_empty(&peer->want);
        dw_list_append(&peer->want, &record->turn_link);
    }
    if (next) /* younger ones do not move the oldest of the peer from its place */
        take_turn(peer);
}

void dw_grant_on_requested(struct dw_record_peer *peer, uint32_t id)
{
    struct dw_record *sink = dw_sink_of(peer, id);
    if (sink && sink->state == DW_RECORD_ASKING)
        dw_record_set_state(sink, DW_RECORD_WANTING);
}

/* What is due of the sink has become more or less. */
static void add_due(struct dw_record *sink, uint32_t before)
{
    struct dw_record_peer *peer = sink->peer;
    const uint32_t due = dw_record_sink_due_bytes(&sink->in);
    const uint64_t more = dw_record_charge(sink, due) - dw_record_charge(sink, before);
    if (dw_grant_is_free(sink))
        return;
    peer->due_bytes += (uint32_t)more;
    if (!peer->aside)
        peer->records->due_bytes += more;
    else
        peer->aside = peer->due_bytes; /* nothing is to come that could take it back */
}

void dw_grant_on_came(struct dw_record *sink, uint32_t bytes)
{
    struct dw_record_peer *peer = sink->peer;
    add_due(sink, dw_record_sink_due_bytes(&sink->in) + bytes);
    if (!dw_list_empty(&peer->want) && !dw_list_linked(&oldest_wanting(peer)->grant_link))
        take_turn(peer);
}

void dw_grant_end(struct dw_record *sink)
{
    const uint32_t due = dw_record_sink_due_bytes(&sink->in);
    struct dw_stripes *stripes = sink->in.stripes;
    for (unsigned i = 0; stripes && i < stripes->count; i++)
        dw_sink_less_due(sink, stripes->list[i].way, stripes->list[i].due_bytes);
    free(stripes);
    sink->in.stripes = NULL;
    dw_open_fence();
    sink->in.granted = (uint32_t)sink->in.map.bytes;
    dw_heap_set(&sink->peer->records->port->timers, &sink->timer, DW_NEVER);
    dw_grant_on_came(sink, due);
}

void dw_grant_set_aside(struct dw_record_peer *peer, bool aside)
{
    if (peer->aside == aside || !peer->due_bytes)
        return;
    peer->aside = aside;
    if (aside)
        peer->records->due_bytes -= peer->due_bytes;
    else
        peer->records->due_bytes += peer->due_bytes;
    take_turn(peer);
}

bool dw_sink_send_status(const struct dw_record *sink, struct dw_record_control *status,
                         uint8_t way, uint32_t granted, unsigned missing)
{
    const struct dw_records *records = sink->peer->records;
    status->kind = DW_RECORD_STATUS;
    status->status = DW_STATUS_OK;
    status->range_count = (uint16_t)missing;
    status->id = sink->id;
    status->granted = granted;
    if (sink->in.stripes && !missing) { /* it tells what may be sent by this way, and no more */
        status->ranges[0] = (struct dw_range){sink->in.granted, granted};
        status->range_count = 1;
    }
    const bool full = records->ops->send_status(sink->peer, sink->qpns, way, status) == -EAGAIN;
    records->counters->tx_record_status += !full;
    return !full;
}

/* Of the current way: a time-out from when bytes last came by it, or from when the sink was last
 * found late, if that is later. */
static uint64_t current_deadline_ns(const struct dw_record *sink)
{
    const uint64_t heard_ns = sink->in.stripes ? sink->ways[0].heard_ns : sink->in.heard_ns;
    const uint64_t from_ns = sink->late_ns > heard_ns ? sink->late_ns : heard_ns;
    return from_ns + sink->peer->records->ops->rto_ns(sink->peer, sink->in.backoff);
}

uint64_t dw_sink_way_deadline_ns(const struct dw_record *sink, uint8_t way)
{
    if (!way)
        return current_deadline_ns(sink);
    const struct dw_record_way *its = &sink->ways[way];
    const uint64_t rto_min_ns = sink->peer->records->port->device->attr.rto_min_ns;
    const uint64_t srtt_ns = its->rtt.srtt_ns;
    /* Between two stripes of a way the peer sends by others. */
    const uint64_t train_ns = (uint64_t)DW_LLP_TRAIN_BYTES * its->ns_per_kib >> 10;
    if (its->asked_ns <= its->heard_ns)
        return its->heard_ns + rto_min_ns +
               (train_ns < DW_RTO_INITIAL_NS ? train_ns : DW_RTO_INITIAL_NS);
    /* It may be longer than the way by which the peer has answered. */
    const uint64_t answer_ns =
        its->asked_ns + (srtt_ns ? srtt_ns + srtt_ns / 2 : DW_RTO_INITIAL_NS);
    const uint64_t after_ns = its->alive_ns + rto_min_ns;
    if (its->alive_ns > its->asked_ns)
        return answer_ns > after_ns ? answer_ns : after_ns;
    return its->asked_ns + dw_rtt_rto_ns(&its->rtt, rto_min_ns, its->asked - 1u);
}

uint64_t dw_sink_stuck_ns(const struct dw_record *sink)
{
    const uint64_t rto_ns = sink->peer->records->ops->rto_ns(sink->peer, sink->in.backoff);
    const uint64_t from_ns = sink->late_ns > sink->in.heard_ns ? sink->late_ns : sink->in.heard_ns;
    return from_ns + (rto_ns > DW_RTO_INITIAL_NS ? rto_ns : DW_RTO_INITIAL_NS);
}

uint64_t dw_sink_deadline_ns(const struct dw_record *sink)
{
    const struct dw_stripes *stripes = sink->in.stripes;
    if (!stripes)
        return current_deadline_ns(sink);
    uint64_t first_ns = dw_sink_stuck_ns(sink);
    for (unsigned i = 0; i < stripes->count; i++) {
        const struct dw_stripe *stripe = &stripes->list[i];
        const uint64_t ns =
            stripe->due_bytes ? dw_sink_way_deadline_ns(sink, stripe->way) : DW_NEVER;
        first_ns = ns < first_ns ? ns : first_ns;
    }
    return first_ns;
}

void dw_sink_arm(struct dw_record *sink)
{
    struct dw_heap *timers = &sink->peer->records->port->timers;
    const uint64_t deadline_ns = dw_sink_deadline_ns(sink);
    if (dw_record_sink_due_bytes(&sink->in) &&
        (!sink->timer.slot || deadline_ns < sink->timer.deadline_ns))
        dw_heap_set(timers, &sink->timer, deadline_ns);
}

static void give(struct dw_record *sink, struct choice choice, uint64_t now_ns)
{
    struct dw_record_peer *peer = sink->peer;
    struct dw_record_way *way = sink->ways ? &sink->ways[choice.way] : NULL;
    const uint32_t due = dw_record_sink_due_bytes(&sink->in);
    if (!due) /* the silence until now was ours */
        sink->in.heard_ns = now_ns;
    if (way && !way->due_bytes)
        dw_sink_begin_way(sink, choice.way, now_ns);
    if (choice.way)
        way->due_bytes += choice.bytes;
    if (!sink->in.granted)
        sink->first_grant_bytes = choice.bytes;
    dw_record_sink_grant(&sink->in, choice.bytes, choice.way, dw_sink_next_order(sink));
    add_due(sink, due);
    if (sink->in.total >= SPLIT_MIN_BYTES)
        peer->records->ops->look_for_ways(peer, now_ns);
    if (sink->in.granted == sink->in.total)
        dw_record_set_state(sink, DW_RECORD_GRANTED); /* it is the next peer's turn */
    dw_sink_arm(sink);
}

uint32_t dw_grant_first(struct dw_record *sink, uint64_t now_ns)
{
    const struct dw_record_peer *peer = sink->peer;
    struct choice choice = {0};
    if (dw_grant_is_free(sink))
        choice.bytes = sink->in.total;
    else if (dw_list_empty(&peer->records->want) && dw_list_empty(&peer->want) && !peer->aside)
        choice = grantable(sink);
    if (choice.bytes)
        give(sink, choice, now_ns);
    return choice.bytes;
}

static struct dw_record *first_in_turn(const struct dw_records *records)
{
    return dw_container(records->want.next, struct dw_record, grant_link);
}

bool dw_grant_is_due(const struct dw_records *records)
{
    return !dw_list_empty(&records->want) && !records->refused &&
           share_of_budget(first_in_turn(records));
}

/* The source of a read knows of it: before grants are looked at, a run sends what has been begun. A
 * grant that overtakes the request would be lost until the time-out. */
static void grant_in_turn(struct dw_records *records, uint64_t now_ns)
{
    for (unsigned refusals = 0; !dw_list_empty(&records->want);) {
        struct dw_record *sink = first_in_turn(records);
        const struct choice choice = grantable(sink);
        struct dw_record_control status;
        if (choice.bytes &&
            dw_sink_send_status(sink, &status, choice.way, sink->in.granted + choice.bytes, 0)) {
            give(sink, choice, now_ns);
            continue;
        }
        if (!choice.bytes && choose(sink).bytes)
            return; /* all wait for budget */
        records->refused |= choice.bytes > 0;
        if (choice.bytes && ++refusals == DW_REFUSALS_PER_RUN)
            return;
        take_turn(sink->peer); /* behind the others; or, its window full, not at all */
    }
}

void dw_grant_run(struct dw_records *records, uint64_t now_ns)
{
    /* Who polls rarely while records are under way gets more of them for each poll. */
    const bool absent = records->granted_ns && now_ns - records->granted_ns >= DW_AWAY_NS;
    const bool rarely = records->due_bytes && (records->polled_rarely || absent);
    if (rarely != records->polled_rarely) {
        records->polled_rarely = rarely;
        dw_records_size_budgets(records);
    }
    records->refused = false;
    grant_in_turn(records, now_ns);
    records->granted_ns = records->due_bytes ? now_ns : 0;
}
