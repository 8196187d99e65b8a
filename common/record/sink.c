/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a record at its two ends. */
#include "common/record/sink.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/copy.h"
#include "common/rd/path.h"
#include "common/record/grant.h"
#include "common/rd/send.h"
#include "common/rd/transmit.h"
#include "common/wire/crc32c.h"

/* Open records that a QP has asked for, of all its peers together; beyond, posts give -ENOMEM. */
#define RECORDS_MAX UINT16_MAX
/* That peers have asked us for, for each that is awake; beyond, requests are refused. Some of an
 * honest one's have ended there and not yet here. */
#define ASKED_RECORDS_MAX (2ull * RECORDS_MAX)
/* Time-outs in a row, of a source that is heard and sends nothing of what was granted; it is set
 * aside then, as one that is silent. */
#define FRUITLESS_MAX 8
/* Asked for at once of a source that is silent: as much as may be sent twice in vain. */
#define AT_ONCE_BYTES 8192

/* ---- sink ---- */

static uint64_t sink_deadline_ns(const struct dw_sink *sink)
{
    return sink->record.heard_ns + dw_peer_rto_ns(sink->peer, sink->record.backoff);
}

void dw_sink_arm(struct dw_sink *sink)
{
    if (!sink->timer.slot)
        dw_heap_set(&sink->peer->qp->timers, &sink->timer, sink_deadline_ns(sink));
}

/* What nothing came behind may never have been sent, the grant being lost: no sign of a queue. */
static void ask_for(struct dw_sink *sink, const struct dw_range *missing, unsigned n)
{
    struct diwarp_ah *ah = sink->peer->ah;
    uint32_t payload = dw_record_payload_bytes(sink->peer);
    for (unsigned i = 0; i < n && missing[i].start < sink->record.highest; i++)
        dw_recordwin_on_lost(&ah->recordwin, &ah->record_round, missing[i].end - missing[i].start,
                             payload);
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
    ask_for_some(sink, dw_record_window_bytes(sink->peer));
    sink->asked_ns = now_ns;
    if (sink->record.backoff > FRUITLESS_MAX)
        dw_sink_set_aside(sink);
}

static bool is_overdue(const struct dw_sink *sink, uint64_t now_ns)
{
    return !sink->held && dw_record_sink_due_bytes(&sink->record) &&
           now_ns >= sink_deadline_ns(sink);
}

static uint64_t asked_or_heard_ns(const struct dw_sink *sink)
{
    return sink->asked_ns > sink->record.heard_ns ? sink->asked_ns : sink->record.heard_ns;
}

static void look_later(struct dw_sink *sink, uint64_t now_ns)
{
    dw_heap_set(&sink->peer->qp->timers, &sink->timer,
                now_ns + dw_peer_rto_ns(sink->peer, sink->record.backoff));
}

/* What does not come may still wait in the source's socket, on a slow link for longer than any
 * time-out, behind what it sends to others. The answer to a probe goes behind it: only what is
 * missing then is asked for again. A source that is silent as a whole may have nothing to send, the
 * grant being lost: it is told at once, and asked for a little, and probed. */
static void on_overdue(struct dw_sink *sink, uint64_t now_ns)
{
    struct dw_peer *peer = sink->peer;
    bool probed = peer->probe_sent_ns > asked_or_heard_ns(sink);
    bool quiet = now_ns - peer->heard_ns >= dw_peer_rto_ns(peer, 0);
    bool asked = sink->asked_ns > sink->record.heard_ns;
    if (probed && peer->probe_answered) {
        ask_again(sink, now_ns);
        return;
    }
    if (!probed && quiet && !asked)
        ask_for_some(sink, AT_ONCE_BYTES);
    if (probed && now_ns >= peer->probe_sent_ns + dw_peer_rto_ns(peer, 0)) {
        bool silent = peer->probe_sent_ns >= peer->heard_ns;
        if (++sink->record.backoff > FRUITLESS_MAX || silent)
            dw_sink_set_aside(sink);
    }
    dw_peer_ask(peer, now_ns);
}

static void on_sink_timer(struct dw_timer *timer, uint64_t now_ns)
{
    struct dw_sink *sink = dw_container(timer, struct dw_sink, timer);
    if (is_overdue(sink, now_ns)) {
        sink->late_ns = now_ns;
        on_overdue(sink, now_ns);
        look_later(sink, now_ns);
    } else if (!sink->held && dw_record_sink_due_bytes(&sink->record)) {
        dw_sink_arm(sink);
    }
}

void dw_rdma_on_probe_reply(struct dw_peer *peer, uint64_t sent_ns, uint64_t now_ns)
{
    dw_list_foreach (it, &peer->sinks) {
        struct dw_sink *sink = dw_container(it, struct dw_sink, peer_link);
        const uint64_t since_ns = asked_or_heard_ns(sink);
        /* By the time-out as it was then: the reply itself may have made it longer. */
        bool late = sink->late_ns > since_ns && !sink->held;
        if (late && dw_record_sink_due_bytes(&sink->record) && sent_ns > since_ns) {
            ask_again(sink, now_ns);
            look_later(sink, now_ns);
        }
    }
}

static uint64_t *record_count(struct diwarp_qp *qp, bool asked)
{
    return asked ? &qp->asked_records : &qp->own_records;
}

static bool has_room(struct diwarp_qp *qp, bool asked)
{
    uint64_t most = asked ? ASKED_RECORDS_MAX * qp->counters.peers_active : RECORDS_MAX;
    return *record_count(qp, asked) < most;
}

struct dw_sink *dw_sink_create(struct dw_peer *peer, uint32_t id, uint32_t total,
                               struct dw_region *asked, uint64_t now_ns)
{
    struct diwarp_qp *qp = peer->qp;
    struct dw_sink *sink = has_room(qp, asked) ? calloc(1, sizeof *sink) : NULL;
    if (!sink)
        return NULL;
    if (dw_heap_reserve(&qp->timers)) {
        free(sink);
        return NULL;
    }
    if (dw_map_put(&qp->sinks, dw_record_key(peer, id), sink)) {
        dw_heap_unreserve(&qp->timers);
        free(sink);
        return NULL;
    }
    sink->peer = peer;
    sink->id = id;
    sink->long_datagrams =
        peer->ah->datagram_max_bytes >= DW_LLP_LONG_BYTES && total >= DW_LLP_LONG_BYTES;
    sink->timer.fire = on_sink_timer;
    dw_record_sink_init(&sink->record, total, DW_REORDER_DATAGRAMS * peer->ah->datagram_max_bytes,
                        now_ns);
    sink->region = asked;
    if (asked)
        asked->records++;
    ++*record_count(qp, asked);
    dw_list_append(&peer->sinks, &sink->peer_link);
    dw_list_append(&qp->want, &sink->want_link);
    dw_peer_on_record(peer, now_ns);
    return sink;
}

/* Out of everything but the table of sinks, where it waits for its release. */
static void stop(struct dw_sink *sink)
{
    dw_crc32c_copy_fence(); /* other threads may use the buffer from now on */
    struct diwarp_qp *qp = sink->peer->qp;
    dw_sink_take_back(sink);
    uint32_t due = dw_record_sink_due_bytes(&sink->record);
    sink->record.granted = (uint32_t)sink->record.map.bytes;
    qp->granted_records -= sink->counted;
    sink->counted = false;
    sink->parked = false;
    dw_list_remove(&sink->want_link);
    dw_sink_add_due(sink, -(int64_t)due); /* others may have its place */
    dw_heap_set(&qp->timers, &sink->timer, DW_NEVER);
}

void dw_sink_destroy(struct dw_sink *sink)
{
    stop(sink);
    dw_heap_unreserve(&sink->peer->qp->timers);
    dw_map_remove(&sink->peer->qp->sinks, dw_record_key(sink->peer, sink->id));
    dw_list_remove(&sink->peer_link);
    --*record_count(sink->peer->qp, sink->region);
    if (sink->region)
        sink->region->records--;
    dw_record_sink_fini(&sink->record);
    free(sink);
}

static void complete_read(struct dw_sink *sink, enum ibv_wc_status status)
{
    struct diwarp_qp *qp = sink->peer->qp;
    if (status != IBV_WC_SUCCESS)
        qp->counters.rdma_errors++;
    else if (!sink->signaled)
        return;
    struct diwarp_wc wc = {
        .wc = {.wr_id = sink->wr_id,
               .status = status,
               .opcode = IBV_WC_RDMA_READ,
               .byte_len = sink->record.total,
               .qp_num = qp->num},
        .src = sink->peer->ah->name,
        .read_id = dw_record_key(sink->peer, sink->id),
    };
    dw_cq_push(qp->cq, &wc);
}

void dw_sink_fail(struct dw_sink *sink, enum ibv_wc_status status)
{
    if (!sink->region)
        complete_read(sink, status);
    dw_sink_destroy(sink);
}

int dw_sink_send_complete(struct dw_sink *sink, const void *release, uint32_t bytes,
                          uint64_t now_ns)
{
    struct dw_peer *peer = sink->peer;
    struct dw_record_control complete = {
        .kind = DW_RECORD_COMPLETE,
        .id = sink->id,
        .release = release,
        .release_bytes = bytes,
    };
    uint8_t payload[DW_RECORD_CONTROL_BYTES + DIWARP_RELEASE_MAX_BYTES];
    size_t length = dw_record_control_put(payload, &complete);
    int rc = dw_send_answer(peer, DW_RDMAP_RECORD_CONTROL, DW_QN_RECORD, false, payload,
                            (uint32_t)length, now_ns);
    peer->qp->counters.tx_record_complete += !rc;
    dw_sink_destroy(sink);
    /* Without room to say so, the source would wait for ever: end the peer instead. */
    if (rc)
        dw_peer_fail(peer, DIWARP_GONE_NO_ROOM);
    return rc;
}

static void on_full(struct dw_sink *sink, uint64_t now_ns)
{
    sink->peer->qp->counters.rx_records_complete++;
    stop(sink);
    if (!sink->region)
        complete_read(sink, IBV_WC_SUCCESS);
    if (sink->hold && sink->signaled)
        sink->held = true;
    else
        (void)dw_sink_send_complete(sink, NULL, 0, now_ns);
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
    sink->peer->qp->counters.tx_record_status++;
    dw_transmit_record_control(sink->peer, &status);
}

/* The source began with less than a datagram of ours, though it may send more. */
static bool began_short(const struct dw_sink *sink, uint32_t offset, uint32_t length)
{
    return !offset && sink->record.map.bytes == length && length < sink->record.total &&
           !sink->late_ns && length < dw_record_payload_bytes(sink->peer) &&
           dw_grants_are_whole(sink->peer);
}

void dw_sink_place(struct dw_sink *sink, uint32_t offset, const uint8_t *data, uint32_t length,
                   uint64_t now_ns)
{
    struct diwarp_qp *qp = sink->peer->qp;
    struct diwarp_ah *ah = sink->peer->ah;
    dw_sink_take_back(sink);
    int64_t new_bytes = dw_record_sink_on_segment(&sink->record, offset, length, now_ns);
    if (new_bytes < 0) {
        qp->counters.drop_no_buffer++;
        return;
    }
    if (__builtin_expect(began_short(sink, offset, length), 0))
        dw_path_on_first_segment(sink->peer, length);
    /* Bytes that are there stay as they are: the application may see them, once it is told. */
    if (new_bytes && data)
        dw_copy(sink->addr + offset, data, length);
    if (new_bytes)
        dw_recordwin_on_came(&ah->recordwin, &ah->record_round,
                             dw_record_payload_bytes(sink->peer));
    dw_sink_add_due(sink, -new_bytes);
    if (sink->counted && !dw_record_sink_due_bytes(&sink->record)) {
        sink->counted = false; /* nothing of it is under way: others may have its place */
        qp->granted_records--;
    }
    qp->cq->served++;
    qp->counters.rx_record_segments++;
    qp->counters.rx_record_bytes += (uint64_t)new_bytes;
    qp->counters.rx_dup_record_bytes += length - (uint64_t)new_bytes;
    if (dw_record_sink_full(&sink->record)) {
        on_full(sink, now_ns);
    } else {
        struct dw_range missing[DW_RECORD_MAX_RANGES];
        unsigned n = dw_record_sink_on_gap(&sink->record, dw_record_window_bytes(sink->peer),
                                           missing, DW_RECORD_MAX_RANGES);
        if (n)
            ask_for(sink, missing, n);
    }
}

/* ---- source ---- */

struct dw_source *dw_source_create(struct dw_peer *peer, uint32_t id, const uint8_t *addr,
                                   uint32_t total, uint32_t granted, struct dw_region *asked)
{
    struct diwarp_qp *qp = peer->qp;
    struct dw_source *source = has_room(qp, asked) ? calloc(1, sizeof *source) : NULL;
    if (!source)
        return NULL;
    if (dw_map_put(&qp->sources, dw_record_key(peer, id), source)) {
        free(source);
        return NULL;
    }
    source->peer = peer;
    source->id = id;
    source->addr = addr;
    dw_record_source_init(&source->record, total, granted);
    dw_list_init(&source->ready_link);
    source->region = asked;
    if (asked)
        asked->records++;
    ++*record_count(qp, asked);
    dw_list_append(&peer->sources, &source->peer_link);
    return source;
}

void dw_source_look(struct dw_source *source)
{
    if (dw_record_source_ready(&source->record) && !dw_list_linked(&source->ready_link))
        dw_list_append(&source->peer->qp->ready, &source->ready_link);
}

void dw_source_destroy(struct dw_source *source)
{
    dw_map_remove(&source->peer->qp->sources, dw_record_key(source->peer, source->id));
    dw_list_remove(&source->peer_link);
    dw_list_remove(&source->ready_link);
    --*record_count(source->peer->qp, source->region);
    if (source->region)
        source->region->records--;
    dw_record_source_fini(&source->record);
    free(source);
}

void dw_source_fail(struct dw_source *source, enum ibv_wc_status status)
{
    if (!source->region)
        dw_cq_complete(source->peer->qp, source->wr_id, source->signaled, IBV_WC_RDMA_WRITE, status,
                       0);
    dw_source_destroy(source);
}
