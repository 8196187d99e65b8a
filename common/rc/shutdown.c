/* SPDX-License-Identifier: BSD-3-Clause */
/* The orderly close: what is queued is sent, then each side says that it is done. */
#include "common/rc/shutdown.h"

#include "common/rc/close.h"
#include "common/rc/send.h"
#include "common/rnic/lock.h"
#include "common/wire/terminate.h"

static void begin_close(struct diwarp_rc_qp *qp)
{
    uint64_t now_ns = dw_device_now_ns(qp->rc->device);
    dw_rc_set_state(qp, DW_RC_CLOSING);
    if (qp->standing)
        dw_rc_limit(qp, dw_deadline_ns(now_ns, qp->attr.connect_timeout_ns));
    else
        dw_rc_limit_close(qp, now_ns);
}

/* Has the other side begun an FPDU or message that it did not end? */
static bool in_the_middle(const struct diwarp_rc_qp *qp)
{
    const struct dw_rc_read *read =
        qp->reads.count ? dw_ring_at(&qp->reads, sizeof *read, 0) : NULL;
    return qp->held.bytes || qp->stub_bytes || qp->receiving || qp->writing ||
           (read && read->placed);
}

void dw_rc_on_end(struct diwarp_rc_qp *qp)
{
    if (in_the_middle(qp) || !qp->may_send || qp->broken) {
        dw_rc_close(qp, IBV_WC_RETRY_EXC_ERR, DW_TERM_MPA_TCP_LOST);
        return;
    }
    qp->ended = true;
    dw_rc_flush_reads(qp,
                      true); /* nothing answers them any more, nor those that wait for their turn */
    if (qp->state != DW_RC_CLOSING)
        begin_close(qp);
    dw_rc_flush(qp);
    if (qp->state != DW_RC_CLOSED) {
        dw_rc_rewatch(qp);
        dw_rc_end_if_idle(qp);
    }
}

void diwarp_disconnect(struct diwarp_rc_qp *qp)
{
    struct diwarp_device *device = qp->rc->device;
    dw_lock(device);
    if (qp->state == DW_RC_CONNECTING || qp->state == DW_RC_REQUESTED) {
        dw_rc_close(qp, IBV_WC_SUCCESS, 0);
    } else if (qp->state == DW_RC_RTS || qp->state == DW_RC_RESPONDED) {
        begin_close(qp);
        dw_rc_end_if_idle(qp);
    }
    dw_unlock(device);
}
