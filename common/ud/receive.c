/* SPDX-License-Identifier: BSD-3-Clause */
/* The UD service: dispatch, and Sends into posted receives. A lost segment loses its own range and
 * nothing else. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/ud/ud.h"

/* For a message, of so many bytes. */
static uint32_t room_of(const struct dw_ud_qp *ud, uint32_t total)
{
    const uint32_t lead_bytes = ud->qp.attr.recv_lead_bytes;
    return total > lead_bytes ? total - lead_bytes : 0;
}

int dw_ud_post_recv(struct diwarp_qp *qp, const struct ibv_recv_wr *wr)
{
    struct dw_ud_qp *ud = dw_ud_qp_of(qp);
    struct iovec iov[DW_UD_MAX_SGE];
    if (qp->attr.srq)
        return -EINVAL;
    const int64_t total = dw_pd_gather(qp->pd, wr->sg_list, wr->num_sge, IBV_ACCESS_LOCAL_WRITE,
                                       UINT32_MAX, iov, DW_UD_MAX_SGE);
    if (total < 0)
        return (int)total;
    const uint32_t sge_count = (uint32_t)wr->num_sge;
    struct dw_ud_recv *recv =
        ud->recv_count < qp->attr.max_recv_wr ? malloc(dw_ud_recv_bytes(sge_count)) : NULL;
    if (!recv)
        return -ENOMEM;
    dw_recv_set(&recv->posted, qp->pd, wr->wr_id, wr->sg_list, iov, sge_count, (uint32_t)total);
    dw_list_append(&ud->recvs, &recv->link);
    ud->recv_count++;
    return 0;
}

/* Counts as posted to the QP until it completes or is given back. */
static struct dw_ud_recv *take_shared(struct dw_ud_qp *ud)
{
    struct diwarp_srq *srq = ud->qp.attr.srq;
    if (!srq->recvs.count)
        return NULL;
    const struct dw_recv *from = dw_ring_at(&srq->recvs, dw_recv_bytes(srq->max_sge), 0);
    struct dw_ud_recv *recv = malloc(dw_ud_recv_bytes(from->sge_count));
    if (!recv)
        return NULL;
    memcpy(&recv->posted, from, dw_recv_bytes(from->sge_count));
    dw_ring_pop(&srq->recvs, 1);
    ud->recv_count++;
    return recv;
}

static struct dw_ud_recv *take_recv(struct dw_ud_qp *ud)
{
    if (ud->qp.attr.srq)
        return take_shared(ud);
    if (dw_list_empty(&ud->recvs))
        return NULL;
    struct dw_ud_recv *recv = dw_container(ud->recvs.next, struct dw_ud_recv, link);
    dw_list_remove(&recv->link);
    return recv;
}

static enum ibv_wc_status place(const struct dw_ud_qp *ud, struct dw_recv *recv, uint32_t offset,
                                const struct dw_segment *from)
{
    return dw_recv_place(dw_recv_pd(ud->qp.attr.srq, ud->qp.pd), recv,
                         (size_t)ud->qp.attr.recv_lead_bytes + offset, from->payload, from->bytes);
}

/* Hands the receive over; one that was too short for its message says so, as in verbs. */
static void complete_recv(struct dw_ud_qp *ud, const struct dw_ud_source *source,
                          const struct dw_recv *recv, const struct dw_ddp_header *ddp,
                          uint32_t bytes, enum ibv_wc_status placed)
{
    const bool imm = dw_rdmap_has_immediate(ddp->opcode);
    struct diwarp_wc wc = {
        .wc = {.wr_id = recv->wr_id,
               .status = bytes > room_of(ud, recv->bytes) && !placed ? IBV_WC_LOC_LEN_ERR : placed,
               .opcode = IBV_WC_RECV,
               .byte_len = bytes,
               .qp_num = ud->qp.num,
               .src_qp = source->qpn,
               .imm_data = imm ? ddp->ulp : 0,
               .wc_flags = (imm ? IBV_WC_WITH_IMM : 0) |
                           (dw_rdmap_is_solicited(ddp->opcode) ? DIWARP_WC_SOLICITED : 0u)},
        .src = source->name,
        .group = source->group,
    };
    memcpy(wc.src_ip, source->ip, sizeof wc.src_ip);
    dw_ud_counters(ud)->rx_send_msgs++;
    ud->recv_count--;
    dw_cq_push(ud->qp.cq, &wc);
}

/* One segment of several. Returns the counter of what is wrong, or NULL. */
static uint64_t *on_part(struct dw_ud_qp *ud, struct dw_ud_source *source,
                         const struct dw_segment *segment, uint64_t now_ns)
{
    struct diwarp_counters *counters = dw_ud_counters(ud);
    const struct dw_ddp_header *ddp = &segment->ddp;
    const uint64_t end = (uint64_t)ddp->mo + segment->bytes;
    if (!segment->bytes || end > ud->qp.attr.max_msg_bytes)
        return &counters->drop_header;
    struct diwarp_record *message = dw_ud_record_of(ud, source, DW_UD_SEND, ddp->msn, now_ns);
    if (!message)
        return NULL;
    if (!message->recv)
        message->recv = take_recv(ud); /* there is one, but for memory: see dw_ud_record_of() */
    if (!message->recv) {
        dw_ud_record_destroy(message);
        return &counters->drop_no_buffer;
    }
    if (!dw_segment_agrees(segment, (uint32_t)end, &message->map, message->total))
        return &counters->drop_header;
    if (dw_ranges_add(&message->map, ddp->mo, (uint32_t)end) < 0)
        return &counters->drop_no_buffer;
    const enum ibv_wc_status placed = place(ud, &message->recv->posted, ddp->mo, segment);
    if (ddp->last)
        message->total = (uint32_t)end;
    if (placed || (message->total && message->map.bytes >= message->total)) {
        complete_recv(ud, source, &message->recv->posted, ddp, message->total, placed);
        free(message->recv);
        message->recv = NULL;
        dw_ud_record_destroy(message);
    }
    return NULL;
}

/* As on_part(). */
static uint64_t *on_send(struct dw_ud_qp *ud, struct dw_ud_source *source,
                         const struct dw_segment *segment, uint64_t now_ns)
{
    const struct dw_ddp_header *ddp = &segment->ddp;
    if (!ddp->last || ddp->mo)
        return on_part(ud, source, segment, now_ns);
    if (dw_seen_check(&source->begun[DW_UD_SEND], ddp->msn))
        return &dw_ud_counters(ud)->rx_dup_datagrams;
    struct dw_ud_recv *recv = take_recv(ud);
    if (!recv)
        return &dw_ud_counters(ud)->drop_no_buffer;
    dw_seen_add(&source->begun[DW_UD_SEND], ddp->msn);
    const enum ibv_wc_status placed = place(ud, &recv->posted, 0, segment);
    complete_recv(ud, source, &recv->posted, ddp, segment->bytes, placed);
    free(recv);
    return NULL;
}

static void note_address(struct dw_ud_source *source, const struct dw_intro *intro)
{
    if (intro && intro->family == AF_INET6)
        memcpy(source->ip, intro->ip, sizeof source->ip);
    else
        memset(source->ip, 0, sizeof source->ip);
}

void dw_ud_take(void *state, struct diwarp_qp *qp, const struct dw_arrival *arrival,
                uint64_t now_ns)
{
    (void)state;
    struct dw_ud_qp *ud = dw_ud_qp_of(qp);
    struct diwarp_counters *counters = dw_ud_counters(ud);
    if (arrival->header.psn != qp->attr.qkey) {
        counters->drop_qkey++;
        return;
    }
    struct dw_ud_source *source = dw_ud_source_of(ud, &arrival->header, now_ns);
    struct dw_segment segment;
    uint32_t offset = 0;
    if (source)
        note_address(source, arrival->intro);
    while (source &&
           dw_segment_next(counters, arrival->segments, arrival->segments_len, &offset, &segment)) {
        uint64_t *wrong = &counters->drop_header;
        if (!segment.ddp.last)
            dw_datagrams_on_part(&qp->port->datagrams, arrival);
        if (arrival->group && !dw_window_admits(arrival->window, &segment.ddp))
            wrong = &counters->drop_stag;
        else if (dw_rdmap_is_send(segment.ddp.opcode))
            wrong = on_send(ud, source, &segment, now_ns);
        else if (segment.ddp.opcode == DW_RDMAP_WRITE_RECORD)
            wrong = dw_ud_on_record_segment(ud, source, &segment, now_ns);
        else if (segment.ddp.opcode == DW_RDMAP_READ_REQUEST)
            wrong = dw_ud_on_read_request(ud, source, arrival, &segment);
        if (wrong)
            ++*wrong;
    }
}
