/* SPDX-License-Identifier: BSD-3-Clause */
/* The UD service, sending: a message becomes trains of datagrams at once, and is complete then. */
#include <errno.h>
#include <sys/socket.h>

#include "common/ud/ud.h"

/* Trains of equal datagrams. Only a first one that cannot leave is an error: later ones that the
 * socket refuses are losses, as on the wire. None overtakes those that wait. */
static int transmit(struct dw_ud_outgoing *out, bool lazy, uint64_t now_ns)
{
    struct dw_ud_port *port = dw_ud_port_of(out->ud);
    dw_path_expire(dw_ah_path(out->ah), now_ns);
    const uint32_t most = dw_ah_datagram_max_bytes(out->ah);
    int rc;
    if ((lazy || port->lazy.count) && dw_ud_datagram_bytes(out, out->record.total) <= most) {
        rc = dw_ud_lazy_add(out, now_ns);
        if (!rc && !lazy)
            (void)dw_ud_lazy_flush(port);
        return rc;
    }
    rc = dw_ud_lazy_flush(port);
    if (!rc)
        rc = dw_ud_send_train(out, now_ns);
    while (!rc && out->record.offset < out->record.total)
        (void)dw_ud_send_train(out, now_ns);
    return rc;
}

/* Of the destination; the sender's own where none is given. */
static uint32_t remote_qkey(const struct diwarp_qp *qp, const struct ibv_send_wr *wr)
{
    if (wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_READ)
        return wr->send_flags & DIWARP_SEND_QKEY ? wr->imm_data : qp->attr.qkey;
    return wr->wr.ud.remote_qkey >> 31 ? qp->attr.qkey : wr->wr.ud.remote_qkey;
}

static bool introduces(const struct diwarp_qp *qp, const struct diwarp_ah *ah)
{
    return qp->attr.introduces && dw_ah_path(ah)->host.family == AF_INET6;
}

static uint8_t opcode_of(bool imm, bool solicited)
{
    if (imm)
        return solicited ? DW_RDMAP_SEND_SE_IMM : DW_RDMAP_SEND_IMM;
    return solicited ? DW_RDMAP_SEND_SE : DW_RDMAP_SEND;
}

int dw_ud_post_send(struct diwarp_qp *qp, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                    uint64_t now_ns)
{
    struct dw_ud_qp *ud = dw_ud_qp_of(qp);
    const bool write = wr->opcode == IBV_WR_RDMA_WRITE, imm = wr->opcode == IBV_WR_SEND_WITH_IMM;
    const enum dw_ud_kind kind = write ? DW_UD_RECORD : DW_UD_SEND;
    const uint32_t qkey = remote_qkey(qp, wr);
    if (wr->opcode == IBV_WR_RDMA_READ && ah->qpn == DW_QPN_GROUP) /* who would answer? */
        return -EINVAL;
    if (wr->opcode == IBV_WR_RDMA_READ) {
        const int rc = dw_ud_lazy_flush(dw_ud_port_of(ud));
        return rc ? rc : dw_ud_post_read(ud, ah, wr, qkey, now_ns);
    }
    if (!write && !imm && wr->opcode != IBV_WR_SEND)
        return -EINVAL;
    struct dw_ud_outgoing out = {.ud = ud, .ah = ah, .qkey = qkey, .intro = introduces(qp, ah)};
    const uint32_t max_bytes = write ? UINT32_MAX >> 1 : qp->attr.max_msg_bytes;
    const int64_t total =
        dw_pd_gather(qp->pd, wr->sg_list, wr->num_sge, 0, max_bytes, out.iov, DW_UD_MAX_SGE);
    if (total < 0 || (write && !total))
        return total < 0 ? (int)total : -EINVAL;
    struct dw_ud_target *target = dw_ud_target_of(ud, ah);
    if (!target)
        return -ENOMEM;
    const uint32_t serial = target->last[kind] + 1;
    out.record.total = (uint32_t)total;
    if (write) {
        out.record.id = serial | DW_RECORD_ID_FROM_SOURCE;
        out.ddp = (struct dw_ddp_header){.tagged = true,
                                         .opcode = DW_RDMAP_WRITE_RECORD,
                                         .stag = wr->wr.rdma.rkey,
                                         .to = wr->wr.rdma.remote_addr};
    } else {
        out.ddp =
            (struct dw_ddp_header){.opcode = opcode_of(imm, wr->send_flags & IBV_SEND_SOLICITED),
                                   .ulp = imm ? wr->imm_data : 0,
                                   .qn = DW_QN_SEND,
                                   .msn = serial};
    }
    const int rc = transmit(&out, !write && wr->send_flags & DIWARP_SEND_LAZY, now_ns);
    if (rc) /* nothing has left: the next one may take its number */
        return rc;
    target->last[kind] = serial;
    struct diwarp_counters *counters = dw_ud_counters(ud);
    *(write ? &counters->tx_write_msgs : &counters->tx_send_msgs) += 1;
    dw_qp_complete(qp, wr->wr_id, wr->send_flags & IBV_SEND_SIGNALED,
                   write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND, IBV_WC_SUCCESS, (uint32_t)total);
    return 0;
}
