/* SPDX-License-Identifier: BSD-3-Clause */
/* Where an RC QP takes its receives from: its own queue, or a shared one. */
#ifndef DW_RC_SRQ_H
#define DW_RC_SRQ_H

#include "common/rc/qp.h"

void dw_rc_recv_free(struct dw_rc_recv *recv);
/* The next receive of the QP, from where its receives are: false, there is none. */
bool dw_rc_take_recv(struct diwarp_rc_qp *qp, struct dw_rc_recv *recv);
bool dw_rc_has_recv(const struct diwarp_rc_qp *qp);
/* The QP stands still until it has a receive. */
void dw_rc_stand(struct diwarp_rc_qp *qp, uint64_t now_ns);
/* It no longer waits; another one may have what it waited for. */
void dw_rc_unstand(struct diwarp_rc_qp *qp);

#endif
