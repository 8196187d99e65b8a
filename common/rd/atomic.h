/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations over RD (RFC 7306). */
#ifndef DW_ATOMIC_H
#define DW_ATOMIC_H

#include "common/rd/rd.h"

struct dw_atomic {
    struct dw_list link; /* of those that are dropped together */
    struct dw_peer *peer;
    struct diwarp_qp *qp;
    uint32_t id;
    uint64_t wr_id;
    enum ibv_wc_opcode opcode;
    bool signaled;
    uint64_t *result; /* may be NULL */
};

int dw_atomic_post(const struct dw_ends *ends, struct dw_peer *peer, const struct ibv_send_wr *wr,
                   uint64_t now_ns);
void dw_atomic_on_request(struct dw_peer *peer, const struct dw_ends *ends,
                          const struct dw_segment *segment, uint64_t now_ns);
void dw_atomic_on_response(struct dw_peer *peer, const struct dw_segment *segment);
/* Ends it, with a completion if it asked for one or failed. */
void dw_atomic_end(struct dw_atomic *atomic, enum ibv_wc_status status);
/* Ends it without one. */
void dw_atomic_destroy(struct dw_atomic *atomic);
/* Those to a peer, or of a QP, end (NULL: of any); tell: with completions. */
void dw_atomics_drop(struct dw_rd *rd, const struct dw_peer *peer, const struct diwarp_qp *qp,
                     bool tell);

#endif
