/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA reads over RC, at both ends. */
#ifndef DW_RC_READ_H
#define DW_RC_READ_H

#include "common/rc/terminate.h"

enum dw_rc_verdict dw_rc_on_read_request(struct diwarp_rc_qp *qp,
                                         const struct dw_rc_segment *segment);
enum dw_rc_verdict dw_rc_on_read_response(struct diwarp_rc_qp *qp,
                                          const struct dw_rc_segment *segment);

#endif
