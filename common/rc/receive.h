/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes from the stream of an RC QP. */
#ifndef DW_RC_RECEIVE_H
#define DW_RC_RECEIVE_H

#include "common/rc/qp.h"

/* Reads the stream once; true: something came. May end in dw_rc_close(). */
bool dw_rc_receive(struct diwarp_rc_qp *qp, uint64_t now_ns);
/* Goes on where a receive was missing. */
void dw_rc_resume(struct diwarp_rc_qp *qp, uint64_t now_ns);

#endif
