/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From work requests to sequenced datagrams: segmentation and coalescing. A message goes at once
 * when nothing is in flight to its peer, or little and it is not posted right after another;
 * otherwise it joins the open datagram, which leaves when it is full, when all before it is
 * acknowledged, or at the next run of the RNIC.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/rd/atomic.h"
#include "common/rnic/lock.h"
#include "common/record/grant.h"
#include "common/rd/segment.h"
#include "common/rd/send.h"
#include "common/rd/transmit.h"
#include "common/ud/ud.h"
#include "common/wire/bytes.h"

/* Messages to a peer that are posted no further apart are a burst. */
#define BURST_NS 2000
/* The same on shared cores, from the fifth on. There a message rarely finds its peer on its core,
 * and a call for each takes time from all ranks; but who posts only a few may compute then. */
#define BURST_SHARED_NS 20000

/* ---- works ---- */

/* Kept for the next requests. */
#define WORKS_RESERVE 64

/* All but the `keep` that were used last. */
static void free_works(struct diwarp_qp *qp, unsigned keep)
{
    for (; qp->free_work_count > keep; qp->free_work_count--) {
        struct dw_list *last = qp->free_works.prev;
        dw_list_remove(last);
        free(dw_container(last, struct dw_work, link));
    }
}

struct dw_work *dw_work_get(struct diwarp_qp *qp)
{
    struct dw_work *work;
    if (!dw_list_empty(&qp->free_works)) {
        work = dw_container(qp->free_works.next, struct dw_work, link);
        dw_list_remove(&work->link);
        qp->free_work_count--;
    } else {
        work = malloc(sizeof *work);
        if (!work)
            return NULL;
    }
    memset(work, 0, offsetof(struct dw_work, own));
    dw_list_init(&work->link);
    if (++qp->queued_works > qp->work_most)
        qp->work_most = qp->queued_works;
    return work;
}

void dw_work_put(struct diwarp_qp *qp, struct dw_work *work)
{
    qp->queued_works -= !work->answer;
    dw_list_prepend(&qp->free_works, &work->link);
    qp->free_work_count++;
    free_works(qp, WORKS_RESERVE);
}

bool dw_work_trim(struct diwarp_qp *qp)
{
    free_works(qp, qp->work_most);
    qp->work_most = qp->queued_works;
    return qp->free_work_count > 0;
}

/* ---- segments into datagrams ---- */

/* What goes at once and is as long: copied in one pass with the CRC. */
#define ALONE_MIN_BYTES 1024

static uint32_t open_room(const struct dw_peer *peer)
{
    const struct dw_datagram *open = peer->open;
    uint32_t used = open ? open->bytes + dw_segment_padding(open->bytes) : 0;
    return open && used < open->room ? open->room - used : 0;
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
static struct dw_datagram *begin(struct dw_peer *peer, uint32_t bytes)
{
    if (!dw_sendwin_may_send(&peer->sendwin, dw_llp_truesize(bytes)))
        return NULL;
    return dw_datagram_get(peer, bytes);
}

/* In a datagram that nothing else joins. */
static bool send_alone(struct dw_peer *peer, struct dw_work *work, uint32_t payload,
                       uint64_t now_ns)
{
    struct dw_datagram *datagram = begin(peer, dw_segment_header_bytes(&work->ddp) + payload);
    if (!datagram)
        return false;
    dw_segment_send(peer, work, datagram, payload, now_ns);
    return true;
}

/* The part of a work that does not fit one datagram. What is left, if anything, goes into one that
 * others may join. False: the window is closed, or the pool empty. */
static bool send_full_datagrams(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns)
{
    uint32_t payload = dw_segment_max_payload(peer, &work->ddp);
    while (work->total - work->copied > payload) {
        bool sent = payload < DW_APART_MIN_BYTES ? dw_send_train(peer, work, now_ns)
                                                 : send_alone(peer, work, payload, now_ns);
        if (!sent)
            return false;
    }
    return true;
}

/* Copies as much of a work as there is room for; true: all of it. */
static bool copy_work(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns)
{
    uint32_t head = dw_segment_header_bytes(&work->ddp);
    if (open_room(peer) < head + work->total - work->copied)
        close_open(peer, now_ns);
    if (!peer->open) {
        if (!send_full_datagrams(peer, work, now_ns))
            return false;
        uint32_t left = work->total - work->copied;
        if (!left && work->total)
            return true;
        if (peer->at_once && left >= ALONE_MIN_BYTES)
            return send_alone(peer, work, left, now_ns);
        peer->open = begin(peer, head + left);
        if (!peer->open)
            return false;
    } else {
        peer->qp->counters.tx_coalesced_msgs += !work->ddp.tagged && work->ddp.qn == DW_QN_SEND;
    }
    dw_segment_copy(work, peer->open, work->total - work->copied);
    return true;
}

static void on_copied(struct dw_peer *peer, struct dw_work *work, uint32_t last_psn)
{
    struct diwarp_qp *qp = peer->qp;
    work->last_psn = last_psn;
    dw_list_remove(&work->link);
    peer->answers -= work->answer;
    if (work->ddp.opcode == DW_RDMAP_READ_REQUEST)
        dw_rdma_on_requested(peer, work->record_id, last_psn);
    /* A write may yet be refused by the peer: that is told even when nothing else was asked for. */
    if ((work->signaled || work->ddp.tagged) && !work->buffered) {
        dw_list_append(&peer->awaiting, &work->link);
        return;
    }
    if (work->signaled)
        dw_cq_complete(qp, work->wr_id, true, work->opcode, IBV_WC_SUCCESS, work->total);
    dw_work_put(qp, work);
}

static void look_again(struct dw_peer *peer)
{
    peer->qp->starved = false;
    if (!dw_list_linked(&peer->flush_link))
        dw_list_append(&peer->qp->flush, &peer->flush_link);
}

/* Whether what is appended now goes at once: nothing is in flight, or it is no part of a burst; its
 * sender may compute before it lets us run again. */
static void before_append(struct dw_peer *peer, uint64_t now_ns)
{
    const struct dw_sendwin *win = &peer->sendwin;
    /* Signed: the time of a run may be before the end of its last send call. */
    const int64_t pause_ns = (int64_t)(now_ns - peer->appended_ns);
    const bool soon = pause_ns < BURST_SHARED_NS;
    bool burst = pause_ns < BURST_NS || (soon && peer->soon_posts == DW_SOON_POSTS_MAX &&
                                         peer->qp->device->attr.shared_cores);
    if (!soon)
        peer->soon_posts = 0;
    else if (peer->soon_posts < DW_SOON_POSTS_MAX)
        peer->soon_posts++;
    peer->appended_ns = now_ns;
    peer->qp->transmitted = false;
    peer->at_once = !win->count || (!burst && !dw_sendwin_is_filling(win));
}

/* It may also end a message, most of which is on its way. Else it goes at the next run. */
static void after_append(struct dw_peer *peer, uint64_t now_ns)
{
    if (!peer->sendwin.count || peer->at_once || (peer->open && peer->open->urgent))
        close_open(peer, now_ns);
    else if (peer->open)
        look_again(peer);
    /* A send call may take as long as what parts a burst, and is no pause of the sender's. In a
     * ping-pong, where nothing else is in flight, that need not be known. */
    if (peer->qp->transmitted && peer->sendwin.count > 1)
        peer->appended_ns = dw_device_now_ns(peer->qp->device);
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
        look_again(peer);
    after_append(peer, now_ns);
}

int dw_send_work_now(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns)
{
    int rc = -EAGAIN;
    if (work->total <= dw_segment_max_payload(peer, &work->ddp)) {
        dw_send_work(peer, work, now_ns);
        /* Works leave `pending` in order: ours is there still exactly when it is the last. */
        if (dw_list_empty(&peer->pending))
            return 0;
        dw_list_remove(&work->link);
    } else if (dw_list_empty(&peer->pending)) {
        close_open(peer, now_ns);
        peer->at_once = true; /* none joins these: buffers of their own size */
        rc = dw_send_several(peer, work, now_ns);
        if (!rc) {
            on_copied(peer, work, peer->sendwin.next_psn - 1);
            return 0;
        }
    }
    dw_work_put(peer->qp, work);
    return rc;
}

void dw_send_flush(struct dw_peer *peer, uint64_t now_ns)
{
    if (peer->ah->gone)
        return;
    peer->at_once = false;
    dw_transmit_lost(peer, now_ns);
    copy_pending(peer, now_ns);
    close_open(peer, now_ns);
    if (!dw_list_empty(&peer->pending) && !peer->sendwin.count)
        look_again(peer);
}

bool dw_send_end_awaiting(struct dw_peer *peer, uint32_t ack, bool refusing)
{
    bool ended = false;
    dw_list_foreach (it, &peer->awaiting) {
        struct dw_work *work = dw_container(it, struct dw_work, link);
        if (!dw_serial_before(work->last_psn, ack))
            break;
        if (refusing && work->ddp.tagged)
            continue;
        dw_list_remove(it);
        dw_cq_complete(peer->qp, work->wr_id, work->signaled, work->opcode, IBV_WC_SUCCESS,
                       work->total);
        dw_work_put(peer->qp, work);
        ended = true;
    }
    return ended;
}

void dw_send_on_acked(struct dw_peer *peer)
{
    if (peer->open || !dw_list_empty(&peer->pending))
        look_again(peer);
}

static bool fail_in(struct dw_peer *peer, struct dw_list *list, uint32_t record_id,
                    enum ibv_wc_status status)
{
    dw_list_foreach (it, list) {
        struct dw_work *work = dw_container(it, struct dw_work, link);
        if (!work->ddp.tagged || work->record_id != record_id)
            continue;
        dw_list_remove(it);
        dw_cq_complete(peer->qp, work->wr_id, true, work->opcode, status, 0);
        dw_work_put(peer->qp, work);
        return true;
    }
    return false;
}

bool dw_send_fail(struct dw_peer *peer, uint32_t record_id, enum ibv_wc_status status)
{
    return fail_in(peer, &peer->awaiting, record_id, status) ||
           fail_in(peer, &peer->pending, record_id, status);
}

/* ---- posts ---- */

int64_t dw_send_gather(struct diwarp_qp *qp, const struct ibv_send_wr *wr, int access,
                       uint32_t max_bytes, struct iovec *iov)
{
    if (wr->num_sge < 0 || wr->num_sge > DW_MAX_SGE)
        return -EINVAL;
    uint64_t total = 0;
    for (int i = 0; i < wr->num_sge; i++) {
        const struct ibv_sge *sge = &wr->sg_list[i];
        struct dw_region *region;
        /* Key 0: the process's own memory, unregistered. */
        if (sge->lkey &&
            dw_mr_check(&qp->pd->mrs, sge->lkey, sge->addr, sge->length, access, &region))
            return -EACCES;
        iov[i] = (struct iovec){.iov_base = (void *)(uintptr_t)sge->addr, .iov_len = sge->length};
        total += sge->length;
    }
    return total > max_bytes ? -EMSGSIZE : (int64_t)total;
}

static struct dw_ddp_header send_header(struct dw_peer *peer, const struct ibv_send_wr *wr)
{
    bool imm = wr->opcode == IBV_WR_SEND_WITH_IMM;
    return (struct dw_ddp_header){
        .opcode = imm ? DW_RDMAP_SEND_IMM : DW_RDMAP_SEND,
        .ulp = imm ? wr->imm_data : 0,
        .qn = DW_QN_SEND,
        .msn = ++peer->ah->send_msn,
    };
}

static int post_send(struct diwarp_qp *qp, struct dw_peer *peer, const struct ibv_send_wr *wr,
                     uint64_t now_ns)
{
    struct iovec iov[DW_MAX_SGE];
    int64_t total = dw_send_gather(qp, wr, 0, qp->attr.max_msg_bytes, iov);
    if (total < 0)
        return (int)total;
    struct dw_ddp_header ddp = send_header(peer, wr);
    struct dw_work *work = dw_work_get(qp);
    if (!work)
        return -ENOMEM;
    bool buffered = wr->send_flags & DIWARP_SEND_BUFFERED;
    work->wr_id = wr->wr_id;
    work->opcode = IBV_WC_SEND;
    /* Told by the return value when it is copied before we return. */
    work->signaled = (wr->send_flags & IBV_SEND_SIGNALED) && !buffered;
    work->buffered = buffered;
    work->ddp = ddp;
    work->total = (uint32_t)total;
    work->sge_count = (unsigned)wr->num_sge;
    memcpy(work->sge, iov, sizeof iov);
    if (wr->send_flags & IBV_SEND_INLINE) {
        int rc = dw_send_work_now(peer, work, now_ns);
        if (rc)
            return rc;
    } else {
        dw_send_work(peer, work, now_ns);
    }
    qp->counters.tx_send_msgs++;
    if (dw_list_empty(&peer->pending))
        return buffered ? 1 : 0;
    if (buffered)
        work->signaled = wr->send_flags & IBV_SEND_SIGNALED;
    return 0;
}

int dw_send_post(struct diwarp_qp *qp, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                 uint64_t now_ns)
{
    if (wr->send_flags & IBV_SEND_FENCE)
        return -EINVAL;
    if (ah->gone)
        return -EHOSTUNREACH;
    struct dw_peer *peer = dw_peer_of_ah(ah);
    if (!peer)
        return -ENOMEM;
    if (qp->queued_works >= qp->attr.max_send_wr)
        return -ENOMEM;
    switch (wr->opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return post_send(qp, peer, wr, now_ns);
    case IBV_WR_RDMA_WRITE:
        return dw_rdma_post_write(qp, peer, wr, now_ns);
    case IBV_WR_RDMA_READ:
        return dw_rdma_post_read(qp, peer, wr, now_ns);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return dw_atomic_post(qp, peer, wr, now_ns);
    default:
        return -EINVAL;
    }
}

int diwarp_post_send(struct diwarp_qp *qp, const struct diwarp_send_wr *wr)
{
    if (!wr->ah)
        return -EINVAL;
    dw_lock(qp->device);
    uint64_t now_ns = dw_device_now_ns(qp->device);
    dw_cq_on_use(qp->cq, now_ns);
    int rc = qp->ud ? dw_ud_post_send(qp, wr->ah, &wr->wr, now_ns)
                    : dw_send_post(qp, wr->ah, &wr->wr, now_ns);
    dw_unlock(qp->device);
    return rc;
}

int diwarp_post_recv(struct diwarp_qp *qp, const struct ibv_recv_wr *wr)
{
    if (!qp->ud)
        return -EOPNOTSUPP;
    dw_lock(qp->device);
    int rc = dw_ud_post_recv(qp, wr);
    dw_unlock(qp->device);
    return rc;
}

/* ---- writing straight into the open datagram ---- */

void *diwarp_send_reserve(struct diwarp_qp *qp, struct diwarp_ah *ah, size_t len)
{
    dw_lock(qp->device);
    struct dw_peer *peer = qp->ud || ah->gone ? NULL : dw_peer_of_ah(ah);
    struct dw_ddp_header ddp = {0};
    if (!peer || !dw_list_empty(&peer->pending) || len > dw_segment_max_payload(peer, &ddp) ||
        len > qp->attr.max_msg_bytes)
        goto no_room;
    uint32_t bytes = DW_SEND_SEGMENT_BYTES + (uint32_t)len;
    uint64_t now_ns = dw_device_now_ns(qp->device);
    dw_cq_on_use(qp->cq, now_ns);
    before_append(peer, now_ns);
    if (open_room(peer) < bytes) {
        close_open(peer, peer->appended_ns);
        peer->open = begin(peer, bytes);
        if (!peer->open)
            goto no_room;
    } else {
        qp->counters.tx_coalesced_msgs++;
    }
    qp->reserved_bytes = (uint32_t)len;
    bytes = peer->open->bytes;
    return peer->open->buf + bytes + dw_segment_padding(bytes) + DW_SEND_SEGMENT_BYTES;

no_room:
    dw_unlock(qp->device);
    return NULL;
}

void diwarp_send_commit(struct diwarp_qp *qp, struct diwarp_ah *ah, uint32_t imm)
{
    struct dw_peer *peer = ah->peer;
    struct dw_ddp_header ddp = {
        .last = true,
        .opcode = DW_RDMAP_SEND_IMM,
        .ulp = imm,
        .qn = DW_QN_SEND,
        .msn = ++peer->ah->send_msn,
    };
    dw_segment_put(peer->open, &ddp, NULL, qp->reserved_bytes);
    qp->counters.tx_send_msgs++;
    after_append(peer, peer->appended_ns);
    dw_unlock(qp->device);
}
