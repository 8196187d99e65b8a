/* SPDX-License-Identifier: BSD-3-Clause */
/* DDP segments into sequenced datagrams: sizes, headers, payload; and long messages sent at once.
 */
#include "common/rd/parts.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

uint32_t dw_segment_max_payload(const struct dw_peer *peer, const struct dw_ddp_header *ddp)
{
    return dw_ah_datagram_max_bytes(&dw_handle_of(peer)->ah) - dw_lead_bytes(peer) -
           dw_segment_header_bytes(ddp) - DW_TRAILER_BYTES;
}

uint8_t *dw_segment_append(struct dw_datagram *datagram, const struct dw_ddp_header *ddp,
                           const struct dw_write_record *record, uint32_t payload)
{
    const uint32_t padding = dw_segment_padding(datagram->bytes);
    memset(datagram->buf + datagram->bytes, 0, padding);
    datagram->bytes += padding;
    uint8_t *at = datagram->buf + datagram->bytes;
    datagram->bytes += dw_segment_header_bytes(ddp) + payload;
    assert(datagram->bytes <= datagram->room);
    return dw_segment_put(at, ddp, record, payload);
}

/* Headers of the next segment of a work; returns where its payload goes. */
static uint8_t *put_next(const struct dw_work *work, struct dw_datagram *datagram, uint32_t payload)
{
    struct dw_ddp_header ddp = work->ddp;
    ddp.last = work->copied + payload == work->total;
    if (ddp.tagged)
        ddp.to += work->copied;
    else
        ddp.mo = work->copied;
    struct dw_write_record record = {
        .id = work->record_id, .offset = work->copied, .total = work->total};
    datagram->ack_request |= (ddp.tagged && ddp.last && work->signaled) || work->refusal;
    datagram->refusals = (uint16_t)(datagram->refusals + work->refusal);
    return dw_segment_append(datagram, &ddp, &record, payload);
}

/* The next `length` bytes of a work, at most what is left of it. */
static void copy_next(struct dw_work *work, struct dw_sealing *sealing, uint8_t *to,
                      uint32_t length)
{
    dw_sealing_gather(sealing, to, work->sge, work->copied, length);
    work->copied += length;
}

void dw_segment_copy_rest(struct dw_work *work, uint8_t *buf)
{
    struct dw_sealing none = {.crc = false};
    const uint32_t copied = work->copied;
    copy_next(work, &none, buf + copied, work->total - copied);
    work->copied = copied;
}

void dw_segment_copy(struct dw_work *work, struct dw_datagram *datagram, uint32_t payload)
{
    struct dw_sealing none = {.crc = false};
    uint8_t *to = put_next(work, datagram, payload);
    copy_next(work, &none, to, payload);
}

/* ---- trains ---- */

/* The next `payload` bytes of a work into a new datagram, sealed in one pass with the copy. */
static void fill(struct dw_peer *peer, struct dw_work *work, struct dw_datagram *datagram,
                 uint32_t payload, uint64_t now_ns)
{
    struct dw_sealing sealing;
    uint8_t *to = put_next(work, datagram, payload);
    dw_transmit_begin(peer, datagram, now_ns);
    dw_sealing_begin(&sealing, &dw_rd_of(peer)->port->datagrams.seal);
    dw_sealing_add(&sealing, datagram->buf, (size_t)(to - datagram->buf));
    copy_next(work, &sealing, to, payload);
    dw_sealing_end(&sealing, to + payload);
}

/* The payload of its next datagrams, the last of which may be shorter: where nothing is under way
 * about the same for all, so that the first leaves early; else as few as it takes. */
static uint32_t next_payload(const struct dw_peer *peer, const struct dw_work *work)
{
    const uint32_t left = work->total - work->copied;
    const uint32_t most = dw_segment_max_payload(peer, &work->ddp);
    const uint32_t count = (left + most - 1) / most;
    if (peer->sendwin.count)
        return left < most ? left : most;
    /* Up to a multiple of 8 of the datagram (WIRE.md section 1), as `most` is. */
    const uint32_t even = most - (most - (left + count - 1) / count) / 8 * 8;
    return left < even ? left : even;
}

static uint32_t datagram_bytes(const struct dw_peer *peer, const struct dw_work *work,
                               uint32_t payload)
{
    return dw_lead_bytes(peer) + dw_segment_header_bytes(&work->ddp) + payload + DW_TRAILER_BYTES;
}

static unsigned datagrams_left(const struct dw_work *work, uint32_t payload)
{
    return (work->total - work->copied + payload - 1) / payload;
}

/* How many of them the window and its credit let go now. */
static unsigned allowed(const struct dw_peer *peer, const struct dw_work *work, uint32_t payload)
{
    const struct dw_sendwin *win = &peer->sendwin;
    const uint32_t each = dw_llp_truesize(datagram_bytes(peer, work, payload));
    const uint32_t room = dw_sendwin_room_datagrams(win), left = datagrams_left(work, payload);
    uint32_t n = win->credit_bytes > win->bytes ? (win->credit_bytes - win->bytes) / each : 0;
    n = n || win->count ? n : 1;
    n = n < room ? n : room;
    return n < left ? n : left;
}

bool dw_segment_all_may_go(const struct dw_peer *peer, const struct dw_work *work)
{
    const uint32_t payload = next_payload(peer, work);
    return allowed(peer, work, payload) == datagrams_left(work, payload);
}

/* Of `count` datagrams, those of the next train: shared out evenly among the trains it takes. */
static unsigned train_length(uint32_t each, unsigned count)
{
    const unsigned most = dw_train_datagrams(each), trains = (count + most - 1) / most;
    return (count + trains - 1) / trains;
}

static void send_train(struct dw_peer *peer, struct dw_work *work, struct dw_train *train,
                       uint32_t payload, unsigned n, uint64_t now_ns)
{
    const uint32_t stride = datagram_bytes(peer, work, payload);
    uint8_t *flat = (uint8_t *)(train->datagrams + n);
    uint32_t total = 0;
    train->kept = n;
    for (unsigned i = 0; i < n; i++) {
        struct dw_datagram *datagram = &train->datagrams[i];
        dw_datagram_init(peer, train, datagram, work->qpns, flat + total,
                         stride - DW_TRAILER_BYTES);
        const uint32_t left = work->total - work->copied;
        fill(peer, work, datagram, left < payload ? left : payload, now_ns);
        total += datagram->bytes + DW_TRAILER_BYTES;
    }
    struct iovec iov = {.iov_base = flat, .iov_len = total};
    if (dw_transmit_train(&peer->records, &iov, 1, total < stride ? total : stride) == -EAGAIN)
        for (unsigned i = 0; i < n; i++)
            dw_transmit_refused(peer, &train->datagrams[i]);
    dw_timers_on_asked(peer, now_ns);
}

bool dw_send_train(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns)
{
    const uint32_t payload = next_payload(peer, work);
    const uint32_t each =
        (uint32_t)sizeof(struct dw_datagram) + datagram_bytes(peer, work, payload);
    unsigned n = allowed(peer, work, payload);
    uint32_t room;
    if (!n)
        return false;
    for (n = train_length(each, n); n; n /= 2) {
        struct dw_train *train =
            dw_pool_get(peer, (uint32_t)sizeof(struct dw_train) + n * each, &room);
        if (!train)
            continue;
        send_train(peer, work, train, payload, n, now_ns);
        return true;
    }
    return false;
}
