/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA over RD: reads and large writes as records, small writes in the sequenced stream. */
#ifndef DW_RDMA_H
#define DW_RDMA_H

#include "common/rd/rd.h"

/* How RD carries its records. */
extern const struct dw_record_ops dw_rdma_record_ops;

int dw_rdma_post_read(const struct dw_ends *ends, struct dw_peer *peer,
                      const struct ibv_send_wr *wr, uint64_t now_ns);
int dw_rdma_post_write(const struct dw_ends *ends, struct dw_peer *peer,
                       const struct ibv_send_wr *wr, uint64_t now_ns);
void dw_rdma_on_read_request(struct dw_peer *peer, const struct dw_ends *ends,
                             const struct dw_segment *segment, uint64_t now_ns);
void dw_rdma_on_control(struct dw_peer *peer, const struct dw_ends *ends,
                        const struct dw_segment *segment, bool sequenced, uint64_t now_ns);
/* Of a record. */
void dw_rdma_on_record_segment(struct dw_peer *peer, const struct dw_segment *segment,
                               uint64_t now_ns);
/* Sequenced: a small write, or the answer to a short read. */
void dw_rdma_on_write_segment(struct dw_peer *peer, const struct dw_ends *ends,
                              const struct dw_segment *segment, uint64_t now_ns);
/* Ends the records that the peer has asked for, of a region or, where that is NULL, of a QP, and
 * tells it. */
void dw_rdma_cancel(struct dw_peer *peer, const struct dw_region *region,
                    const struct diwarp_qp *qp, uint64_t now_ns);
/* The QP goes, and others of the port stay: its own records end without completions. */
void dw_rdma_abandon(struct dw_peer *peer, const struct diwarp_qp *qp, uint64_t now_ns);

#endif
