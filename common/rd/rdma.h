/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA over RD: reads and large writes as records, small writes in the sequenced stream. */
#ifndef DW_RDMA_H
#define DW_RDMA_H

#include "common/rd/rd.h"

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
enum dw_ending {
    DW_END_QUIETLY,
    DW_END_IN_ERROR,  /* with completions; the peer is gone */
    DW_END_TELL_PEER, /* without; of what it has asked for the peer learns that it is cancelled */
};
/* Ends records with the peer: of a region, of a QP, or all. */
void dw_rdma_end(struct dw_peer *peer, const struct dw_region *region, const struct diwarp_qp *qp,
                 enum dw_ending how, uint64_t now_ns);

#endif
