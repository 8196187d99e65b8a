/* SPDX-License-Identifier: BSD-3-Clause */
/* Works: requests and messages of our own on their way into sequenced datagrams. */
#ifndef DW_SEND_H
#define DW_SEND_H

#include "common/rd/peer.h"
#include "common/wire/ddp.h"
#include "common/wire/rdmap.h"

/* Writes up to this go in the sequenced stream, exactly once by PSN; larger ones are records. */
#define DW_INLINE_WRITE_BYTES 16384

/* A work request, or a message of our own, on its way into sequenced datagrams. */
struct dw_work {
    struct dw_list link; /* in peer.pending, then peer.awaiting */
    uint64_t wr_id;
    enum ibv_wc_opcode opcode;
    bool signaled;
    bool buffered;            /* complete when copied */
    bool answer;              /* to the peer's requests: does not count as queued */
    bool refusal;             /* the ABORT of a small write */
    bool own_message;         /* not the application's: no completion, even in error */
    struct dw_ddp_header ddp; /* of its first segment */
    uint32_t record_id;       /* tagged: of its Write-Record header; or of a read request */
    uint32_t total, copied;
    uint32_t last_psn; /* once all is copied */
    unsigned sge_count;
    struct iovec sge[DW_MAX_SGE];
    uint8_t own[DW_RECORD_CONTROL_BYTES + DIWARP_RELEASE_MAX_BYTES]; /* our own messages' bytes */
};

struct dw_work *dw_work_get(struct diwarp_qp *qp);
/* Gives back what was not needed since the last time; true: there may be more. */
bool dw_work_trim(struct diwarp_qp *qp);
void dw_work_put(struct diwarp_qp *qp, struct dw_work *work);
/* Queues a work, then copies what the window allows. Takes ownership. */
void dw_send_work(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns);
/* Copies it now or not at all: -EAGAIN, or -EMSGSIZE when it is too long for that. */
int dw_send_work_now(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns);
/* Copies pending works into datagrams and sends what is full, or all that is open. */
void dw_send_flush(struct dw_peer *peer, uint64_t now_ns);
/* A small write was refused; false: no such one waits any more. */
bool dw_send_fail(struct dw_peer *peer, uint32_t record_id, enum ibv_wc_status status);
/* Completes the works that waited for an acknowledgement and are before `ack`; no writes while the
 * peer is refusing: one of these may be the refused. True: some were. */
bool dw_send_end_awaiting(struct dw_peer *peer, uint32_t ack, bool refusing);
/* Something was acknowledged: there may be room for more. */
void dw_send_on_acked(struct dw_peer *peer);
int dw_send_post(struct diwarp_qp *qp, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                 uint64_t now_ns);
/* The gather list of a request, checked; returns its bytes, -EINVAL, -EACCES or -EMSGSIZE. */
int64_t dw_send_gather(struct diwarp_qp *qp, const struct ibv_send_wr *wr, int access,
                       uint32_t max_bytes, struct iovec *iov);

/* ---- send_own.c ---- */
/* Queues a message of our own that is not an answer: `bytes` <= sizeof work.own. record_id: of a
 * read request, else 0. -ENOMEM. */
int dw_send_request(struct dw_peer *peer, enum dw_rdmap_opcode opcode, enum dw_ddp_queue qn,
                    uint32_t record_id, const uint8_t *payload, uint32_t bytes, uint64_t now_ns);
/* One that answers what the peer sent: an ABORT, a COMPLETE or an atomic response; refusal: the
 * ABORT of a small write. -ENOMEM; also when too many wait for the peer to acknowledge. */
int dw_send_answer(struct dw_peer *peer, enum dw_rdmap_opcode opcode, enum dw_ddp_queue qn,
                   bool refusal, const uint8_t *payload, uint32_t bytes, uint64_t now_ns);

#endif
