/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA start-up of the side that calls. */
#ifndef DW_RC_STARTUP_H
#define DW_RC_STARTUP_H

#include "common/rc/qp.h"

/* The stream of a QP that is not connected yet is ready. */
void dw_rc_startup_ready(struct diwarp_rc_qp *qp, unsigned what, uint64_t now_ns);

#endif
