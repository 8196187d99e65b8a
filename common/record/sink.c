/* SPDX-License-Identifier: BSD-3-Clause */
/* The sink of a record: segments to their places, asking again for what is missing, completion. */
#include "common/base/copy.h"
#include "common/record/records.h"
#include "common/rel/sendwin.h"

/* Where so much is on its way into memory, records of a train and more are copied past the cache:
 * they would push out of it what the kernel copies next. What is less is likely read soon. */
#define PAST_MIN_BYTES       (512u << 10)
#define PAST_RECORD_BYTES    DW_LLP_TRAIN_BYTES
#define PREFETCH_AHEAD_BYTES 8192u
/* Time-outs in vain after which a grant is set aside. Half: a peer that computes is taken for gone;
 * twice: what waits for its grant waits longer. */
#define FRUITLESS_MAX 8

/* What tells that something is lost. */
enum sign {
    GAP,       /* more of the record came behind it */
    OVERTAKEN, /* the record that the source sends next has come */
    TIMED_OUT,
};

/* Asks for what is lost, if anything is. */
static void ask_again(struct dw_record *sink, enum sign sign, uint64_t now_ns)
{
    struct dw_record_control status;
    struct dw_range *missing = status.ranges;
    const unsigned max = DW_RECORD_MAX_RANGES;
    const uint32_t window = dw_sink_window_bytes(sink, 0);
    const unsigned n = sign == GAP ? dw_record_sink_on_gap(&sink->in, window, missing, max)
                       : sign == OVERTAKEN
                           ? dw_record_sink_on_overtaken(&sink->in, missing, max)
                           : dw_record_sink_on_timeout(&sink->in, window, missing, max);
    dw_sink_ask_for(sink, 0, &status, n, now_ns);
}

/* The source sends its records in turn: what is due of the record before is lost when this one
 * comes. Only if part of the record before has come: its request may not have reached the source.
 */
static void ask_overtaken(const struct dw_record *sink, uint64_t now_ns)
{
    if (sink->link.prev == &sink->peer->ends || sink->in.map.bytes < sink->in.reorder_bytes)
        return;
    struct dw_record *before = dw_container(sink->link.prev, struct dw_record, link);
    if (before->is_sink && before->qp && before->state == DW_RECORD_GRANTED &&
        before->in.map.bytes && !before->in.stripes && !sink->in.stripes)
        ask_again(before, OVERTAKEN, now_ns);
}

/* What does not come may still wait in the source's socket, on a slow link for longer than any
 * time-out, behind what it sends to others. The answer to a probe goes behind it: only what is
 * missing then is asked for again. */
static void on_overdue(struct dw_record *sink, uint64_t now_ns)
{
    struct dw_record_peer *peer = sink->peer;
    const struct dw_record_ops *ops = peer->records->ops;
    const struct dw_contact *contact = &peer->contact;
    const uint64_t rto_min_ns = peer->records->port->device->attr.rto_min_ns;
    const bool in_vain = contact->probe_sent_ns > sink->in.heard_ns && !contact->probe_answered &&
                         now_ns >= contact->probe_sent_ns + ops->rto_ns(peer, 0);
    /* The least time-out holds here on lossy paths, too: a peer that computes is not gone. */
    const bool silent =
        contact->probe_sent_ns >= contact->heard_ns && now_ns >= sink->in.heard_ns + 2 * rto_min_ns;
    if (in_vain && (++sink->in.backoff > FRUITLESS_MAX || silent))
        dw_grant_set_aside(peer, true);
    sink->late_ns = now_ns;
    peer->sinks_late = true;
    ops->ask(peer, now_ns);
}

static void on_timer(struct dw_timer *timer, uint64_t now_ns)
{
    struct dw_record *sink = dw_container(timer, struct dw_record, timer);
    const bool overdue = sink->in.stripes ? dw_sink_look_at_ways(sink, now_ns)
                                          : dw_record_sink_due_bytes(&sink->in) &&
                                                now_ns >= dw_sink_deadline_ns(sink);
    if (overdue)
        on_overdue(sink, now_ns);
    dw_sink_arm(sink);
}

/* ---- what comes ---- */

void dw_sinks_on_probe_reply(struct dw_record_peer *peer, uint64_t sent_ns, uint64_t now_ns)
{
    struct dw_record_way *ways = dw_record_ways(peer);
    if (ways && sent_ns && !dw_ways_together(peer->ah->ways))
        dw_record_ways_on_alive(peer, 0, sent_ns, now_ns);
    if (!peer->sinks_late || !sent_ns)
        return;
    const uint64_t current_ns = ways ? ways->heard_ns : 0;
    peer->sinks_late = false;
    dw_foreach (sink, struct dw_record, link, &peer->ends) {
        /* Overdue by the time-out as it was then: the reply itself may have made it longer. */
        if (!sink->is_sink || !dw_record_sink_due_bytes(&sink->in))
            continue;
        const uint64_t heard_ns =
            sink->in.stripes && current_ns < sink->in.heard_ns ? current_ns : sink->in.heard_ns;
        if (sink->late_ns <= heard_ns)
            continue;
        if (sent_ns <= heard_ns) { /* the reply was to an earlier probe */
            peer->sinks_late = true;
            continue;
        }
        if (sink->in.stripes) {
            for (uint8_t way = 0; way < dw_record_ways_count(peer->records); way++)
                dw_sink_ask_way(sink, way, now_ns);
            ways->heard_ns = now_ns;
        } else {
            ask_again(sink, TIMED_OUT, now_ns);
        }
        sink->in.heard_ns = now_ns;
        if (sink->in.backoff > FRUITLESS_MAX)
            dw_grant_set_aside(peer, true);
        dw_sink_arm(sink);
    }
}

struct dw_record *dw_sink_create(const struct dw_ends *ends, struct dw_record_peer *peer,
                                 uint32_t id, void *addr, uint32_t total, struct dw_region *asked,
                                 uint64_t now_ns)
{
    struct dw_record *sink = dw_record_create(ends, peer, id, asked, true);
    if (!sink)
        return NULL;
    const uint32_t full = dw_record_payload_bytes(peer);
    const uint32_t payload = total < full ? total : full;
    const uint32_t bytes = payload + dw_record_overhead_bytes(peer->records);
    sink->cost_per_kib = (uint32_t)(((uint64_t)dw_llp_truesize(bytes) << 10) / payload);
    sink->addr = addr;
    sink->timer.fire = on_timer;
    dw_list_init(&sink->grant_link);
    sink->in.total = total;
    peer->records->sinks_bytes += total;
    if (!dw_grant_is_free(sink))
        sink->ways = dw_record_ways(peer);
    sink->in.again_bytes = sink->in.reorder_bytes =
        DW_REORDER_DATAGRAMS * dw_record_payload_bytes(peer);
    sink->in.heard_ns = now_ns;
    if (asked)
        dw_record_set_state(sink, DW_RECORD_WANTING);
    peer->records->ops->on_asked(peer, now_ns);
    return sink;
}

static void on_full(struct dw_record *sink, uint64_t now_ns)
{
    const bool signaled = sink->send_flags & IBV_SEND_SIGNALED;
    sink->peer->records->counters->rx_records_complete++;
    dw_grant_end(sink);
    const struct diwarp_wc wc = {
        .wc = {.wr_id = sink->wr_id,
               .status = IBV_WC_SUCCESS,
               .opcode = IBV_WC_RDMA_READ,
               .byte_len = sink->in.total,
               .qp_num = sink->qp->num,
               .src_qp = sink->qpns.there},
        .src = sink->peer->ah->name,
        .read_id = dw_record_key(sink->peer, sink->id, true),
    };
    if (signaled)
        dw_cq_push(sink->qp->cq, &wc);
    if (signaled && sink->send_flags & DIWARP_SEND_HOLD)
        dw_record_set_state(sink, DW_RECORD_HELD);
    else
        (void)dw_record_end(sink, NULL, 0, now_ns);
}

/* The source knows how long datagrams may be on its way to us, and the window of its records is
 * counted in them. The first of a record is as long as they may be, where its first grant is
 * longer. No path is narrower than the least. */
static void measure(const struct dw_record *sink, const struct dw_placing *placing)
{
    struct dw_record_peer *peer = sink->peer;
    const uint32_t least = DW_MTU_MIN_BYTES - 48, length = placing->length;
    const uint32_t bytes = length + dw_record_overhead_bytes(peer->records);
    const bool first = sink->in.map.bytes == length && !placing->offset && !sink->late_ns;
    if (length > dw_record_payload_bytes(peer) || (first && length < sink->first_grant_bytes))
        peer->ah->peer_datagram_bytes = (uint16_t)(bytes > least ? bytes : least);
}

/* What the datagram says, where it can be true. */
static uint8_t way_of(const struct dw_placing *placing)
{
    const struct dw_record *sink = placing->sink;
    const uint8_t path = placing->arrival->header.path;
    return sink->ways && path < dw_record_ways_count(sink->peer->records) ? path : 0;
}

/* What the datagram tells of queues on its way. */
static void note_queue(const struct dw_placing *placing, uint8_t way, uint64_t now_ns)
{
    const uint16_t echo = placing->arrival->header.timestamp_echo;
    const uint16_t took = (uint16_t)((uint16_t)(now_ns >> DW_TIMESTAMP_SHIFT) - echo);
    struct dw_recordwin *win = dw_sink_win(placing->sink, way);
    if (echo)
        dw_recordwin_on_answer(win, (uint64_t)took << DW_TIMESTAMP_SHIFT, now_ns);
    if (placing->arrival->marked)
        dw_recordwin_on_marked(win, dw_record_payload_bytes(placing->sink->peer));
}

void dw_sink_place(const struct dw_placing *placing, uint64_t now_ns)
{
    struct dw_record *sink = placing->sink;
    struct dw_record_peer *peer = sink->peer;
    struct diwarp_counters *counters = peer->records->counters;
    if (!sink->qp) { /* now the source is known to have it */
        (void)dw_record_end(sink, NULL, 0, now_ns);
        return;
    }
    dw_grant_set_aside(peer, false);
    const int64_t added =
        dw_record_sink_on_segment(&sink->in, placing->offset, placing->length, now_ns);
    if (added < 0) {
        counters->drop_no_buffer++;
        return;
    }
    const uint32_t new_bytes = (uint32_t)added;
    const uint8_t way = way_of(placing);
    if (!way)
        measure(sink, placing);
    dw_sink_on_came_by(sink, way, new_bytes, now_ns);
    note_queue(placing, way, now_ns);
    /* Bytes that are there stay as they are: the application may see them, once it is told. */
    if (new_bytes && placing->data)
        dw_copy(sink->addr + placing->offset, placing->data, placing->length);
    if (new_bytes)
        dw_recordwin_on_came(dw_sink_win(sink, way), 1, dw_record_payload_bytes(peer));
    const unsigned stripe = sink->in.stripes ? dw_sink_note_stripes(placing, way) : 0;
    dw_grant_on_came(sink, new_bytes);
    sink->qp->cq->device->served++;
    counters->rx_record_segments++;
    counters->rx_record_bytes += new_bytes;
    counters->rx_dup_record_bytes += placing->length - new_bytes;
    ask_overtaken(sink, now_ns);
    if (dw_record_sink_full(&sink->in))
        on_full(sink, now_ns);
    else if (sink->in.stripes)
        dw_sink_ask_behind(sink, stripe, way, now_ns);
    else
        ask_again(sink, GAP, now_ns);
}

/* Checks record, STag, bounds and grant. Returns the counter of what is wrong, or NULL. */
static uint64_t *find(struct dw_record_peer *peer, const struct dw_segment *segment,
                      struct dw_placing *placing)
{
    struct diwarp_counters *counters = peer->records->counters;
    struct dw_write_record wr;
    if (!dw_segment_write_record(segment, &wr, &placing->data, &placing->length))
        return &counters->drop_header;
    const struct dw_record *sink = placing->sink = dw_sink_of(peer, wr.id);
    placing->offset = wr.offset;
    if (!sink || sink->state == DW_RECORD_HELD)
        return &counters->drop_stale_record;
    if (segment->ddp.stag != sink->stag || wr.total != sink->in.total ||
        segment->ddp.to != sink->to + wr.offset || wr.offset + placing->length > sink->in.granted)
        return &counters->drop_stag;
    return NULL;
}

void dw_sink_on_segment(struct dw_record_peer *peer, const struct dw_segment *segment,
                        const struct dw_arrival *arrival, uint64_t now_ns)
{
    struct dw_placing placing = {.arrival = arrival};
    uint64_t *wrong = find(peer, segment, &placing);
    if (wrong)
        ++*wrong;
    else
        dw_sink_place(&placing, now_ns);
}

/* The line of the sink which two segments of this length share, 8 KiB from now: the only one that
 * stores past the cache wait for. */
static const uint8_t *shared_line_ahead(const struct dw_placing *placing)
{
    const uint32_t length = placing->length, left = placing->sink->in.total - placing->offset;
    const uint32_t ahead = (PREFETCH_AHEAD_BYTES + length - 1) / length * length;
    return placing->sink->addr + placing->offset + (ahead < left ? ahead : 0);
}

bool dw_sink_open(struct dw_record_peer *peer, const struct dw_arrival *arrival,
                  const struct dw_segment *segment, struct dw_placing *placing)
{
    if (segment->ddp.opcode != DW_RDMAP_WRITE_RECORD || find(peer, segment, placing))
        return false;
    const struct dw_record *sink = placing->sink;
    const uint32_t end = placing->offset + placing->length;
    placing->arrival = arrival;
    /* Only where nothing has come: elsewhere good bytes may be. */
    if (!sink->qp || dw_ranges_lack(&sink->in.map, placing->offset, end) < placing->length)
        return false;
    const bool past =
        sink->in.total >= PAST_RECORD_BYTES && peer->records->sinks_bytes >= PAST_MIN_BYTES;
    if (past) /* here, for gcc takes a function that only prefetches for one without effect */
        __builtin_prefetch(shared_line_ahead(placing), 1);
    placing->data = NULL;
    if (!dw_open(&peer->records->port->datagrams.seal, arrival->buf, arrival->len,
                 sink->addr + placing->offset, placing->length, past)) {
        peer->records->counters->drop_crc++;
        placing->sink = NULL;
    }
    return true;
}
