/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of an RC QP on their way into its stream. */
#ifndef DW_RC_SEND_H
#define DW_RC_SEND_H

#include "common/rc/qp.h"

struct dw_rc_train *dw_rc_train_create(void);
void dw_rc_train_destroy(struct dw_rc_train *train);
size_t dw_rc_train_bytes(void);
/* Sends what is queued, as far as TCP takes it; may end in dw_rc_close(). */
void dw_rc_flush(struct diwarp_rc_qp *qp);
/* Hands bytes to TCP before all else; what it does not take is kept. -ENOMEM, or TCP's error. */
int dw_rc_send_bytes(struct diwarp_rc_qp *qp, const void *buf, uint32_t bytes);

#endif
