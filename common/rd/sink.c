/* SPDX-License-Identifier: BSD-3-Clause */
/* The sink of a record: opened, filled, asked for again where something is missing, completed. */
#include "common/rd/parts.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/copy.h"
#include "common/rel/sendwin.h"

/* ---- asking again ---- */

/* What nothing came behind may never have been sent, the grant being lost: no sign of a queue. */
static void ask_for(struct dw_sink *sink, const struct dw_range *missing, unsigned n)
{
    struct dw_record_peer *peer = sink->peer;
    uint32_t payload = dw_record_payload_bytes(peer);
    for (unsigned i = 0; i < n && missing[i].start < sink->record.highest; i++)
        dw_recordwin_on_lost(&peer->win, &peer->round, missing[i].end - missing[i].start, payload);
    dw_sink_send_status(sink, missing, n);
}

static void ask_for_some(struct dw_sink *sink, uint32_t most_bytes)
{
    struct dw_range missing[DW_RECORD_MAX_RANGES];
    unsigned n =
        dw_record_sink_on_timeout(&sink->record, most_bytes, missing, DW_RECORD_MAX_RANGES);
    ask_for(sink, missing, n);
}

static void ask_again(struct dw_sink *sink, uint64_t now_ns)
{
    ask_for_some(sink, dw_grant_window_bytes(sink->peer));
    sink->asked_ns = now_ns;
    if (sink->record.backoff > DW_FRUITLESS_MAX)
        dw_grant_set_aside(sink);
}

static bool is_due(const struct dw_sink *sink)
{
    return sink->state != DW_SINK_HELD && dw_record_sink_due_bytes(&sink->record);
}

static uint64_t asked_or_heard_ns(const struct dw_sink *sink)
{
    return sink->asked_ns > sink->record.heard_ns ? sink->asked_ns : sink->record.heard_ns;
}

static void look_later(struct dw_sink *sink, uint64_t now_ns)
{
    dw_heap_set(&sink->peer->records->port->timers, &sink->timer, now_ns + dw_sink_rto_ns(sink));
}

/* What does not come may still wait in the source's socket, on a slow link for longer than any
 * time-out, behind what it sends to others. The answer to a probe goes behind it: only what is
 * missing then is asked for again. A source that is silent as a whole may have nothing to send, the
 * grant being lost: it is told at once, and asked for a little, and probed. */
static void on_overdue(struct dw_sink *sink, uint64_t now_ns)
{
    struct dw_record_peer *peer = sink->peer;
    const struct dw_contact *contact = &peer->contact;
    bool probed = contact->probe_sent_ns > asked_or_heard_ns(sink);
    const uint64_t rto_ns = dw_peer_rto_ns(dw_peer_of_records(peer), 0);
    bool quiet = now_ns - contact->heard_ns >= rto_ns;
    bool asked = sink->asked_ns > sink->record.heard_ns;
    if (probed && contact->probe_answered) {
        ask_again(sink, now_ns);
        return;
    }
    if (!probed && quiet && !asked)
        ask_for_some(sink, dw_record_payload_bytes(peer));
    if (probed && now_ns >= contact->probe_sent_ns + rto_ns) {
        bool silent = contact->probe_sent_ns >= contact->heard_ns;
        if (++sink->record.backoff > DW_FRUITLESS_MAX || silent)
            dw_grant_set_aside(sink);
    }
    dw_probe_ask(dw_peer_of_records(peer), now_ns);
}

/* Of more than can be counted, the timer alone asks again. */
static void set_late(struct dw_sink *sink, bool late)
{
    struct dw_record_peer *peer = sink->peer;
    if (sink->late == late || (late && peer->sinks_late == UINT16_MAX))
        return;
    sink->late = late;
    late ? peer->sinks_late++ : peer->sinks_late--;
}

static void on_timer(struct dw_timer *timer, uint64_t now_ns)
{
    struct dw_sink *sink = dw_container(timer, struct dw_sink, timer);
    if (!is_due(sink))
        return;
    if (now_ns < sink->record.heard_ns + dw_sink_rto_ns(sink)) {
        dw_sink_arm(sink);
        return;
    }
    sink->late_ns = now_ns;
    set_late(sink, true);
    on_overdue(sink, now_ns);
    look_later(sink, now_ns);
}

void dw_sinks_on_probe_reply(struct dw_record_peer *peer, uint64_t sent_ns, uint64_t now_ns)
{
    unsigned left = peer->sinks_late;
    dw_foreach (sink, struct dw_sink, peer_link, &peer->sinks) {
        if (!left)
            break;
        left -= sink->late;
        const uint64_t since_ns = asked_or_heard_ns(sink);
        /* By the time-out as it was then: the reply itself may have made it longer. */
        if (sink->late && sink->late_ns > since_ns && is_due(sink) && sent_ns > since_ns) {
            ask_again(sink, now_ns);
            look_later(sink, now_ns);
        }
    }
}

/* ---- making and ending ---- */

struct dw_sink *dw_sink_create(const struct dw_ends *ends, struct dw_record_peer *peer, uint32_t id,
                               uint32_t total, struct dw_region *asked, uint64_t now_ns)
{
    struct dw_records *records = peer->records;
    struct dw_heap *timers = &records->port->timers;
    struct dw_sink *sink =
        !asked || peer->asked_count < DW_ASKED_MAX ? calloc(1, sizeof *sink) : NULL;
    if (!sink)
        return NULL;
    if (dw_heap_reserve(timers)) {
        free(sink);
        return NULL;
    }
    if (dw_map_put(&records->sinks, dw_record_key(peer, id), sink)) {
        dw_heap_unreserve(timers);
        free(sink);
        return NULL;
    }
    sink->qp = ends->qp;
    sink->qpns = ends->qpns;
    sink->peer = peer;
    sink->id = id;
    sink->long_datagrams =
        peer->ah->peer_datagram_bytes >= DW_LLP_LONG_BYTES && total >= DW_LLP_LONG_BYTES;
    sink->timer.fire = on_timer;
    dw_record_sink_init(&sink->record, total, DW_REORDER_DATAGRAMS * peer->ah->peer_datagram_bytes,
                        now_ns);
    sink->region = asked;
    if (asked)
        asked->records++;
    asked ? peer->asked_count++ : peer->own_count++;
    dw_list_append(&peer->sinks, &sink->peer_link);
    dw_list_init(&sink->want_link);
    dw_list_init(&sink->held_link);
    if (asked)
        dw_sink_set_state(sink, DW_SINK_WANTING);
    dw_timers_on_record(dw_peer_of_records(peer), now_ns);
    return sink;
}

/* Nothing of it is under way any more, and no timer is set. */
static void stop(struct dw_sink *sink)
{
    dw_open_fence(); /* other threads may use the buffer from now on */
    dw_list_remove(&sink->held_link);
    dw_grant_take_back(sink);
    uint32_t due = dw_record_sink_due_bytes(&sink->record);
    sink->record.granted = (uint32_t)sink->record.map.bytes;
    set_late(sink, false);
    dw_heap_set(&sink->peer->records->port->timers, &sink->timer, DW_NEVER);
    dw_grant_on_came(sink, due); /* others may have its place, be it only in the line */
}

void dw_sink_destroy(struct dw_sink *sink)
{
    struct dw_record_peer *peer = sink->peer;
    dw_sink_set_state(sink, DW_SINK_ENDED);
    stop(sink);
    dw_heap_unreserve(&peer->records->port->timers);
    dw_map_remove(&peer->records->sinks, dw_record_key(peer, sink->id));
    dw_list_remove(&sink->peer_link);
    sink->region ? peer->asked_count-- : peer->own_count--;
    if (sink->region)
        sink->region->records--;
    dw_record_sink_fini(&sink->record);
    free(sink);
}

static void complete_read(struct dw_sink *sink, enum ibv_wc_status status)
{
    if (status != IBV_WC_SUCCESS)
        sink->peer->records->counters->rdma_errors++;
    else if (!(sink->send_flags & IBV_SEND_SIGNALED))
        return;
    struct diwarp_wc wc = {
        .wc = {.wr_id = sink->wr_id,
               .status = status,
               .opcode = IBV_WC_RDMA_READ,
               .byte_len = sink->record.total,
               .qp_num = sink->qp->num,
               .src_qp = sink->qpns.there},
        .src = sink->peer->ah->name,
        .read_id = dw_record_key(sink->peer, sink->id),
    };
    dw_cq_push(sink->qp->cq, &wc);
}

void dw_sink_fail(struct dw_sink *sink, enum ibv_wc_status status)
{
    if (!sink->region && sink->qp)
        complete_read(sink, status);
    dw_sink_destroy(sink);
}

int dw_sink_send_complete(struct dw_sink *sink, const void *release, uint32_t bytes,
                          uint64_t now_ns)
{
    struct dw_record_peer *peer = sink->peer;
    const struct dw_record_control complete = {
        .kind = DW_RECORD_COMPLETE,
        .id = sink->id,
        .release = release,
        .release_bytes = bytes,
    };
    int rc = dw_send_record_answer(dw_peer_of_records(peer), sink->qpns, &complete, false, now_ns);
    peer->records->counters->tx_record_complete += !rc;
    dw_sink_destroy(sink);
    return rc;
}

void dw_sink_abandon(struct dw_sink *sink, uint64_t now_ns)
{
    sink->qp = NULL;
    if (sink->record.map.bytes)
        (void)dw_sink_send_complete(sink, NULL, 0, now_ns);
}

static void on_full(struct dw_sink *sink, uint64_t now_ns)
{
    const unsigned held = IBV_SEND_SIGNALED | DIWARP_SEND_HOLD;
    sink->peer->records->counters->rx_records_complete++;
    stop(sink);
    if (!sink->region)
        complete_read(sink, IBV_WC_SUCCESS);
    if ((sink->send_flags & held) == held)
        dw_sink_set_state(sink, DW_SINK_HELD);
    else
        (void)dw_sink_send_complete(sink, NULL, 0, now_ns);
}

/* ---- what comes ---- */

/* The source began with less than a full datagram, though the record has more and it may send more.
 */
static bool began_short(const struct dw_sink *sink, uint32_t offset, uint32_t length)
{
    return !offset && sink->record.map.bytes == length && length < sink->record.total &&
           !sink->late_ns && length < dw_record_payload_bytes(sink->peer) &&
           dw_grants_are_whole(sink->peer);
}

/* The source knows how long datagrams may be on its way to us, and the window of its records is
 * counted in them. No path is narrower than the least. */
static void measure(const struct dw_sink *sink, uint32_t offset, uint32_t length)
{
    struct dw_record_peer *peer = sink->peer;
    const uint32_t least = DW_MTU_MIN_BYTES - 48, bytes = length + DW_RECORD_OVERHEAD_BYTES;
    if (length > dw_record_payload_bytes(peer) || began_short(sink, offset, length))
        peer->ah->peer_datagram_bytes = (uint16_t)(bytes > least ? bytes : least);
}

static void count_placed(const struct dw_sink *sink, uint32_t length, uint32_t new_bytes)
{
    struct diwarp_counters *counters = sink->peer->records->counters;
    sink->qp->cq->device->served++;
    counters->rx_record_segments++;
    counters->rx_record_bytes += new_bytes;
    counters->rx_dup_record_bytes += length - new_bytes;
}

void dw_sink_place(struct dw_sink *sink, uint32_t offset, const uint8_t *data, uint32_t length,
                   uint64_t now_ns)
{
    struct dw_record_peer *peer = sink->peer;
    if (!sink->qp) { /* now the source is known to have it */
        (void)dw_sink_send_complete(sink, NULL, 0, now_ns);
        return;
    }
    dw_grant_take_back(sink);
    int64_t new_bytes = dw_record_sink_on_segment(&sink->record, offset, length, now_ns);
    if (new_bytes < 0) {
        peer->records->counters->drop_no_buffer++;
        return;
    }
    set_late(sink, false);
    measure(sink, offset, length);
    /* Bytes that are there stay as they are: the application may see them, once it is told. */
    if (new_bytes && data)
        dw_copy(sink->addr + offset, data, length);
    if (new_bytes)
        dw_recordwin_on_came(&peer->win, &peer->round, dw_record_payload_bytes(peer));
    dw_grant_on_came(sink, (uint32_t)new_bytes);
    count_placed(sink, length, (uint32_t)new_bytes);
    if (dw_record_sink_full(&sink->record)) {
        on_full(sink, now_ns);
        return;
    }
    struct dw_range missing[DW_RECORD_MAX_RANGES];
    unsigned n = dw_record_sink_on_gap(&sink->record, dw_grant_window_bytes(peer), missing,
                                       DW_RECORD_MAX_RANGES);
    if (n)
        ask_for(sink, missing, n);
}
