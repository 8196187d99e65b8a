/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives: a QP's own, or shared by many, and the QPs that stand still for want of one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rc/qp.h"
#include "common/rnic/device.h"

void dw_rc_recv_free(struct dw_rc_recv *recv)
{
    if (recv->sge_count > 1)
        free(recv->more);
    recv->sge_count = 0;
}

/* ---- standing still ---- */

static void wake_next(struct dw_rc_recvs *recvs)
{
    if (!recvs->ring.count || dw_list_empty(&recvs->waiting))
        return;
    struct diwarp_rc_qp *qp = dw_container(recvs->waiting.next, struct diwarp_rc_qp, waiting_link);
    dw_list_remove(&qp->waiting_link);
    dw_list_append(&qp->rc->resumed, &qp->resumed_link);
}

void dw_rc_stand(struct diwarp_rc_qp *qp, uint64_t now_ns)
{
    dw_list_append(&qp->recvs->waiting, &qp->waiting_link);
    if (qp->standing)
        return; /* another one was faster: the time goes on */
    qp->standing = true;
    qp->rc->counters.rc_rx_waits++;
    dw_rc_limit(qp, dw_deadline_ns(now_ns, qp->attr.rnr_timeout_ns));
    dw_rc_rewatch(qp);
}

void dw_rc_unstand(struct diwarp_rc_qp *qp)
{
    bool woken = dw_list_linked(&qp->resumed_link);
    dw_list_remove(&qp->waiting_link);
    dw_list_remove(&qp->resumed_link);
    qp->standing = false;
    if (woken)
        wake_next(qp->recvs);
}

/* ---- posting ---- */

static int push_recv(struct dw_rc_recvs *recvs, uint32_t max, struct diwarp_pd *pd,
                     const struct ibv_recv_wr *wr)
{
    struct iovec iov[DW_MAX_SGE];
    int64_t total = dw_rc_check_sges(pd, wr->sg_list, wr->num_sge, IBV_ACCESS_LOCAL_WRITE, iov);
    if (total < 0)
        return (int)total;
    struct dw_rc_recv *recv = dw_ring_push(&recvs->ring, sizeof *recv, max);
    if (!recv)
        return -ENOMEM;
    *recv = (struct dw_rc_recv){
        .wr_id = wr->wr_id, .bytes = (uint32_t)total, .sge_count = (uint32_t)wr->num_sge};
    if (wr->num_sge > 1) {
        recv->more = malloc(recv->sge_count * sizeof *iov);
        if (!recv->more) {
            dw_ring_unpush(&recvs->ring);
            return -ENOMEM;
        }
        memcpy(recv->more, iov, recv->sge_count * sizeof *iov);
    } else if (wr->num_sge) {
        recv->addr = iov[0].iov_base;
    }
    wake_next(recvs);
    return 0;
}

int diwarp_rc_post_recv(struct diwarp_rc_qp *qp, const struct ibv_recv_wr *wr)
{
    struct diwarp_device *device = qp->rc->device;
    dw_lock(device);
    int rc = qp->state == DW_RC_CLOSED ? -ENOTCONN
             : qp->attr.srq            ? -EINVAL
                                       : push_recv(&qp->own, qp->attr.max_recv_wr, qp->pd, wr);
    dw_unlock(device);
    return rc;
}

struct diwarp_srq *diwarp_create_srq(struct diwarp_pd *pd, unsigned max_wr)
{
    struct diwarp_srq *srq = calloc(1, sizeof *srq);
    if (!srq)
        return NULL;
    srq->pd = pd;
    srq->max_wr = max_wr;
    dw_list_init(&srq->recvs.waiting);
    return srq;
}

void diwarp_destroy_srq(struct diwarp_srq *srq)
{
    struct dw_ring *ring = &srq->recvs.ring;
    for (; ring->count; dw_ring_pop(ring, 1))
        dw_rc_recv_free(dw_ring_at(ring, sizeof(struct dw_rc_recv), 0));
    dw_ring_fini(ring);
    free(srq);
}

int diwarp_post_srq_recv(struct diwarp_srq *srq, const struct ibv_recv_wr *wr)
{
    dw_lock(srq->pd->device);
    int rc = push_recv(&srq->recvs, srq->max_wr, srq->pd, wr);
    dw_unlock(srq->pd->device);
    return rc;
}
