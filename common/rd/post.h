/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests of RD QPs. */
#ifndef DW_POST_H
#define DW_POST_H

#include "common/rd/rd.h"

/* As diwarp_post_send(). */
int dw_rd_post_send(struct diwarp_qp *qp, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                    uint64_t now_ns);

#endif
