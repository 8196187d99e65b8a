/* SPDX-License-Identifier: BSD-3-Clause */
/* RD datagrams that come. */
#ifndef DW_RECEIVE_H
#define DW_RECEIVE_H

#include "common/rd/rd.h"

/* As dw_service.place() and take(). */
bool dw_receive_place(struct dw_rd *rd, const struct dw_arrival *arrival, uint64_t now_ns);
void dw_receive_take(struct dw_rd *rd, struct diwarp_qp *qp, const struct dw_arrival *arrival,
                     uint64_t now_ns);

#endif
