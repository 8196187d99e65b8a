/* SPDX-License-Identifier: BSD-3-Clause */
/* From datagrams to the LLP: headers, acknowledgements on board, CRC, trains, resending. */
#include <assert.h>
#include <errno.h>

#include "common/rd/transmit.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"

/* Of a datagram that others may join: the first of several to a peer, and one of a stream. */
#define JOINED_BYTES 8192
#define STREAM_BYTES (DW_SLAB_MAX_BYTES - (uint32_t)sizeof(struct dw_datagram))
_Static_assert(STREAM_BYTES >= DW_LLP_TRAIN_BYTES, "the largest buffer holds any datagram");
/* The kernel puts a datagram of up to 16 KiB at 44 in a page. What begins at 29 to 43 in one it may
 * copy there very slowly (common/base/copy.h); the slab's buffers of that length are aligned. */
_Static_assert(sizeof(struct dw_datagram) % DW_SLAB_ALIGN_BYTES < 29 ||
                   sizeof(struct dw_datagram) % DW_SLAB_ALIGN_BYTES > 43,
               "a datagram with a buffer of its own begins elsewhere");

/* Part of the pool's chunks that peers with something under way leave to the others: what one does
 * not acknowledge for long must not keep all from sending. */
#define POOL_LEFT_DEN 8

/* What is sent so soon after something was heard is likely an answer. */
#define ANSWER_NS 20000

/* ---- buffers ---- */

void *dw_pool_get(const struct dw_peer *peer, uint32_t bytes, uint32_t *room)
{
    struct dw_slab *slab = &peer->qp->datagrams;
    if (peer->sendwin.count && !dw_slab_leaves(slab, bytes, slab->chunk_max / POOL_LEFT_DEN))
        return NULL;
    return dw_slab_get(slab, bytes, room);
}

/* What is sent by itself needs no more room than it has bytes. */
static uint32_t worthwhile_bytes(const struct dw_peer *peer, uint32_t need)
{
    uint32_t bytes = need;
    if (peer->sendwin.count && !peer->at_once)
        bytes = peer->sendwin.count > 1 ? STREAM_BYTES : JOINED_BYTES;
    if (bytes > peer->ah->datagram_max_bytes)
        bytes = peer->ah->datagram_max_bytes;
    return bytes > need ? bytes : need;
}

/* A datagram that is likely to be joined by further messages gets all the room there is. */
struct dw_datagram *dw_datagram_get(struct dw_peer *peer, uint32_t segment_bytes)
{
    const uint32_t head = sizeof(struct dw_datagram);
    uint32_t lead = dw_lead_bytes(peer), room;
    uint32_t need = lead + segment_bytes + DW_CRC_BYTES;
    uint32_t wanted = worthwhile_bytes(peer, need);
    assert(need <= peer->ah->datagram_max_bytes);
    struct dw_datagram *datagram = dw_pool_get(peer, head + wanted, &room);
    if (!datagram && wanted > need)
        datagram = dw_pool_get(peer, head + need, &room);
    if (!datagram)
        return NULL;
    room -= head;
    if (room > peer->ah->datagram_max_bytes)
        room = peer->ah->datagram_max_bytes;
    dw_datagram_init(peer, datagram, (uint8_t *)(datagram + 1), room - DW_CRC_BYTES);
    return datagram;
}

void dw_datagram_init(const struct dw_peer *peer, struct dw_datagram *datagram, uint8_t *buf,
                      uint32_t room)
{
    datagram->train = NULL;
    datagram->buf = buf;
    datagram->bytes = dw_lead_bytes(peer);
    datagram->room = room;
    datagram->intro = !peer->ah->heard;
    datagram->urgent = datagram->ack_request = false;
    datagram->refusals = 0;
    dw_list_init(&datagram->tx.link);
}

void dw_datagram_put(struct diwarp_qp *qp, struct dw_datagram *datagram)
{
    struct dw_train *train = datagram->train;
    qp->starved = false;
    if (!train)
        dw_slab_put(&qp->datagrams, datagram);
    else if (--train->kept == 0)
        dw_slab_put(&qp->datagrams, train);
}

/* ---- headers ---- */

uint32_t dw_lead_bytes(const struct dw_peer *peer)
{
    return DW_LLP_HEADER_BYTES + (peer->ah->heard ? 0 : DW_INTRO_BYTES);
}

static uint16_t credit_kib(const struct diwarp_qp *qp)
{
    if (qp->refuses_data)
        return 0;
    uint32_t senders = qp->senders > qp->epoch_senders ? qp->senders : qp->epoch_senders;
    uint32_t kib = qp->eager_budget_bytes / (senders ? senders : 1) / 1024;
    return kib > UINT16_MAX ? UINT16_MAX : kib ? (uint16_t)kib : 1;
}

static void put_lead(struct dw_peer *peer, uint8_t *buf, enum dw_llp_type type, uint8_t flags,
                     uint32_t psn, bool intro)
{
    struct diwarp_qp *qp = peer->qp;
    struct dw_llp_header header = {
        .type = (uint8_t)type,
        .flags = (uint8_t)(flags | (intro ? DW_LLP_INTRO : 0) | (qp->crc ? 0 : DW_LLP_NO_CRC) |
                           (peer->refusals ? DW_LLP_REFUSING : 0)),
        .credit_kib = credit_kib(qp),
        .incarnation = qp->incarnation,
        .token = peer->ah->token,
        .job = qp->device->attr.name.job,
        .rank = qp->device->attr.name.rank,
        .number = ++peer->number,
        .timestamp = dw_timestamp(qp->ran_ns),
        .timestamp_echo = peer->timestamp,
        .psn = psn,
        .ack = peer->recvwin.ack,
        .sack = dw_recvwin_sack(&peer->recvwin),
    };
    dw_llp_header_put(buf, &header);
    qp->counters.tx_partial_crc += (flags & DW_LLP_PARTIAL_CRC) != 0;
    if (intro) {
        const struct diwarp_interface *mine = &qp->device->interfaces[peer->ah->local_interface];
        uint32_t mtu = dw_told_mtu_bytes(qp, mine);
        struct dw_intro block = {
            .token = qp->token,
            .family = mine->family,
            .port = qp->llp->port,
            .mtu_bytes = mtu > UINT16_MAX ? UINT16_MAX : (uint16_t)mtu,
        };
        memcpy(block.ip, mine->ip, sizeof block.ip);
        dw_intro_put(buf + DW_LLP_HEADER_BYTES, &block);
    }
}

void dw_put_lead(struct dw_peer *peer, uint8_t *buf, enum dw_llp_type type, uint8_t flags,
                 uint32_t psn)
{
    put_lead(peer, buf, type, flags, psn, !peer->ah->heard);
}

void dw_put_intro_lead(struct dw_peer *peer, uint8_t *buf, enum dw_llp_type type, uint8_t flags,
                       uint32_t psn)
{
    put_lead(peer, buf, type, flags, psn, true);
}

uint32_t dw_put_trailer(const struct diwarp_qp *qp, uint8_t *buf, uint32_t bytes)
{
    dw_put_be32(buf + bytes, qp->crc ? dw_crc32c(0, buf, bytes) : 0);
    return bytes + DW_CRC_BYTES;
}

/* ---- to the LLP ---- */

/* What every datagram tells has been told, but for one that a full socket refused. */
static void on_told(struct dw_peer *peer)
{
    peer->told_full = peer->qp->refuses_data;
    peer->ack_owed_datagrams = 0;
    peer->ack_owed_256b = 0;
    peer->ack_now = false;
    dw_list_remove(&peer->ack_link);
}

static int send_train(struct dw_peer *peer, const struct dw_llp_train *train)
{
    peer->qp->transmitted = true;
    int rc = dw_llp_send(peer->qp->llp, train);
    if (rc != -EAGAIN) {
        on_told(peer);
        peer->send_error = (uint8_t)-rc;
        peer->sent |= !rc;
    }
    return rc;
}

int dw_transmit_iov(struct dw_peer *peer, const struct iovec *iov, unsigned n, uint32_t segment)
{
    uint32_t total = 0;
    for (unsigned i = 0; i < n; i++)
        total += (uint32_t)iov[i].iov_len;
    return send_train(peer, &(struct dw_llp_train){
                                .to = &peer->ah->addr,
                                .iov = iov,
                                .iov_count = n,
                                .total_bytes = total,
                                .segment_bytes = segment,
                            });
}

int dw_transmit_train(struct dw_peer *peer, const struct iovec *iov, unsigned n, uint32_t segment)
{
    int rc = dw_transmit_iov(peer, iov, n, segment);
    peer->qp->cq->served += rc != -EAGAIN;
    return rc;
}

/* ---- sequenced datagrams ---- */

static void lead(struct dw_peer *peer, struct dw_datagram *datagram, uint8_t flags, bool answers)
{
    /* What fills window or credit holds up the next: its acknowledgement is not to wait; of an
     * answer, the next answer brings it. */
    bool filled = !dw_sendwin_may_send(&peer->sendwin, datagram->tx.truesize_bytes);
    bool ask = datagram->ack_request || (filled && !answers);
    /* The room for an intro was fixed when the datagram was begun. */
    put_lead(peer, datagram->buf, DW_LLP_DATA, (uint8_t)(flags | (ask ? DW_LLP_ACK_REQUEST : 0)),
             datagram->tx.psn, datagram->intro);
}

void dw_transmit_refused(struct dw_peer *peer, struct dw_datagram *datagram)
{
    datagram->tx.lost = true;
    peer->qp->starved = false;
    if (!dw_list_linked(&peer->flush_link))
        dw_list_append(&peer->qp->flush, &peer->flush_link);
}

static void send_finished(struct dw_peer *peer, struct dw_datagram *datagram)
{
    uint32_t bytes = dw_put_trailer(peer->qp, datagram->buf, datagram->bytes);
    struct iovec iov = {.iov_base = datagram->buf, .iov_len = bytes};
    if (dw_transmit_train(peer, &iov, 1, bytes) == -EAGAIN)
        dw_transmit_refused(peer, datagram);
}

void dw_transmit_begin(struct dw_peer *peer, struct dw_datagram *datagram, bool partial_crc,
                       uint64_t now_ns)
{
    datagram->tx.truesize_bytes = dw_llp_truesize(datagram->bytes + DW_CRC_BYTES);
    dw_sendwin_on_send(&peer->sendwin, &datagram->tx, now_ns);
    const bool answers = peer->unanswered && now_ns - peer->heard_ns < ANSWER_NS;
    if (peer->unanswered)
        peer->ping_pong = answers;
    peer->unanswered = false;
    lead(peer, datagram, partial_crc ? DW_LLP_PARTIAL_CRC : 0, answers);
}

void dw_transmit(struct dw_peer *peer, struct dw_datagram *datagram, uint64_t now_ns)
{
    dw_transmit_begin(peer, datagram, false, now_ns);
    send_finished(peer, datagram);
    dw_peer_on_asked(peer, now_ns);
}

void dw_transmit_lost(struct dw_peer *peer, uint64_t now_ns)
{
    if (!peer->sendwin.credit_bytes)
        return; /* it would be refused again; of room we are told */
    dw_list_foreach (it, &peer->sendwin.unacked) {
        struct dw_datagram *datagram = dw_container(it, struct dw_datagram, tx.link);
        if (!datagram->tx.lost)
            continue;
        dw_sendwin_on_resend(&peer->sendwin, &datagram->tx, now_ns);
        lead(peer, datagram, 0, false);
        peer->qp->counters.tx_resent_datagrams++;
        dw_peer_on_asked(peer, now_ns);
        send_finished(peer, datagram);
        if (datagram->tx.lost)
            return; /* the socket is full: the next run goes on */
    }
}
