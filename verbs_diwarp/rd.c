/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/rd.h"

#include <arpa/inet.h>
#include <stdlib.h>

#include "verbs_diwarp/async.h"
#include "verbs_diwarp/cq.h"
#include "verbs_diwarp/diwarp_verbs.h"
#include "verbs_diwarp/grh.h"
#include "verbs_diwarp/memory.h"
#include "verbs_diwarp/rd_gather.h"
#include "verbs_diwarp/request.h"
#include "verbs_diwarp/srq.h"

struct send {
    uint64_t wr_id;
    struct dv_gathered *gathered; /* NULL: its elements are diwarp's to read or write */
    enum ibv_wc_opcode opcode;
    uint32_t bytes;
    bool signaled, used;
};

struct recv {
    uint64_t wr_id;
    int sge_count;
};

/* A message that came with others, and found no receive. */
struct held {
    struct held *next;
    struct diwarp_wc wc;
    uint8_t data[];
};

struct dv_rd {
    struct diwarp_qp *core;
    struct send *sends;   /* cap.max_send_wr, by wr_id of diwarp's request */
    uint32_t *free_sends; /* free_count: their numbers */
    uint32_t free_count;
    uint8_t *inlined;   /* cap.max_inline_data for each */
    struct recv *recvs; /* a ring of cap.max_recv_wr */
    struct ibv_sge *sges;
    uint32_t first_recv, recv_count;
    struct held *held, **held_end;
    LIST_ENTRY(dv_rd) holding; /* in context.holding, while it holds any */
    struct dv_qp *qp;
    struct dv_rd *next; /* of the queue pairs that take receives of its SRQ */
    bool taking;        /* a receive of the SRQ, for a message that diwarp has counted already */
};

static struct dv_srq *srq_of(const struct dv_qp *qp)
{
    return (struct dv_srq *)((const struct ibv_qp *)&qp->ex.qp_base)->srq;
}

static uint32_t send_room(const struct dv_qp *qp)
{
    return qp->cap.max_send_wr ? qp->cap.max_send_wr : 1;
}

int dv_rd_init(struct dv_qp *qp)
{
    const struct ibv_qp_cap *cap = &qp->cap;
    const size_t sends = send_room(qp), recvs = cap->max_recv_wr + 1u;
    struct dv_rd *rd = qp->rd = calloc(1, sizeof *rd);
    if (!rd)
        return -ENOMEM;
    rd->held_end = &rd->held;
    rd->qp = qp;
    rd->sends = calloc(sends, sizeof *rd->sends);
    rd->free_sends = calloc(sends, sizeof *rd->free_sends);
    rd->inlined = calloc(sends, cap->max_inline_data);
    rd->recvs = calloc(recvs, sizeof *rd->recvs);
    rd->sges = calloc(recvs * (cap->max_recv_sge + 1u), sizeof *rd->sges);
    return rd->sends && rd->free_sends && rd->inlined && rd->recvs && rd->sges ? 0 : -ENOMEM;
}

/* Requests that have not ended give no completion. */
static void forget_sends(struct dv_qp *qp)
{
    for (uint32_t i = 0; qp->rd->sends && i < send_room(qp); i++) {
        struct send *send = &qp->rd->sends[i];
        if (send->used && send->gathered)
            (void)dv_gathered_end(send->gathered, dv_ibv_qp(qp)->pd, false);
        *send = (struct send){.used = false};
    }
}

void dv_rd_fini(struct dv_qp *qp)
{
    struct dv_rd *rd = qp->rd;
    if (!rd)
        return;
    forget_sends(qp);
    free(rd->sends);
    free(rd->free_sends);
    free(rd->inlined);
    free(rd->recvs);
    free(rd->sges);
    free(rd);
    qp->rd = NULL;
}

struct diwarp_qp *dv_rd_core(const struct dv_qp *qp)
{
    return qp->rd->core;
}

static void pop_held(struct dv_rd *rd)
{
    struct held *held = rd->held;
    rd->held = held->next;
    if (!rd->held) {
        rd->held_end = &rd->held;
        LIST_REMOVE(rd, holding);
    }
    free(held);
}

static void leave_srq(struct dv_qp *qp)
{
    struct dv_srq *srq = srq_of(qp);
    struct dv_rd **at = srq ? &srq->rds : NULL;
    while (at && *at && *at != qp->rd)
        at = &(*at)->next;
    if (at && *at)
        *at = qp->rd->next;
}

void dv_rd_close(struct dv_qp *qp)
{
    struct dv_rd *rd = qp->rd;
    if (!rd)
        return;
    leave_srq(qp);
    if (rd->core)
        diwarp_destroy_qp(rd->core);
    rd->core = NULL;
    while (rd->held)
        pop_held(rd);
}

int dv_rd_open(struct dv_qp *qp)
{
    struct dv_rd *rd = qp->rd;
    struct diwarp_qp_attr attr;
    dv_rd_close(qp);
    rd->recv_count = 0;
    rd->free_count = send_room(qp);
    forget_sends(qp);
    for (uint32_t i = 0; i < rd->free_count; i++)
        rd->free_sends[i] = i;
    diwarp_qp_attr_init(&attr);
    attr.type = DIWARP_QPT_RD;
    attr.cq = dv_context_of(dv_ibv_qp(qp)->context)->core;
    attr.max_send_wr = send_room(qp);
    attr.max_msg_bytes = DIWARP_VERBS_RD_SEND_BYTES;
    attr.qpn = dv_ibv_qp(qp)->qp_num;
    const int rc =
        diwarp_create_qp(((struct dv_pd *)dv_ibv_qp(qp)->pd)->core, &attr, &rd->core, NULL);
    if (!rc)
        diwarp_add_recv_room(rd->core, 0);
    return rc;
}

/* ---- requests ---- */

bool dv_rd_takes(const struct ibv_send_wr *wr)
{
    const bool atomic =
        wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    return atomic ? wr->num_sge == 1 && wr->sg_list[0].length == sizeof(uint64_t)
                  : dv_is_rdma(wr) || wr->opcode == IBV_WR_SEND ||
                        wr->opcode == IBV_WR_SEND_WITH_IMM || wr->opcode == IBV_WR_SEND_WITH_INV;
}

uint32_t dv_rd_room(const struct dv_qp *qp)
{
    return qp->rd->free_count;
}

/* One without a signal takes a place in the queue of completions only when it fails. */
static void complete_send(struct dv_qp *qp, uint32_t number, enum ibv_wc_status status)
{
    struct dv_rd *rd = qp->rd;
    struct send *send = &rd->sends[number];
    struct ibv_wc wc = {.wr_id = send->wr_id,
                        .status = status,
                        .opcode = send->opcode,
                        .byte_len = send->bytes,
                        .qp_num = dv_ibv_qp(qp)->qp_num};
    if (send->gathered && !dv_gathered_end(send->gathered, dv_ibv_qp(qp)->pd, !status))
        wc.status = IBV_WC_LOC_PROT_ERR;
    qp->unpolled += wc.status && !send->signaled;
    if (wc.status || send->signaled)
        dv_cq_push(dv_ibv_qp(qp)->send_cq, &wc, false);
    *send = (struct send){.used = false};
    rd->free_sends[rd->free_count++] = number;
}

/* What the elements name, for as long as it may be sent again. */
static void keep_inline(struct dv_qp *qp, uint32_t number, struct ibv_send_wr *wr,
                        struct ibv_sge *sge)
{
    uint8_t *to = qp->rd->inlined + (size_t)number * qp->cap.max_inline_data;
    *sge = (struct ibv_sge){.addr = (uintptr_t)to};
    for (int i = 0; i < wr->num_sge; i++) {
        const struct ibv_sge *from = &wr->sg_list[i];
        if (from->length)
            memcpy(to + sge->length, (const void *)(uintptr_t)from->addr, from->length);
        sge->length += from->length;
    }
    wr->sg_list = sge;
    wr->num_sge = 1;
}

static enum ibv_wc_status status_of(int rc)
{
    return rc == -EACCES         ? IBV_WC_LOC_PROT_ERR
           : rc == -EMSGSIZE     ? IBV_WC_LOC_LEN_ERR
           : rc == -EHOSTUNREACH ? IBV_WC_RETRY_EXC_ERR
           : rc < 0              ? IBV_WC_LOC_QP_OP_ERR
                                 : IBV_WC_SUCCESS;
}

void dv_rd_post_send(struct dv_qp *qp, const struct ibv_send_wr *wr, struct diwarp_ah *ah)
{
    struct dv_rd *rd = qp->rd;
    const uint32_t number = rd->free_sends[--rd->free_count];
    const bool inlined = wr->send_flags & IBV_SEND_INLINE;
    struct ibv_sge sge;
    struct diwarp_send_wr out = {.wr = *wr, .ah = ah};
    rd->sends[number] =
        (struct send){.wr_id = wr->wr_id,
                      .opcode = dv_wc_opcode_of(wr),
                      .bytes = (uint32_t)dv_total_bytes(wr),
                      .signaled = qp->signal_all || wr->send_flags & IBV_SEND_SIGNALED,
                      .used = true};
    qp->unpolled += rd->sends[number].signaled;
    out.wr.wr_id = number;
    out.wr.next = NULL;
    if (wr->opcode != IBV_WR_SEND_WITH_INV)
        out.wr.imm_data = ntohl(wr->imm_data);
    out.wr.send_flags = IBV_SEND_SIGNALED | (wr->send_flags & IBV_SEND_SOLICITED);
    if (inlined)
        keep_inline(qp, number, &out.wr, &sge);
    const bool rdma = dv_is_rdma(wr);
    const bool nothing = rdma && !rd->sends[number].bytes && /* no memory is asked for */
                         wr->opcode != IBV_WR_RDMA_WRITE_WITH_IMM;
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    if (!inlined && dv_lacks_key(wr->sg_list, wr->num_sge))
        status = IBV_WC_LOC_PROT_ERR;
    else if (!nothing && !inlined && wr->num_sge > (rdma ? 1 : DIWARP_RD_SEND_SGES))
        status =
            status_of(dv_gather(&out.wr, dv_ibv_qp(qp)->pd, &sge, &rd->sends[number].gathered));
    if (!status && !nothing)
        status = status_of(diwarp_post_send(rd->core, &out));
    if (status || nothing)
        complete_send(qp, number, status);
}

/* ---- receives ---- */

static struct ibv_sge *sges_of(const struct dv_qp *qp, uint32_t place)
{
    return qp->rd->sges + (size_t)place * qp->cap.max_recv_sge;
}

/* Elements of no more than these bytes, for what is beyond may be anybody's. False: they are fewer.
 */
static bool cut(struct ibv_sge *sges, int count, uint32_t bytes)
{
    for (int i = 0; i < count; i++) {
        if (sges[i].length > bytes)
            sges[i].length = bytes;
        bytes -= sges[i].length;
    }
    return !bytes;
}

/* The oldest receive, whose elements wr->sg_list has room for. False: none is posted. */
static bool take_recv(struct dv_qp *qp, struct ibv_recv_wr *wr)
{
    struct dv_rd *rd = qp->rd;
    if (srq_of(qp)) {
        rd->taking = true;
        const bool any = dv_srq_take(srq_of(qp), wr);
        rd->taking = false;
        return any;
    }
    if (!rd->recv_count)
        return false;
    wr->wr_id = rd->recvs[rd->first_recv].wr_id;
    wr->num_sge = rd->recvs[rd->first_recv].sge_count;
    if (wr->num_sge)
        memcpy(wr->sg_list, sges_of(qp, rd->first_recv), (size_t)wr->num_sge * sizeof *wr->sg_list);
    rd->first_recv = (rd->first_recv + 1) % qp->cap.max_recv_wr;
    rd->recv_count--;
    return true;
}

/* Of a message that lies in diwarp's memory. */
static uint32_t payload_bytes(const struct diwarp_wc *done)
{
    return done->wc.opcode == IBV_WC_RECV ? done->wc.byte_len : 0;
}

/* Behind a GRH, in the elements of a receive. */
static enum ibv_wc_status fill(struct dv_qp *qp, struct ibv_recv_wr *wr,
                               const struct diwarp_wc *done, const void *data)
{
    const struct ibv_pd *pd = srq_of(qp) ? srq_of(qp)->srq.pd : dv_ibv_qp(qp)->pd;
    void *at[DV_MAX_SGE];
    struct ibv_grh grh;
    if (!cut(wr->sg_list, wr->num_sge, DV_GRH_BYTES + payload_bytes(done)))
        return IBV_WC_LOC_LEN_ERR;
    if (!dv_may_write(pd, wr->sg_list, wr->num_sge, at))
        return IBV_WC_LOC_PROT_ERR;
    dv_make_grh(dv_context_of(dv_ibv_qp(qp)->context), done, &grh);
    dv_scatter(wr->sg_list, at, 0, &grh, sizeof grh);
    dv_scatter(wr->sg_list, at, DV_GRH_BYTES, data, payload_bytes(done));
    return IBV_WC_SUCCESS;
}

/* Into the oldest receive; of a write that is told of nothing is. False: there is none. */
static bool receive(struct dv_qp *qp, const struct diwarp_wc *done, const void *data)
{
    struct ibv_sge sges[DV_MAX_SGE];
    struct ibv_recv_wr wr = {.sg_list = sges};
    if (!take_recv(qp, &wr))
        return false;
    struct ibv_wc wc = done->wc;
    wc.wr_id = wr.wr_id;
    wc.qp_num = dv_ibv_qp(qp)->qp_num;
    wc.wc_flags &= ~(unsigned)DIWARP_WC_SOLICITED;
    if (wc.wc_flags & IBV_WC_WITH_IMM)
        wc.imm_data = htonl(wc.imm_data);
    if (wc.opcode == IBV_WC_RECV) {
        wc.status = fill(qp, &wr, done, data);
        wc.byte_len += DV_GRH_BYTES;
        wc.wc_flags |= IBV_WC_GRH;
    }
    dv_cq_push(dv_ibv_qp(qp)->recv_cq, &wc, done->wc.wc_flags & DIWARP_WC_SOLICITED);
    return true;
}

static void receive_held(struct dv_qp *qp)
{
    struct dv_rd *rd = qp->rd;
    while (rd->held && receive(qp, &rd->held->wc, rd->held->data))
        pop_held(rd);
}

void dv_rd_receive_held(struct dv_context *context)
{
    struct dv_rd *rd = LIST_FIRST(&context->holding);
    while (rd) {
        struct dv_rd *next = LIST_NEXT(rd, holding);
        receive_held(rd->qp);
        rd = next;
    }
}

/* How many receives of the SRQ there are more, for all of its queue pairs. */
static void on_srq_change(struct dv_srq *srq, int32_t change)
{
    for (struct dv_rd *rd = srq->rds; rd; rd = rd->next)
        if (!rd->taking)
            diwarp_add_recv_room(rd->core, change);
    if (change > 0)
        dv_rd_receive_held(dv_context_of(srq->srq.context));
}

void dv_rd_begin(struct dv_qp *qp)
{
    struct dv_srq *srq = srq_of(qp);
    if (!srq)
        return;
    qp->rd->next = srq->rds;
    srq->rds = qp->rd;
    srq->on_change = on_srq_change;
    diwarp_add_recv_room(qp->rd->core, (int32_t)srq->posted);
}

/* Its sender has been told that we have it: without memory the queue pair is in error. */
static void hold(struct dv_qp *qp, const struct diwarp_wc *done)
{
    struct dv_rd *rd = qp->rd;
    struct held *held = malloc(sizeof *held + payload_bytes(done));
    if (!held) {
        dv_async_push(dv_context_of(dv_ibv_qp(qp)->context),
                      &(struct ibv_async_event){.element.qp = dv_ibv_qp(qp),
                                                .event_type = IBV_EVENT_QP_FATAL});
        dv_async_push_last(qp);
        qp->attr.qp_state = IBV_QPS_ERR;
        dv_rd_fail(qp);
        return;
    }
    held->next = NULL;
    held->wc = *done;
    if (payload_bytes(done))
        memcpy(held->data, done->data, payload_bytes(done));
    if (!rd->held)
        LIST_INSERT_HEAD(&dv_context_of(dv_ibv_qp(qp)->context)->holding, rd, holding);
    *rd->held_end = held;
    rd->held_end = &held->next;
}

int dv_rd_post_recv(struct dv_qp *qp, const struct ibv_recv_wr *wr)
{
    struct dv_rd *rd = qp->rd;
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_recv_sge ||
        dv_lacks_key(wr->sg_list, wr->num_sge))
        return EINVAL;
    if (rd->recv_count >= qp->cap.max_recv_wr)
        return ENOMEM;
    const uint32_t place = (rd->first_recv + rd->recv_count++) % qp->cap.max_recv_wr;
    rd->recvs[place] = (struct recv){.wr_id = wr->wr_id, .sge_count = wr->num_sge};
    if (wr->num_sge)
        memcpy(sges_of(qp, place), wr->sg_list, (size_t)wr->num_sge * sizeof *wr->sg_list);
    receive_held(qp);
    diwarp_add_recv_room(rd->core, 1);
    return 0;
}

/* ---- ends ---- */

void dv_rd_fail(struct dv_qp *qp)
{
    struct dv_rd *rd = qp->rd;
    dv_rd_close(qp);
    for (uint32_t i = 0; i < send_room(qp); i++)
        if (rd->sends[i].used)
            complete_send(qp, i, IBV_WC_WR_FLUSH_ERR);
    struct ibv_sge sges[DV_MAX_SGE];
    struct ibv_recv_wr wr = {.sg_list = sges};
    while (!srq_of(qp) && take_recv(qp, &wr)) {
        const struct ibv_wc wc = {.wr_id = wr.wr_id,
                                  .status = IBV_WC_WR_FLUSH_ERR,
                                  .opcode = IBV_WC_RECV,
                                  .qp_num = dv_ibv_qp(qp)->qp_num};
        dv_cq_push(dv_ibv_qp(qp)->recv_cq, &wc, false);
    }
}

void dv_rd_deliver(struct dv_qp *qp, const struct diwarp_wc *done)
{
    struct dv_rd *rd = qp->rd;
    if (!rd->core) /* it has failed amid a batch of completions */
        return;
    switch ((int)done->wc.opcode) {
    case IBV_WC_RECV:
    case IBV_WC_RECV_RDMA_WITH_IMM:
        if (rd->held || !receive(qp, done, done->data))
            hold(qp, done);
        break;
    case IBV_WC_SEND:
    case IBV_WC_RDMA_WRITE:
    case IBV_WC_RDMA_READ:
    case IBV_WC_COMP_SWAP:
    case IBV_WC_FETCH_ADD:
        if (done->wc.wr_id < send_room(qp) && rd->sends[done->wc.wr_id].used)
            complete_send(qp, (uint32_t)done->wc.wr_id, done->wc.status);
        break;
    default: /* of peers, and of reads that others have made: verbs know no such */
        break;
    }
}
