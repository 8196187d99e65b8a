/* SPDX-License-Identifier: BSD-3-Clause */
/* Records that end before they are done. */
#ifndef DW_CANCEL_H
#define DW_CANCEL_H

#include "common/rd/rd.h"

/* Ends the records that the peer has asked for, of a region or, where that is NULL, of a QP, and
 * tells it. */
void dw_cancel_asked(struct dw_peer *peer, const struct dw_region *region,
                     const struct diwarp_qp *qp, uint64_t now_ns);
/* The QP goes, and others of the port stay: its own records end without completions. */
void dw_cancel_own(struct dw_peer *peer, const struct diwarp_qp *qp, uint64_t now_ns);

#endif
