/* SPDX-License-Identifier: BSD-3-Clause */
/* RD's datagrams, from their buffers to the exit: headers with acknowledgements on board; sequenced
 * ones, which are sent again; and those that have no PSN. */
#include "common/rd/parts.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>

/* Of a datagram that others may join: the first of several to a peer, and one of a stream. */
#define JOINED_BYTES 8192
#define HEAD_BYTES   ((uint32_t)(sizeof(struct dw_train) + sizeof(struct dw_datagram)))
#define STREAM_BYTES (DW_SLAB_MAX_BYTES - HEAD_BYTES)
_Static_assert(STREAM_BYTES >= DW_LLP_TRAIN_BYTES, "the largest buffer holds any datagram");
/* The kernel puts a datagram of up to 16 KiB at 44 in a page. What begins at 29 to 43 in one it may
 * copy there very slowly (common/base/copy.h); the slab's buffers of that length are aligned. */
_Static_assert(HEAD_BYTES % DW_SLAB_ALIGN_BYTES < 29 || HEAD_BYTES % DW_SLAB_ALIGN_BYTES > 43,
               "a datagram with a buffer of its own begins elsewhere");

/* An eighth of the pool's chunks is for peers with nothing under way, one datagram each. A peer
 * that has something under way also leaves free half of what it holds. So one that does not
 * acknowledge for long has two thirds of the pool at most, two such peers have two fifths each, and
 * something is left for others until very many do not acknowledge. */
#define POOL_LEFT_DEN 8

/* ---- buffers ---- */

struct dw_train *dw_train_get(const struct dw_peer *peer, struct dw_qpns qpns, unsigned n,
                              uint32_t each)
{
    struct dw_slab *slab = &dw_rd_of(peer)->port->datagrams.pool;
    const uint32_t bytes =
        (uint32_t)sizeof(struct dw_train) + n * ((uint32_t)sizeof(struct dw_datagram) + each);
    uint32_t left = peer->sendwin.bytes / 2 / DW_SLAB_CHUNK_BYTES, room;
    if (left < slab->chunk_max / POOL_LEFT_DEN)
        left = slab->chunk_max / POOL_LEFT_DEN;
    if (!left)
        left = 1;
    const bool may_take = (!peer->sendwin.count && n == 1) || dw_slab_free_chunks(slab) > left;
    struct dw_train *train = may_take ? dw_slab_get(slab, bytes, &room) : NULL;
    if (!train)
        return NULL;
    train->kept = n;
    for (unsigned i = 0; i < n; i++) {
        train->datagrams[i] = (struct dw_datagram){
            .train = train,
            .qpns = qpns,
            .buf = (uint8_t *)(train->datagrams + n) + i * each,
            .bytes = dw_lead_bytes(peer),
            .room = each - dw_trailer_bytes(peer),
            .intro = !dw_peer_knows_us(peer),
        };
        dw_list_init(&train->datagrams[i].tx.link);
    }
    train->datagrams[n - 1].room += room - bytes;
    return train;
}

/* One that is likely to be joined by further messages gets all the room there is; what is sent by
 * itself needs no more than it has bytes. */
struct dw_datagram *dw_datagram_get(struct dw_peer *peer, struct dw_qpns qpns,
                                    uint32_t segment_bytes)
{
    const uint32_t trailer = dw_trailer_bytes(peer);
    const uint32_t need = dw_lead_bytes(peer) + segment_bytes + trailer;
    const uint32_t most = dw_ah_datagram_max_bytes(&dw_handle_of(peer)->ah);
    uint32_t wanted = need;
    assert(need <= most);
    if (!peer->at_once)
        wanted = peer->sendwin.count > 1 ? STREAM_BYTES : JOINED_BYTES;
    wanted = wanted > most ? most : wanted < need ? need : wanted;
    struct dw_train *train = dw_train_get(peer, qpns, 1, wanted);
    if (!train && wanted > need)
        train = dw_train_get(peer, qpns, 1, need);
    if (!train)
        return NULL;
    if (train->datagrams->room > most - trailer)
        train->datagrams->room = most - trailer;
    return train->datagrams;
}

void dw_datagram_put(struct dw_rd *rd, struct dw_datagram *datagram)
{
    rd->starved = false;
    if (--datagram->train->kept == 0)
        dw_slab_put(&rd->port->datagrams.pool, datagram->train);
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

static uint16_t credit_kib(const struct dw_peer *peer)
{
    const struct dw_rd *rd = dw_rd_of(peer);
    if (dw_peer_is_refused(peer))
        return 0;
    uint32_t senders = rd->senders > rd->epoch_senders ? rd->senders : rd->epoch_senders;
    uint32_t kib = rd->records.eager_budget_bytes / (senders ? senders : 1) / 1024;
    return kib > UINT16_MAX ? UINT16_MAX : kib ? (uint16_t)kib : 1;
}

/* What leads a datagram differs in. */
struct lead {
    enum dw_llp_type type;
    unsigned flags;
    uint32_t psn;
    bool intro;
    const struct dw_way *way; /* NULL: the current one */
    uint16_t echo;            /* where it is not the current one */
};

static void put_lead(struct dw_peer *peer, struct dw_qpns qpns, uint8_t *buf, struct lead lead)
{
    const struct dw_port *port = dw_rd_of(peer)->port;
    const struct dw_datagrams *datagrams = &port->datagrams;
    const struct diwarp_ah *ah = &dw_handle_of(peer)->ah;
    const struct dw_process to = dw_process_of(peer);
    unsigned flags = lead.flags | dw_seal_flags(&datagrams->seal, &to);
    if (lead.intro)
        flags |= DW_LLP_INTRO;
    if (lead.intro && (dw_met_of(peer)->goes_on || dw_peer_is_in_doubt(peer, port->ran_ns)))
        flags |= DW_LLP_GOES_ON;
    if (peer->refusals)
        flags |= DW_LLP_REFUSING;
    const struct dw_llp_header header = {
        .type = (uint8_t)lead.type,
        .flags = (uint8_t)flags,
        .credit_kib = credit_kib(peer),
        .incarnation = datagrams->incarnation,
        .token = ah->token,
        .job = datagrams->name.job,
        .rank = datagrams->name.rank,
        .number = ++peer->number,
        .path = lead.way ? lead.way->id : 0,
        .dst_qpn = qpns.there,
        .src_qpn = qpns.here,
        .timestamp = (uint16_t)(port->ran_ns >> DW_TIMESTAMP_SHIFT),
        .timestamp_echo = lead.way && lead.way->id ? lead.echo : peer->timestamp,
        .psn = lead.psn,
        .ack = peer->recvwin.ack,
        .sack = dw_recvwin_sack(&peer->recvwin),
    };
    dw_llp_header_put(buf, &header);
    if (lead.intro)
        dw_port_put_intro(port, lead.way ? lead.way->path : dw_ah_path(ah),
                          buf + DW_LLP_HEADER_BYTES);
}

/* The way that `id` names in RECORD datagrams: by our interface where we are the record's sink
 * (from_peer), else by the peer's; the current way where there is none of that number. */
static struct dw_way way_of(const struct diwarp_ah *ah, uint8_t id, bool from_peer)
{
    const struct dw_ways *ways = ah->ways;
    const unsigned i = !id         ? ways->count
                       : from_peer ? dw_ways_from(ways, id)
                                   : dw_ways_to(ways, id);
    return i < ways->count ? (struct dw_way){.path = ways->paths[i], .id = id}
                           : (struct dw_way){.path = dw_ways_path(ways)};
}

uint32_t dw_put_record_lead(struct dw_record_peer *records, struct dw_qpns qpns,
                            struct dw_record_by by, uint8_t *buf)
{
    struct dw_peer *peer = dw_peer_of_records(records);
    const struct dw_way way = way_of(records->ah, by.way, false);
    if (buf)
        put_lead(peer, qpns, buf,
                 (struct lead){.type = DW_LLP_RECORD,
                               .intro = !dw_peer_knows_us(peer),
                               .way = &way,
                               .echo = by.timestamp});
    return dw_lead_bytes(peer);
}

/* ---- to the exit ---- */

/* whole: as it is, too, where the path says that it takes it so. */
static int transmit(struct dw_peer *peer, const struct dw_path *path, const struct iovec *iov,
                    unsigned n, uint32_t segment, bool whole)
{
    struct dw_rd *rd = dw_rd_of(peer);
    struct dw_llp_addr to = path->host;
    to.port = dw_handle_of(peer)->ah.udp_port;
    struct dw_llp_train train = {
        .to = &to,
        .iov = iov,
        .iov_count = n,
        .segment_bytes = segment,
        .flow = path->flow,
        .whole = whole || dw_path_takes_whole(path, segment, rd->port->ran_ns),
    };
    int rc = dw_datagrams_send(&rd->port->datagrams, &train);
    rd->transmitted = rd->tried = true;
    rd->sent |= !rc;
    /* Only a send by the current way, and not one that a full socket refused, tells whether this
     * host can send to the peer, and has acknowledged. */
    if (rc != -EAGAIN && path == dw_ah_path(&dw_handle_of(peer)->ah)) {
        dw_peer_on_told(peer);
        peer->send_error = (uint8_t)-rc;
        peer->sent |= !rc;
    }
    return rc;
}

/* Sends what the peer waits for, which keeps the helper thread awake. */
static int transmit_data(struct dw_peer *peer, const struct dw_path *path, const struct iovec *iov,
                         unsigned n, uint32_t segment)
{
    const int rc = transmit(peer, path, iov, n, segment, false);
    dw_rd_of(peer)->port->device->served += rc != -EAGAIN;
    return rc;
}

int dw_transmit_record(struct dw_record_peer *records, uint8_t id, const struct iovec *iov,
                       unsigned n, uint32_t segment)
{
    return transmit_data(dw_peer_of_records(records), way_of(records->ah, id, false).path, iov, n,
                         segment);
}

/* ---- sequenced datagrams ---- */

static void lead(struct dw_peer *peer, struct dw_datagram *datagram)
{
    /* What fills window or credit holds up the next: its acknowledgement is not to wait. */
    const bool filled = !dw_sendwin_may_send(&peer->sendwin, datagram->tx.truesize_bytes);
    const bool ask = datagram->ack_request || filled || peer->retrying;
    /* The room for an intro was fixed when the datagram was begun. */
    put_lead(peer, datagram->qpns, datagram->buf,
             (struct lead){.type = DW_LLP_DATA,
                           .flags = ask ? DW_LLP_ACK_REQUEST : 0,
                           .psn = datagram->tx.psn,
                           .intro = datagram->intro});
}

void dw_transmit_begin(struct dw_peer *peer, struct dw_datagram *datagram, uint64_t now_ns)
{
    datagram->tx.truesize_bytes = dw_llp_truesize(datagram->bytes + dw_trailer_bytes(peer));
    dw_sendwin_on_send(&peer->sendwin, &datagram->tx, now_ns);
    peer->data_acked = true;
    lead(peer, datagram);
}

void dw_transmit_train(struct dw_peer *peer, struct dw_datagram *first, unsigned n, uint32_t bytes,
                       uint64_t now_ns)
{
    const uint32_t each = first->bytes + dw_trailer_bytes(peer);
    const struct iovec iov = {.iov_base = dw_seal_place(dw_seal_for(peer), first->buf),
                              .iov_len = bytes};
    if (transmit_data(peer, dw_ah_path(&dw_handle_of(peer)->ah), &iov, 1, each) == -EAGAIN) {
        for (unsigned i = 0; i < n; i++)
            dw_sendwin_on_lost(&peer->sendwin, &first[i].tx);
        dw_peer_look_again(peer);
    }
    dw_timers_on_asked(peer, now_ns);
}

void dw_transmit(struct dw_peer *peer, struct dw_datagram *datagram, uint64_t now_ns)
{
    const struct dw_seal *seal = dw_seal_for(peer);
    const struct dw_process to = dw_process_of(peer);
    dw_seal(seal, &to, datagram->buf, datagram->bytes, dw_seal_place(seal, datagram->buf));
    dw_transmit_train(peer, datagram, 1, datagram->bytes + seal->trailer_bytes, now_ns);
}

void dw_transmit_again(struct dw_peer *peer, struct dw_datagram *datagram, uint64_t now_ns)
{
    dw_sendwin_on_resend(&peer->sendwin, &datagram->tx, now_ns);
    lead(peer, datagram);
    dw_rd_of(peer)->counters->tx_resent_datagrams++;
    dw_transmit(peer, datagram, now_ns);
}

void dw_transmit_lost_most(struct dw_peer *peer, unsigned most, uint64_t now_ns)
{
    if (!peer->sendwin.any_lost || !peer->sendwin.credit_bytes)
        return; /* without credit it would be refused again; of room we are told */
    dw_foreach (datagram, struct dw_datagram, tx.link, &peer->sendwin.unacked) {
        if (!datagram->tx.lost)
            continue;
        if (!most--)
            return;
        dw_transmit_again(peer, datagram, now_ns);
        if (datagram->tx.lost)
            return; /* the socket is full: the next run goes on */
    }
    peer->sendwin.any_lost = peer->retrying = false;
}

void dw_transmit_lost(struct dw_peer *peer, uint64_t now_ns)
{
    const struct dw_tx *oldest = dw_container(peer->sendwin.unacked.next, struct dw_tx, link);
    if (!peer->retrying)
        dw_transmit_lost_most(peer, UINT_MAX, now_ns);
    else if (peer->sendwin.count && oldest->lost) /* none is on its way */
        dw_transmit_lost_most(peer, 1, now_ns);
}

/* ---- without a PSN ---- */

/* One with `bytes` of body; whole: it is lost rather than cut where it is too long. */
static int send_body(struct dw_peer *peer, struct dw_qpns qpns, struct lead lead, const void *body,
                     uint32_t bytes, bool whole)
{
    const struct dw_seal *seal = dw_seal_for(peer);
    const struct dw_process to = dw_process_of(peer);
    uint8_t room[DW_LLP_HEADER_BYTES + DW_INTRO_BYTES + DW_TAG_BYTES];
    uint8_t *head = dw_seal_place(seal, room); /* a secret one in one piece */
    const bool gathered = bytes && head == room;
    lead.intro |= !dw_peer_knows_us(peer);
    const uint32_t led = DW_LLP_HEADER_BYTES + (lead.intro ? DW_INTRO_BYTES : 0);
    const uint32_t all = led + bytes + seal->trailer_bytes;
    const struct iovec iov[] = {{head, gathered ? led : all},
                                {(void *)(uintptr_t)body, bytes},
                                {head + led, seal->trailer_bytes}};
    put_lead(peer, qpns, head, lead);
    struct dw_sealing sealing = dw_sealing_begin(seal, &to, head, led);
    if (gathered)
        dw_sealing_add(&sealing, body, bytes);
    else if (bytes)
        dw_sealing_copy(&sealing, head + led, body, bytes);
    dw_sealing_end(&sealing, gathered ? head + led : head + led + bytes);
    return transmit(peer, lead.way ? lead.way->path : dw_ah_path(&dw_handle_of(peer)->ah), iov,
                    gathered ? 3 : 1, all, whole);
}

int dw_control_send(struct dw_peer *peer, enum dw_llp_type type, uint32_t psn)
{
    return send_body(peer, (struct dw_qpns){0}, (struct lead){.type = type, .psn = psn}, NULL, 0,
                     false);
}

int dw_control_prove(struct dw_peer *peer, const void *cookie)
{
    const struct dw_ways *ways = dw_handle_of(peer)->ah.ways;
    struct lead lead = {.type = DW_LLP_PROOF,
                        .flags = DW_LLP_ACK_REQUEST,
                        .psn = dw_sendwin_first_psn(&peer->sendwin),
                        .intro = true};
    int rc = send_body(peer, (struct dw_qpns){0}, lead, cookie, DW_PROOF_BYTES, false);
    for (unsigned i = 0; peer->trying && i < ways->count; i++) {
        const struct dw_way way = {.path = ways->paths[i]};
        lead.way = &way;
        if (i != ways->current &&
            !send_body(peer, (struct dw_qpns){0}, lead, cookie, DW_PROOF_BYTES, false))
            rc = 0;
    }
    return rc;
}

/* Of padded ones. */
static uint8_t padding[DW_LLP_SLOT_BYTES]; /* not const: it takes no room in the file */

void dw_control_by_way(struct dw_peer *peer, enum dw_llp_type type, uint32_t psn,
                       const struct dw_way *way, uint32_t bytes)
{
    const struct lead lead = {.type = type, .psn = psn, .intro = type == DW_LLP_PROBE, .way = way};
    const uint32_t led = DW_LLP_HEADER_BYTES + DW_INTRO_BYTES + dw_trailer_bytes(peer);
    (void)send_body(peer, (struct dw_qpns){0}, lead, padding, bytes ? bytes - led : 0, bytes);
}

bool dw_control_ack(struct dw_peer *peer)
{
    if (dw_control_send(peer, DW_LLP_ACK, 0) == -EAGAIN) {
        dw_peer_ack_last(peer);
        return false;
    }
    dw_rd_of(peer)->counters->tx_acks++;
    return true;
}

void dw_control_padded_probe(struct dw_peer *peer, uint32_t psn, uint32_t bytes, bool whole)
{
    (void)send_body(peer, (struct dw_qpns){0}, (struct lead){.type = DW_LLP_PROBE, .psn = psn},
                    padding, bytes - dw_lead_bytes(peer) - dw_trailer_bytes(peer), whole);
}

int dw_control_record(struct dw_record_peer *records, struct dw_qpns qpns, uint8_t id,
                      const struct dw_record_control *control)
{
    struct dw_peer *peer = dw_peer_of_records(records);
    const struct dw_way way = way_of(records->ah, id, true);
    const struct dw_ddp_header ddp = {
        .last = true, .opcode = DW_RDMAP_RECORD_CONTROL, .qn = DW_QN_RECORD, .msn = 1};
    uint8_t body[DW_SEND_SEGMENT_BYTES + DW_RECORD_STATUS_BYTES(DW_RECORD_MAX_RANGES)];
    const uint32_t bytes = (uint32_t)dw_record_control_put(body + DW_SEND_SEGMENT_BYTES, control);
    (void)dw_segment_put(body, &ddp, NULL, bytes);
    const int rc = send_body(peer, qpns, (struct lead){.type = DW_LLP_RECORD, .way = &way}, body,
                             DW_SEND_SEGMENT_BYTES + bytes, false);
    dw_rd_of(peer)->port->device->served += rc != -EAGAIN;
    return rc;
}
