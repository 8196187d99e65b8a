/* SPDX-License-Identifier: BSD-3-Clause */
/* Sinks whose stripes come by several ways: what is due by which, what is lost on it, and the end
 * of a way that works no more. */
#include "common/record/records.h"

/* ---- what is lost ---- */

/* The first n ranges are lost on that way. */
static void count_lost(struct dw_record *sink, uint8_t way, const struct dw_range *missing,
                       unsigned n, uint64_t now_ns)
{
    const uint32_t payload = dw_record_payload_bytes(sink->peer);
    /* Bytes beyond the last that came may never have been sent: no sign of a queue. */
    for (unsigned i = 0; i < n && missing[i].start < dw_ranges_end(&sink->in.map); i++) {
        dw_recordwin_on_lost(dw_sink_win(sink, way),
                             (missing[i].end - missing[i].start - 1) / payload + 1, payload);
        sink->peer->records->ops->on_lost(sink->peer, now_ns);
    }
}

void dw_sink_ask_for(struct dw_record *sink, uint8_t way, struct dw_record_control *status,
                     unsigned n, uint64_t now_ns)
{
    if (!n)
        return;
    count_lost(sink, way, status->ranges, n, now_ns);
    /* What a full socket refuses is as good as lost: the timer asks again. */
    (void)dw_sink_send_status(sink, status, way, sink->in.granted, n);
}

uint32_t dw_sink_window_bytes(const struct dw_record *sink, uint8_t way)
{
    const uint32_t payload = dw_record_payload_bytes(sink->peer);
    return dw_recordwin_datagrams(dw_sink_win(sink, way), payload) * payload;
}

void dw_sink_ask_way(struct dw_record *sink, uint8_t way, uint64_t now_ns)
{
    struct dw_record_control status;
    const uint32_t order = dw_sink_next_order(sink);
    if (way) {
        sink->ways[way].order = order;
        sink->ways[way].overtaken = false;
    }
    const unsigned n =
        dw_record_sink_on_way_lost(&sink->in, way, order, dw_sink_window_bytes(sink, way),
                                   status.ranges, DW_RECORD_MAX_RANGES);
    dw_sink_ask_for(sink, way, &status, n, now_ns);
}

static void ask_before(struct dw_record *sink, const struct dw_stripe *came, bool once,
                       uint64_t now_ns)
{
    struct dw_record_control status;
    const unsigned n = dw_record_sink_on_way_overtaken(&sink->in, came->way, came->order, once,
                                                       dw_sink_next_order(sink), status.ranges,
                                                       DW_RECORD_MAX_RANGES);
    dw_sink_ask_for(sink, came->way, &status, n, now_ns);
}

/* A source serves requests in order. So once bytes of a stripe come by its way, all that was asked
 * for by that way before the stripe is lost: in this record, and at the end of the record before,
 * behind which no bytes of that record would tell. */
static void ask_overtaken(struct dw_record *sink, const struct dw_stripe *came, uint64_t now_ns)
{
    ask_before(sink, came, false, now_ns);
    if (sink->link.prev == &sink->peer->ends)
        return;
    struct dw_record *last = dw_container(sink->link.prev, struct dw_record, link);
    if (last->is_sink && last->qp && last->in.stripes)
        ask_before(last, came, true, now_ns);
}

/* ---- ways that are silent ---- */

/* The way that was heard last, of those that may be used but for `but`; 0: there is none. */
static uint8_t heard_last(const struct dw_record *sink, uint8_t but)
{
    const struct dw_ways *ways = sink->peer->ah->ways;
    const unsigned together = dw_ways_together(ways);
    uint8_t last = 0;
    for (unsigned i = 0; together >> i; i++) {
        const uint8_t way = dw_path_number(ways->paths[i]);
        if (together >> i & 1 && way != but &&
            (!last || sink->ways[way].heard_ns > sink->ways[last].heard_ns))
            last = way;
    }
    return last;
}

/* What is due of the stripe is to come by the way that has done with it soonest. */
static void move(struct dw_record *sink, unsigned i, uint64_t now_ns)
{
    const struct dw_stripe *stripe = &sink->in.stripes->list[i];
    const uint8_t to = dw_grant_soonest_way(sink, stripe->due_bytes);
    struct dw_record_control status;
    dw_sink_less_due(sink, stripe->way, stripe->due_bytes);
    if (to && !sink->ways[to].due_bytes)
        dw_sink_begin_way(sink, to, now_ns);
    if (to)
        sink->ways[to].due_bytes += stripe->due_bytes;
    const unsigned n = dw_record_sink_move(&sink->in, i, to, dw_sink_next_order(sink),
                                           status.ranges, DW_RECORD_MAX_RANGES);
    if (n) /* not lost on the way that they come by now */
        (void)dw_sink_send_status(sink, &status, to, sink->in.granted, n);
}

/* The way works no more, though the peer does. */
static void leave(const struct dw_record *late, uint8_t way, uint64_t now_ns)
{
    struct dw_record_peer *peer = late->peer;
    late->ways[way].vain = 0;
    peer->records->counters->ways_left++;
    peer->records->ops->on_way_left(peer, way, heard_last(late, way));
    peer->records->ops->on_lost(peer, now_ns);
    dw_foreach (sink, struct dw_record, link, &peer->ends)
        for (unsigned i = 0; sink->is_sink && sink->in.stripes && i < sink->in.stripes->count; i++)
            if (sink->in.stripes->list[i].way == way && sink->in.stripes->list[i].due_bytes)
                move(sink, i, now_ns);
}

/* What is due by a way comes without a pause while the peer sends. After a pause the sink probes by
 * the silent way and by another one: the current way if no other is known to work. It leaves the
 * silent way if only the other one answers, and bytes that were asked for later have come by
 * others; without these once a second probe is answered like that, for the first may have been
 * lost. */
static void on_way_overdue(struct dw_record *sink, uint8_t way, uint64_t now_ns)
{
    struct dw_record_peer *peer = sink->peer;
    struct dw_record_way *its = &sink->ways[way];
    const bool silent = its->asked_ns > its->heard_ns, alive = its->alive_ns > its->asked_ns;
    if (silent && alive && (its->overtaken || its->asked > 1)) {
        leave(sink, way, now_ns);
        return;
    }
    const uint8_t other = heard_last(sink, way);
    its->asked = !silent ? 1 : its->asked < 15 ? its->asked + 1 : 15;
    its->asked_ns = now_ns;
    peer->records->ops->ask_by(peer, way, now_ns);
    if (other)
        peer->records->ops->ask_by(peer, other, now_ns);
    else
        peer->records->ops->ask(peer, now_ns);
}

bool dw_sink_look_at_ways(struct dw_record *sink, uint64_t now_ns)
{
    uint64_t overdue = 0;
    bool current_overdue = false;
    for (unsigned i = 0; i < sink->in.stripes->count; i++) {
        const struct dw_stripe *stripe = &sink->in.stripes->list[i];
        const uint8_t way = stripe->way;
        const uint64_t bit = way ? 1ull << (way - 1) : 0;
        if (!stripe->due_bytes || overdue & bit || now_ns < dw_sink_way_deadline_ns(sink, way))
            continue;
        overdue |= bit;
        current_overdue |= !way;
        if (way)
            on_way_overdue(sink, way, now_ns);
    }
    return current_overdue ||
           (dw_record_sink_due_bytes(&sink->in) && now_ns >= dw_sink_stuck_ns(sink));
}

void dw_record_ways_on_alive(const struct dw_record_peer *peer, uint8_t answered, uint64_t sent_ns,
                             uint64_t now_ns)
{
    struct dw_record_way *ways = dw_record_ways(peer);
    for (uint8_t way = 1; way < dw_record_ways_count(peer->records); way++) {
        struct dw_record_way *its = &ways[way];
        const bool silent = its->asked_ns > its->heard_ns && its->alive_ns <= its->asked_ns;
        if (way != answered && silent && sent_ns + (1u << DW_PROBE_CLOCK_SHIFT) > its->asked_ns)
            its->alive_ns = now_ns;
    }
}

void dw_sinks_on_way_reply(struct dw_record_peer *peer, uint8_t way, uint64_t sent_ns,
                           uint64_t now_ns)
{
    struct dw_record_way *ways = dw_record_ways(peer), *its = ways ? &ways[way] : NULL;
    if (!its)
        return;
    dw_rtt_on_sample(&its->rtt, now_ns - sent_ns);
    dw_record_ways_on_alive(peer, way, sent_ns, now_ns);
    const bool silent = its->asked_ns > its->heard_ns && sent_ns > its->heard_ns;
    if (silent) {
        its->heard_ns = now_ns;
        if (its->vain < DW_WAY_VAIN_MAX)
            its->vain++;
    }
    dw_foreach (sink, struct dw_record, link, &peer->ends) {
        if (!sink->is_sink || !sink->in.stripes)
            continue;
        if (silent && its->vain >= DW_WAY_VAIN_MAX && now_ns >= its->came_ns + DW_RTO_INITIAL_NS) {
            leave(sink, way, now_ns);
            return;
        }
        if (silent)
            dw_sink_ask_way(sink, way, now_ns);
        dw_sink_arm(sink);
    }
}

/* ---- what comes ---- */

void dw_sink_on_came_by(const struct dw_record *sink, uint8_t way, uint32_t bytes, uint64_t now_ns)
{
    if (!sink->ways)
        return;
    struct dw_record_way *its = &sink->ways[way];
    if (!its->rtt.srtt_ns && now_ns > its->heard_ns)
        dw_rtt_on_sample(&its->rtt, now_ns - its->heard_ns); /* since the grant */
    its->heard_ns = now_ns;
    if (!way) /* what comes by the same way under its number is queued behind this */
        sink->ways[dw_path_number(dw_ah_path(sink->peer->ah))].heard_ns = now_ns;
    if (bytes) {
        its->vain = 0;
        its->came_ns = now_ns;
        its->order = sink->ways->order;
        its->overtaken = false;
    }
    its->came_bytes += bytes;
    if (its->came_bytes < DW_WAY_PACE_BYTES)
        return;
    const uint64_t took = ((now_ns - its->paced_ns) << 10) / its->came_bytes;
    const uint64_t most = its->ns_per_kib ? 2ull * its->ns_per_kib : took; /* a pause is no pace */
    const uint32_t pace = (uint32_t)(took < most ? took : most);
    its->ns_per_kib = its->ns_per_kib ? its->ns_per_kib / 4 * 3 + pace / 4 : pace;
    its->paced_ns = now_ns;
    its->came_bytes = 0;
}

unsigned dw_sink_note_stripes(const struct dw_placing *placing, uint8_t way)
{
    struct dw_record *sink = placing->sink;
    struct dw_stripes *stripes = sink->in.stripes;
    const uint32_t end = placing->offset + placing->length;
    const unsigned first = dw_stripes_find(stripes, placing->offset);
    for (unsigned i = first; i < stripes->count && stripes->list[i].start < end; i++) {
        struct dw_stripe *stripe = &stripes->list[i];
        const uint32_t came_end = end < stripe->end ? end : stripe->end;
        if (stripe->way == way && stripe->came_end < came_end)
            stripe->came_end = came_end;
        dw_sink_less_due(sink, stripe->way, dw_stripe_on_came(stripes, i, &sink->in.map));
    }
    return first;
}

/* Other ways bring nothing though they are to bring some of the record that the source has sent
 * before this. */
static void note_overtaken(const struct dw_record *sink, const struct dw_stripe *came)
{
    for (uint8_t way = 1; way < dw_record_ways_count(sink->peer->records); way++) {
        struct dw_record_way *its = &sink->ways[way];
        if (way != came->way && (int32_t)(its->order - came->order) < 0 &&
            dw_record_sink_is_due_before(&sink->in, way, came->order))
            its->overtaken = true;
    }
}

void dw_sink_ask_behind(struct dw_record *sink, unsigned came, uint8_t way, uint64_t now_ns)
{
    struct dw_stripes *stripes = sink->in.stripes;
    struct dw_stripe *stripe = came < stripes->count ? &stripes->list[came] : NULL;
    struct dw_record_control status;
    if (stripe && stripe->way == way) {
        const unsigned n = dw_record_sink_on_stripe_gap(&sink->in, came, sink->ways->order + 1,
                                                        dw_sink_window_bytes(sink, way),
                                                        status.ranges, DW_RECORD_MAX_RANGES);
        sink->ways->order += n > 0;
        dw_sink_ask_for(sink, way, &status, n, now_ns);
    }
    if (stripe && stripe->way == way && !stripe->told &&
        dw_stripe_tells(stripe, sink->in.reorder_bytes)) {
        stripe->told = true;
        ask_overtaken(sink, stripe, now_ns);
        note_overtaken(sink, stripe);
    }
    dw_stripes_trim(stripes);
}
