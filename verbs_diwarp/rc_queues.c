/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/rc_queues.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_diwarp/cq.h"
#include "verbs_diwarp/mw.h"
#include "verbs_diwarp/recvs.h"
#include "verbs_diwarp/srq.h"

/* In the wr_id of a read that asks whether the requests before that number have come. */
#define CONFIRMS (UINT64_C(1) << 63)
/* Such reads under way: with one, those that ask meanwhile wait twice as long; more take the place
 * of the program's own reads. */
#define MAX_ASKING 2

/* ---- sends ---- */

/* Inline data take one. */
static uint32_t max_sge(const struct dv_qp *qp)
{
    return qp->cap.max_send_sge ? qp->cap.max_send_sge : 1;
}

static struct dv_rc_send *send_at(const struct dv_qp *qp, uint32_t place)
{
    return &qp->rc->sends[(qp->rc->first_send + place) % dv_rc_room(qp)];
}

static enum ibv_wc_opcode opcode_of(const struct ibv_send_wr *wr)
{
    switch (wr->opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    case IBV_WR_BIND_MW:
        return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV:
        return IBV_WC_LOCAL_INV;
    default:
        return IBV_WC_SEND;
    }
}

static bool is_signaled(const struct dv_qp *qp, const struct dv_rc_send *send)
{
    return qp->signal_all || send->wr.send_flags & IBV_SEND_SIGNALED;
}

/* The oldest ends. */
static void pop_send(struct dv_qp *qp, enum ibv_wc_status status)
{
    struct dv_rc *rc = qp->rc;
    const struct dv_rc_send *send = send_at(qp, 0);
    const bool signaled = is_signaled(qp, send);
    const struct ibv_wc wc = {.wr_id = send->wr.wr_id,
                              .status = status,
                              .opcode = opcode_of(&send->wr),
                              .byte_len = send->bytes,
                              .qp_num = qp->ex.qp_base.qp_num};
    rc->first_send++;
    rc->send_count--;
    rc->handed -= rc->handed > 0;
    if (!signaled && status == IBV_WC_SUCCESS)
        return;
    qp->unpolled++;
    dv_cq_push(qp->ex.qp_base.send_cq, &wc, false);
}

static bool responds(const struct ibv_send_wr *wr)
{
    return wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
           wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* As diwarp_rc_post_send(). It leaves with the question behind it, or the next run. */
static int hand_one(struct dv_qp *qp, const struct dv_rc_send *send)
{
    struct dv_rc *rc = qp->rc;
    struct ibv_send_wr wr = send->wr;
    if (send->keyless)
        return -EACCES;
    if (dv_mw_is_request(&wr))
        return send->failed ? -EPERM : 0;
    wr.wr_id = rc->first_send + rc->handed;
    wr.send_flags = (wr.send_flags & (IBV_SEND_FENCE | IBV_SEND_SOLICITED)) |
                    (unsigned)(responds(&wr) ? IBV_SEND_SIGNALED : 0) | DIWARP_SEND_LAZY;
    if (wr.opcode == IBV_WR_SEND_WITH_IMM || wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
        wr.imm_data = ntohl(wr.imm_data);
    return diwarp_rc_post_send(rc->core, &wr);
}

/* Of what diwarp_rc_post_send() finds malformed. An atomic's address that is not aligned is the
 * other side's to refuse, over InfiniBand. */
static enum ibv_wc_status fault_of(const struct dv_rc_send *send)
{
    const struct ibv_send_wr *wr = &send->wr;
    const bool atomic = responds(wr) && wr->opcode != IBV_WR_RDMA_READ;
    return atomic && send->bytes == sizeof(uint64_t) && wr->wr.atomic.remote_addr % sizeof(uint64_t)
               ? IBV_WC_REM_INV_REQ_ERR
               : IBV_WC_LOC_QP_OP_ERR;
}

/* Has all that was handed over confirmed. */
static void ask(struct dv_qp *qp)
{
    struct dv_rc *rc = qp->rc;
    const uint64_t number = rc->first_send + rc->handed;
    struct ibv_send_wr wr = {
        .wr_id = CONFIRMS | number, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED};
    if (diwarp_rc_post_send(rc->core, &wr))
        return;
    rc->asked = number;
    rc->asking++;
    rc->messages++;
}

/* As DIWARP_WC_DISCONNECTED does. */
static void count_messages(struct dv_rc *rc, struct dv_rc_send *send)
{
    const bool with_imm = send->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    const bool writes = with_imm || send->wr.opcode == IBV_WR_RDMA_WRITE;
    if (!dv_mw_is_request(&send->wr))
        rc->messages += !writes || send->bytes || send->wr.wr.rdma.rkey;
    rc->messages += with_imm;
    send->messages = rc->messages;
}

uint32_t dv_rc_begun(const struct dv_qp *qp)
{
    return qp->attr.qp_state == IBV_QPS_SQD ? qp->rc->handed : qp->rc->send_count;
}

/* What needs no other side, of the oldest: binds and invalidations, and faults of this side. */
static enum ibv_wc_status end_local(struct dv_qp *qp)
{
    while (dv_rc_begun(qp) && dv_mw_is_request(&send_at(qp, 0)->wr)) {
        if (send_at(qp, 0)->failed)
            return send_at(qp, 0)->failed;
        pop_send(qp, IBV_WC_SUCCESS);
    }
    return dv_rc_begun(qp) && send_at(qp, 0)->keyless ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS;
}

/* Hands to diwarp what it takes. Why the oldest cannot be sent, or IBV_WC_SUCCESS. */
static enum ibv_wc_status hand_over(struct dv_qp *qp)
{
    struct dv_rc *rc = qp->rc;
    const uint32_t before = rc->handed;
    const enum ibv_wc_status fault = rc->closed_there ? end_local(qp) : IBV_WC_SUCCESS;
    if (fault)
        return fault;
    /* UC may drop requests while it waits for a connection: diwarp could not give them back. */
    const bool ready = rc->core && (rc->connected || !dv_is_uc(qp));
    while (ready && !rc->unsendable && rc->handed < dv_rc_begun(qp)) {
        struct dv_rc_send *send = send_at(qp, rc->handed);
        const int refused = hand_one(qp, send);
        if (refused == -EACCES)
            rc->unsendable = IBV_WC_LOC_PROT_ERR;
        else if (refused == -EINVAL)
            rc->unsendable = fault_of(send);
        else if (refused == -EPERM)
            rc->unsendable = send->failed;
        if (refused)
            break;
        count_messages(rc, send);
        rc->handed++;
        /* Without a signal, no later than for half of the queue, which makes room. */
        if ((is_signaled(qp, send) && !responds(&send->wr)) ||
            rc->first_send + rc->handed - rc->asked > dv_rc_room(qp) / 2)
            rc->wanted = rc->first_send + rc->handed;
    }
    if (rc->core && rc->wanted > rc->asked && rc->asking < MAX_ASKING)
        ask(qp);
    else if (rc->handed != before)
        diwarp_rc_flush(dv_context_of(qp->ex.qp_base.context)->core);
    if (rc->lost && dv_rc_begun(qp))
        return IBV_WC_RETRY_EXC_ERR;
    return rc->handed || !dv_rc_begun(qp) ? IBV_WC_SUCCESS : rc->unsendable;
}

/* Inline data go by the key of the whole process. */
static void copy_data(struct dv_qp *qp, struct dv_rc_send *send, const struct ibv_send_wr *wr)
{
    struct dv_rc *rc = qp->rc;
    const size_t place = (size_t)(send - rc->sends);
    const bool is_inline = wr->send_flags & IBV_SEND_INLINE;
    struct ibv_sge *sges = rc->sges + place * max_sge(qp);
    uint8_t *inlined = rc->inlined + place * qp->cap.max_inline_data;
    for (int i = 0; i < wr->num_sge; i++) {
        const struct ibv_sge *sge = &wr->sg_list[i];
        if (is_inline)
            memcpy(inlined + send->bytes, (void *)(uintptr_t)sge->addr, sge->length);
        else
            sges[i] = *sge;
        send->keyless |= !is_inline && sge->length && !sge->lkey;
        send->bytes += sge->length;
    }
    send->wr.sg_list = sges;
    if (!is_inline)
        return;
    sges[0] = (struct ibv_sge){.addr = (uintptr_t)inlined, .length = send->bytes};
    send->wr.num_sge = 1;
}

int dv_rc_check_send(struct dv_qp *qp, const struct ibv_send_wr *wr, uint32_t before)
{
    const struct dv_rc *rc = qp->rc;
    const bool is_inline = wr->send_flags & IBV_SEND_INLINE;
    const bool full = rc->send_count + qp->unpolled + before >= dv_rc_room(qp);
    uint64_t total = 0;
    if (dv_mw_is_request(wr)) {
        const int error = dv_mw_check(qp, wr);
        return error ? error : full ? ENOMEM : 0;
    }
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_send_sge ||
        (responds(wr) && (is_inline || dv_is_uc(qp))) ||
        (wr->opcode > IBV_WR_ATOMIC_FETCH_AND_ADD && wr->opcode != IBV_WR_SEND_WITH_INV))
        return EINVAL;
    for (int i = 0; i < wr->num_sge; i++)
        total += wr->sg_list[i].length;
    if (total > DV_RC_MSG_BYTES || (is_inline && total > qp->cap.max_inline_data))
        return EINVAL;
    return full ? ENOMEM : 0;
}

enum ibv_wc_status dv_rc_queues_send(struct dv_qp *qp, const struct ibv_send_wr *wr)
{
    struct dv_rc_send *send = send_at(qp, qp->rc->send_count++);
    *send = (struct dv_rc_send){.wr = *wr};
    if (dv_mw_is_request(wr))
        send->failed = dv_mw_execute(qp, wr);
    else
        copy_data(qp, send, wr);
    return hand_over(qp);
}

enum ibv_wc_status dv_rc_queues_drain(struct dv_qp *qp)
{
    if (qp->rc->handed) /* also what nobody asked a completion of */
        qp->rc->wanted = qp->rc->first_send + qp->rc->handed;
    return hand_over(qp);
}

enum ibv_wc_status dv_rc_queues_resume(struct dv_qp *qp)
{
    return hand_over(qp);
}

/* ---- receives ---- */

int dv_rc_post_recv(struct dv_qp *qp, const struct ibv_recv_wr *wr)
{
    struct dv_rc *rc = qp->rc;
    struct ibv_sge sges[DV_MAX_SGE];
    if (!rc->recvs || wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_recv_sge)
        return EINVAL;
    if (rc->recv_count == qp->cap.max_recv_wr)
        return ENOMEM;
    const struct ibv_recv_wr out = {
        .wr_id = wr->wr_id, .sg_list = dv_recvs_keyed(wr, sges), .num_sge = wr->num_sge};
    const int error = diwarp_post_srq_recv(rc->recvs, &out);
    if (error)
        return error == -ENOMEM ? ENOMEM : EINVAL;
    rc->recv_ids[(rc->recv_first + rc->recv_count++) % qp->cap.max_recv_wr] = wr->wr_id;
    return 0;
}

static void pop_recv(struct dv_qp *qp)
{
    qp->rc->recv_first = (qp->rc->recv_first + 1) % qp->cap.max_recv_wr;
    qp->rc->recv_count--;
}

static void received(struct dv_qp *qp, const struct diwarp_wc *done)
{
    struct ibv_wc wc = done->wc;
    wc.qp_num = qp->ex.qp_base.qp_num;
    wc.wc_flags &= ~(unsigned)DIWARP_WC_SOLICITED;
    if (wc.wc_flags & IBV_WC_WITH_IMM)
        wc.imm_data = htonl(wc.imm_data);
    if (qp->rc->recvs && wc.status == IBV_WC_WR_FLUSH_ERR)
        return; /* flushed with the others, if they are */
    if (qp->rc->recvs)
        pop_recv(qp);
    else
        wc.wr_id = dv_srq_release((struct dv_srq *)qp->ex.qp_base.srq, wc.wr_id);
    dv_cq_push(qp->ex.qp_base.recv_cq, &wc, done->wc.wc_flags & DIWARP_WC_SOLICITED);
}

/* ---- both ---- */

/* A response has come: that of a read or atomic, or what confirms the requests before it. */
static void confirm(struct dv_rc *rc, uint64_t wr_id)
{
    const uint64_t number = wr_id & CONFIRMS ? wr_id & ~CONFIRMS : wr_id + 1;
    rc->asking -= wr_id & CONFIRMS ? 1 : 0;
    if (number > rc->confirmed)
        rc->confirmed = number;
    if (rc->asked < rc->confirmed)
        rc->asked = rc->confirmed;
}

enum ibv_wc_status dv_rc_queues_deliver(struct dv_qp *qp, const struct diwarp_wc *done)
{
    struct dv_rc *rc = qp->rc;
    const unsigned opcode = (unsigned)done->wc.opcode;
    if (opcode & IBV_WC_RECV) {
        received(qp, done);
        return IBV_WC_SUCCESS;
    }
    /* Why others have failed is told last, by DISCONNECTED. */
    if (opcode != DIWARP_WC_CONNECTED && done->wc.status == IBV_WC_SUCCESS)
        confirm(rc, done->wc.wr_id);
    else if (opcode != DIWARP_WC_CONNECTED && done->wc.wr_id < rc->refused)
        rc->refused = done->wc.wr_id;
    while (rc->send_count && rc->first_send < rc->confirmed)
        pop_send(qp, IBV_WC_SUCCESS);
    return hand_over(qp);
}

enum ibv_wc_status dv_rc_queues_closed(struct dv_qp *qp, uint32_t taken)
{
    const struct dv_rc *rc = qp->rc;
    while (rc->handed && rc->first_send < rc->refused && !responds(&send_at(qp, 0)->wr) &&
           (int32_t)(taken - send_at(qp, 0)->messages) >= 0)
        pop_send(qp, IBV_WC_SUCCESS);
    return hand_over(qp);
}

void dv_rc_queues_flush(struct dv_qp *qp, enum ibv_wc_status status, enum ibv_wc_status recv_status)
{
    struct dv_rc *rc = qp->rc;
    struct ibv_wc wc = {
        .status = recv_status, .opcode = IBV_WC_RECV, .qp_num = qp->ex.qp_base.qp_num};
    for (; rc->send_count; status = IBV_WC_WR_FLUSH_ERR)
        pop_send(qp, status);
    if (rc->recvs)
        diwarp_clear_srq(rc->recvs);
    for (; rc->recv_count; pop_recv(qp)) {
        wc.wr_id = rc->recv_ids[rc->recv_first];
        dv_cq_push(qp->ex.qp_base.recv_cq, &wc, false);
        wc.status = IBV_WC_WR_FLUSH_ERR;
    }
}

enum ibv_wc_status dv_rc_queues_drop(struct dv_qp *qp)
{
    while (dv_rc_begun(qp)) {
        const struct dv_rc_send *oldest = send_at(qp, 0);
        const enum ibv_wc_status fault = oldest->keyless   ? IBV_WC_LOC_PROT_ERR
                                         : oldest->failed  ? oldest->failed
                                         : !qp->rc->handed ? qp->rc->unsendable
                                                           : IBV_WC_SUCCESS;
        if (fault)
            return fault;
        pop_send(qp, IBV_WC_SUCCESS);
    }
    return IBV_WC_SUCCESS;
}

void dv_rc_queues_forget(struct dv_qp *qp)
{
    struct dv_rc *rc = qp->rc;
    rc->first_send = rc->wanted = rc->asked = rc->confirmed = 0;
    rc->asking = rc->messages = 0;
    rc->send_count = rc->handed = rc->recv_count = 0;
    rc->unsendable = IBV_WC_SUCCESS;
    rc->refused = UINT64_MAX;
    if (rc->recvs)
        diwarp_clear_srq(rc->recvs);
}

int dv_rc_queues_init(struct dv_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
    const size_t room = dv_rc_room(qp);
    struct dv_rc *rc = calloc(1, sizeof *rc);
    if (!rc)
        return ENOMEM;
    qp->rc = rc;
    rc->qp = qp;
    rc->refused = UINT64_MAX;
    rc->sends = calloc(room, sizeof *rc->sends);
    rc->sges = calloc(room * max_sge(qp), sizeof *rc->sges);
    rc->inlined = calloc(room, qp->cap.max_inline_data + 1u);
    rc->recv_ids = calloc(qp->cap.max_recv_wr + 1u, sizeof *rc->recv_ids);
    if (!attr->srq)
        rc->recvs = diwarp_create_srq(((struct dv_pd *)attr->pd)->core, qp->cap.max_recv_wr,
                                      qp->cap.max_recv_sge);
    if (rc->sends && rc->sges && rc->inlined && rc->recv_ids && (attr->srq || rc->recvs))
        return 0;
    dv_rc_queues_fini(qp);
    return ENOMEM;
}

void dv_rc_queues_fini(struct dv_qp *qp)
{
    struct dv_rc *rc = qp->rc;
    if (rc->recvs)
        diwarp_destroy_srq(rc->recvs);
    free(rc->sends);
    free(rc->sges);
    free(rc->inlined);
    free(rc->recv_ids);
    free(rc);
    qp->rc = NULL;
}
