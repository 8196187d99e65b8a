/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of work requests, handed to diwarp one by one. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_diwarp/ah.h"
#include "verbs_diwarp/cq.h"
#include "verbs_diwarp/mcast.h"
#include "verbs_diwarp/memory.h"
#include "verbs_diwarp/poll.h"
#include "verbs_diwarp/post.h"
#include "verbs_diwarp/rc.h"
#include "verbs_diwarp/rc_queues.h"
#include "verbs_diwarp/rd.h"
#include "verbs_diwarp/rdma.h"
#include "verbs_diwarp/recvs.h"
#include "verbs_diwarp/request.h"
#include "verbs_diwarp/sqd.h"

/* How long a post waits for room in the socket's buffer; what has none then is lost, as a datagram
 * may be. */
#define ROOM_WAIT_MS 10
/* Posts without a poll between, after which the RNIC is run for those who sleep for events: about
 * as many of UD's longest make a train. Fewer make it shorter, more let events wait longer. */
#define POSTS_PER_RUN 16

/* Inline data need no key: diwarp takes none where the key is 0, and copies all at once. */
static void copy_sges(struct ibv_send_wr *to, struct ibv_sge *sges, const struct ibv_send_wr *wr)
{
    memcpy(sges, wr->sg_list, (size_t)wr->num_sge * sizeof *sges);
    to->sg_list = sges;
    for (int i = 0; i < wr->num_sge; i++)
        if (wr->send_flags & IBV_SEND_INLINE)
            sges[i].lkey = 0;
}

/* Once more, where the socket's buffer was full. */
static int hand_on(struct dv_qp *qp, const struct diwarp_send_wr *out)
{
    const int rc = diwarp_post_send(qp->core, out);
    if (rc != -EAGAIN)
        return rc;
    struct diwarp_qp_info info;
    diwarp_query_qp(qp->core, &info);
    struct pollfd room = {.fd = info.send_fd, .events = POLLOUT};
    return poll(&room, 1, ROOM_WAIT_MS) == 1 ? diwarp_post_send(qp->core, out) : rc;
}

static bool is_in_error(const struct dv_qp *qp)
{
    const enum ibv_qp_state state = qp->attr.qp_state;
    return state == IBV_QPS_ERR || state == IBV_QPS_SQE;
}

/* The other side may have got some of a full queue meanwhile. */
static int check_rc_send(struct dv_qp *qp, const struct ibv_send_wr *wr, uint32_t before)
{
    int rc = dv_rc_check_send(qp, wr, before);
    if (rc == ENOMEM) {
        (void)dv_progress(dv_context_of(dv_ibv_qp(qp)->context));
        rc = dv_rc_check_send(qp, wr, before);
    }
    return rc;
}

/* Of UD. */
static bool is_allowed(const struct dv_qp *qp, const struct ibv_send_wr *wr)
{
    return wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM ||
           (qp->rdma && dv_rdma_takes(wr));
}

/* The name of the process there is known, by which it answers. */
static bool may_read(const struct dv_to *to)
{
    return to->qpn != DV_MCAST_QPN && dv_is_ipv4(&((const struct dv_ah *)to->ah)->attr.grh.dgid);
}

/* Whether a request may be posted, after so many others that each take a place in the send queue: 0
 * or a positive errno. *ah: where it goes, of UD and RD. */
static int check_send(struct dv_qp *qp, const struct ibv_send_wr *wr, const struct dv_to *to,
                      uint32_t before, struct diwarp_ah **ah)
{
    *ah = NULL;
    if (qp->attr.qp_state < IBV_QPS_RTS)
        return EINVAL;
    if (qp->rc && !is_in_error(qp))
        return check_rc_send(qp, wr, before);
    if ((uint64_t)qp->unpolled + before >= (qp->rc ? dv_rc_room(qp) : qp->cap.max_send_wr))
        return ENOMEM;
    if (is_in_error(qp))
        return 0;
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_send_sge || !to->ah ||
        to->ah->context != dv_ibv_qp(qp)->context ||
        dv_root_of(to->ah->pd) != dv_root_of(dv_ibv_qp(qp)->pd) ||
        !(qp->rd ? dv_rd_takes(wr) : is_allowed(qp, wr)) ||
        (wr->opcode == IBV_WR_RDMA_READ && !may_read(to)))
        return EINVAL;
    if (before >= (qp->rd ? dv_rd_room(qp) : dv_rdma_room(qp, wr)))
        return ENOMEM;
    if (wr->send_flags & IBV_SEND_INLINE && dv_total_bytes(wr) > qp->cap.max_inline_data)
        return EINVAL;
    *ah = dv_ah_find(to->ah, to->qpn, qp->rd ? dv_rd_core(qp) : NULL);
    return *ah ? 0 : errno;
}

/* It may wait for those behind it in its list or, where the program has posted before without a
 * poll since, for its next ones. If none leave, as they are wrong or do not come, the helper sees
 * to it. */
static unsigned lazy_flag(struct dv_context *context, const struct ibv_send_wr *wr)
{
    const bool more = wr->next || context->posts;
    return more && !dv_start_helper(context) ? DIWARP_SEND_LAZY : 0;
}

/* A wrong key or length is told by a completion. */
static void send_one(struct dv_qp *qp, const struct ibv_send_wr *wr, const struct dv_to *to,
                     struct diwarp_ah *ah)
{
    const bool rdma = wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_READ;
    const bool signaled = qp->signal_all || wr->send_flags & IBV_SEND_SIGNALED;
    const bool keyed = !(wr->send_flags & IBV_SEND_INLINE);
    struct ibv_sge sges[DV_MAX_SGE];
    struct diwarp_send_wr out = {
        .wr = {.wr_id = wr->wr_id,
               .num_sge = wr->num_sge,
               .opcode = wr->opcode,
               .send_flags = (wr->send_flags & IBV_SEND_SOLICITED) |
                             lazy_flag(dv_context_of(dv_ibv_qp(qp)->context), wr),
               .imm_data = ntohl(wr->imm_data),
               .wr.ud = {.remote_qkey = to->qkey}},
        .ah = ah,
    };
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    int rc = 0;
    copy_sges(&out.wr, sges, wr);
    if (rdma)
        dv_rdma_prepare(qp, &out.wr, wr, to, signaled);
    if (dv_total_bytes(wr) > (rdma ? DV_RDMA_BYTES : DV_UD_MSG_BYTES) ||
        (rdma && !dv_total_bytes(wr)))
        status = IBV_WC_LOC_LEN_ERR;
    else if (keyed && dv_lacks_key(wr->sg_list, wr->num_sge))
        status = IBV_WC_LOC_PROT_ERR;
    else
        rc = hand_on(qp, &out);
    /* An EACCES that no key explains is of a route that is prohibited: the message is lost. */
    if (rc == -EACCES && keyed && !dv_are_registered(dv_ibv_qp(qp)->pd, wr->sg_list, wr->num_sge))
        status = IBV_WC_LOC_PROT_ERR;
    if (wr->opcode == IBV_WR_RDMA_READ && dv_rdma_on_posted(qp, rc || status) && !status)
        return;   /* it has gone, or was lost on the way: its completion comes */
    if (status) { /* a queue pair of UD goes on: RESET heals SQE */
        dv_cq_push_send(qp, wr, status);
        qp->attr.qp_state = IBV_QPS_SQE;
    } else if (wr->opcode == IBV_WR_RDMA_READ) { /* its request is lost: no answer comes */
        dv_cq_push_send(qp, wr, IBV_WC_RESP_TIMEOUT_ERR);
    } else if (signaled) { /* it has left; or is lost, which UD does not tell */
        dv_cq_push_send(qp, wr, IBV_WC_SUCCESS);
    }
}

/* RC has a queue of its own for what waits. */
static bool is_kept(const struct dv_qp *qp)
{
    return qp->attr.qp_state == IBV_QPS_SQD && !qp->rc;
}

static int post_one(struct dv_qp *qp, const struct ibv_send_wr *wr, const struct dv_to *to)
{
    struct diwarp_ah *ah;
    const int rc = check_send(qp, wr, to, qp->sqd.count, &ah);
    if (rc)
        return rc;
    if (is_kept(qp))
        return dv_sqd_keep(qp, wr, to);
    if (is_in_error(qp))
        dv_cq_push_send(qp, wr, IBV_WC_WR_FLUSH_ERR);
    else if (qp->rc)
        dv_rc_post_send(qp, wr);
    else if (qp->rd)
        dv_rd_post_send(qp, wr, ah);
    else
        send_one(qp, wr, to, ah);
    dv_context_of(dv_ibv_qp(qp)->context)->posts++;
    return 0;
}

/* Verbs tell it of Sends alone. */
static struct dv_to destination_of(const struct ibv_send_wr *wr)
{
    const bool send = wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM ||
                      wr->opcode == IBV_WR_SEND_WITH_INV;
    return send ? (struct dv_to){wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey}
                : (struct dv_to){0};
}

/* The helper takes who posts for one who polls, too. */
static void leave(struct dv_context *context)
{
    if (context->armed_count && context->posts >= POSTS_PER_RUN)
        (void)dv_progress(context);
    dv_unlock(context);
}

int dv_post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct dv_context *context = dv_context_of(ibv_qp->context);
    int rc = 0;
    dv_lock(context);
    for (; wr; wr = wr->next) {
        const struct dv_to to = destination_of(wr);
        if ((rc = post_one(dv_qp_of(ibv_qp), wr, &to)))
            break;
    }
    leave(context);
    if (rc)
        *bad = wr;
    return rc;
}

static const struct dv_send_wr *next_of(const struct dv_send_wr *wr)
{
    return (const struct dv_send_wr *)(const void *)wr->wr.next;
}

int dv_post_all_sends(struct dv_qp *qp, const struct dv_send_wr *list)
{
    struct dv_context *context = dv_context_of(dv_ibv_qp(qp)->context);
    struct diwarp_ah *ah;
    int rc = 0;
    dv_lock(context);
    uint32_t count = qp->sqd.count;
    for (const struct dv_send_wr *wr = list; wr && !rc; wr = next_of(wr))
        rc = check_send(qp, &wr->wr, &wr->to, count++, &ah);
    const uint32_t kept = qp->sqd.count;
    for (const struct dv_send_wr *wr = rc ? NULL : list; wr && !rc; wr = next_of(wr))
        rc = post_one(qp, &wr->wr, &wr->to);
    if (rc && is_kept(qp))
        dv_sqd_drop(qp, kept);
    leave(context);
    return rc;
}

void dv_post_kept(struct dv_qp *qp)
{
    for (struct dv_kept *kept; (kept = dv_sqd_take(qp)); free(kept)) {
        const struct ibv_send_wr *wr = &kept->wr.wr;
        struct diwarp_ah *ah =
            dv_ah_find(kept->wr.to.ah, kept->wr.to.qpn, qp->rd ? dv_rd_core(qp) : NULL);
        if (is_in_error(qp)) /* since one before */
            dv_cq_push_send(qp, wr, IBV_WC_WR_FLUSH_ERR);
        else if (!ah)
            dv_cq_push_send(qp, wr, IBV_WC_LOC_QP_OP_ERR);
        else if (qp->rd)
            dv_rd_post_send(qp, wr, ah);
        else
            send_one(qp, wr, &kept->wr.to, ah);
    }
}

static int post_recv(struct dv_qp *qp, const struct ibv_recv_wr *wr)
{
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_recv_sge ||
        dv_lacks_key(wr->sg_list, wr->num_sge))
        return EINVAL;
    struct dv_recv *recv = dv_recvs_next(&qp->recvs);
    if (!recv)
        return ENOMEM;
    const struct ibv_recv_wr out = {
        .wr_id = dv_recvs_place(&qp->recvs, recv), .sg_list = wr->sg_list, .num_sge = wr->num_sge};
    const int rc = diwarp_post_recv(qp->core, &out);
    if (rc)
        return rc == -EACCES ? EINVAL : -rc;
    dv_recvs_post(&qp->recvs, recv, wr);
    return 0;
}

/* As a Send, it has its place in the queue until its completion is polled. */
static int flush_recv(struct dv_qp *qp, const struct ibv_recv_wr *wr)
{
    const struct ibv_wc flushed = {.wr_id = wr->wr_id,
                                   .status = IBV_WC_WR_FLUSH_ERR,
                                   .opcode = IBV_WC_RECV,
                                   .qp_num = dv_ibv_qp(qp)->qp_num};
    if (qp->failed_recvs >= qp->cap.max_recv_wr)
        return ENOMEM;
    dv_cq_push(dv_ibv_qp(qp)->recv_cq, &flushed, false);
    return 0;
}

int dv_post_recv(struct ibv_qp *ibv_qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct dv_context *context = dv_context_of(ibv_qp->context);
    struct dv_qp *qp = dv_qp_of(ibv_qp);
    int rc = 0;
    dv_lock(context);
    for (; wr; wr = wr->next) {
        if (qp->attr.qp_state == IBV_QPS_RESET || ibv_qp->srq)
            rc = EINVAL;
        else if (qp->attr.qp_state == IBV_QPS_ERR)
            rc = flush_recv(qp, wr);
        else
            rc = qp->rc   ? dv_rc_post_recv(qp, wr)
                 : qp->rd ? dv_rd_post_recv(qp, wr)
                          : post_recv(qp, wr);
        if (rc)
            break;
    }
    dv_unlock(context);
    if (rc)
        *bad = wr;
    return rc;
}
