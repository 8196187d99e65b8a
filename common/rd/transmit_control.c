/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams that have no PSN: ACK, PROBE, PROBE_REPLY, record control. */
#include <errno.h>
#include <string.h>

#include "common/rd/transmit.h"
#include "common/wire/bytes.h"
#include "common/wire/crc32c.h"

/* Record control that a QP keeps while its socket is full; what is more is lost, as it may be on
 * the way. A timer stands behind each, but the record would stand still until then. What they tell
 * may be old when they leave, as when the network reorders. Answers to probes are not kept: they
 * would overtake the records that wait, and the sink would take those for lost. */
#define HELD_MAX 64
/* Of a probe, again and again. */
#define PADDING_BYTES 4096u

struct held {
    struct dw_list link;
    struct dw_llp_addr to; /* the peer may be gone by then */
    uint32_t bytes;
    uint8_t buf[];
};

static void hold(struct dw_peer *peer, const uint8_t *buf, uint32_t bytes)
{
    struct diwarp_qp *qp = peer->qp;
    struct held *held = NULL;
    uint32_t room;
    if (qp->held_count < HELD_MAX)
        held = dw_slab_get(&qp->datagrams, (uint32_t)sizeof *held + bytes, &room);
    if (!held)
        return;
    held->to = peer->ah->addr;
    held->bytes = bytes;
    memcpy(held->buf, buf, bytes);
    dw_list_append(&qp->held_control, &held->link);
    qp->held_count++;
    peer->told_full |= qp->refuses_data; /* it will be */
}

void dw_transmit_held(struct diwarp_qp *qp)
{
    const struct dw_llp_addr *full = NULL;
    unsigned refusals = 0;
    dw_list_foreach (it, &qp->held_control) {
        struct held *held = dw_container(it, struct held, link);
        struct iovec iov = {.iov_base = held->buf, .iov_len = held->bytes};
        struct dw_llp_train train = {
            .to = &held->to,
            .iov = &iov,
            .iov_count = 1,
            .total_bytes = held->bytes,
            .segment_bytes = held->bytes,
        };
        /* Those to a peer keep their order; another may have a socket of its own. */
        if (full && dw_llp_same_host(full, &held->to) && full->port == held->to.port)
            continue;
        if (dw_llp_send(qp->llp, &train) == -EAGAIN) {
            if (++refusals == DW_REFUSALS_PER_RUN)
                return;
            full = &held->to;
            continue;
        }
        dw_list_remove(it);
        dw_slab_put(&qp->datagrams, held);
        qp->held_count--;
        qp->cq->served++;
    }
}

int dw_transmit_bare(struct dw_peer *peer, enum dw_llp_type type, uint32_t psn)
{
    uint8_t buf[DW_LLP_HEADER_BYTES + DW_INTRO_BYTES + DW_CRC_BYTES];
    uint32_t bytes = dw_lead_bytes(peer);
    dw_put_lead(peer, buf, type, 0, psn);
    struct iovec iov = {.iov_base = buf, .iov_len = dw_put_trailer(peer->qp, buf, bytes)};
    return dw_transmit_iov(peer, &iov, 1, (uint32_t)iov.iov_len);
}

void dw_transmit_proof(struct dw_peer *peer, const uint8_t *cookie)
{
    const uint32_t lead = DW_LLP_HEADER_BYTES + DW_INTRO_BYTES;
    uint8_t buf[DW_LLP_HEADER_BYTES + DW_INTRO_BYTES + DW_PROOF_BYTES + DW_CRC_BYTES];
    dw_put_intro_lead(peer, buf, DW_LLP_PROOF, DW_LLP_ACK_REQUEST, 0);
    memcpy(buf + lead, cookie, DW_PROOF_BYTES);
    struct iovec iov = {.iov_base = buf, .iov_len = sizeof buf};
    (void)dw_put_trailer(peer->qp, buf, sizeof buf - DW_CRC_BYTES);
    (void)dw_transmit_iov(peer, &iov, 1, sizeof buf);
}

bool dw_transmit_ack(struct dw_peer *peer)
{
    if (dw_transmit_bare(peer, DW_LLP_ACK, 0) == -EAGAIN) {
        dw_list_remove(&peer->ack_link); /* others may have a socket of their own */
        dw_list_append(&peer->qp->ack, &peer->ack_link);
        return false;
    }
    peer->qp->counters.tx_acks++;
    return true;
}

void dw_transmit_padded_probe(struct dw_peer *peer, uint32_t psn, uint32_t bytes)
{
    static const uint8_t padding[PADDING_BYTES];
    uint8_t head[DW_LLP_HEADER_BYTES + DW_INTRO_BYTES], trailer[DW_CRC_BYTES];
    uint32_t lead = dw_lead_bytes(peer), crc = 0, left = bytes - lead - DW_CRC_BYTES;
    struct iovec iov[DW_LLP_SLOT_BYTES / PADDING_BYTES + 2] = {{head, lead}};
    unsigned n = 1;
    dw_put_lead(peer, head, DW_LLP_PROBE, 0, psn);
    if (peer->qp->crc)
        crc = dw_crc32c(0, head, lead);
    for (; left; left -= (uint32_t)iov[n++].iov_len) {
        iov[n] = (struct iovec){(void *)(uintptr_t)padding,
                                left < sizeof padding ? left : sizeof padding};
        if (peer->qp->crc)
            crc = dw_crc32c(crc, padding, iov[n].iov_len);
    }
    dw_put_be32(trailer, crc);
    iov[n++] = (struct iovec){trailer, sizeof trailer};
    (void)dw_transmit_iov(peer, iov, n, bytes);
}

void dw_transmit_record_control(struct dw_peer *peer, const struct dw_record_control *control)
{
    uint8_t buf[512];
    _Static_assert(sizeof buf >= DW_LLP_HEADER_BYTES + DW_INTRO_BYTES + DW_SEND_SEGMENT_BYTES +
                                     DW_RECORD_STATUS_BYTES(DW_RECORD_MAX_RANGES) + DW_CRC_BYTES,
                   "a full status must fit");
    uint32_t lead = dw_lead_bytes(peer);
    dw_put_lead(peer, buf, DW_LLP_RECORD, 0, 0);
    struct dw_ddp_header ddp = {
        .last = true, .opcode = DW_RDMAP_RECORD_CONTROL, .qn = DW_QN_RECORD, .msn = 1};
    uint8_t *segment = buf + lead;
    size_t bytes = dw_ddp_put(segment + DW_SEGMENT_LEN_BYTES, &ddp);
    bytes += dw_record_control_put(segment + DW_SEGMENT_LEN_BYTES + bytes, control);
    dw_put_be16(segment, (uint16_t)bytes);
    bytes = dw_put_trailer(peer->qp, buf, lead + DW_SEGMENT_LEN_BYTES + (uint32_t)bytes);
    struct iovec iov = {.iov_base = buf, .iov_len = bytes};
    if (dw_transmit_train(peer, &iov, 1, (uint32_t)bytes) == -EAGAIN)
        hold(peer, buf, (uint32_t)bytes);
}
