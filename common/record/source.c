/* SPDX-License-Identifier: BSD-3-Clause */
/* The source of a record: Write-Record segments to the LLP. A large datagram is gathered from the
 * user's buffer; small ones are copied into one flat train, sealed on the way. */
#include <errno.h>

#include "common/record/records.h"

/* Trains in one run, so that acknowledgements are not kept waiting. */
#define TRAINS_PER_RUN 4

struct dw_record *dw_source_create(const struct dw_ends *ends, struct dw_record_peer *peer,
                                   uint32_t id, const void *addr, uint32_t total, uint32_t granted,
                                   struct dw_region *asked)
{
    struct dw_record *source = dw_record_create(ends, peer, id, asked, false);
    if (!source)
        return NULL;
    source->addr = (uint8_t *)(uintptr_t)addr;
    source->out.total = total;
    source->out.granted = granted < total ? granted : total;
    return source;
}

void dw_source_look(struct dw_record *source)
{
    if (source->state == DW_RECORD_WAITING && dw_record_source_ready(&source->out))
        dw_record_set_state(source, DW_RECORD_READY);
}

/* Builds the datagram of `range`, which goes by that way, at buf; gathered: but for its payload,
 * which stays where it is, its trailer next to the head. Returns the length of all that leads the
 * payload. */
static uint32_t build(const struct dw_record *source, struct dw_record_by by, uint8_t *buf,
                      struct dw_range range, bool gathered)
{
    const struct dw_ddp_header ddp = {
        .tagged = true,
        .last = range.end == source->out.total,
        .opcode = DW_RDMAP_WRITE_RECORD,
        .stag = source->stag,
        .to = source->to + range.start,
    };
    const struct dw_write_record wr = {
        .id = source->id, .offset = range.start, .total = source->out.total};
    const uint32_t lead = source->peer->records->ops->put_lead(source->peer, source->qpns, by, buf);
    const uint32_t length = range.end - range.start;
    uint8_t *payload = dw_segment_put(buf + lead, &ddp, &wr, length);
    const struct diwarp_ah *ah = source->peer->ah;
    const struct dw_process to = {.name = ah->name, .incarnation = ah->incarnation};
    struct dw_sealing sealing = dw_sealing_begin(&source->peer->records->port->datagrams.seal, &to,
                                                 buf, (size_t)(payload - buf));
    if (gathered)
        dw_sealing_add(&sealing, source->addr + range.start, length);
    else
        dw_sealing_copy(&sealing, payload, source->addr + range.start, length);
    dw_sealing_end(&sealing, gathered ? payload : payload + length);
    return (uint32_t)(payload - buf);
}

/* A train being filled: bytes not sent yet, or several ranges that are asked for again. */
struct outgoing {
    struct dw_record_by by;
    struct dw_range again[DW_LLP_TRAIN_DATAGRAMS];
    unsigned again_count, count;         /* of its datagrams */
    uint32_t length, bytes, again_bytes; /* of all; of their payload; of it what went out before */
    uint32_t head;                       /* of the last datagram, all that leads its payload */
    struct dw_range last;                /* its payload, if gathered */
    bool gathered;                       /* the only one, whose payload stays where it is */
};

/* A long datagram is gathered, unless it is encrypted: one pass over the payload to seal it, none
 * for a copy. Memory that changes while it is sent is not what was sealed: the second time it is
 * copied. Only the last of a
 * train may be shorter than the others. */
static void fill(struct dw_record *source, uint32_t payload, unsigned most, struct outgoing *out)
{
    const struct dw_datagrams *datagrams = &source->peer->records->port->datagrams;
    uint8_t *stage = datagrams->stage;
    const uint32_t sent = source->out.sent;
    bool again;
    while (out->count < most && out->bytes == out->count * payload &&
           dw_record_source_next(&source->out, out->by.way, payload, &out->last, &again)) {
        const uint32_t bytes = out->last.end - out->last.start;
        out->again_bytes += out->last.start < sent ? bytes : 0;
        if (again)
            out->again[out->again_count++] = out->last;
        out->gathered = most == 1 && !again && bytes >= DW_INLINE_WRITE_BYTES &&
                        !dw_seal_is_secret(&datagrams->seal);
        out->head = build(source, out->by, stage + out->length, out->last, out->gathered);
        out->length += out->head + bytes + datagrams->seal.trailer_bytes;
        out->bytes += bytes;
        out->count++;
    }
}

/* Of the longest datagrams that go by that way. */
static uint32_t datagram_bytes(const struct diwarp_ah *ah, uint8_t way)
{
    const uint32_t most = dw_ah_datagram_max_bytes(ah);
    const unsigned i = way ? dw_ways_to(ah->ways, way) : ah->ways->count;
    const uint32_t passes = i < ah->ways->count ? ah->ways->paths[i]->datagram_max_bytes : most;
    return passes < most ? passes : most;
}

/* The next bytes of a record, as one train. False: the socket is full, nothing has changed. */
static bool send_train(struct dw_record *source, uint64_t now_ns)
{
    struct dw_record_peer *peer = source->peer;
    const struct dw_record_ops *ops = peer->records->ops;
    struct diwarp_counters *counters = peer->records->counters;
    uint8_t *stage = peer->records->port->datagrams.stage;
    struct outgoing out = {.by = dw_record_source_by(&source->out)};
    const uint32_t datagram = datagram_bytes(peer->ah, out.by.way), sent_before = source->out.sent;
    const uint32_t trailer = peer->records->port->datagrams.seal.trailer_bytes;
    const uint32_t overhead =
        ops->put_lead(peer, source->qpns, out.by, NULL) + DW_RECORD_SEGMENT_BYTES + trailer;
    fill(source, datagram - overhead, dw_train_datagrams(datagram), &out);
    if (!out.count)
        return true;
    const struct iovec iov[] = {
        {.iov_base = stage, .iov_len = out.gathered ? out.head : out.length},
        {.iov_base = source->addr + out.last.start, .iov_len = out.bytes},
        {.iov_base = stage + out.head, .iov_len = trailer},
    };
    ops->on_asked(peer, now_ns);
    const int rc = ops->send_train(peer, out.by.way, iov, out.gathered ? 3 : 1,
                                   out.length < datagram ? out.length : datagram);
    if (rc == -EAGAIN) {
        source->out.sent = sent_before;
        dw_record_source_put_back(&source->out, out.by, out.again, out.again_count);
        return false;
    }
    source->turn_bytes += out.bytes;
    counters->tx_record_segments += out.count;
    counters->tx_record_bytes += out.bytes;
    counters->tx_resent_record_bytes += out.again_bytes;
    return true;
}

/* The oldest first, for its turn: a sink gets one record whole sooner than two halves. What a full
 * socket holds up keeps its place. */
void dw_sources_run(struct dw_records *records, uint64_t now_ns)
{
    const struct dw_record_peer *full = NULL;
    unsigned trains = 0, refusals = 0;
    dw_foreach (source, struct dw_record, turn_link, &records->ready) {
        bool ready = source->peer != full;
        while (ready && source->turn_bytes < DW_RECORD_TURN_BYTES) {
            if (trains == TRAINS_PER_RUN || refusals == DW_REFUSALS_PER_RUN)
                return;
            if (!send_train(source, now_ns)) {
                full = source->peer;
                refusals++;
                break;
            }
            trains++;
            ready = dw_record_source_ready(&source->out);
        }
        if (source->peer == full)
            continue;
        source->turn_bytes = 0;
        dw_record_set_state(source, DW_RECORD_WAITING);
        dw_source_look(source);
    }
}
