/* SPDX-License-Identifier: BSD-3-Clause */
/* ULPDUs of an RC QP to their place. */
#ifndef DW_RC_DELIVER_H
#define DW_RC_DELIVER_H

#include "common/rc/terminate.h"

enum dw_rc_verdict dw_rc_deliver(struct diwarp_rc_qp *qp, const uint8_t *ulpdu, uint32_t bytes);

#endif
