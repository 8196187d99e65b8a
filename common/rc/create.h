/* SPDX-License-Identifier: BSD-3-Clause */
/* Making an RC QP. */
#ifndef DW_RC_CREATE_H
#define DW_RC_CREATE_H

#include "common/rc/qp.h"

/* A new QP without a stream yet. -EINVAL, -ENOMEM. */
int dw_rc_qp_create(struct dw_rc *rc, struct diwarp_pd *pd, const struct diwarp_rc_qp_attr *attr,
                    struct diwarp_rc_qp **qp);

#endif
