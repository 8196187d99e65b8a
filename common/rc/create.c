/* SPDX-License-Identifier: BSD-3-Clause */
/* Making an RC QP, and what its stream and its timer bring it. */
#include "common/rc/create.h"

#include <errno.h>
#include <stdlib.h>

#include "common/rc/close.h"
#include "common/rc/receive.h"
#include "common/rc/send.h"
#include "common/rc/startup.h"
#include "common/rc/terminate.h"
#include "common/rnic/lock.h"

#define CONNECT_TIMEOUT_NS (10ull * 1000000000)

#define MAX_DEPTH (1u << 20)

void diwarp_rc_qp_attr_init(struct diwarp_rc_qp_attr *attr)
{
    *attr = (struct diwarp_rc_qp_attr){
        .max_send_wr = 128,
        .max_recv_wr = 128,
        .max_rd_atomic = 16,
        .crc = true,
        .mpa_revision = 2,
        .connect_timeout_ns = CONNECT_TIMEOUT_NS,
        .rnr_timeout_ns = CONNECT_TIMEOUT_NS,
    };
}

static void on_timer(struct dw_timer *timer, uint64_t now_ns)
{
    struct diwarp_rc_qp *qp = dw_container(timer, struct diwarp_rc_qp, timer);
    (void)now_ns;
    if (qp->standing)
        (void)dw_rc_terminate(qp, DW_TERM_DDP_NO_BUFFER, qp->held.buf, qp->held.ulpdu_bytes);
    else
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, 0);
}

static void on_ready(struct dw_rc_watch *watch, unsigned what, uint64_t now_ns)
{
    struct diwarp_rc_qp *qp = dw_container(watch, struct diwarp_rc_qp, watch);
    if (qp->state == DW_RC_CONNECTING || qp->state == DW_RC_REQUESTED) {
        dw_rc_startup_ready(qp, what, now_ns);
        return;
    }
    bool reads = what & DW_STREAM_IN && qp->stream && !qp->standing && !qp->ended;
    if (reads && dw_rc_receive(qp, now_ns) && qp->stream)
        dw_rc_heat(qp);
    if (what & DW_STREAM_OUT && qp->stream) {
        dw_rc_set_blocked(qp, false);
        dw_rc_flush(qp);
        dw_rc_rewatch(qp);
    }
}

/* ---- making ---- */

static bool attr_is_good(const struct dw_rc *rc, const struct diwarp_pd *pd,
                         const struct diwarp_rc_qp_attr *attr)
{
    return attr->cq == rc->cq && pd->device == rc->device && (!attr->srq || attr->srq->pd == pd) &&
           attr->max_send_wr && attr->max_send_wr <= MAX_DEPTH && attr->max_recv_wr <= MAX_DEPTH &&
           attr->max_rd_atomic <= DW_MPA_DEPTH_MAX && attr->mpa_revision >= 1 &&
           attr->mpa_revision <= 2;
}

int dw_rc_qp_create(struct dw_rc *rc, struct diwarp_pd *pd, const struct diwarp_rc_qp_attr *attr,
                    struct diwarp_rc_qp **qp_out)
{
    if (!attr_is_good(rc, pd, attr))
        return -EINVAL;
    struct diwarp_rc_qp *qp = calloc(1, sizeof *qp);
    if (!qp)
        return -ENOMEM;
    qp->watch.ready = on_ready;
    qp->timer.fire = on_timer;
    qp->rc = rc;
    qp->pd = pd;
    qp->attr = *attr;
    qp->ird = qp->ord = (uint16_t)attr->max_rd_atomic;
    qp->cursor.send_msn = qp->cursor.read_msn = 1;
    qp->recv_msn = qp->request_msn = 1;
    dw_list_init(&qp->resumed_link);
    dw_list_init(&qp->srq_link);
    dw_list_init(&qp->lazy_link);
    dw_list_append(&rc->qps, &qp->link);
    *qp_out = qp;
    return 0;
}

void diwarp_destroy_rc_qp(struct diwarp_rc_qp *qp)
{
    struct diwarp_device *device = qp->rc->device;
    dw_lock(device);
    dw_cq_forget(qp->rc->cq, qp, NULL);
    dw_rc_qp_free(qp);
    dw_unlock(device);
}
