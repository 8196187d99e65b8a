/* SPDX-License-Identifier: BSD-3-Clause */
/* The RC side of a CQ, and its run. */
#ifndef DW_RC_RUN_H
#define DW_RC_RUN_H

#include "common/rc/rc.h"

/* The RC side of a CQ, made at first use. */
int dw_rc_get(struct diwarp_cq *cq, struct dw_rc **rc);

#endif
