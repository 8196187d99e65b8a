/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What diwarp's verbs device has beyond libibverbs: reliable datagrams (RD), and Write-Record and
 * RDMA Read over UD. For programs that are linked with libdiwarp-verbs.so before libibverbs, or
 * that look these names up (dlsym(3)) where `diwarp-verbs run` started them.
 *
 * Requests need no calls of their own. As over EFA's SRD, ibv_wr_rdma_write(), ibv_wr_rdma_read()
 * and, over RD, ibv_wr_atomic_*() are followed by ibv_wr_set_ud_addr(); what may be posted so is
 * told at creation by send_ops_flags. Sends go by these, or by ibv_post_send(), as over UD.
 *
 * Any thread, at any time. Functions that return int give 0, or a positive errno value: EINVAL
 * where the queue pair is not diwarp's, or of another kind.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- RD ---- */

/* A queue pair to and from any number of others of its kind: each message exactly once, in no
 * order; a request completes when the other process has what it brings, or cannot get it. Its
 * qp_type is IBV_QPT_DRIVER; it changes states as one of UD does, but has no Q_Key (what is given
 * is not looked at), and goes on after a request in error. attr->comp_mask needs
 * IBV_QP_INIT_ATTR_PD; attr->srq may be given. Up to 32 elements in requests and receives; Sends
 * of more than 4, and writes and reads of more than one, are copied. Sends up to
 * DIWARP_VERBS_RD_SEND_BYTES. Writes and reads of no bytes complete at once, whatever is there, but
 * for writes with immediate data. A Send with Invalidate ends the rights of all peers to a region
 * of the other side's; where there are none it comes without IBV_WC_WITH_INV.
 *
 * A receive begins with 40 bytes for a GRH, as over UD, by which ibv_create_ah_from_wc() finds the
 * sender; in one that a write with immediate data takes nothing is written, and its byte_len is
 * what the sender says. A Send for which there is no receive waits at its sender, with all else
 * that its process has for ours; here wait a few that come in the same datagram as the last that
 * has one, or whose receive of an SRQ another queue pair has begun to fill meanwhile.
 *
 * NULL with errno set, as ibv_create_qp_ex(). */
struct ibv_qp *diwarp_verbs_create_rd_qp(struct ibv_context *context,
                                         struct ibv_qp_init_attr_ex *attr);
#define DIWARP_VERBS_RD_SEND_BYTES 65536

/* ---- Write-Record and RDMA Read, over UD ---- */

/* Both, of queue pairs made with IBV_QP_EX_WITH_RDMA_WRITE or _READ in send_ops_flags, at both
 * ends of a Write-Record; who is read from needs no more than a queue pair that may receive. Up to
 * 2^31 - 1 bytes, at least one. The region must allow it for as long as it takes: key, address and
 * rights are checked for each piece.
 *
 * Such a write completes at its source when it has left. At its target the segments that arrive are
 * placed, in any order; then comes a completion of opcode DIWARP_VERBS_WC_RECORD in the receive CQ,
 * which takes no receive: byte_len bytes are valid, of a record that is full, or whose time was
 * over. wr_id is its handle, until it is released. At most cap.max_recv_wr (of an SRQ: its max_wr)
 * are under way or not released, of one source no more than it leaves to others, which is half of
 * them; further ones are lost.
 *
 * A read completes with IBV_WC_SUCCESS when all of it has come; with IBV_WC_RESP_TIMEOUT_ERR when
 * its time is over: whether the request was lost, was refused, or some of the answer was lost, is
 * not known, and nothing is asked for again. The queue pair goes on. At most cap.max_send_wr, and
 * 1024, are active. */
#define DIWARP_VERBS_WC_RECORD IBV_WC_DRIVER1

struct diwarp_verbs_record {
    union ibv_gid gid; /* of the source, and its queue pair */
    uint32_t src_qp;
    void *addr; /* of its first byte: in memory, whatever the region's IOVA */
    uint64_t length, valid_bytes;
};

struct diwarp_verbs_read {
    uint64_t length, valid_bytes;
    int active; /* it has not completed */
};

/* Valid bytes [start, end) of a record, or read. */
struct diwarp_verbs_range {
    uint64_t start, end;
};

/* How long a record that misses something is waited for, from its first segment (100 ms, if not
 * said otherwise), and a read, from its post (1 s); of those that begin from now on. */
int diwarp_verbs_set_record_time(struct ibv_qp *qp, uint64_t record_time_ns);
int diwarp_verbs_set_read_time(struct ibv_qp *qp, uint64_t read_time_ns);

/* Of a record that a completion handed over. */
int diwarp_verbs_query_record(struct ibv_qp *qp, uint64_t handle,
                              struct diwarp_verbs_record *record);
/* Writes at most n ranges in rising order to `ranges`, and to *count how many there are. */
int diwarp_verbs_record_ranges(struct ibv_qp *qp, uint64_t handle,
                               struct diwarp_verbs_range *ranges, unsigned n, unsigned *count);
/* What comes of it later is dropped, as since its completion. */
int diwarp_verbs_release_record(struct ibv_qp *qp, uint64_t handle);

/* What has come of the read with that wr_id, of several the one posted last: while it is active,
 * and, where it has expired, until as many others have as may be active. ENOENT: it is neither. */
int diwarp_verbs_query_read(struct ibv_qp *qp, uint64_t wr_id, struct diwarp_verbs_read *read);
/* As diwarp_verbs_record_ranges(). */
int diwarp_verbs_read_ranges(struct ibv_qp *qp, uint64_t wr_id, struct diwarp_verbs_range *ranges,
                             unsigned n, unsigned *count);

#ifdef __cplusplus
}
#endif
