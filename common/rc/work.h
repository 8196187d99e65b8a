/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of an RC QP, as they are queued. */
#ifndef DW_RC_WORK_H
#define DW_RC_WORK_H

#include "common/rc/qp.h"

void dw_rc_work_free(struct dw_rc_work *work);
int dw_rc_wc_opcode(const struct dw_rc_work *work);

#endif
