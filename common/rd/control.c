/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams that have no PSN: ACK, PROBE, PROBE_REPLY, record control. */
#include "common/rd/control.h"

#include <errno.h>
#include <string.h>

#include "common/rd/transmit.h"

/* Record control that is kept for a peer while the socket is full; what is more is lost, as it may
 * be on the way. A timer stands behind each, but the record would stand still until then. What they
 * tell may be old when they leave, as when the network reorders. Answers to probes are not kept:
 * they would overtake the records that wait, and the sink would take those for lost. */
#define HELD_MAX 64u
/* Of a probe, again and again. */
#define PADDING_BYTES 4096u

struct held {
    struct dw_list link;
    struct dw_peer *peer;
    uint32_t bytes;
    uint8_t buf[];
};

static void hold(struct dw_peer *peer, const uint8_t *buf, uint32_t bytes)
{
    struct held *held = NULL;
    uint32_t room;
    if (peer->held < HELD_MAX)
        held = dw_pool_get(peer, (uint32_t)sizeof *held + bytes, &room);
    if (!held)
        return;
    held->peer = peer;
    held->bytes = bytes;
    memcpy(held->buf, buf, bytes);
    dw_list_append(&peer->rd->held_control, &held->link);
    peer->held++;
    if (peer->rd->port->refuses_data)
        dw_peer_tell_of_room(peer); /* it will be told that there is none */
}

static void end_held(struct held *held)
{
    held->peer->held--;
    dw_list_remove(&held->link);
    dw_slab_put(&held->peer->rd->port->datagrams.pool, held);
}

void dw_control_forget_held(struct dw_peer *peer)
{
    if (!peer->held)
        return;
    dw_list_foreach (it, &peer->rd->held_control) {
        struct held *held = dw_container(it, struct held, link);
        if (held->peer == peer)
            end_held(held);
    }
}

void dw_control_held(struct dw_rd *rd)
{
    const struct dw_peer *full = NULL;
    unsigned refusals = 0;
    dw_list_foreach (it, &rd->held_control) {
        struct held *held = dw_container(it, struct held, link);
        struct iovec iov = {.iov_base = held->buf, .iov_len = held->bytes};
        /* Those to a peer keep their order; another may have a socket of its own. */
        if (full == held->peer)
            continue;
        if (dw_transmit_train(held->peer, &iov, 1, held->bytes) == -EAGAIN) {
            if (++refusals == DW_REFUSALS_PER_RUN)
                return;
            full = held->peer;
            continue;
        }
        end_held(held);
    }
}

int dw_control_send(struct dw_peer *peer, enum dw_llp_type type, uint32_t psn)
{
    uint8_t buf[DW_LLP_HEADER_BYTES + DW_INTRO_BYTES + DW_TRAILER_BYTES];
    uint32_t bytes = dw_lead_bytes(peer);
    dw_put_lead(peer, (struct dw_qpns){0}, buf, type, psn);
    bytes = dw_seal(&peer->rd->port->datagrams.seal, buf, bytes);
    struct iovec iov = {.iov_base = buf, .iov_len = bytes};
    return dw_transmit_iov(peer, &iov, 1, bytes);
}

void dw_control_proof(struct dw_peer *peer, const uint8_t *cookie)
{
    const uint32_t lead = DW_LLP_HEADER_BYTES + DW_INTRO_BYTES;
    uint8_t buf[DW_LLP_HEADER_BYTES + DW_INTRO_BYTES + DW_PROOF_BYTES + DW_TRAILER_BYTES];
    dw_put_intro_lead(peer, buf, DW_LLP_PROOF, DW_LLP_ACK_REQUEST,
                      dw_sendwin_first_psn(&peer->sendwin));
    memcpy(buf + lead, cookie, DW_PROOF_BYTES);
    const uint32_t bytes = dw_seal(&peer->rd->port->datagrams.seal, buf, lead + DW_PROOF_BYTES);
    struct iovec iov = {.iov_base = buf, .iov_len = bytes};
    (void)dw_transmit_iov(peer, &iov, 1, bytes);
}

bool dw_control_ack(struct dw_peer *peer)
{
    if (dw_control_send(peer, DW_LLP_ACK, 0) == -EAGAIN) {
        dw_peer_ack_last(peer); /* others may have a socket of their own */
        return false;
    }
    peer->rd->counters->tx_acks++;
    return true;
}

void dw_control_padded_probe(struct dw_peer *peer, uint32_t psn, uint32_t bytes, bool whole)
{
    static const uint8_t padding[PADDING_BYTES];
    struct dw_sealing sealing;
    uint8_t head[DW_LLP_HEADER_BYTES + DW_INTRO_BYTES], trailer[DW_TRAILER_BYTES];
    uint32_t lead = dw_lead_bytes(peer), left = bytes - lead - DW_TRAILER_BYTES;
    struct iovec iov[DW_LLP_SLOT_BYTES / PADDING_BYTES + 2] = {{head, lead}};
    unsigned n = 1;
    dw_put_lead(peer, (struct dw_qpns){0}, head, DW_LLP_PROBE, psn);
    dw_sealing_begin(&sealing, &peer->rd->port->datagrams.seal);
    dw_sealing_add(&sealing, head, lead);
    for (; left; left -= (uint32_t)iov[n++].iov_len) {
        iov[n] = (struct iovec){(void *)(uintptr_t)padding,
                                left < sizeof padding ? left : sizeof padding};
        dw_sealing_add(&sealing, padding, iov[n].iov_len);
    }
    dw_sealing_end(&sealing, trailer);
    iov[n++] = (struct iovec){trailer, sizeof trailer};
    if (whole)
        dw_transmit_whole(peer, iov, n, bytes);
    else
        (void)dw_transmit_iov(peer, iov, n, bytes);
}

void dw_control_record(struct dw_peer *peer, struct dw_qpns qpns,
                       const struct dw_record_control *control)
{
    uint8_t buf[512], body[DW_RECORD_STATUS_BYTES(DW_RECORD_MAX_RANGES)];
    _Static_assert(sizeof buf >= DW_LLP_HEADER_BYTES + DW_INTRO_BYTES + DW_SEND_SEGMENT_BYTES +
                                     sizeof body + DW_TRAILER_BYTES,
                   "a full status must fit");
    const struct dw_ddp_header ddp = {
        .last = true, .opcode = DW_RDMAP_RECORD_CONTROL, .qn = DW_QN_RECORD, .msn = 1};
    uint32_t length = (uint32_t)dw_record_control_put(body, control);
    dw_put_lead(peer, qpns, buf, DW_LLP_RECORD, 0);
    uint8_t *payload = dw_segment_put(buf + dw_lead_bytes(peer), &ddp, NULL, length);
    memcpy(payload, body, length);
    uint32_t bytes =
        dw_seal(&peer->rd->port->datagrams.seal, buf, (uint32_t)(payload - buf) + length);
    struct iovec iov = {.iov_base = buf, .iov_len = bytes};
    if (dw_transmit_train(peer, &iov, 1, bytes) == -EAGAIN)
        hold(peer, buf, bytes);
}
