/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of work requests, handed to diwarp one by one. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "verbs_diwarp/ah.h"
#include "verbs_diwarp/cq.h"
#include "verbs_diwarp/memory.h"
#include "verbs_diwarp/post.h"

/* How long a post waits for room in the socket's buffer; what has none then is lost, as a datagram
 * may be. */
#define ROOM_WAIT_MS 10

/* Completes a request that diwarp did not take. */
static void complete_send(struct dv_qp *qp, const struct ibv_send_wr *wr, enum ibv_wc_status status)
{
    const struct ibv_wc wc = {.wr_id = wr->wr_id,
                              .status = status,
                              .opcode = IBV_WC_SEND,
                              .qp_num = dv_ibv_qp(qp)->qp_num};
    dv_cq_push(dv_ibv_qp(qp)->send_cq, &wc, false);
}

/* To diwarp a key of 0 is any memory of the process, which verbs do not know. */
static bool has_no_key(const struct ibv_sge *sges, int count)
{
    bool keyless = false;
    for (int i = 0; i < count; i++)
        keyless |= !sges[i].lkey;
    return keyless;
}

/* Inline data need no key: diwarp takes none where the key is 0, and copies all at once. */
static void copy_sges(struct ibv_send_wr *to, struct ibv_sge *sges, const struct ibv_send_wr *wr)
{
    memcpy(sges, wr->sg_list, (size_t)wr->num_sge * sizeof *sges);
    to->sg_list = sges;
    for (int i = 0; i < wr->num_sge; i++)
        if (wr->send_flags & IBV_SEND_INLINE)
            sges[i].lkey = 0;
}

static int hand_on(struct dv_qp *qp, const struct diwarp_send_wr *out)
{
    const int rc = diwarp_post_send(qp->core, out);
    if (rc != -EAGAIN)
        return rc;
    struct diwarp_qp_info info;
    diwarp_query_qp(qp->core, &info);
    struct pollfd room = {.fd = info.fd, .events = POLLOUT};
    return poll(&room, 1, ROOM_WAIT_MS) == 1 ? diwarp_post_send(qp->core, out) : rc;
}

/* 0 or a positive errno; a wrong key or length is told by a completion instead. */
static int post_one(struct dv_qp *qp, const struct ibv_send_wr *wr)
{
    const bool signaled = qp->signal_all || wr->send_flags & IBV_SEND_SIGNALED;
    struct ibv_sge sges[DV_MAX_SGE];
    uint64_t total = 0;
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_send_sge || !wr->wr.ud.ah ||
        wr->wr.ud.ah->pd != dv_ibv_qp(qp)->pd ||
        (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM))
        return EINVAL;
    for (int i = 0; i < wr->num_sge; i++)
        total += wr->sg_list[i].length;
    if (wr->send_flags & IBV_SEND_INLINE && total > qp->cap.max_inline_data)
        return EINVAL;
    struct diwarp_send_wr out = {
        .wr = {.wr_id = wr->wr_id,
               .num_sge = wr->num_sge,
               .opcode = wr->opcode,
               .imm_data = ntohl(wr->imm_data),
               .wr.ud = {.remote_qkey = wr->wr.ud.remote_qkey}},
        .ah = dv_ah_find(wr->wr.ud.ah, wr->wr.ud.remote_qpn),
    };
    if (!out.ah)
        return errno;
    copy_sges(&out.wr, sges, wr);
    const bool keyed = !(wr->send_flags & IBV_SEND_INLINE);
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    int rc = 0;
    if (total > DV_UD_MSG_BYTES)
        status = IBV_WC_LOC_LEN_ERR;
    else if (keyed && has_no_key(wr->sg_list, wr->num_sge))
        status = IBV_WC_LOC_PROT_ERR;
    else
        rc = hand_on(qp, &out);
    if (rc == -ENOMEM)
        return ENOMEM;
    /* One that no key explains is the socket's, of a route that is prohibited: the message is lost.
     */
    if (rc == -EACCES && keyed && !dv_are_registered(dv_ibv_qp(qp)->pd, wr->sg_list, wr->num_sge))
        status = IBV_WC_LOC_PROT_ERR;
    if (status) { /* a queue pair of UD goes on: RESET heals SQE */
        complete_send(qp, wr, status);
        dv_ibv_qp(qp)->state = qp->attr.qp_state = IBV_QPS_SQE;
    } else if (signaled) { /* it has left; or is lost, which UD does not tell */
        complete_send(qp, wr, IBV_WC_SUCCESS);
    }
    return 0;
}

int dv_post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct dv_context *context = dv_context_of(ibv_qp->context);
    struct dv_qp *qp = dv_qp_of(ibv_qp);
    int rc = 0;
    dv_lock(context);
    for (; wr; wr = wr->next) {
        if (ibv_qp->state == IBV_QPS_ERR || ibv_qp->state == IBV_QPS_SQE)
            complete_send(qp, wr, IBV_WC_WR_FLUSH_ERR);
        else
            rc = ibv_qp->state < IBV_QPS_RTS ? EINVAL : post_one(qp, wr);
        if (rc)
            break;
    }
    /* The helper takes who posts for one who polls, too. */
    if (context->armed_count)
        (void)dv_progress(context);
    dv_unlock(context);
    if (rc)
        *bad = wr;
    return rc;
}

/* Where the first 40 bytes of a receive are, for its GRH. */
static void set_lead(struct dv_recv *recv, const struct ibv_recv_wr *wr)
{
    size_t left = DV_GRH_BYTES;
    recv->lead_count = 0;
    for (int i = 0; i < wr->num_sge && left; i++) {
        const size_t bytes = wr->sg_list[i].length < left ? wr->sg_list[i].length : left;
        recv->lead[recv->lead_count++] =
            (struct iovec){(void *)(uintptr_t)wr->sg_list[i].addr, bytes};
        left -= bytes;
    }
}

static int post_recv(struct dv_qp *qp, const struct ibv_recv_wr *wr)
{
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_recv_sge ||
        has_no_key(wr->sg_list, wr->num_sge))
        return EINVAL;
    if (!qp->free_count)
        return ENOMEM;
    const uint32_t index = qp->free_recvs[qp->free_count - 1];
    struct dv_recv *recv = &qp->recvs[index];
    const struct ibv_recv_wr out = {.wr_id = index, .sg_list = wr->sg_list, .num_sge = wr->num_sge};
    const int rc = diwarp_post_recv(qp->core, &out);
    if (rc)
        return rc == -EACCES ? EINVAL : -rc;
    qp->free_count--;
    set_lead(recv, wr);
    recv->wr_id = wr->wr_id;
    recv->posted = true;
    recv->newer = NULL;
    recv->older = qp->newest;
    *(recv->older ? &recv->older->newer : &qp->oldest) = recv;
    qp->newest = recv;
    return 0;
}

int dv_post_recv(struct ibv_qp *ibv_qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct dv_context *context = dv_context_of(ibv_qp->context);
    struct dv_qp *qp = dv_qp_of(ibv_qp);
    int rc = 0;
    dv_lock(context);
    for (; wr; wr = wr->next) {
        const struct ibv_wc flushed = {.wr_id = wr->wr_id,
                                       .status = IBV_WC_WR_FLUSH_ERR,
                                       .opcode = IBV_WC_RECV,
                                       .qp_num = ibv_qp->qp_num};
        if (ibv_qp->state == IBV_QPS_ERR)
            dv_cq_push(ibv_qp->recv_cq, &flushed, false);
        else
            rc = ibv_qp->state == IBV_QPS_RESET ? EINVAL : post_recv(qp, wr);
        if (rc)
            break;
    }
    dv_unlock(context);
    if (rc)
        *bad = wr;
    return rc;
}
