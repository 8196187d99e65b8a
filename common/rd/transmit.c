/* SPDX-License-Identifier: BSD-3-Clause */
/* Sequenced datagrams: buffers, headers with acknowledgements on board, sealing, resending. */
#include "common/rd/transmit.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/rd/timers.h"
#include "common/rnic/port.h"

/* Of a datagram that others may join: the first of several to a peer, and one of a stream. */
#define JOINED_BYTES 8192
#define STREAM_BYTES (DW_SLAB_MAX_BYTES - (uint32_t)sizeof(struct dw_datagram))
_Static_assert(STREAM_BYTES >= DW_LLP_TRAIN_BYTES, "the largest buffer holds any datagram");
/* The kernel puts a datagram of up to 16 KiB at 44 in a page. What begins at 29 to 43 in one it may
 * copy there very slowly (common/base/copy.h); the slab's buffers of that length are aligned. */
_Static_assert(sizeof(struct dw_datagram) % DW_SLAB_ALIGN_BYTES < 29 ||
                   sizeof(struct dw_datagram) % DW_SLAB_ALIGN_BYTES > 43,
               "a datagram with a buffer of its own begins elsewhere");

/* Part of the pool's chunks that peers with something under way leave to those that have nothing;
 * they also leave half as much as they have under way. So whoever does not acknowledge for long has
 * two thirds at most, two such peers two fifths each, and there is always something left. */
#define POOL_LEFT_DEN  8
#define SHARE_LEFT_DEN 2

/* ---- buffers ---- */

void *dw_pool_get(const struct dw_peer *peer, uint32_t bytes, uint32_t *room)
{
    struct dw_slab *slab = &dw_rd_of(peer)->port->datagrams.pool;
    uint32_t left = peer->sendwin.bytes / SHARE_LEFT_DEN / DW_SLAB_CHUNK_BYTES;
    if (left < slab->chunk_max / POOL_LEFT_DEN)
        left = slab->chunk_max / POOL_LEFT_DEN;
    if (peer->sendwin.count && !dw_slab_leaves(slab, bytes, left))
        return NULL;
    return dw_slab_get(slab, bytes, room);
}

/* What is sent by itself needs no more room than it has bytes. */
static uint32_t worthwhile_bytes(const struct dw_peer *peer, uint32_t need)
{
    uint32_t bytes = need;
    if (peer->sendwin.count && !peer->at_once)
        bytes = peer->sendwin.count > 1 ? STREAM_BYTES : JOINED_BYTES;
    if (bytes > dw_ah_datagram_max_bytes(&dw_handle_of(peer)->ah))
        bytes = dw_ah_datagram_max_bytes(&dw_handle_of(peer)->ah);
    return bytes > need ? bytes : need;
}

/* A datagram that is likely to be joined by further messages gets all the room there is. */
struct dw_datagram *dw_datagram_get(struct dw_peer *peer, struct dw_qpns qpns,
                                    uint32_t segment_bytes)
{
    const uint32_t head = sizeof(struct dw_datagram);
    uint32_t lead = dw_lead_bytes(peer), room;
    uint32_t need = lead + segment_bytes + DW_TRAILER_BYTES;
    uint32_t wanted = worthwhile_bytes(peer, need);
    assert(need <= dw_ah_datagram_max_bytes(&dw_handle_of(peer)->ah));
    struct dw_datagram *datagram = dw_pool_get(peer, head + wanted, &room);
    if (!datagram && wanted > need)
        datagram = dw_pool_get(peer, head + need, &room);
    if (!datagram)
        return NULL;
    room -= head;
    if (room > dw_ah_datagram_max_bytes(&dw_handle_of(peer)->ah))
        room = dw_ah_datagram_max_bytes(&dw_handle_of(peer)->ah);
    dw_datagram_init(peer, datagram, qpns, (uint8_t *)(datagram + 1), room - DW_TRAILER_BYTES);
    return datagram;
}

void dw_datagram_init(const struct dw_peer *peer, struct dw_datagram *datagram, struct dw_qpns qpns,
                      uint8_t *buf, uint32_t room)
{
    datagram->train = NULL;
    datagram->qpns = qpns;
    datagram->buf = buf;
    datagram->bytes = dw_lead_bytes(peer);
    datagram->room = room;
    datagram->intro = !dw_peer_knows_us(peer);
    datagram->urgent = datagram->ack_request = false;
    datagram->refusals = 0;
    dw_list_init(&datagram->tx.link);
}

void dw_datagram_put(struct dw_rd *rd, struct dw_datagram *datagram)
{
    struct dw_train *train = datagram->train;
    struct dw_slab *pool = &rd->port->datagrams.pool;
    rd->starved = false;
    if (!train)
        dw_slab_put(pool, datagram);
    else if (--train->kept == 0)
        dw_slab_put(pool, train);
}

/* ---- headers ---- */

bool dw_peer_knows_us(const struct dw_peer *peer)
{
    const struct dw_port *port = dw_rd_of(peer)->port;
    const int64_t silent_ns = (int64_t)(port->ran_ns - peer->records.contact.heard_ns);
    return peer->introduced && silent_ns < (int64_t)(port->device->env.forget_ns / 2);
}

uint32_t dw_lead_bytes(const struct dw_peer *peer)
{
    return DW_LLP_HEADER_BYTES + (dw_peer_knows_us(peer) ? 0 : DW_INTRO_BYTES);
}

static uint16_t credit_kib(const struct dw_rd *rd)
{
    if (rd->port->refuses_data)
        return 0;
    uint32_t senders = rd->senders > rd->epoch_senders ? rd->senders : rd->epoch_senders;
    uint32_t kib = rd->eager_budget_bytes / (senders ? senders : 1) / 1024;
    return kib > UINT16_MAX ? UINT16_MAX : kib ? (uint16_t)kib : 1;
}

static void put_intro(const struct dw_peer *peer, uint8_t *buf)
{
    const struct dw_port *port = dw_rd_of(peer)->port;
    const struct diwarp_interface *mine =
        &port->device->interfaces[dw_handle_of(peer)->ah.path->local_interface];
    uint32_t mtu = dw_told_mtu_bytes(port, mine);
    struct dw_intro block = {
        .token = port->datagrams.token,
        .family = mine->family,
        .port = port->datagrams.llp->port,
        .mtu_bytes = mtu > UINT16_MAX ? UINT16_MAX : (uint16_t)mtu,
    };
    memcpy(block.ip, mine->ip, sizeof block.ip);
    dw_intro_put(buf, &block);
}

static void put_lead(struct dw_peer *peer, struct dw_qpns qpns, uint8_t *buf, enum dw_llp_type type,
                     unsigned flags, uint32_t psn, bool intro)
{
    const struct dw_port *port = dw_rd_of(peer)->port;
    const struct dw_datagrams *datagrams = &port->datagrams;
    if (intro)
        flags |= DW_LLP_INTRO;
    if (intro && (dw_met_of(peer)->goes_on || dw_peer_is_in_doubt(peer, port->ran_ns)))
        flags |= DW_LLP_GOES_ON;
    const struct dw_llp_header header = {
        .type = (uint8_t)type,
        .flags = (uint8_t)(flags | dw_seal_flags(&datagrams->seal) |
                           (peer->refusals ? DW_LLP_REFUSING : 0)),
        .credit_kib = credit_kib(dw_rd_of(peer)),
        .incarnation = datagrams->incarnation,
        .token = dw_handle_of(peer)->ah.token,
        .job = datagrams->name.job,
        .rank = datagrams->name.rank,
        .number = ++peer->number,
        .dst_qpn = qpns.there,
        .src_qpn = qpns.here,
        .timestamp = (uint16_t)(dw_rd_of(peer)->port->ran_ns >> DW_TIMESTAMP_SHIFT),
        .timestamp_echo = peer->timestamp,
        .psn = psn,
        .ack = peer->recvwin.ack,
        .sack = dw_recvwin_sack(&peer->recvwin),
    };
    dw_llp_header_put(buf, &header);
    if (intro)
        put_intro(peer, buf + DW_LLP_HEADER_BYTES);
}

void dw_put_lead(struct dw_peer *peer, struct dw_qpns qpns, uint8_t *buf, enum dw_llp_type type,
                 uint32_t psn)
{
    put_lead(peer, qpns, buf, type, 0, psn, !dw_peer_knows_us(peer));
}

void dw_put_intro_lead(struct dw_peer *peer, uint8_t *buf, enum dw_llp_type type, unsigned flags,
                       uint32_t psn)
{
    put_lead(peer, (struct dw_qpns){0}, buf, type, flags, psn, true);
}

/* ---- to the exit ---- */

static int transmit(struct dw_peer *peer, const struct iovec *iov, unsigned n, uint32_t segment,
                    bool whole)
{
    struct dw_rd *rd = dw_rd_of(peer);
    const struct dw_llp_addr to = dw_ah_addr(&dw_handle_of(peer)->ah);
    int rc = dw_datagrams_send(&rd->port->datagrams, &to, iov, n, segment, whole);
    rd->transmitted = rd->tried = true;
    rd->sent |= !rc;
    if (rc != -EAGAIN) { /* else a full socket refused it: nothing has been told */
        dw_peer_on_told(peer, rd->port->refuses_data);
        peer->send_error = (uint8_t)-rc;
        peer->sent |= !rc;
    }
    return rc;
}

int dw_transmit_iov(struct dw_peer *peer, const struct iovec *iov, unsigned n, uint32_t segment)
{
    const struct dw_path *path = dw_handle_of(peer)->ah.path;
    return transmit(peer, iov, n, segment,
                    dw_path_takes_whole(path, segment, dw_rd_of(peer)->port->ran_ns));
}

void dw_transmit_whole(struct dw_peer *peer, const struct iovec *iov, unsigned n, uint32_t bytes)
{
    (void)transmit(peer, iov, n, bytes, true);
}

int dw_transmit_train(struct dw_peer *peer, const struct iovec *iov, unsigned n, uint32_t segment)
{
    int rc = dw_transmit_iov(peer, iov, n, segment);
    dw_rd_of(peer)->port->device->served += rc != -EAGAIN;
    return rc;
}

/* ---- sequenced datagrams ---- */

static void lead(struct dw_peer *peer, struct dw_datagram *datagram)
{
    /* What fills window or credit holds up the next: its acknowledgement is not to wait. */
    bool filled = !dw_sendwin_may_send(&peer->sendwin, datagram->tx.truesize_bytes);
    bool ask = datagram->ack_request || filled;
    /* The room for an intro was fixed when the datagram was begun. */
    put_lead(peer, datagram->qpns, datagram->buf, DW_LLP_DATA, ask ? DW_LLP_ACK_REQUEST : 0,
             datagram->tx.psn, datagram->intro);
}

void dw_transmit_refused(struct dw_peer *peer, struct dw_datagram *datagram)
{
    dw_sendwin_on_lost(&peer->sendwin, &datagram->tx);
    dw_peer_look_again(peer);
}

static void send_finished(struct dw_peer *peer, struct dw_datagram *datagram)
{
    uint32_t bytes = dw_seal(&dw_rd_of(peer)->port->datagrams.seal, datagram->buf, datagram->bytes);
    struct iovec iov = {.iov_base = datagram->buf, .iov_len = bytes};
    if (dw_transmit_train(peer, &iov, 1, bytes) == -EAGAIN)
        dw_transmit_refused(peer, datagram);
}

void dw_transmit_begin(struct dw_peer *peer, struct dw_datagram *datagram, uint64_t now_ns)
{
    datagram->tx.truesize_bytes = dw_llp_truesize(datagram->bytes + DW_TRAILER_BYTES);
    dw_sendwin_on_send(&peer->sendwin, &datagram->tx, now_ns);
    peer->data_acked = true;
    lead(peer, datagram);
}

void dw_transmit(struct dw_peer *peer, struct dw_datagram *datagram, uint64_t now_ns)
{
    dw_transmit_begin(peer, datagram, now_ns);
    send_finished(peer, datagram);
    dw_timers_on_asked(peer, now_ns);
}

void dw_transmit_lost(struct dw_peer *peer, uint64_t now_ns)
{
    if (!peer->sendwin.any_lost || !peer->sendwin.credit_bytes)
        return; /* without credit it would be refused again; of room we are told */
    dw_list_foreach (it, &peer->sendwin.unacked) {
        struct dw_datagram *datagram = dw_container(it, struct dw_datagram, tx.link);
        if (!datagram->tx.lost)
            continue;
        dw_sendwin_on_resend(&peer->sendwin, &datagram->tx, now_ns);
        lead(peer, datagram);
        dw_rd_of(peer)->counters->tx_resent_datagrams++;
        dw_timers_on_asked(peer, now_ns);
        send_finished(peer, datagram);
        if (datagram->tx.lost)
            return; /* the socket is full: the next run goes on */
    }
    peer->sendwin.any_lost = false;
}
