/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From work requests to sequenced datagrams: segmentation and coalescing. A message goes at once
 * when nothing is in flight to its peer, or little and it is not posted right after another;
 * otherwise it joins the open datagram, which leaves when it is full, when all before it is
 * acknowledged, or at the next run of the RNIC.
 */
#include "common/rd/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Messages to a peer that are posted no further apart are a burst. */
#define BURST_NS 2000
/* From this on a payload is copied in one pass with its CRC; what is shorter shares datagrams. */
#define ONE_PASS_MIN_BYTES 1024

/* ---- works ---- */

struct dw_work *dw_work_get(struct dw_peer *peer, const struct dw_ends *ends)
{
    struct dw_work *work = malloc(sizeof *work);
    if (!work)
        return NULL;
    memset(work, 0, offsetof(struct dw_work, own));
    dw_list_init(&work->link);
    work->qp = ends->qp;
    work->qpns = ends->qpns;
    if (ends->qp)
        peer->queued++;
    dw_rd_of(peer)->work_count++;
    return work;
}

void dw_work_put(struct dw_peer *peer, struct dw_work *work)
{
    if (work->qp)
        peer->queued--;
    dw_rd_of(peer)->work_count--;
    free(work->rest);
    free(work);
}

struct dw_work *dw_work_of_request(const struct dw_ends *ends, struct dw_peer *peer,
                                   const struct ibv_send_wr *wr, enum ibv_wc_opcode opcode,
                                   const struct dw_ddp_header *ddp, const struct iovec *iov,
                                   uint32_t total)
{
    struct dw_work *work = dw_work_get(peer, ends);
    if (!work)
        return NULL;
    work->wr_id = wr->wr_id;
    work->opcode = opcode;
    work->signaled = wr->send_flags & IBV_SEND_SIGNALED;
    work->ddp = *ddp;
    work->total = total;
    work->sge_count = (unsigned)wr->num_sge;
    memcpy(work->sge, iov, work->sge_count * sizeof *iov);
    return work;
}

/* The rest of a work that has begun leaves its user's memory. False: no memory, the peer is doomed.
 */
static bool copy_rest(struct dw_peer *peer, struct dw_work *work)
{
    work->rest = malloc(work->total);
    if (!work->rest) {
        dw_peer_doom(peer, DIWARP_GONE_NO_ROOM);
        return false;
    }
    dw_segment_copy_rest(work, work->rest);
    work->sge[0] = (struct iovec){.iov_base = work->rest, .iov_len = work->total};
    work->sge_count = 1;
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

static void complete(const struct dw_work *work, bool signaled, enum ibv_wc_status status,
                     uint32_t bytes)
{
    if (work->qp)
        dw_qp_complete(work->qp, work->wr_id, signaled, work->opcode, status, bytes);
}

/* ---- segments into datagrams ---- */

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
    dw_transmit(peer, datagram, now_ns);
}

/* A datagram with room for a segment of `bytes`; NULL: the window or the pool is exhausted. */
static struct dw_datagram *begin(struct dw_peer *peer, struct dw_qpns qpns, uint32_t bytes)
{
    if (!dw_sendwin_may_send(&peer->sendwin, dw_llp_truesize(bytes)))
        return NULL;
    return dw_datagram_get(peer, qpns, bytes);
}

/* Copies as much of a work as there is room for; true: all of it. What others may join is the end
 * of no longer message: that goes with its train. */
static bool copy_work(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns)
{
    const uint32_t head = dw_segment_header_bytes(&work->ddp);
    const uint32_t most = dw_segment_max_payload(peer, &work->ddp);
    uint32_t left = work->total - work->copied;
    if (open_room(peer, work->qpns) >= head + left) {
        dw_rd_of(peer)->counters->tx_coalesced_msgs +=
            !work->ddp.tagged && work->ddp.qn == DW_QN_SEND;
    } else {
        close_open(peer, now_ns);
        while (left > most || work->copied || (peer->at_once && left >= ONE_PASS_MIN_BYTES)) {
            if (!dw_send_train(peer, work, now_ns))
                return false;
            left = work->total - work->copied;
            if (!left)
                return true;
        }
        peer->open = begin(peer, work->qpns, head + left);
        if (!peer->open)
            return false;
    }
    dw_segment_copy(work, peer->open, left);
    return true;
}

static void on_copied(struct dw_peer *peer, struct dw_work *work, uint32_t last_psn)
{
    work->last_psn = last_psn;
    dw_list_remove(&work->link);
    peer->answers = (uint16_t)(peer->answers - work->answer);
    if (work->ddp.opcode == DW_RDMAP_READ_REQUEST)
        dw_grant_on_requested(&peer->records, work->record_id);
    /* A write may yet be refused by the peer: that is told even when nothing else was asked for. */
    if ((work->signaled || work->ddp.tagged || work->atomic) && !work->buffered) {
        dw_list_append(&peer->awaiting, &work->link);
        return;
    }
    if (work->signaled)
        complete(work, true, IBV_WC_SUCCESS, work->total);
    dw_work_put(peer, work);
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

/* Else it goes at the next run. */
static void after_append(struct dw_peer *peer, uint64_t now_ns)
{
    if (!peer->sendwin.count || peer->at_once)
        close_open(peer, now_ns);
    else if (peer->open)
        dw_peer_look_again(peer);
    /* A send call may take as long as what parts a burst, and is no pause of the sender's. In a
     * ping-pong, where nothing else is in flight, that need not be known. */
    if (dw_rd_of(peer)->transmitted && peer->sendwin.count > 1)
        peer->appended_ns = dw_device_now_ns(dw_rd_of(peer)->port->device);
}

static void copy_pending(struct dw_peer *peer, uint64_t now_ns)
{
    while (!dw_list_empty(&peer->pending)) {
        struct dw_work *work = dw_container(peer->pending.next, struct dw_work, link);
        if (!copy_work(peer, work, now_ns))
            return; /* an acknowledgement, or a freed buffer, goes on */
        /* The open datagram's, once it goes; or it ended with the last that went. */
        uint32_t next = peer->sendwin.next_psn;
        on_copied(peer, work, peer->open ? next : next - 1);
    }
}

void dw_send_work(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns)
{
    before_append(peer, now_ns);
    dw_list_append(&peer->pending, &work->link);
    copy_pending(peer, now_ns);
    /* Kept back by the pool alone, with nothing in flight, no acknowledgement would come. */
    if (!dw_list_empty(&peer->pending) && !peer->sendwin.count)
        dw_peer_look_again(peer);
    after_append(peer, now_ns);
}

int dw_send_work_now(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns)
{
    int rc = -EAGAIN;
    const bool is_long = work->total > dw_segment_max_payload(peer, &work->ddp);
    if (dw_list_empty(&peer->pending) && (!is_long || dw_segment_all_may_go(peer, work))) {
        dw_send_work(peer, work, now_ns);
        if (dw_list_empty(&peer->pending) || (work->copied && copy_rest(peer, work)))
            return 0;
        dw_list_remove(&work->link);
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
    if (!dw_list_empty(&peer->pending) && !peer->sendwin.count)
        dw_peer_look_again(peer);
}

bool dw_send_end_awaiting(struct dw_peer *peer, uint32_t ack, bool refusing)
{
    bool ended = false;
    dw_foreach (work, struct dw_work, link, &peer->awaiting) {
        if (!dw_serial_before(work->last_psn, ack))
            break;
        if (work->atomic || (refusing && work->ddp.tagged))
            continue;
        dw_list_remove(&work->link);
        complete(work, work->signaled, IBV_WC_SUCCESS, work->total);
        dw_work_put(peer, work);
        ended = true;
    }
    return ended;
}

bool dw_send_fail(struct dw_peer *peer, uint32_t record_id, enum ibv_wc_status status)
{
    const struct dw_list *lists[] = {&peer->awaiting, &peer->pending};
    for (unsigned i = 0; i < 2; i++) {
        dw_foreach (work, struct dw_work, link, lists[i]) {
            if (!work->ddp.tagged || !work->qp || work->record_id != record_id)
                continue;
            dw_list_remove(&work->link);
            complete(work, true, status, 0);
            dw_work_put(peer, work);
            return true;
        }
    }
    return false;
}

/* ---- writing straight into the open datagram ---- */

void *dw_send_reserve(struct dw_peer *peer, struct dw_qpns qpns, uint32_t len, uint64_t now_ns)
{
    const struct dw_ddp_header ddp = {0};
    const uint32_t bytes = DW_SEND_SEGMENT_BYTES + len;
    if (!dw_list_empty(&peer->pending))
        return NULL;
    const bool joins = open_room(peer, qpns) >= bytes;
    if (!joins && len > dw_segment_max_payload(peer, &ddp))
        return NULL;
    before_append(peer, now_ns);
    if (!joins) {
        close_open(peer, now_ns);
        peer->open = begin(peer, qpns, bytes);
        if (!peer->open)
            return NULL;
    } else {
        dw_rd_of(peer)->counters->tx_coalesced_msgs++;
    }
    dw_rd_of(peer)->reserved = peer;
    dw_rd_of(peer)->reserved_bytes = len;
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
    (void)dw_segment_append(peer->open, &ddp, NULL, rd->reserved_bytes);
    rd->counters->tx_send_msgs++;
    after_append(peer, peer->appended_ns);
}
