/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/cm_qp.h"

#include <errno.h>

#include "verbs_diwarp/cm_device.h"
#include "verbs_diwarp/qp.h"

#define ACCESS                                                                   \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)

static uint8_t at_most(uint8_t value, uint8_t most)
{
    return value < most ? value : most;
}

/* ---- attributes ---- */

static int init_attr(const struct dv_cm_id *id, struct ibv_qp_attr *attr)
{
    attr->pkey_index = 0;
    attr->port_num = 1;
    attr->qkey = RDMA_UDP_QKEY;
    attr->qp_access_flags = ACCESS;
    return IBV_QP_PKEY_INDEX | IBV_QP_PORT |
           (id->id.qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
}

static int rtr_attr(const struct dv_cm_id *id, struct ibv_qp_attr *attr)
{
    if (id->id.qp_type == IBV_QPT_UD)
        return 0;
    attr->ah_attr = dv_cm_ah_attr(id);
    attr->path_mtu = IBV_MTU_4096;
    attr->dest_qp_num = id->other.qpn;
    attr->rq_psn = id->other.psn;
    attr->max_dest_rd_atomic = at_most(id->own.responder_resources, DV_RC_MAX_READS);
    attr->min_rnr_timer = 0;
    return IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static int rts_attr(const struct dv_cm_id *id, struct ibv_qp_attr *attr)
{
    attr->sq_psn = id->own.psn;
    if (id->id.qp_type == IBV_QPT_UD)
        return IBV_QP_SQ_PSN;
    attr->timeout = id->ack_timeout;
    attr->retry_cnt = 7;
    attr->rnr_retry = at_most(id->other.rnr_retry_count, 7);
    attr->max_rd_atomic = at_most(id->own.initiator_depth, DV_RC_MAX_READS);
    return IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
           IBV_QP_MAX_QP_RD_ATOMIC;
}

/* The mask; 0: not to that state. */
static int attr_of(const struct dv_cm_id *id, struct ibv_qp_attr *attr)
{
    switch (attr->qp_state) {
    case IBV_QPS_INIT:
        return IBV_QP_STATE | init_attr(id, attr);
    case IBV_QPS_RTR:
        return IBV_QP_STATE | rtr_attr(id, attr);
    case IBV_QPS_RTS:
        return IBV_QP_STATE | rts_attr(id, attr);
    default:
        return 0;
    }
}

int rdma_init_qp_attr(struct rdma_cm_id *ibv_id, struct ibv_qp_attr *attr, int *mask)
{
    const struct dv_cm_id *id = dv_cm_id_of(ibv_id);
    dv_cm_lock();
    const bool known = attr->qp_state == IBV_QPS_INIT || id->id.qp_type == IBV_QPT_UD ||
                       id->state >= DV_CM_ANSWERED;
    *mask = known ? attr_of(id, attr) : 0;
    dv_cm_unlock();
    return *mask ? 0 : dv_cm_fail(EINVAL);
}

static int move(const struct dv_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state to)
{
    struct ibv_qp_attr attr = {.qp_state = to};
    const int mask = attr_of(id, &attr);
    return ibv_modify_qp(qp, &attr, mask);
}

/* ---- connecting ---- */

int dv_cm_qp_connect(struct dv_cm_id *id)
{
    if (!id->id.qp || id->id.qp->qp_type != IBV_QPT_RC)
        return 0;
    const int rc = move(id, id->id.qp, IBV_QPS_RTR);
    return rc ? rc : move(id, id->id.qp, IBV_QPS_RTS);
}

void dv_cm_qp_fail(struct dv_cm_id *id)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    if (id->id.qp)
        (void)ibv_modify_qp(id->id.qp, &attr, IBV_QP_STATE);
}

/* Who answers and asks for nothing takes what the caller offers. */
static struct rdma_conn_param by_default(const struct dv_cm_id *id, enum dv_cm_type type)
{
    const bool answers = type == DV_CM_ACCEPT;
    return (struct rdma_conn_param){
        .responder_resources = answers ? id->other.initiator_depth : RDMA_MAX_RESP_RES,
        .initiator_depth = answers ? id->other.responder_resources : RDMA_MAX_INIT_DEPTH,
        .retry_count = 7,
        .rnr_retry_count = 7};
}

int dv_cm_qp_fill(struct dv_cm_id *id, enum dv_cm_type type, const struct rdma_conn_param *given)
{
    const struct rdma_conn_param usual = by_default(id, type);
    const struct rdma_conn_param *param = given ? given : &usual;
    const struct ibv_qp *qp = id->id.qp;
    struct dv_cm_message *own = &id->own;
    own->type = type;
    own->qp_type = (uint8_t)dv_cm_type_of(id);
    if (param->private_data_len > dv_cm_private_max(type, own->qp_type))
        return -EINVAL;
    own->responder_resources = at_most(param->responder_resources, DV_RC_MAX_READS);
    own->initiator_depth = at_most(param->initiator_depth, DV_RC_MAX_READS);
    own->retry_count = param->retry_count;
    own->rnr_retry_count = param->rnr_retry_count;
    own->flow_control = param->flow_control;
    own->srq = qp ? qp->srq != NULL : param->srq;
    id->qpn = own->qpn = (qp ? qp->qp_num : param->qp_num) & 0xffffff;
    own->qkey = id->id.qp_type == IBV_QPT_UD ? RDMA_UDP_QKEY : 0;
    own->private_bytes = param->private_data ? param->private_data_len : 0;
    if (own->private_bytes)
        memcpy(own->private_data, param->private_data, own->private_bytes);
    return 0;
}

/* ---- making ---- */

static void destroy_cqs(struct rdma_cm_id *id)
{
    if (id->send_cq)
        ibv_destroy_cq(id->send_cq);
    if (id->recv_cq)
        ibv_destroy_cq(id->recv_cq);
    if (id->send_cq_channel)
        ibv_destroy_comp_channel(id->send_cq_channel);
    if (id->recv_cq_channel)
        ibv_destroy_comp_channel(id->recv_cq_channel);
    id->send_cq = id->recv_cq = NULL;
    id->send_cq_channel = id->recv_cq_channel = NULL;
}

static struct ibv_cq *new_cq(struct rdma_cm_id *id, uint32_t entries,
                             struct ibv_comp_channel **channel)
{
    *channel = ibv_create_comp_channel(id->verbs);
    return *channel ? ibv_create_cq(id->verbs, entries ? (int)entries : 1, id, *channel, 0) : NULL;
}

/* Those that the program leaves out. */
static int add_cqs(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    if (!attr->send_cq)
        attr->send_cq = id->send_cq = new_cq(id, attr->cap.max_send_wr, &id->send_cq_channel);
    if (!attr->recv_cq)
        attr->recv_cq = id->recv_cq = new_cq(id, attr->cap.max_recv_wr, &id->recv_cq_channel);
    return attr->send_cq && attr->recv_cq ? 0 : ENOMEM;
}

/* To where it may be posted to: RC receives, UD all. */
static int make_ready(const struct dv_cm_id *id, struct ibv_qp *qp)
{
    int rc = move(id, qp, IBV_QPS_INIT);
    if (!rc && qp->qp_type == IBV_QPT_UD)
        rc = move(id, qp, IBV_QPS_RTR);
    if (!rc && qp->qp_type == IBV_QPT_UD)
        rc = move(id, qp, IBV_QPS_RTS);
    return rc;
}

static int create(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    struct ibv_pd *given = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL;
    attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
    attr->pd = given ? given : id->pd ? id->pd : dv_cm_pd();
    if (!id->verbs || !attr->pd || id->qp || attr->pd->context != id->verbs ||
        attr->qp_type != id->qp_type)
        return EINVAL;
    if (!attr->srq)
        attr->srq = id->srq;
    const int rc = add_cqs(id, attr);
    if (rc)
        return rc;
    struct ibv_qp *qp = ibv_create_qp_ex(id->verbs, attr);
    if (!qp)
        return errno;
    const int failed = make_ready(dv_cm_id_of(id), qp);
    if (failed) {
        ibv_destroy_qp(qp);
        return failed;
    }
    id->qp = qp;
    id->pd = attr->pd;
    return 0;
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    dv_cm_lock();
    const bool again = id->qp;
    const int rc = again ? EINVAL : create(id, attr);
    if (rc && !again)
        destroy_cqs(id);
    dv_cm_unlock();
    return rc ? dv_cm_fail(rc) : 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex all = dv_extended_attr(pd, attr);
    const int rc = rdma_create_qp_ex(id, &all);
    if (!rc) { /* what was made for the program, too, as with librdmacm */
        attr->send_cq = all.send_cq;
        attr->recv_cq = all.recv_cq;
        attr->srq = all.srq;
        attr->cap = all.cap;
    }
    return rc;
}

/* Without the lock: a queue pair waits until its asynchronous events are acknowledged. */
void rdma_destroy_qp(struct rdma_cm_id *id)
{
    dv_cm_lock();
    struct ibv_qp *qp = id->qp;
    id->qp = NULL;
    dv_cm_unlock();
    if (qp)
        ibv_destroy_qp(qp);
    destroy_cqs(id);
}
