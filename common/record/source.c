/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The source of a record: Write-Record segments to the LLP. A large datagram is gathered from the
 * user's buffer; small ones are copied into one flat train, sealed on the way.
 */
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
    dw_record_source_init(&source->out, total, granted);
    return source;
}

void dw_source_look(struct dw_record *source)
{
    if (source->state == DW_RECORD_WAITING && dw_record_source_ready(&source->out))
        dw_record_set_state(source, DW_RECORD_READY);
}

/* Builds the datagram of `range` at buf; gathered: but for its payload, which stays where it is,
 * its trailer next to the head. Returns the length of all that leads the payload. */
static uint32_t build(const struct dw_record *source, uint8_t *buf, struct dw_range range,
                      bool gathered)
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
    const uint32_t lead = source->peer->records->ops->put_lead(source->peer, source->qpns, buf);
    const uint32_t length = range.end - range.start;
    uint8_t *payload = dw_segment_put(buf + lead, &ddp, &wr, length);
    struct dw_sealing sealing;
    dw_sealing_begin(&sealing, &source->peer->records->port->datagrams.seal);
    dw_sealing_add(&sealing, buf, (size_t)(payload - buf));
    if (gathered)
        dw_sealing_add(&sealing, source->addr + range.start, length);
    else
        dw_sealing_copy(&sealing, payload, source->addr + range.start, length);
    dw_sealing_end(&sealing, gathered ? payload : payload + length);
    return (uint32_t)(payload - buf);
}

/* The next bytes of a record, as one train. A long datagram is gathered: one pass over the payload
 * to seal it, none for a copy. Memory that changes while it is sent is not what was sealed: the
 * second time it is copied. False: the socket is full, the record waits as it was. */
static bool send_train(struct dw_record *source, uint64_t now_ns)
{
    struct dw_record_peer *peer = source->peer;
    const struct dw_record_ops *ops = peer->records->ops;
    struct diwarp_counters *counters = peer->records->counters;
    uint8_t *stage = peer->records->port->datagrams.stage;
    const uint32_t datagram = dw_ah_datagram_max_bytes(peer->ah);
    const uint32_t overhead =
        ops->put_lead(peer, source->qpns, NULL) + DW_RECORD_SEGMENT_BYTES + DW_TRAILER_BYTES;
    const uint32_t payload = datagram - overhead, sent_before = source->out.sent;
    struct dw_range all;
    bool again;
    if (!dw_record_source_next(&source->out, payload * dw_train_datagrams(datagram), &all, &again))
        return true;
    const uint32_t bytes = all.end - all.start, count = (bytes + payload - 1) / payload;
    const bool gathered = count == 1 && !again && bytes >= DW_INLINE_WRITE_BYTES;
    uint32_t head = 0, length = 0;
    for (struct dw_range one = all; one.start < all.end; one.start = one.end) {
        one.end = all.end - one.start < payload ? all.end : one.start + payload;
        head = build(source, stage + length, one, gathered);
        length += head + (one.end - one.start) + DW_TRAILER_BYTES;
    }
    const struct iovec iov[] = {
        {.iov_base = stage, .iov_len = gathered ? head : length},
        {.iov_base = source->addr + all.start, .iov_len = bytes},
        {.iov_base = stage + head, .iov_len = DW_TRAILER_BYTES},
    };
    ops->on_asked(peer, now_ns);
    if (ops->send_train(peer, iov, gathered ? 3 : 1, length < datagram ? length : datagram) ==
        -EAGAIN) {
        source->out.sent = sent_before;
        if (again) /* without memory the sink's timer asks for it */
            (void)dw_ranges_add(&source->out.again, all.start, all.end);
        return false;
    }
    source->turn_bytes += bytes;
    counters->tx_record_segments += count;
    counters->tx_record_bytes += bytes;
    counters->tx_resent_record_bytes += again ? bytes : 0;
    return true;
}

/* The oldest first, for its turn: a sink gets one record whole sooner than two halves. What a full
 * socket holds up keeps its place. */
void dw_sources_run(struct dw_records *records, uint64_t now_ns)
{
    const struct dw_record_peer *full = NULL; /* others may have a socket of their own */
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
