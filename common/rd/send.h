/* SPDX-License-Identifier: BSD-3-Clause */
/* Works: requests, and messages of our own, on their way into sequenced datagrams. */
#ifndef DW_SEND_H
#define DW_SEND_H

#include "common/rd/rd.h"

/* One for a QP's request, which counts as queued until it is put, or of our own (ends->qp is NULL).
 * NULL: no memory. */
struct dw_work *dw_work_get(struct dw_peer *peer, const struct dw_ends *ends);
void dw_work_put(struct dw_peer *peer, struct dw_work *work);
/* Its QP goes while part of it has been sent: the rest follows from a copy, so that the peer does
 * not wait for it. False: no memory, the peer is doomed. */
bool dw_work_detach(struct dw_peer *peer, struct dw_work *work);
/* Frees those that are kept for the next requests. */
void dw_work_trim(struct dw_rd *rd);
/* Queues a work, then copies what the window allows. Takes ownership. */
void dw_send_work(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns);
/* Copies it now or not at all: -EAGAIN, or -EMSGSIZE when it is too long for that. */
int dw_send_work_now(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns);
/* Copies pending works into datagrams and sends what is full, or all that is open. */
void dw_send_flush(struct dw_peer *peer, uint64_t now_ns);
/* Completes the works that waited for an acknowledgement and are before `ack`; no writes while the
 * peer is refusing: one of these may be the refused. True: some were. */
bool dw_send_end_awaiting(struct dw_peer *peer, uint32_t ack, bool refusing);
/* A small write was refused; false: no such one waits any more. */
bool dw_send_fail(struct dw_peer *peer, uint32_t record_id, enum ibv_wc_status status);

/* Room for a Send of len bytes straight in the open datagram of the peer; NULL: not now. The commit
 * follows before anything else is done with the peer. */
void *dw_send_reserve(struct dw_peer *peer, struct dw_qpns qpns, uint32_t len, uint64_t now_ns);
void dw_send_commit(struct dw_rd *rd, uint32_t imm);

/* ---- answer.c ---- */
/* One whose message is `payload`, copied: `bytes` <= sizeof work.own. NULL: no memory. */
struct dw_work *dw_work_own(struct dw_peer *peer, const struct dw_ends *ends,
                            enum dw_rdmap_opcode opcode, enum dw_ddp_queue qn,
                            const uint8_t *payload, uint32_t bytes);
/* Queues one that answers what the peer sent: an ABORT, a COMPLETE or an atomic response; refusal:
 * the ABORT of a small write. Where there is no room the peer is doomed, for it would wait for
 * ever: -ENOMEM. */
int dw_send_answer(struct dw_peer *peer, struct dw_qpns qpns, enum dw_rdmap_opcode opcode,
                   enum dw_ddp_queue qn, bool refusal, const uint8_t *payload, uint32_t bytes,
                   uint64_t now_ns);
int dw_send_record_answer(struct dw_peer *peer, struct dw_qpns qpns,
                          const struct dw_record_control *control, bool refusal, uint64_t now_ns);
/* The data of a short read, copied: `bytes` as above. -ENOMEM, also when too many answers wait. */
int dw_send_read_answer(struct dw_peer *peer, struct dw_qpns qpns, const struct dw_ddp_header *ddp,
                        uint32_t record_id, const uint8_t *data, uint32_t bytes, uint64_t now_ns);

#endif
