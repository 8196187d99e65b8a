/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations over RD (RFC 7306). */
#ifndef DW_ATOMIC_H
#define DW_ATOMIC_H

#include "common/rd/rd.h"

int dw_atomic_post(const struct dw_ends *ends, struct dw_peer *peer, const struct ibv_send_wr *wr,
                   uint64_t now_ns);
void dw_atomic_on_request(struct dw_peer *peer, const struct dw_ends *ends,
                          const struct dw_segment *segment, uint64_t now_ns);
void dw_atomic_on_response(struct dw_peer *peer, const struct dw_segment *segment);

#endif
