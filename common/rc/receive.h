/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes from the stream of an RC QP, and the verdict on it: rc_receive.c takes FPDUs out,
 * rc_deliver.c and rc_read.c take what they carry, rc_terminate.c ends what went wrong. */
#ifndef DW_RC_RECEIVE_H
#define DW_RC_RECEIVE_H

#include "common/include/diwarp_rc.h"
#include "common/llp/stream.h"
#include "common/rnic/qp.h"
#include "common/wire/ddp.h"
#include "common/wire/terminate.h"

/* Part of an FPDU, or what could not be delivered yet; memory of its own. */
struct dw_rc_held {
    uint8_t *buf;
    uint32_t bytes, capacity;
    uint32_t ulpdu_bytes; /* that begin it, when the QP stands still: to be delivered first */
};

/* An RDMA read of ours whose response is awaited. */
struct dw_rc_read {
    uint64_t wr_id;
    uint32_t stag; /* of this response only */
    uint32_t total, placed;
    bool signaled;
    uint8_t sge_count;
    struct iovec sge[DW_MAX_SGE];
};

/* Reads the stream once; true: something came. May end in dw_rc_close(). */
bool dw_rc_receive(struct diwarp_rc_qp *qp, uint64_t now_ns);
/* Goes on where a receive was missing. */
void dw_rc_resume(struct diwarp_rc_qp *qp, uint64_t now_ns);
void dw_rc_held_free(struct diwarp_rc_qp *qp);

enum dw_rc_verdict {
    DW_RC_DONE,
    DW_RC_WAIT, /* no receive is posted: the ULPDU comes again */
    DW_RC_DEAD, /* the QP is closed */
};
/* A ULPDU of a good FPDU. */
struct dw_rc_segment {
    const uint8_t *ulpdu;
    uint32_t bytes, head_bytes; /* the head is part of bytes */
    struct dw_ddp_header ddp;
};
enum dw_rc_verdict dw_rc_deliver(struct diwarp_rc_qp *qp, const uint8_t *ulpdu, uint32_t bytes);
/* Copies to iov from its offset on; the caller has checked that it fits. */
void dw_rc_scatter(const struct iovec *iov, uint32_t offset, const uint8_t *from, uint32_t bytes);
/* Why a peer's access fails, 0: it does not. For tagged buffers of DDP, or the sources of reads. */
uint16_t dw_rc_check_access(const struct diwarp_rc_qp *qp, uint32_t stag, uint64_t to,
                            uint64_t bytes, int access);

enum dw_rc_verdict dw_rc_on_read_request(struct diwarp_rc_qp *qp,
                                         const struct dw_rc_segment *segment);
enum dw_rc_verdict dw_rc_on_read_response(struct diwarp_rc_qp *qp,
                                          const struct dw_rc_segment *segment);
/* The response under way, or the next one, cannot go on: ends the stream with Terminate. */
void dw_rc_fail_response(struct diwarp_rc_qp *qp, uint16_t cause);

/* Sends Terminate about a ULPDU (NULL: none) and closes. Always DW_RC_DEAD. */
enum dw_rc_verdict dw_rc_terminate(struct diwarp_rc_qp *qp, uint16_t cause, const uint8_t *ulpdu,
                                   uint32_t bytes);
enum dw_rc_verdict dw_rc_on_terminate(struct diwarp_rc_qp *qp, const struct dw_rc_segment *segment);
/* Lets the other side read to the end of what was sent before the stream closes. Takes the stream,
 * and `rest` (malloc'ed, may be NULL), which TCP has not taken yet. */
void dw_rc_linger(struct dw_rc *rc, struct dw_stream *stream, uint8_t *rest, uint32_t bytes);
void dw_rc_lingers_free(struct dw_rc *rc);

#endif
