/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory as an RC QP may use it: gather and scatter lists, and what a peer may touch. */
#ifndef DW_RC_ACCESS_H
#define DW_RC_ACCESS_H

#include "common/rc/qp.h"

/* Checks a list of buffers: how many bytes in all; -EINVAL, -EMSGSIZE, -EACCES. */
int64_t dw_rc_check_sges(struct diwarp_pd *pd, const struct ibv_sge *list, int count, int access,
                         struct iovec iov[DW_MAX_SGE]);
/* Copies to iov from its offset on; the caller has checked that it fits. */
void dw_rc_scatter(const struct iovec *iov, uint32_t offset, const uint8_t *from, uint32_t bytes);
/* Why a peer's access fails, 0: it does not. For tagged buffers of DDP, or the sources of reads. */
uint16_t dw_rc_check_access(const struct diwarp_rc_qp *qp, uint32_t stag, uint64_t to,
                            uint64_t bytes, int access);
/* The peer's rights to a region end; the application's own use does not. False: it had none. */
bool dw_rc_invalidate(struct diwarp_rc_qp *qp, uint32_t stag);

#endif
