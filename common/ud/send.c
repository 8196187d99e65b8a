/* SPDX-License-Identifier: BSD-3-Clause */
/* The UD service, sending: a message becomes trains of datagrams at once, and is complete then. */
#include <errno.h>
#include <stdlib.h>

#include "common/ud/ud.h"

/* Destinations whose last numbers are kept, in 5 MB; then all are forgotten. What overtakes another
 * datagram just then makes that one too late: with half as many, twice as often. */
#define TARGETS_MAX 65536

/* One message on its way out. */
struct outgoing {
    struct dw_ud_qp *ud;
    const struct diwarp_ah *ah;
    struct dw_ddp_header ddp;      /* of what is left */
    struct dw_write_record record; /* likewise; of a Send, too: how far it is */
    uint32_t qkey;
    struct iovec iov[DW_UD_MAX_SGE];
};

/* Builds the next datagram at buf; returns its length. */
static uint32_t build(struct outgoing *out, uint8_t *buf, uint32_t payload)
{
    struct dw_datagrams *datagrams = &out->ud->qp.port->datagrams;
    const struct dw_process to = {.name = out->ah->name, .incarnation = out->ah->incarnation};
    const struct dw_llp_header header = {
        .type = DW_LLP_UD,
        .flags = dw_seal_flags(&datagrams->seal, &to),
        .incarnation = datagrams->incarnation,
        .token = out->ah->token,
        .job = datagrams->name.job,
        .rank = datagrams->name.rank,
        .number = ++datagrams->number,
        .dst_qpn = out->ah->qpn,
        .src_qpn = out->ud->qp.num,
        .psn = out->qkey,
        .timestamp = (uint16_t)(out->ud->qp.port->ran_ns >> DW_TIMESTAMP_SHIFT),
    };
    out->ddp.last = out->record.offset + payload == out->record.total;
    dw_llp_header_put(buf, &header);
    uint8_t *at = dw_segment_put(buf + DW_LLP_HEADER_BYTES, &out->ddp, &out->record, payload);
    struct dw_sealing sealing = dw_sealing_begin(&datagrams->seal, &to, buf, (size_t)(at - buf));
    dw_sealing_gather(&sealing, at, out->iov, out->record.offset, payload);
    dw_sealing_end(&sealing, at + payload);
    out->record.offset += payload;
    if (out->ddp.tagged)
        out->ddp.to += payload;
    else
        out->ddp.mo += payload;
    return (uint32_t)(at - buf) + payload + datagrams->seal.trailer_bytes;
}

/* Trains of equal datagrams. Only a first one that cannot leave is an error: later ones that the
 * socket refuses are losses, as on the wire. */
static int transmit(struct outgoing *out, uint64_t now_ns)
{
    struct dw_datagrams *datagrams = &out->ud->qp.port->datagrams;
    const struct dw_write_record *record = &out->record;
    const struct dw_llp_addr to = dw_ah_addr(out->ah);
    struct dw_path *path = dw_ah_path(out->ah);
    dw_path_expire(path, now_ns);
    const uint32_t datagram = dw_ah_datagram_max_bytes(out->ah);
    const uint32_t trailer = datagrams->seal.trailer_bytes;
    const uint32_t payload_max =
        datagram - DW_LLP_HEADER_BYTES - dw_segment_header_bytes(&out->ddp) - trailer;
    for (bool first = true; first || record->offset < record->total; first = false) {
        uint32_t bytes = 0;
        unsigned n = dw_train_datagrams(datagram);
        do {
            const uint32_t left = record->total - record->offset;
            bytes += build(out, datagrams->stage + bytes, left < payload_max ? left : payload_max);
        } while (record->offset < record->total && --n);
        const uint32_t segment = bytes < datagram ? bytes : datagram;
        const struct iovec iov = {.iov_base = datagrams->stage, .iov_len = bytes};
        struct dw_llp_train train = {
            .to = &to,
            .iov = &iov,
            .iov_count = 1,
            .segment_bytes = segment,
            .flow = path->flow,
            .whole = dw_path_takes_whole(path, segment, now_ns),
        };
        const int rc = dw_datagrams_send(datagrams, &train);
        if (rc && first)
            return rc;
    }
    return 0;
}

void dw_ud_targets_fini(struct dw_ud_qp *ud)
{
    size_t slot = 0;
    for (void *target; (target = dw_map_next(&ud->targets, &slot));)
        free(target);
    dw_map_fini(&ud->targets);
}

/* NULL: no memory. */
static struct dw_ud_target *target_of(struct dw_ud_qp *ud, uint64_t token, uint32_t qpn)
{
    struct dw_port *port = ud->qp.port;
    const uint64_t key = token ^ qpn; /* two processes' hardly differ so little */
    struct dw_ud_target *target = dw_map_get(&ud->targets, key);
    if (target)
        return target;
    if (ud->targets.count == TARGETS_MAX) {
        dw_ud_targets_fini(ud);
        dw_map_init(&ud->targets, dw_device_random(port->device));
        port->datagrams.number += DW_UD_NUMBERS_ANEW;
    }
    target = malloc(sizeof *target);
    if (!target || dw_map_put(&ud->targets, key, target)) {
        free(target);
        return NULL;
    }
    target->last[DW_UD_SEND] = target->last[DW_UD_RECORD] = port->device->env.first_serial;
    return target;
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
    if (!write && !imm && wr->opcode != IBV_WR_SEND)
        return -EINVAL;
    const bool own_qkey = write || wr->wr.ud.remote_qkey >> 31;
    struct outgoing out = {
        .ud = ud, .ah = ah, .qkey = own_qkey ? qp->attr.qkey : wr->wr.ud.remote_qkey};
    const uint32_t max_bytes = write ? UINT32_MAX >> 1 : qp->attr.max_msg_bytes;
    const int64_t total =
        dw_pd_gather(qp->pd, wr->sg_list, wr->num_sge, 0, max_bytes, out.iov, DW_UD_MAX_SGE);
    if (total < 0 || (write && !total))
        return total < 0 ? (int)total : -EINVAL;
    struct dw_ud_target *target = target_of(ud, ah->token, ah->qpn);
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
    const int rc = transmit(&out, now_ns);
    if (rc) /* nothing has left: the next one may take its number */
        return rc;
    target->last[kind] = serial;
    struct diwarp_counters *counters = dw_ud_counters(ud);
    *(write ? &counters->tx_write_msgs : &counters->tx_send_msgs) += 1;
    dw_qp_complete(qp, wr->wr_id, wr->send_flags & IBV_SEND_SIGNALED,
                   write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND, IBV_WC_SUCCESS, (uint32_t)total);
    return 0;
}
