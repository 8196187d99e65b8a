/* SPDX-License-Identifier: BSD-3-Clause */
/* DDP segments into sequenced datagrams: sizes, headers, payload; and long messages sent at once.
 */
#include "common/rd/segment.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/copy.h"
#include "common/rd/timers.h"
#include "common/rd/transmit.h"

/* Most large datagrams of a message that is sent at once. */
#define SEVERAL_MAX 8
/* Most trains of a message that is sent at once. */
#define TRAINS_MAX 4

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
    datagram->urgent |= work->copied > 0;
    datagram->ack_request |= (ddp.tagged && ddp.last && work->signaled) || work->refusal;
    datagram->refusals = (uint16_t)(datagram->refusals + work->refusal);
    return dw_segment_append(datagram, &ddp, &record, payload);
}

/* Where the next `length` bytes of a work lie; returns the entries written. */
static unsigned gather_next(const struct dw_work *work, uint32_t length, struct iovec *iov)
{
    size_t skip = work->copied;
    unsigned n = 0;
    for (unsigned i = 0; length; i++) {
        assert(i < work->sge_count);
        if (skip >= work->sge[i].iov_len) {
            skip -= work->sge[i].iov_len;
            continue;
        }
        size_t bytes = work->sge[i].iov_len - skip;
        if (bytes > length)
            bytes = length;
        iov[n++] =
            (struct iovec){.iov_base = (uint8_t *)work->sge[i].iov_base + skip, .iov_len = bytes};
        length -= (uint32_t)bytes;
        skip = 0;
    }
    return n;
}

static void copy(uint8_t *to, const struct iovec *iov, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        dw_copy(to, iov[i].iov_base, iov[i].iov_len);
        to += iov[i].iov_len;
    }
}

void dw_segment_copy_rest(const struct dw_work *work, uint8_t *buf)
{
    struct iovec iov[DW_MAX_SGE];
    const unsigned n = gather_next(work, work->total - work->copied, iov);
    copy(buf + work->copied, iov, n);
}

void dw_segment_copy(struct dw_work *work, struct dw_datagram *datagram, uint32_t payload)
{
    struct iovec iov[DW_MAX_SGE];
    unsigned n = gather_next(work, payload, iov);
    copy(put_next(work, datagram, payload), iov, n);
    work->copied += payload;
}

/* The next `payload` bytes of a work into a new datagram, sealed in one pass with the copy. */
static void fill(struct dw_peer *peer, struct dw_work *work, struct dw_datagram *datagram,
                 uint32_t payload, uint64_t now_ns)
{
    struct dw_sealing sealing;
    struct iovec iov[DW_MAX_SGE];
    unsigned n = gather_next(work, payload, iov);
    uint8_t *to = put_next(work, datagram, payload);
    work->copied += payload;
    dw_transmit_begin(peer, datagram, now_ns);
    dw_sealing_begin(&sealing, &dw_rd_of(peer)->port->datagrams.seal);
    dw_sealing_add(&sealing, datagram->buf, (size_t)(to - datagram->buf));
    for (unsigned i = 0; i < n; to += iov[i++].iov_len)
        dw_sealing_copy(&sealing, to, iov[i].iov_base, iov[i].iov_len);
    dw_sealing_end(&sealing, to);
}

void dw_segment_send(struct dw_peer *peer, struct dw_work *work, struct dw_datagram *datagram,
                     uint32_t payload, uint64_t now_ns)
{
    fill(peer, work, datagram, payload, now_ns);
    struct iovec iov = {.iov_base = datagram->buf, .iov_len = datagram->bytes + DW_TRAILER_BYTES};
    if (dw_transmit_train(peer, &iov, 1, (uint32_t)iov.iov_len) == -EAGAIN)
        dw_transmit_refused(peer, datagram);
    dw_timers_on_asked(peer, now_ns);
}

/* ---- several large datagrams at once ---- */

struct part {
    struct dw_datagram *datagram;
    uint8_t *to; /* its payload belongs here */
    unsigned n;
    struct iovec iov[DW_MAX_SGE]; /* and is here */
};

static void send_part(struct dw_peer *peer, struct dw_work *work, struct part *part,
                      uint32_t payload, uint64_t now_ns)
{
    struct dw_datagram *datagram = part->datagram;
    struct dw_sealing sealing;
    struct iovec iov[DW_MAX_SGE + 2];
    part->n = gather_next(work, payload, part->iov);
    part->to = put_next(work, datagram, payload);
    work->copied += payload;
    dw_transmit_begin(peer, datagram, now_ns);
    size_t head = (size_t)(part->to - datagram->buf);
    dw_sealing_begin(&sealing, &dw_rd_of(peer)->port->datagrams.seal);
    dw_sealing_add(&sealing, datagram->buf, head);
    for (unsigned i = 0; i < part->n; i++)
        dw_sealing_add(&sealing, part->iov[i].iov_base, part->iov[i].iov_len);
    dw_sealing_end(&sealing, part->to + payload);
    iov[0] = (struct iovec){.iov_base = datagram->buf, .iov_len = head};
    memcpy(iov + 1, part->iov, part->n * sizeof *iov);
    iov[part->n + 1] = (struct iovec){.iov_base = part->to + payload, .iov_len = DW_TRAILER_BYTES};
    if (dw_transmit_train(peer, iov, part->n + 2, datagram->bytes + DW_TRAILER_BYTES) == -EAGAIN)
        dw_transmit_refused(peer, part->datagram);
}

/* Datagrams for the rest of a work. */
static unsigned datagrams_left(const struct dw_work *work, uint32_t payload)
{
    return (work->total - work->copied + payload - 1) / payload;
}

/* The segment of the one after the next `skip`. */
static uint32_t segment_bytes(const struct dw_work *work, uint32_t payload, unsigned skip)
{
    uint32_t left = work->total - work->copied - skip * payload;
    return dw_segment_header_bytes(&work->ddp) + (left < payload ? left : payload);
}

static uint32_t datagram_bytes(const struct dw_peer *peer, uint32_t segment)
{
    return dw_lead_bytes(peer) + segment + DW_TRAILER_BYTES;
}

/* How many of them the window and its credit let go now. */
static unsigned allowed(const struct dw_peer *peer, const struct dw_work *work, uint32_t payload)
{
    const struct dw_sendwin *win = &peer->sendwin;
    uint32_t count = datagrams_left(work, payload), room = dw_sendwin_room_datagrams(win);
    uint32_t planned = win->bytes, n = 0;
    if (count > room)
        count = room;
    for (; n < count; n++) {
        planned += dw_llp_truesize(datagram_bytes(peer, segment_bytes(work, payload, n)));
        if (win->count + n && planned > win->credit_bytes)
            break;
    }
    return n;
}

/* All the buffers for it, or none. */
static unsigned get_datagrams(struct dw_peer *peer, const struct dw_work *work, uint32_t payload,
                              struct part *parts)
{
    unsigned count = datagrams_left(work, payload), n = 0;
    if (count > allowed(peer, work, payload))
        return 0;
    for (; n < count; n++) {
        parts[n].datagram = dw_datagram_get(peer, work->qpns, segment_bytes(work, payload, n));
        if (!parts[n].datagram)
            break;
    }
    if (n == count)
        return n;
    while (n > 0)
        dw_datagram_put(dw_rd_of(peer), parts[--n].datagram);
    return 0;
}

static int send_apart(struct dw_peer *peer, struct dw_work *work, uint32_t payload, uint64_t now_ns)
{
    struct part parts[SEVERAL_MAX];
    if (work->total > SEVERAL_MAX * payload)
        return -EMSGSIZE;
    unsigned n = get_datagrams(peer, work, payload, parts);
    for (unsigned i = 0; i < n; i++) {
        uint32_t left = work->total - work->copied;
        send_part(peer, work, &parts[i], left < payload ? left : payload, now_ns);
    }
    /* Now that the peer has something to do: what may have to be sent again. */
    for (unsigned i = 0; i < n; i++)
        copy(parts[i].to, parts[i].iov, parts[i].n);
    return n ? 0 : -EAGAIN;
}

/* ---- trains of small datagrams ---- */

static uint32_t stride_bytes(const struct dw_peer *peer, const struct dw_work *work,
                             uint32_t payload)
{
    return datagram_bytes(peer, dw_segment_header_bytes(&work->ddp) + payload);
}

/* Datagrams of the next train: as many as go, shared out evenly among the trains it takes. */
static unsigned train_length(const struct dw_peer *peer, const struct dw_work *work,
                             uint32_t payload, unsigned count)
{
    unsigned most = (DW_SLAB_MAX_BYTES - (unsigned)sizeof(struct dw_train)) /
                    ((unsigned)sizeof(struct dw_datagram) + stride_bytes(peer, work, payload));
    if (most > DW_LLP_TRAIN_DATAGRAMS)
        most = DW_LLP_TRAIN_DATAGRAMS;
    unsigned trains = (count + most - 1) / most;
    return (count + trains - 1) / trains;
}

static struct dw_train *get_train(struct dw_peer *peer, const struct dw_work *work,
                                  uint32_t payload, unsigned n)
{
    uint32_t room, each = (uint32_t)sizeof(struct dw_datagram) + stride_bytes(peer, work, payload);
    return dw_pool_get(peer, (uint32_t)sizeof(struct dw_train) + n * each, &room);
}

static void send_train(struct dw_peer *peer, struct dw_work *work, struct dw_train *train,
                       uint32_t payload, unsigned n, uint64_t now_ns)
{
    uint32_t stride = stride_bytes(peer, work, payload), total = 0;
    uint8_t *flat = (uint8_t *)(train->datagrams + n);
    train->kept = n;
    for (unsigned i = 0; i < n; i++) {
        struct dw_datagram *datagram = &train->datagrams[i];
        uint32_t left = work->total - work->copied;
        dw_datagram_init(peer, datagram, work->qpns, flat + total, stride - DW_TRAILER_BYTES);
        datagram->train = train;
        fill(peer, work, datagram, left < payload ? left : payload, now_ns);
        total += datagram->bytes + DW_TRAILER_BYTES;
    }
    struct iovec iov = {.iov_base = flat, .iov_len = total};
    if (dw_transmit_train(peer, &iov, 1, total < stride ? total : stride) == -EAGAIN)
        for (unsigned i = 0; i < n; i++)
            dw_transmit_refused(peer, &train->datagrams[i]);
}

bool dw_send_train(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns)
{
    uint32_t payload = dw_segment_max_payload(peer, &work->ddp);
    unsigned n = allowed(peer, work, payload);
    if (!n)
        return false;
    n = train_length(peer, work, payload, n);
    struct dw_train *train = get_train(peer, work, payload, n);
    while (!train && (n /= 2))
        train = get_train(peer, work, payload, n);
    if (!train)
        return false;
    send_train(peer, work, train, payload, n, now_ns);
    dw_timers_on_asked(peer, now_ns);
    return true;
}

static int send_trains(struct dw_peer *peer, struct dw_work *work, uint32_t payload,
                       uint64_t now_ns)
{
    unsigned count = datagrams_left(work, payload), got = 0;
    unsigned n = train_length(peer, work, payload, count), trains = (count + n - 1) / n;
    struct dw_train *train[TRAINS_MAX];
    if (trains > TRAINS_MAX)
        return -EMSGSIZE;
    if (count <= allowed(peer, work, payload))
        while (got < trains && (train[got] = get_train(peer, work, payload, n)))
            got++;
    if (got < trains) {
        while (got > 0)
            dw_slab_put(&dw_rd_of(peer)->port->datagrams.pool, train[--got]);
        return -EAGAIN;
    }
    for (unsigned i = 0; i < trains; i++, count -= n)
        send_train(peer, work, train[i], payload, count < n ? count : n, now_ns);
    return 0;
}

int dw_send_several(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns)
{
    uint32_t payload = dw_segment_max_payload(peer, &work->ddp);
    int rc = payload < DW_APART_MIN_BYTES ? send_trains(peer, work, payload, now_ns)
                                          : send_apart(peer, work, payload, now_ns);
    /* With nothing in flight, nothing will make more room. */
    if (rc == -EAGAIN && !peer->sendwin.count)
        return -EMSGSIZE;
    if (!rc)
        dw_timers_on_asked(peer, now_ns);
    return rc;
}
