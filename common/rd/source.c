/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The source of a record: Write-Record segments to the LLP. Large datagrams are gathered from the
 * user's buffer; small ones are copied into one flat train, sealed on the way.
 */
#include "common/rd/parts.h"

#include <errno.h>
#include <stdlib.h>

/* Trains in one run, so that acknowledgements are not kept waiting. */
#define TRAINS_PER_RUN 4

/* ---- making and ending ---- */

struct dw_source *dw_source_create(const struct dw_ends *ends, struct dw_record_peer *peer,
                                   uint32_t id, const uint8_t *addr, uint32_t total,
                                   uint32_t granted, struct dw_region *asked)
{
    struct dw_source *source =
        !asked || peer->asked_count < DW_ASKED_MAX ? calloc(1, sizeof *source) : NULL;
    if (!source)
        return NULL;
    if (dw_map_put(&peer->records->sources, dw_record_key(peer, id), source)) {
        free(source);
        return NULL;
    }
    source->qp = ends->qp;
    source->qpns = ends->qpns;
    source->peer = peer;
    source->id = id;
    source->addr = addr;
    dw_record_source_init(&source->record, total, granted);
    dw_list_init(&source->ready_link);
    source->region = asked;
    if (asked)
        asked->records++;
    asked ? peer->asked_count++ : peer->own_count++;
    dw_list_append(&peer->sources, &source->peer_link);
    return source;
}

void dw_source_look(struct dw_source *source)
{
    if (source->state == DW_SOURCE_WAITING && dw_record_source_ready(&source->record))
        dw_source_set_state(source, DW_SOURCE_READY);
}

void dw_source_destroy(struct dw_source *source)
{
    struct dw_record_peer *peer = source->peer;
    dw_source_set_state(source, DW_SOURCE_ENDED);
    dw_map_remove(&peer->records->sources, dw_record_key(peer, source->id));
    dw_list_remove(&source->peer_link);
    source->region ? peer->asked_count-- : peer->own_count--;
    if (source->region)
        source->region->records--;
    dw_record_source_fini(&source->record);
    free(source);
}

void dw_source_withdraw(struct dw_source *source, uint64_t now_ns)
{
    struct dw_record_peer *peer = source->peer;
    const struct dw_record_control abort = {
        .kind = DW_RECORD_ABORT, .status = DW_STATUS_WITHDRAWN, .id = source->id};
    (void)dw_send_record_answer(dw_peer_of_records(peer), source->qpns, &abort, false, now_ns);
    dw_source_destroy(source);
}

void dw_source_abandon(struct dw_source *source, uint64_t now_ns)
{
    source->qp = NULL;
    if (source->record.granted)
        dw_source_withdraw(source, now_ns);
}

void dw_source_fail(struct dw_source *source, enum ibv_wc_status status)
{
    if (!source->region && source->qp)
        dw_qp_complete(source->qp, source->wr_id, source->signaled, IBV_WC_RDMA_WRITE, status, 0);
    dw_source_destroy(source);
}

/* ---- datagrams ---- */

/* Writes all that leads the payload of `range`; returns its length. */
static uint32_t put_head(const struct dw_source *source, uint8_t *buf, struct dw_range range)
{
    const struct dw_ddp_header ddp = {
        .tagged = true,
        .last = range.end == source->record.total,
        .opcode = DW_RDMAP_WRITE_RECORD,
        .stag = source->sink_stag,
        .to = source->sink_to + range.start,
    };
    const struct dw_write_record wr = {
        .id = source->id, .offset = range.start, .total = source->record.total};
    const uint32_t lead = dw_put_record_lead(dw_peer_of_records(source->peer), source->qpns, buf);
    uint8_t *payload = dw_segment_put(buf + lead, &ddp, &wr, range.end - range.start);
    return (uint32_t)(payload - buf);
}

static const struct dw_seal *seal_of(const struct dw_source *source)
{
    return &source->peer->records->port->datagrams.seal;
}

/* Builds the datagram that carries `range` at buf; returns its length. */
static uint32_t build(const struct dw_source *source, uint8_t *buf, struct dw_range range)
{
    struct dw_sealing sealing;
    uint32_t head = put_head(source, buf, range), length = range.end - range.start;
    dw_sealing_begin(&sealing, seal_of(source));
    dw_sealing_add(&sealing, buf, head);
    dw_sealing_copy(&sealing, buf + head, source->addr + range.start, length);
    dw_sealing_end(&sealing, buf + head + length);
    return head + length + DW_TRAILER_BYTES;
}

/* The one datagram of `range`, its payload gathered from where it lies. */
static int send_gathered(const struct dw_source *source, struct dw_range range)
{
    struct dw_sealing sealing;
    uint8_t *buf = source->peer->records->port->datagrams.stage, trailer[DW_TRAILER_BYTES];
    uint32_t head = put_head(source, buf, range), length = range.end - range.start;
    const uint8_t *from = source->addr + range.start;
    dw_sealing_begin(&sealing, seal_of(source));
    dw_sealing_add(&sealing, buf, head);
    dw_sealing_add(&sealing, from, length);
    dw_sealing_end(&sealing, trailer);
    const struct iovec iov[] = {
        {.iov_base = buf, .iov_len = head},
        {.iov_base = (void *)(uintptr_t)from, .iov_len = length},
        {.iov_base = trailer, .iov_len = sizeof trailer},
    };
    return dw_transmit_train(dw_peer_of_records(source->peer), iov, 3,
                             head + length + DW_TRAILER_BYTES);
}

/* ---- trains ---- */

/* The bytes of a train, and whether they went out before. */
struct part {
    struct dw_range range;
    bool again;
};

/* Returns how many bytes. */
static uint32_t count_sent(struct diwarp_counters *counters, const struct part *parts, unsigned n)
{
    uint32_t all = 0;
    counters->tx_record_segments += n;
    for (unsigned i = 0; i < n; i++) {
        uint32_t bytes = parts[i].range.end - parts[i].range.start;
        counters->tx_record_bytes += bytes;
        if (parts[i].again)
            counters->tx_resent_record_bytes += bytes;
        all += bytes;
    }
    return all;
}

/* The socket took nothing of a train: the record is as it was before. For want of memory a part may
 * be forgotten: the sink's timer asks for it. */
static void take_back(struct dw_source *source, uint32_t sent, const struct part *parts, unsigned n)
{
    source->record.sent = sent;
    for (unsigned i = 0; i < n; i++)
        if (parts[i].again)
            (void)dw_ranges_add(&source->record.again, parts[i].range.start, parts[i].range.end);
}

/* A train being filled: the bytes of each of its datagrams. */
struct outgoing {
    struct part parts[DW_LLP_TRAIN_DATAGRAMS];
    unsigned n;
    uint32_t total, segment; /* bytes of all, and of each but the last */
    bool gathered;           /* the only one, not built yet */
};

/* Datagrams of a train but the last must not be shorter, none longer than the first. */
static void fill(struct dw_source *source, struct outgoing *out)
{
    const struct dw_peer *peer = dw_peer_of_records(source->peer);
    uint8_t *stage = source->peer->records->port->datagrams.stage;
    const uint32_t overhead = dw_lead_bytes(peer) + DW_RECORD_SEGMENT_BYTES + DW_TRAILER_BYTES;
    uint32_t payload_max = dw_ah_datagram_max_bytes(source->peer->ah) - overhead;
    while (out->n < DW_LLP_TRAIN_DATAGRAMS && out->total + out->segment <= DW_LLP_TRAIN_BYTES) {
        struct part *part = &out->parts[out->n];
        if (!dw_record_source_next(&source->record, payload_max, &part->range, &part->again))
            break;
        /* A long one is gathered: one pass over the payload to seal it, none for a copy. Memory
         * that changes while it is sent is not what was sealed: the second time it is copied. */
        out->gathered = !out->n++ && !part->again &&
                        part->range.end - part->range.start >= DW_INLINE_WRITE_BYTES;
        if (out->gathered)
            break;
        uint32_t bytes = build(source, stage + out->total, part->range);
        out->total += bytes;
        if (out->segment && bytes < out->segment)
            break;
        out->segment = bytes;
        payload_max = bytes - overhead;
    }
}

/* One train of a record. false: the socket is full, the record waits as it was. */
static bool send_train(struct dw_source *source, uint64_t now_ns)
{
    struct dw_peer *peer = dw_peer_of_records(source->peer);
    struct dw_records *records = source->peer->records;
    const uint32_t sent_before = source->record.sent;
    struct outgoing out = {.n = 0};
    fill(source, &out);
    if (!out.n)
        return true;
    struct iovec iov = {.iov_base = records->port->datagrams.stage, .iov_len = out.total};
    dw_timers_on_record(peer, now_ns);
    int rc = out.gathered ? send_gathered(source, out.parts[0].range)
                          : dw_transmit_train(peer, &iov, 1, out.segment);
    if (rc == -EAGAIN) {
        take_back(source, sent_before, out.parts, out.n);
        return false;
    }
    source->turn_bytes += count_sent(records->counters, out.parts, out.n);
    return true;
}

/* The next in the list after all of a peer whose socket is full. */
static struct dw_list *skip_peer(const struct dw_records *records, struct dw_list *it)
{
    const struct dw_record_peer *full = dw_container(it, struct dw_source, ready_link)->peer;
    while (it != &records->ready && dw_container(it, struct dw_source, ready_link)->peer == full)
        it = it->next;
    return it;
}

void dw_sources_run(struct dw_records *records, uint64_t now_ns)
{
    /* The oldest first, for its turn: a sink gets one record whole sooner than two halves. What a
     * full socket holds up keeps its place. */
    struct dw_list *it = records->ready.next;
    unsigned trains = 0, refusals = 0;
    while (it != &records->ready && trains < TRAINS_PER_RUN && refusals < DW_REFUSALS_PER_RUN) {
        struct dw_source *source = dw_container(it, struct dw_source, ready_link);
        if (!send_train(source, now_ns)) {
            refusals++;
            it = skip_peer(records, it);
            continue;
        }
        trains++;
        bool ready = dw_record_source_ready(&source->record);
        if (ready && source->turn_bytes < DW_RECORD_TURN_BYTES)
            continue;
        it = it->next;
        source->turn_bytes = 0;
        dw_source_set_state(source, DW_SOURCE_WAITING);
        dw_source_look(source);
    }
}
