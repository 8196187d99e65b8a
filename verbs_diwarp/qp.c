/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: making, changing and ending them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_diwarp/ah.h"
#include "verbs_diwarp/async.h"
#include "verbs_diwarp/cq.h"
#include "verbs_diwarp/graves.h"
#include "verbs_diwarp/mcast.h"
#include "verbs_diwarp/mw.h"
#include "verbs_diwarp/poll.h"
#include "verbs_diwarp/post.h"
#include "verbs_diwarp/query.h"
#include "verbs_diwarp/qp.h"
#include "verbs_diwarp/rc.h"
#include "verbs_diwarp/rd.h"
#include "verbs_diwarp/rdma.h"
#include "verbs_diwarp/recvs.h"
#include "verbs_diwarp/sqd.h"
#include "verbs_diwarp/states.h"
#include "verbs_diwarp/wr.h"

/* Of the RNIC, before a queue pair of RC is closed: so often in a row with nothing to tell, for not
 * every run asks all streams; and at most. */
#define IDLE_RUNS 20
#define MAX_RUNS  1000

/* diwarp's queue pair, with no receives and a Q_Key that nobody sends by until it is RTR. */
static int open_core(struct dv_qp *qp)
{
    struct dv_context *context = dv_context_of(dv_ibv_qp(qp)->context);
    const struct dv_srq *srq = (const struct dv_srq *)dv_ibv_qp(qp)->srq;
    struct diwarp_qp_attr attr;
    diwarp_qp_attr_init(&attr);
    attr.type = DIWARP_QPT_UD;
    attr.cq = context->core;
    const uint32_t recvs = srq ? srq->max_wr : qp->cap.max_recv_wr;
    attr.max_recv_wr = recvs ? recvs : 1; /* and so many records */
    attr.max_msg_bytes = DV_UD_MSG_BYTES;
    attr.qpn = dv_ibv_qp(qp)->qp_num;
    attr.qkey = dv_random_qkey();
    attr.recv_lead_bytes = DV_GRH_BYTES;
    attr.srq = srq ? srq->core : NULL;
    attr.block_self = qp->block_self;
    attr.introduces = true;
    dv_rdma_set_attr(qp, &attr);
    const int rc =
        diwarp_create_qp(((struct dv_pd *)dv_ibv_qp(qp)->pd)->core, &attr, &qp->core, NULL);
    return rc ? rc : dv_mcast_reopen(qp);
}

/* What an SRQ's receives completed with is told first: else their places would stay taken. */
static void close_core(struct dv_qp *qp)
{
    if (qp->core && dv_ibv_qp(qp)->srq)
        (void)dv_progress(dv_context_of(dv_ibv_qp(qp)->context));
    dv_rdma_forget(qp);
    if (qp->core)
        diwarp_destroy_qp(qp->core);
    qp->core = NULL;
}

/* A number that no queue pair has; that of one that is gone comes last. False: all are taken. */
static bool take_number(struct dv_context *context, struct dv_qp *qp)
{
    for (uint32_t tried = 0; tried <= DV_INDEX_MASK; tried++) {
        const uint32_t index = context->last_index = (context->last_index + 1) & DV_INDEX_MASK;
        if (index < DV_INDEX_FIRST || context->qps[index] ||
            (context->slot << DV_INDEX_BITS | index) == DV_MCAST_QPN)
            continue;
        context->qps[index] = qp;
        dv_ibv_qp(qp)->qp_num = context->slot << DV_INDEX_BITS | index;
        return true;
    }
    return false;
}

static uint32_t create_flags_of(const struct ibv_qp_init_attr_ex *attr)
{
    return attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? attr->create_flags : 0;
}

/* 0 or a positive errno. */
static int check(const struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
    const struct ibv_qp_cap *cap = &attr->cap;
    const uint32_t known =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    const bool known_type = attr->qp_type == IBV_QPT_RC || attr->qp_type == IBV_QPT_UC ||
                            attr->qp_type == IBV_QPT_UD || attr->qp_type == IBV_QPT_DRIVER;
    const uint64_t ops = dv_wr_ops(attr->qp_type);
    if (!known_type || attr->comp_mask & ~known ||
        create_flags_of(attr) &
            ~(attr->qp_type == IBV_QPT_UD ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0u) ||
        (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && attr->send_ops_flags & ~ops))
        return EOPNOTSUPP;
    if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd || attr->pd->context != context ||
        !attr->send_cq || attr->send_cq->context != context || !attr->recv_cq ||
        attr->recv_cq->context != context || cap->max_send_wr > DV_MAX_WR ||
        cap->max_recv_wr > DV_MAX_WR || cap->max_send_sge > DV_MAX_SGE ||
        cap->max_recv_sge > DV_MAX_SGE || cap->max_inline_data > DV_MAX_INLINE ||
        (attr->srq && attr->srq->context != context))
        return EINVAL;
    return 0;
}

static void release(struct dv_qp *qp)
{
    dv_recvs_fini(&qp->recvs);
    free(qp->builder);
    dv_rd_fini(qp);
    dv_rdma_fini(qp);
    dv_mcast_fini(qp);
    qp->builder = NULL;
    dv_bury(qp, &dv_ibv_qp(qp)->context);
}

static struct dv_qp *allocate(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
    struct dv_qp *qp = calloc(1, sizeof *qp);
    if (!qp)
        return NULL;
    *dv_ibv_qp(qp) = (struct ibv_qp){.context = context,
                                     .qp_context = attr->qp_context,
                                     .pd = attr->pd,
                                     .send_cq = attr->send_cq,
                                     .recv_cq = attr->recv_cq,
                                     .srq = attr->srq,
                                     .state = IBV_QPS_RESET,
                                     .qp_type = attr->qp_type};
    qp->cap = attr->cap;
    if (qp->cap.max_inline_data < DV_LEAST_INLINE)
        qp->cap.max_inline_data = DV_LEAST_INLINE;
    qp->signal_all = attr->sq_sig_all;
    qp->block_self = create_flags_of(attr) & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
    if (attr->srq)
        qp->cap.max_recv_wr = qp->cap.max_recv_sge = 0;
    const bool builds = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    if ((attr->qp_type == IBV_QPT_UD &&
         (dv_recvs_init(&qp->recvs, qp->cap.max_recv_wr, qp->cap.max_recv_sge) ||
          dv_rdma_init(qp, attr))) ||
        (attr->qp_type == IBV_QPT_DRIVER && dv_rd_init(qp)) || (builds && dv_wr_init(qp))) {
        release(qp);
        return NULL;
    }
    return qp;
}

static void count_users(struct dv_qp *qp, uint32_t change)
{
    dv_cq_of(dv_ibv_qp(qp)->send_cq)->users += change;
    dv_cq_of(dv_ibv_qp(qp)->recv_cq)->users += change;
    ((struct dv_pd *)dv_ibv_qp(qp)->pd)->users += change;
    if (dv_ibv_qp(qp)->srq)
        ((struct dv_srq *)dv_ibv_qp(qp)->srq)->users += change;
}

struct ibv_qp *dv_create_qp(struct ibv_context *ibv_context, struct ibv_qp_init_attr_ex *attr)
{
    struct dv_context *context = dv_context_of(ibv_context);
    int rc = check(ibv_context, attr);
    struct dv_qp *qp = rc ? NULL : allocate(ibv_context, attr);
    if (!qp)
        return dv_fail(rc ? rc : ENOMEM);
    dv_lock(context);
    if (!take_number(context, qp))
        rc = ENOMEM;
    else if (attr->qp_type == IBV_QPT_UD)
        rc = -open_core(qp);
    else if (!(rc = -dv_start_helper(context))) /* it is read and written though nobody polls */
        rc = qp->rd ? -dv_rd_open(qp) : dv_rc_init(qp, attr);
    if (rc)
        context->qps[dv_ibv_qp(qp)->qp_num & DV_INDEX_MASK] = NULL;
    else
        count_users(qp, 1);
    dv_unlock(context);
    if (rc) {
        release(qp);
        return dv_fail(rc);
    }
    pthread_mutex_init(&dv_ibv_qp(qp)->mutex, NULL);
    pthread_cond_init(&dv_ibv_qp(qp)->cond, NULL);
    attr->cap = qp->cap;
    return dv_ibv_qp(qp);
}

struct ibv_qp *dv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    return attr->qp_type == IBV_QPT_DRIVER ? dv_fail(EOPNOTSUPP) : dv_create_qp(context, attr);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    if (!dv_is_ours(pd->context))
        return DV_REAL(ibv_create_qp)(pd, attr);
    if (dv_is_gone(pd->context))
        return dv_fail(EINVAL);
    struct ibv_qp_init_attr_ex all = dv_extended_attr(pd, attr);
    struct ibv_qp *qp = dv_create_qp_ex(pd->context, &all);
    if (qp)
        attr->cap = all.cap;
    return qp;
}

/* What has come by now is read and confirmed to its sender, as if it had been read at once. */
static void read_all(struct dv_context *context)
{
    for (unsigned runs = 0, idle = 0; runs < MAX_RUNS && idle < IDLE_RUNS; runs++)
        idle = dv_progress(context) > 0 ? 0 : idle + 1;
}

int ibv_destroy_qp(struct ibv_qp *ibv_qp)
{
    if (!dv_is_ours(ibv_qp->context))
        return DV_REAL(ibv_destroy_qp)(ibv_qp);
    if (dv_is_gone(ibv_qp->context))
        return EINVAL;
    struct dv_context *context = dv_context_of(ibv_qp->context);
    struct dv_qp *qp = dv_qp_of(ibv_qp);
    dv_lock(context);
    if (qp->rc || qp->rd)
        read_all(context);
    dv_mw_leave(qp);
    dv_sqd_drop(qp, 0);
    close_core(qp);
    dv_rd_close(qp);
    context->qps[ibv_qp->qp_num & DV_INDEX_MASK] = NULL;
    dv_rc_fini(qp);
    dv_cq_forget(ibv_qp->send_cq, ibv_qp->qp_num);
    dv_cq_forget(ibv_qp->recv_cq, ibv_qp->qp_num);
    count_users(qp, UINT32_MAX);
    dv_unlock(context);
    dv_async_leave(context, &(struct ibv_async_event){.element.qp = ibv_qp,
                                                      .event_type = IBV_EVENT_QP_LAST_WQE_REACHED});
    pthread_mutex_destroy(&ibv_qp->mutex);
    pthread_cond_destroy(&ibv_qp->cond);
    release(qp);
    return 0;
}

void dv_leave_qps(struct dv_context *context)
{
    read_all(context);
    for (uint32_t i = DV_INDEX_FIRST; i <= DV_INDEX_MASK; i++)
        if (context->qps[i] && context->qps[i]->rc)
            dv_rc_leave(context->qps[i]);
}

/* ---- states ---- */

/* Anew, under the same number. Without memory for that it is in error, where nothing uses it. */
static int reset(struct dv_qp *qp)
{
    int rc = 0;
    dv_mw_leave(qp);
    dv_sqd_drop(qp, 0);
    if (qp->rc) {
        dv_rc_reset(qp);
    } else if (qp->rd) {
        rc = -dv_rd_open(qp);
    } else {
        close_core(qp);
        dv_recvs_clear(&qp->recvs);
        rc = -open_core(qp);
    }
    dv_cq_forget(dv_ibv_qp(qp)->send_cq, dv_ibv_qp(qp)->qp_num);
    dv_cq_forget(dv_ibv_qp(qp)->recv_cq, dv_ibv_qp(qp)->qp_num);
    qp->unpolled = qp->failed_recvs = qp->unpolled_all = 0;
    if (rc)
        qp->attr.qp_state = IBV_QPS_ERR;
    return rc;
}

/* What has come, comes first. */
static void fail(struct dv_qp *qp)
{
    if (qp->rc) {
        read_all(dv_context_of(dv_ibv_qp(qp)->context));
        dv_rc_fail(qp, IBV_WC_WR_FLUSH_ERR);
        return;
    }
    if (qp->rd) {
        read_all(dv_context_of(dv_ibv_qp(qp)->context));
        if (qp->attr.qp_state != IBV_QPS_ERR)
            dv_async_push_last(qp);
        dv_rd_fail(qp);
        return;
    }
    if (qp->core)
        diwarp_set_qkey(qp->core, dv_random_qkey());
    read_all(dv_context_of(dv_ibv_qp(qp)->context));
    dv_flush_recvs(qp);
    if (qp->attr.qp_state != IBV_QPS_ERR)
        dv_async_push_last(qp);
}

static int change_state(struct dv_qp *qp, enum ibv_qp_state to)
{
    int rc = 0;
    if (to == IBV_QPS_RESET)
        rc = reset(qp);
    else if (to == IBV_QPS_ERR)
        fail(qp);
    else if (to == IBV_QPS_RTR && qp->rc)
        rc = dv_rc_connect(qp);
    else if (to == IBV_QPS_RTR && qp->rd)
        dv_rd_begin(qp);
    else if (to == IBV_QPS_SQD && dv_sqd_is_draining(qp)) /* the program may sleep until the end */
        rc = -dv_start_helper(dv_context_of(dv_ibv_qp(qp)->context));
    else if (to != IBV_QPS_INIT && !qp->rc && !qp->rd)
        diwarp_set_qkey(qp->core, qp->attr.qkey);
    if (rc)
        return rc;
    const bool resumes = qp->attr.qp_state == IBV_QPS_SQD && to == IBV_QPS_RTS;
    qp->attr.qp_state = to;
    if (to == IBV_QPS_ERR)
        dv_sqd_flush(qp);
    else if (to == IBV_QPS_SQD && qp->rc)
        dv_rc_drain(qp);
    else if (resumes && qp->rc)
        dv_rc_resume(qp);
    else if (resumes)
        dv_post_kept(qp);
    return 0;
}

/* MTU and packet numbers are of another wire: kept for ibv_query_qp() alone. */
static void take_attr(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
    if (mask & IBV_QP_QKEY)
        to->qkey = from->qkey;
    if (mask & IBV_QP_PORT)
        to->port_num = 1;
    if (mask & IBV_QP_SQ_PSN)
        to->sq_psn = from->sq_psn;
    if (mask & IBV_QP_RQ_PSN)
        to->rq_psn = from->rq_psn;
    if (mask & IBV_QP_ACCESS_FLAGS)
        to->qp_access_flags = from->qp_access_flags;
    if (mask & IBV_QP_PATH_MTU)
        to->path_mtu = from->path_mtu;
    if (mask & IBV_QP_DEST_QPN)
        to->dest_qp_num = from->dest_qp_num;
    if (mask & IBV_QP_TIMEOUT)
        to->timeout = from->timeout;
    if (mask & IBV_QP_RETRY_CNT)
        to->retry_cnt = from->retry_cnt;
    if (mask & IBV_QP_RNR_RETRY)
        to->rnr_retry = from->rnr_retry;
    if (mask & IBV_QP_MIN_RNR_TIMER)
        to->min_rnr_timer = from->min_rnr_timer;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
        to->max_rd_atomic = from->max_rd_atomic;
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
        to->max_dest_rd_atomic = from->max_dest_rd_atomic;
}

/* Whether each given attribute has a value that it may have. Which may be given at all is
 * dv_states_allow()'s to tell. */
static bool are_values(const struct ibv_qp_attr *attr, int mask)
{
    const struct {
        int bit;
        uint32_t value, least, most;
    } values[] = {
        {IBV_QP_PORT, attr->port_num, 1, 1},
        {IBV_QP_PKEY_INDEX, attr->pkey_index, 0, 0},
        {IBV_QP_PATH_MTU, attr->path_mtu, IBV_MTU_256, IBV_MTU_4096},
        {IBV_QP_DEST_QPN, attr->dest_qp_num, 0, DV_QPN_MAX},
        {IBV_QP_MAX_QP_RD_ATOMIC, attr->max_rd_atomic, 0, DV_RC_MAX_READS},
        {IBV_QP_MAX_DEST_RD_ATOMIC, attr->max_dest_rd_atomic, 0, DV_RC_MAX_READS},
        {IBV_QP_TIMEOUT, attr->timeout, 0, 31},
        {IBV_QP_RETRY_CNT, attr->retry_cnt, 0, 7},
        {IBV_QP_RNR_RETRY, attr->rnr_retry, 0, DV_RNR_FOREVER},
        {IBV_QP_MIN_RNR_TIMER, attr->min_rnr_timer, 0, 31},
        {IBV_QP_ACCESS_FLAGS, attr->qp_access_flags & ~DV_KNOWN_ACCESS, 0, 0},
    };
    bool good = true;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        good &= !(mask & values[i].bit) ||
                (values[i].value >= values[i].least && values[i].value <= values[i].most);
    return good;
}

static int modify(struct dv_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    const struct ibv_qp *ibv_qp = dv_ibv_qp(qp);
    const enum ibv_qp_state from = qp->attr.qp_state;
    const enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;
    const struct ibv_ah_attr av =
        mask & IBV_QP_AV ? dv_ah_global(ibv_qp->context, &attr->ah_attr) : qp->attr.ah_attr;
    if ((mask & IBV_QP_CUR_STATE && attr->cur_qp_state != from) ||
        (mask & IBV_QP_AV && !dv_ah_is_good(ibv_qp->context, &av)) ||
        (mask & IBV_QP_AV && from == IBV_QPS_SQD &&
         !dv_is_same_gid(&av.grh.dgid, &qp->attr.ah_attr.grh.dgid)) ||
        !are_values(attr, mask) || !dv_states_allow(ibv_qp->qp_type, from, to, mask))
        return EINVAL;
    const struct ibv_qp_attr before = qp->attr;
    take_attr(&qp->attr, attr, mask);
    qp->attr.ah_attr = av;
    const int rc = change_state(qp, to);
    if (rc) {
        const enum ibv_qp_state state = qp->attr.qp_state;
        qp->attr = before;
        qp->attr.qp_state = state;
        return rc;
    }
    if (to != from)
        qp->sqd.tells = mask & IBV_QP_EN_SQD_ASYNC_NOTIFY && attr->en_sqd_async_notify;
    dv_sqd_look(qp);
    if (qp->rc && mask & IBV_QP_ACCESS_FLAGS)
        dv_rc_set_access(qp);
    if (qp->rc && mask & (IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER))
        dv_rc_set_rnr(qp);
    return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    if (!dv_is_ours(qp->context))
        return DV_REAL(ibv_modify_qp)(qp, attr, mask);
    if (dv_is_gone(qp->context))
        return EINVAL;
    dv_lock(dv_context_of(qp->context));
    const int rc = modify(dv_qp_of(qp), attr, mask);
    if (!rc && mask & IBV_QP_STATE)
        qp->state = attr->qp_state;
    dv_unlock(dv_context_of(qp->context));
    if (rc)
        errno = rc; /* programs print that, too */
    return rc;
}

int ibv_query_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init_attr)
{
    if (!dv_is_ours(ibv_qp->context))
        return DV_REAL(ibv_query_qp)(ibv_qp, attr, mask, init_attr);
    if (dv_is_gone(ibv_qp->context))
        return EINVAL;
    const struct dv_qp *qp = dv_qp_of(ibv_qp);
    dv_lock(dv_context_of(ibv_qp->context));
    *attr = qp->attr;
    attr->cur_qp_state = attr->qp_state;
    attr->sq_draining = attr->qp_state == IBV_QPS_SQD && dv_sqd_is_draining(qp);
    if (mask & IBV_QP_STATE)
        ibv_qp->state = attr->qp_state;
    if (!qp->rc)
        attr->path_mtu = IBV_MTU_4096;
    attr->cap = qp->cap;
    dv_unlock(dv_context_of(ibv_qp->context));
    *init_attr = (struct ibv_qp_init_attr){.qp_context = ibv_qp->qp_context,
                                           .send_cq = ibv_qp->send_cq,
                                           .recv_cq = ibv_qp->recv_cq,
                                           .srq = ibv_qp->srq,
                                           .cap = qp->cap,
                                           .qp_type = ibv_qp->qp_type,
                                           .sq_sig_all = qp->signal_all};
    return 0;
}
