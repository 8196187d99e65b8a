/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of an RC QP. */
#ifndef DW_RC_CLOSE_H
#define DW_RC_CLOSE_H

#include "common/rc/qp.h"

/* Closes the stream, flushes all requests and says DIWARP_WC_DISCONNECTED. */
void dw_rc_close(struct diwarp_rc_qp *qp, enum ibv_wc_status status, uint32_t vendor_err);
/* All has been sent that was to be: says so to the other side, where it is time for that. */
void dw_rc_end_if_idle(struct diwarp_rc_qp *qp);
/* Reads that nobody will answer any more; tell: with a completion each. */
void dw_rc_flush_reads(struct diwarp_rc_qp *qp, bool tell);
/* Its stream is closed; its requests vanish. */
void dw_rc_qp_free(struct diwarp_rc_qp *qp);
/* What is held of the stream is given back to rc's account. */
void dw_rc_held_free(struct dw_rc *rc, struct dw_rc_held *held);

#endif
