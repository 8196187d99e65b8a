/* SPDX-License-Identifier: BSD-3-Clause */
/* Works into sequenced datagrams: segmentation and coalescing. A message goes at once when nothing
 * is in flight to its peer, or little and it is not posted right after another; otherwise it joins
 * the open datagram, which leaves when it is full, when all before it is acknowledged, or at the
 * next run of the RNIC. Long ones leave in trains of their own. A work with a fence waits until all
 * before it is acknowledged. */
#include "common/rd/parts.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/bytes.h"

/* Messages to a peer that are posted no further apart are a burst. */
#define BURST_NS 2000
/* From this on a payload is copied in one pass with its CRC; what is shorter shares datagrams. */
#define ONE_PASS_MIN_BYTES 1024

/* ---- works ---- */

struct dw_work *dw_work_get(struct dw_peer *peer, const struct dw_ends *ends,
                            enum dw_rdmap_opcode opcode, enum dw_ddp_queue qn, uint32_t bytes)
{
    struct dw_work *work = malloc(sizeof *work);
    if (!work)
        return NULL;
    memset(work, 0, offsetof(struct dw_work, own));
    dw_list_init(&work->link);
    work->qp = ends->qp;
    work->qpns = ends->qpns;
    work->ddp = (struct dw_ddp_header){.opcode = (uint8_t)opcode, .qn = qn, .msn = 1};
    work->total = bytes;
    work->sge[0] = (struct iovec){.iov_base = work->own, .iov_len = bytes};
    if (ends->qp)
        peer->queued++;
    dw_rd_of(peer)->work_count++;
    return work;
}

void dw_work_put(struct dw_peer *peer, struct dw_work *work)
{
    dw_list_remove(&work->link);
    if (work->qp)
        peer->queued--;
    peer->answers = (uint16_t)(peer->answers - work->answer);
    dw_rd_of(peer)->work_count--;
    free(work->rest);
    free(work);
}

void dw_work_end(struct dw_peer *peer, struct dw_work *work, enum ibv_wc_status status)
{
    uint32_t bytes = work->atomic ? sizeof(uint64_t) : work->total;
    if (dw_rdmap_is_immediate(work->ddp.opcode)) /* of the write that it tells of */
        bytes = dw_get_be32(work->own + sizeof(uint32_t));
    if (work->qp)
        dw_qp_complete(work->qp, work->wr_id, work->signaled, work->opcode, status,
                       status == IBV_WC_SUCCESS ? bytes : 0);
    dw_work_put(peer, work);
}

struct dw_work *dw_work_find(const struct dw_peer *peer, uint32_t record_id, bool atomic)
{
    const struct dw_list *lists[] = {&peer->awaiting, &peer->pending};
    for (unsigned i = 0; i < (atomic ? 1 : 2); i++) /* what has not left has no response */
        dw_foreach (work, struct dw_work, link, lists[i])
            if (work->qp && work->record_id == record_id &&
                (atomic ? work->atomic : work->ddp.tagged))
                return work;
    return NULL;
}

/* The next `length` bytes of a work, at most what is left of it. */
static void copy_next(struct dw_work *work, struct dw_sealing *sealing, uint8_t *to,
                      uint32_t length)
{
    dw_sealing_gather(sealing, to, work->sge, work->copied, length);
    work->copied += length;
}

/* What has not been sent leaves its user's memory. False: there is none, the peer is doomed. */
static bool copy_rest(struct dw_peer *peer, struct dw_work *work)
{
    const uint32_t copied = work->copied;
    work->rest = malloc(work->total);
    if (!work->rest) {
        dw_peer_doom(peer, DIWARP_GONE_NO_ROOM);
        return false;
    }
    copy_next(work, &(struct dw_sealing){0}, work->rest + copied, work->total - copied);
    work->copied = copied;
    work->sge[0] = (struct iovec){.iov_base = work->rest, .iov_len = work->total};
    return true;
}

bool dw_work_detach(struct dw_peer *peer, struct dw_work *work)
{
    if (!work->rest && !copy_rest(peer, work))
        return false;
    work->qp = NULL;
    peer->queued--;
    return true;
}

/* ---- segments ---- */

/* Payload of a message that one datagram to the peer holds. */
static uint32_t max_payload(const struct dw_peer *peer, const struct dw_ddp_header *ddp)
{
    return dw_ah_datagram_max_bytes(&dw_handle_of(peer)->ah) - dw_lead_bytes(peer) -
           dw_segment_header_bytes(ddp) - dw_trailer_bytes(peer);
}

/* Writes a segment's headers behind what is in the datagram, which must have the room; returns
 * where its payload goes. `record`: of a tagged one. */
static uint8_t *append(struct dw_datagram *datagram, const struct dw_ddp_header *ddp,
                       const struct dw_write_record *record, uint32_t payload)
{
    const uint32_t padding = dw_segment_padding(datagram->bytes);
    /* All that padding can be: of a length it does not know gcc would call memset(). */
    memset(datagram->buf + datagram->bytes, 0, sizeof(uint64_t));
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
    return append(datagram, &ddp, &record, payload);
}

/* ---- trains ---- */

/* The rest of a work as datagrams of its own. */
struct plan {
    uint32_t payload, bytes; /* of each, which the last may be shorter than */
    unsigned count, allowed; /* how many it takes; of these, window and credit let go now */
};

/* Where nothing is under way they are about the same in length, so that the first leaves early;
 * else as few as it takes. */
static struct plan plan_for(const struct dw_peer *peer, const struct dw_work *work)
{
    const struct dw_sendwin *win = &peer->sendwin;
    const uint32_t room = dw_sendwin_room_datagrams(win), left = work->total - work->copied;
    const uint32_t most = max_payload(peer, &work->ddp), fewest = (left + most - 1) / most;
    uint32_t payload = most;
    /* Up to a multiple of 8 of the datagram (WIRE.md section 1), as `most` is. */
    if (!win->count)
        payload -= (most - (left + fewest - 1) / fewest) / 8 * 8;
    payload = left < payload ? left : payload;
    struct plan plan = {.payload = payload, .count = (left + payload - 1) / payload};
    plan.bytes = dw_lead_bytes(peer) + dw_segment_header_bytes(&work->ddp) + payload +
                 dw_trailer_bytes(peer);
    if (win->credit_bytes > win->bytes)
        plan.allowed = (win->credit_bytes - win->bytes) / dw_llp_truesize(plan.bytes);
    if (!plan.allowed && !win->count)
        plan.allowed = 1;
    plan.allowed = plan.allowed < room ? plan.allowed : room;
    plan.allowed = plan.allowed < plan.count ? plan.allowed : plan.count;
    return plan;
}

/* Each sealed in one pass with the copy, unless it is encrypted: then it is copied first, for it
 * may be sent again. */
static void fill_and_send(struct dw_peer *peer, struct dw_work *work, struct dw_train *train,
                          uint32_t payload_max, uint64_t now_ns)
{
    const struct dw_seal *seal = dw_seal_for(peer);
    const struct dw_process process = dw_process_of(peer);
    uint8_t *place = dw_seal_place(seal, train->datagrams->buf);
    uint32_t bytes = 0;
    for (unsigned i = 0; i < train->kept; i++) {
        struct dw_datagram *datagram = &train->datagrams[i];
        const uint32_t left = work->total - work->copied;
        const uint32_t payload = left < payload_max ? left : payload_max;
        uint8_t *to = put_next(work, datagram, payload);
        dw_transmit_begin(peer, datagram, now_ns);
        if (place != train->datagrams->buf) {
            copy_next(work, &(struct dw_sealing){0}, to, payload);
            dw_seal(seal, &process, datagram->buf, datagram->bytes, place + bytes);
        } else {
            struct dw_sealing sealing =
                dw_sealing_begin(seal, &process, datagram->buf, (size_t)(to - datagram->buf));
            copy_next(work, &sealing, to, payload);
            dw_sealing_end(&sealing, to + payload);
        }
        bytes += datagram->bytes + seal->trailer_bytes;
    }
    dw_transmit_train(peer, train->datagrams, train->kept, bytes, now_ns);
}

/* As much of the rest of a work as one train takes, which leaves. False: nothing can go now. */
static bool send_train(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns)
{
    const struct plan plan = plan_for(peer, work);
    const unsigned most = dw_train_datagrams((uint32_t)sizeof(struct dw_datagram) + plan.bytes);
    const unsigned trains = (plan.allowed + most - 1) / most;
    struct dw_train *train = NULL;
    /* Shared out evenly among the trains it takes. */
    for (unsigned n = trains ? (plan.allowed + trains - 1) / trains : 0; n && !train; n /= 2)
        train = dw_train_get(peer, work->qpns, n, plan.bytes);
    if (train)
        fill_and_send(peer, work, train, plan.payload, now_ns);
    return train;
}

/* ---- coalescing ---- */

/* For what is between these QPs. */
static uint32_t open_room(const struct dw_peer *peer, struct dw_qpns qpns)
{
    const struct dw_datagram *open = peer->open;
    uint32_t used = open ? open->bytes + dw_segment_padding(open->bytes) : 0;
    const bool joins = open && open->qpns.here == qpns.here && open->qpns.there == qpns.there;
    return joins && used < open->room ? open->room - used : 0;
}

static void close_open(struct dw_peer *peer, uint64_t now_ns)
{
    struct dw_datagram *datagram = peer->open;
    if (!datagram)
        return;
    peer->open = NULL;
    dw_transmit_begin(peer, datagram, now_ns);
    dw_transmit(peer, datagram, now_ns);
}

/* Sees that the open datagram has room for a segment of `bytes`. False: the window or the pool is
 * exhausted. */
static bool open_for(struct dw_peer *peer, struct dw_qpns qpns, uint32_t bytes, bool is_send,
                     uint64_t now_ns)
{
    if (open_room(peer, qpns) >= bytes) {
        dw_rd_of(peer)->counters->tx_coalesced_msgs += is_send;
        return true;
    }
    close_open(peer, now_ns);
    if (dw_sendwin_may_send(&peer->sendwin, dw_llp_truesize(bytes)))
        peer->open = dw_datagram_get(peer, qpns, bytes);
    return peer->open;
}

/* Copies as much of a work as there is room for; true: all of it. What others may join is the end
 * of no longer message: that goes with its train. */
static bool copy_work(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns)
{
    const bool is_send = !work->ddp.tagged && work->ddp.qn == DW_QN_SEND;
    const uint32_t head = dw_segment_header_bytes(&work->ddp);
    uint32_t left = work->total - work->copied;
    while (open_room(peer, work->qpns) < head + left &&
           (left > max_payload(peer, &work->ddp) || work->copied ||
            (peer->at_once && left >= ONE_PASS_MIN_BYTES))) {
        close_open(peer, now_ns);
        if (!send_train(peer, work, now_ns))
            return false;
        left = work->total - work->copied;
        if (!left)
            return true;
    }
    if (!open_for(peer, work->qpns, head + left, is_send, now_ns))
        return false;
    uint8_t *to = put_next(work, peer->open, left);
    copy_next(work, &(struct dw_sealing){0}, to, left);
    return true;
}

/* True: the work has a fence, and waits for what was posted before it, which leaves. */
static bool hold_for_fence(struct dw_peer *peer, const struct dw_work *work, uint64_t now_ns)
{
    if (!work->fence || work->copied)
        return false;
    if (peer->open)
        peer->open->ack_request = true;
    close_open(peer, now_ns);
    return peer->sendwin.count;
}

static void copy_pending(struct dw_peer *peer, uint64_t now_ns)
{
    while (!dw_list_empty(&peer->pending)) {
        struct dw_work *work = dw_container(peer->pending.next, struct dw_work, link);
        if (hold_for_fence(peer, work, now_ns))
            return; /* an acknowledgement goes on */
        if (!copy_work(peer, work, now_ns)) {
            /* An acknowledgement, or a freed buffer, goes on. Kept back by the pool alone, with
             * nothing in flight, no acknowledgement would come. */
            if (!peer->sendwin.count)
                dw_peer_look_again(peer);
            return;
        }
        /* The open datagram's, once it goes; or it ended with the last that went. */
        work->last_psn = peer->sendwin.next_psn - !peer->open;
        if (work->ddp.opcode == DW_RDMAP_READ_REQUEST)
            dw_grant_on_requested(&peer->records, work->record_id);
        /* The peer may yet refuse a write: that is told even when nothing was asked for. */
        if (work->qp && !work->buffered && (work->signaled || work->ddp.tagged || work->atomic)) {
            dw_list_remove(&work->link);
            dw_list_append(&peer->awaiting, &work->link);
        } else {
            dw_work_end(peer, work, IBV_WC_SUCCESS);
        }
    }
}

/* Whether what is appended now goes at once: nothing is in flight, or it is no part of a burst; its
 * sender may compute before it lets us run again. */
static void before_append(struct dw_peer *peer, uint64_t now_ns)
{
    const struct dw_sendwin *win = &peer->sendwin;
    /* Signed: the time of a run may be before the end of its last send call. */
    const bool burst = (int64_t)(now_ns - peer->appended_ns) < BURST_NS;
    peer->appended_ns = now_ns;
    dw_rd_of(peer)->transmitted = false;
    peer->at_once = !win->count || (!burst && !dw_sendwin_is_filling(win));
}

/* What is not to go at once goes at the next run. */
static void after_append(struct dw_peer *peer, uint64_t now_ns)
{
    if (!peer->sendwin.count || peer->at_once)
        close_open(peer, now_ns);
    else if (peer->open)
        dw_peer_look_again(peer);
    /* A send call may take longer than BURST_NS: without another look at the clock the next message
     * would not count as one of the burst. In a ping-pong, with nothing else in flight, no matter.
     */
    if (dw_rd_of(peer)->transmitted && peer->sendwin.count > 1)
        peer->appended_ns = dw_device_now_ns(dw_rd_of(peer)->port->device);
}

void dw_send_work(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns)
{
    before_append(peer, now_ns);
    dw_list_append(&peer->pending, &work->link);
    copy_pending(peer, now_ns);
    after_append(peer, now_ns);
}

void dw_send_work_next_run(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns)
{
    peer->at_once = false;
    dw_list_append(&peer->pending, &work->link);
    copy_pending(peer, now_ns);
    if (peer->open)
        dw_peer_look_again(peer);
}

int dw_send_posted(struct dw_peer *peer, struct dw_work *work, bool inlined, uint64_t now_ns)
{
    if (!inlined) {
        dw_send_work(peer, work, now_ns);
        return 0;
    }
    int rc = -EAGAIN;
    const bool is_long = work->total > max_payload(peer, &work->ddp);
    const struct plan plan = is_long ? plan_for(peer, work) : (struct plan){0};
    if (dw_list_empty(&peer->pending) && plan.allowed == plan.count) {
        dw_send_work(peer, work, now_ns);
        if (dw_list_empty(&peer->pending) || (work->copied && copy_rest(peer, work)))
            return 0;
    } else if (is_long && !peer->sendwin.count) {
        rc = -EMSGSIZE; /* with nothing in flight, nothing will make more room */
    }
    dw_work_put(peer, work);
    return rc;
}

void dw_send_flush(struct dw_peer *peer, uint64_t now_ns)
{
    if (!dw_peer_is_live(peer))
        return;
    peer->at_once = false;
    dw_transmit_lost(peer, now_ns);
    copy_pending(peer, now_ns);
    close_open(peer, now_ns);
}

bool dw_send_end_awaiting(struct dw_peer *peer, uint32_t ack, bool refusing)
{
    bool ended = false;
    dw_foreach (work, struct dw_work, link, &peer->awaiting) {
        if (!dw_serial_before(work->last_psn, ack))
            break;
        if (work->atomic || (refusing && work->ddp.tagged))
            continue;
        dw_work_end(peer, work, IBV_WC_SUCCESS);
        ended = true;
    }
    return ended;
}

/* ---- writing straight into the open datagram ---- */

void *dw_send_reserve(struct dw_peer *peer, struct dw_qpns qpns, uint32_t len, uint64_t now_ns)
{
    struct dw_rd *rd = dw_rd_of(peer);
    const uint32_t bytes = DW_SEND_SEGMENT_BYTES + len;
    const struct dw_ddp_header ddp = {0};
    if (!dw_list_empty(&peer->pending) ||
        (open_room(peer, qpns) < bytes && len > max_payload(peer, &ddp)))
        return NULL;
    before_append(peer, now_ns);
    if (!open_for(peer, qpns, bytes, true, now_ns))
        return NULL;
    rd->reserved = peer;
    rd->reserved_bytes = len;
    const uint32_t at = peer->open->bytes;
    return peer->open->buf + at + dw_segment_padding(at) + DW_SEND_SEGMENT_BYTES;
}

void dw_send_commit(struct dw_rd *rd, uint32_t imm)
{
    struct dw_peer *peer = rd->reserved;
    const struct dw_ddp_header ddp = {
        .last = true,
        .opcode = DW_RDMAP_SEND_IMM,
        .ulp = imm,
        .qn = DW_QN_SEND,
        .msn = ++dw_met_of(peer)->send_msn,
    };
    (void)append(peer->open, &ddp, NULL, rd->reserved_bytes);
    rd->counters->tx_send_msgs++;
    after_append(peer, peer->appended_ns);
}
