/* SPDX-License-Identifier: BSD-3-Clause */
/* The UD service, sending: a message becomes trains of datagrams at once, and is complete then. */
#include <errno.h>

#include "common/base/copy.h"
#include "common/rd/send.h"
#include "common/rd/transmit.h"
#include "common/ud/ud.h"
#include "common/wire/bytes.h"

/* One message on its way out. */
struct outgoing {
    struct diwarp_qp *qp;
    struct diwarp_ah *ah;
    struct dw_ddp_header ddp;
    uint32_t record_id;
    const struct iovec *iov;
    size_t iov_skip; /* bytes of *iov that are sent */
    uint32_t total, sent;
};

static void copy_payload(struct outgoing *out, uint8_t *to, uint32_t length)
{
    while (length) {
        size_t n = out->iov->iov_len - out->iov_skip;
        if (n > length)
            n = length;
        dw_copy(to, (const uint8_t *)out->iov->iov_base + out->iov_skip, n);
        to += n;
        length -= (uint32_t)n;
        out->iov_skip += n;
        if (out->iov_skip == out->iov->iov_len) {
            out->iov++;
            out->iov_skip = 0;
        }
    }
}

static uint32_t build(struct outgoing *out, uint8_t *buf, uint32_t payload)
{
    struct diwarp_qp *qp = out->qp;
    struct dw_llp_header header = {
        .type = DW_LLP_UD,
        .flags = qp->crc ? 0 : DW_LLP_NO_CRC,
        .incarnation = qp->incarnation,
        .token = out->ah->token,
        .job = qp->device->attr.name.job,
        .rank = qp->device->attr.name.rank,
        .number = ++qp->number,
        .timestamp = dw_timestamp(qp->ran_ns),
    };
    dw_llp_header_put(buf, &header);
    struct dw_ddp_header ddp = out->ddp;
    ddp.last = out->sent + payload == out->total;
    if (ddp.tagged)
        ddp.to += out->sent;
    else
        ddp.mo = out->sent;
    uint8_t *segment = buf + DW_LLP_HEADER_BYTES;
    size_t at = DW_SEGMENT_LEN_BYTES + dw_ddp_put(segment + DW_SEGMENT_LEN_BYTES, &ddp);
    if (ddp.tagged) {
        struct dw_write_record wr = {
            .id = out->record_id, .offset = out->sent, .total = out->total};
        dw_write_record_put(segment + at, &wr);
        at += DW_WRITE_RECORD_BYTES;
    }
    copy_payload(out, segment + at, payload);
    out->sent += payload;
    at += payload;
    dw_put_be16(segment, (uint16_t)(at - DW_SEGMENT_LEN_BYTES));
    return dw_put_trailer(qp, buf, DW_LLP_HEADER_BYTES + (uint32_t)at);
}

/* Trains of equal datagrams. Only a first one that cannot leave is an error: later ones that the
 * socket refuses are losses, as on the wire. */
static int transmit(struct outgoing *out)
{
    struct diwarp_qp *qp = out->qp;
    uint32_t head = out->ddp.tagged ? DW_RECORD_SEGMENT_BYTES : DW_SEND_SEGMENT_BYTES;
    uint32_t payload_max = out->ah->datagram_max_bytes - DW_LLP_HEADER_BYTES - head - DW_CRC_BYTES;
    for (bool first = true; first || out->sent < out->total; first = false) {
        uint32_t bytes = 0, segment = 0;
        unsigned n = 0;
        do {
            uint32_t left = out->total - out->sent;
            uint32_t one = build(out, qp->stage + bytes, left < payload_max ? left : payload_max);
            bytes += one;
            if (!n++)
                segment = one;
        } while (out->sent < out->total && n < DW_LLP_TRAIN_DATAGRAMS &&
                 bytes + segment <= DW_LLP_TRAIN_BYTES);
        struct iovec iov = {.iov_base = qp->stage, .iov_len = bytes};
        struct dw_llp_train train = {
            .to = &out->ah->addr,
            .iov = &iov,
            .iov_count = 1,
            .total_bytes = bytes,
            .segment_bytes = segment,
        };
        int rc = dw_llp_send(qp->llp, &train);
        if (rc && first)
            return rc;
    }
    return 0;
}

int dw_ud_post_send(struct diwarp_qp *qp, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                    uint64_t now_ns)
{
    (void)now_ns;
    struct dw_ud *ud = qp->ud;
    bool write = wr->opcode == IBV_WR_RDMA_WRITE;
    if (!write && wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM)
        return -EINVAL;
    struct iovec iov[DW_MAX_SGE];
    uint32_t max_bytes = write ? UINT32_MAX >> 1 : qp->attr.max_msg_bytes;
    int64_t total = dw_send_gather(qp, wr, 0, max_bytes, iov);
    if (total < 0 || (write && !total))
        return total < 0 ? (int)total : -EINVAL;
    struct outgoing out = {.qp = qp, .ah = ah, .iov = iov, .total = (uint32_t)total};
    if (write) {
        out.record_id = (ud->next_record + 1) | DW_RECORD_ID_FROM_SOURCE;
        out.ddp = (struct dw_ddp_header){
            .tagged = true,
            .opcode = DW_RDMAP_WRITE_RECORD,
            .stag = wr->wr.rdma.rkey,
            .to = wr->wr.rdma.remote_addr,
        };
    } else {
        bool imm = wr->opcode == IBV_WR_SEND_WITH_IMM;
        out.ddp = (struct dw_ddp_header){
            .opcode = imm ? DW_RDMAP_SEND_IMM : DW_RDMAP_SEND,
            .ulp = imm ? wr->imm_data : 0,
            .qn = DW_QN_SEND,
            .msn = ud->next_msn + 1,
        };
    }
    int rc = transmit(&out);
    if (rc) /* nothing has left: the next one may take its number */
        return rc;
    if (write) {
        ud->next_record++;
        qp->counters.tx_write_msgs++;
    } else {
        ud->next_msn++;
        qp->counters.tx_send_msgs++;
    }
    dw_cq_complete(qp, wr->wr_id, wr->send_flags & IBV_SEND_SIGNALED,
                   write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND, IBV_WC_SUCCESS, (uint32_t)total);
    return 0;
}
