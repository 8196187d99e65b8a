/* SPDX-License-Identifier: BSD-3-Clause */
/* The orderly close of an RC QP. */
#ifndef DW_RC_SHUTDOWN_H
#define DW_RC_SHUTDOWN_H

#include "common/rc/qp.h"

/* The other side has sent its last. */
void dw_rc_on_end(struct diwarp_rc_qp *qp);

#endif
