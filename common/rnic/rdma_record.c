/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a record at its two ends. */
#include "common/rnic/rdma_record.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/copy.h"
#include "common/rnic/rdma.h"
#include "common/rnic/send.h"
#include "common/rnic/transmit.h"
#include "common/wire/crc32c.h"

/* Open records per QP and end; beyond, posts give -ENOMEM and peers' requests are refused. */
#define RECORDS_MAX UINT16_MAX
/* No grant below this part of the budget, unless it ends the record: each costs a datagram. */
#define GRANT_MIN_SHARE_DEN 4
/* Time-outs in a row, of a source that is heard and sends nothing of what was granted; it is set
 * aside then, as one that is silent. */
#define FRUITLESS_MAX 8
/* What a record takes of the budget at least: its datagram's truesize in our receive buffer. */
#define RECORD_MIN_BYTES 1024

/* ---- grants ---- */

static bool budget_is_spent(const struct diwarp_qp *qp)
{
    return qp->granted_bytes >= qp->grant_budget_bytes ||
           (uint64_t)qp->granted_records * RECORD_MIN_BYTES >= qp->grant_budget_bytes;
}

/* What may be granted to the sink now; 0: wait. */
static uint32_t grantable(const struct dw_sink *sink)
{
    const struct diwarp_qp *qp = sink->peer->qp;
    uint32_t budget = qp->granted_bytes < qp->grant_budget_bytes
                          ? qp->grant_budget_bytes - (uint32_t)qp->granted_bytes
                          : 0;
    uint32_t left = sink->record.total - sink->record.granted;
    if (budget >= left)
        return left;
    if (budget < qp->grant_budget_bytes / GRANT_MIN_SHARE_DEN)
        return 0;
    /* Whole datagrams: a remainder would travel in one of its own. */
    uint32_t payload = dw_record_payload_bytes(sink->peer);
    return budget > payload ? budget - budget % payload : budget;
}

static uint64_t sink_deadline_ns(const struct dw_sink *sink)
{
    return sink->record.heard_ns + dw_peer_rto_ns(sink->peer, sink->record.backoff);
}

/* Lazy, like the peer's: a timer that is set earlier looks again when it fires. */
static void arm(struct dw_sink *sink)
{
    if (!sink->timer.slot)
        dw_heap_set(&sink->peer->qp->timers, &sink->timer, sink_deadline_ns(sink));
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
    sink->peer->qp->granted_bytes += bytes;
    if (sink->record.granted == sink->record.total)
        dw_list_remove(&sink->want_link);
    arm(sink);
    return true;
}

/* A write was opened by the source itself; of a read it knows once the request has left. A grant
 * that overtakes the request would be lost until the time-out. */
static bool is_known_to_source(const struct dw_sink *sink)
{
    return sink->region ||
           (sink->requested && dw_serial_before(sink->request_psn, sink->peer->sendwin.next_psn));
}

/* One that is silent is not granted more before what it has been granted goes on. */
static bool may_be_granted(const struct dw_sink *sink)
{
    return is_known_to_source(sink) && !sink->peer->sinks_aside;
}

/* Every run walks the list: what waits for its request to be sent, or for a silent peer, which may
 * be thousands, is not in it meanwhile. */
static void park(struct dw_sink *sink)
{
    if (!sink->peer->sinks_aside && (sink->region || sink->requested))
        return;
    sink->parked = true;
    dw_list_remove(&sink->want_link);
}

static void unpark(struct dw_sink *sink)
{
    if (!sink->parked)
        return;
    sink->parked = false;
    dw_list_append(&sink->peer->qp->want, &sink->want_link);
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
    if (budget_is_spent(qp))
        return 0;
    /* Those before it come first, but for what cannot be told yet. */
    dw_list_foreach (it, &qp->want) {
        struct dw_sink *older = dw_container(it, struct dw_sink, want_link);
        if (older == sink && !sink->peer->sinks_aside)
            grant(sink, now_ns);
        if (older == sink || may_be_granted(older))
            break;
        park(older);
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
            park(sink);
            continue;
        }
        if (!grant(sink, now_ns))
            return; /* younger ones wait behind it */
        dw_sink_send_status(sink, NULL, 0);
    }
}

/* What is due of a silent peer, or one that sends nothing of it, is not on its way: others may have
 * it meanwhile. */
static void set_aside(struct dw_sink *sink)
{
    if (sink->aside)
        return;
    sink->aside = true;
    sink->peer->sinks_aside++;
    sink->peer->qp->granted_bytes -= dw_record_sink_due_bytes(&sink->record);
    sink->peer->qp->granted_records -= sink->counted;
}

/* It comes after all, be it beyond the budget: then the next grants wait the longer. */
static void take_back(struct dw_sink *sink)
{
    if (!sink->aside)
        return;
    sink->aside = false;
    sink->peer->qp->granted_bytes += dw_record_sink_due_bytes(&sink->record);
    sink->peer->qp->granted_records += sink->counted;
    if (--sink->peer->sinks_aside > 0)
        return;
    dw_list_foreach (it, &sink->peer->sinks)
        unpark(dw_container(it, struct dw_sink, peer_link));
}

/* ---- sink ---- */

static void ask_again(struct dw_sink *sink, uint64_t now_ns)
{
    struct dw_range missing[DW_RECORD_MAX_RANGES];
    unsigned n = dw_record_sink_on_timeout(&sink->record, missing, DW_RECORD_MAX_RANGES);
    sink->asked_ns = now_ns;
    dw_sink_send_status(sink, missing, n);
    if (sink->record.backoff > FRUITLESS_MAX)
        set_aside(sink);
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
 * time-out. The answer to a probe goes behind it: only what is missing then is asked for again. Of
 * a source that is silent as a whole nothing waits: it is asked at once, and probed if in vain. */
static void on_overdue(struct dw_sink *sink, uint64_t now_ns)
{
    struct dw_peer *peer = sink->peer;
    bool probed = peer->probe_sent_ns > asked_or_heard_ns(sink);
    bool quiet = now_ns - peer->heard_ns >= dw_peer_rto_ns(peer, 0);
    bool asked = sink->asked_ns > sink->record.heard_ns;
    if (probed ? peer->probe_answered : quiet && !asked) {
        ask_again(sink, now_ns);
        return;
    }
    if (probed && now_ns >= peer->probe_sent_ns + dw_peer_rto_ns(peer, 0)) {
        bool silent = peer->probe_sent_ns >= peer->heard_ns;
        if (++sink->record.backoff > FRUITLESS_MAX || silent)
            set_aside(sink);
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
        arm(sink);
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

struct dw_sink *dw_sink_create(struct dw_peer *peer, uint32_t id, uint32_t total, uint64_t now_ns)
{
    struct diwarp_qp *qp = peer->qp;
    struct dw_sink *sink = qp->sinks.count < RECORDS_MAX ? calloc(1, sizeof *sink) : NULL;
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
    sink->timer.fire = on_sink_timer;
    dw_record_sink_init(&sink->record, total, DW_REORDER_DATAGRAMS * peer->ah->datagram_max_bytes,
                        now_ns);
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
    take_back(sink);
    qp->granted_bytes -= dw_record_sink_due_bytes(&sink->record);
    sink->record.granted = (uint32_t)sink->record.map.bytes;
    qp->granted_records -= sink->counted;
    sink->counted = false;
    sink->parked = false;
    dw_list_remove(&sink->want_link);
    dw_heap_set(&qp->timers, &sink->timer, DW_NEVER);
}

void dw_sink_destroy(struct dw_sink *sink)
{
    stop(sink);
    dw_heap_unreserve(&sink->peer->qp->timers);
    dw_map_remove(&sink->peer->qp->sinks, dw_record_key(sink->peer, sink->id));
    dw_list_remove(&sink->peer_link);
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

void dw_sink_place(struct dw_sink *sink, uint32_t offset, const uint8_t *data, uint32_t length,
                   uint64_t now_ns)
{
    struct diwarp_qp *qp = sink->peer->qp;
    uint32_t granted = sink->record.granted;
    take_back(sink);
    int64_t new_bytes = dw_record_sink_on_segment(&sink->record, offset, length, now_ns);
    if (new_bytes < 0) {
        qp->counters.drop_no_buffer++;
        return;
    }
    /* Bytes that are there stay as they are: the application may see them, once it is told. */
    if (new_bytes && data)
        dw_copy(sink->addr + offset, data, length);
    qp->granted_bytes += sink->record.granted - granted;
    qp->granted_bytes -= (uint32_t)new_bytes;
    /* The source went beyond its grant: what is lacking is due all the same. */
    if (sink->record.granted != granted) {
        if (sink->record.granted == sink->record.total) {
            sink->parked = false;
            dw_list_remove(&sink->want_link);
        }
        arm(sink);
    }
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
        unsigned n = dw_record_sink_on_gap(&sink->record, missing, DW_RECORD_MAX_RANGES);
        if (n)
            dw_sink_send_status(sink, missing, n);
    }
}

/* ---- source ---- */

struct dw_source *dw_source_create(struct dw_peer *peer, uint32_t id, uint32_t total,
                                   uint32_t granted)
{
    struct diwarp_qp *qp = peer->qp;
    struct dw_source *source = qp->sources.count < RECORDS_MAX ? calloc(1, sizeof *source) : NULL;
    if (!source)
        return NULL;
    if (dw_map_put(&qp->sources, dw_record_key(peer, id), source)) {
        free(source);
        return NULL;
    }
    source->peer = peer;
    source->id = id;
    dw_record_source_init(&source->record, total, granted);
    dw_list_init(&source->ready_link);
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
