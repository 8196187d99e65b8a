/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of this folder do for each other, lowest first: each uses those named before it.
 */
#pragma once

#include "common/rd/rd.h"

/* ==== transmit.c ==== */
/* Datagrams, from their buffers to the exit. */

/* A buffer of n empty datagrams of up to `each` bytes, trailer included, one behind the other.
 * NULL: the pool's bound, or what is left is left to peers with nothing under way. */
struct dw_train *dw_train_get(const struct dw_peer *peer, struct dw_qpns qpns, unsigned n,
                              uint32_t each);
/* One that others may join, with room for a segment of so many bytes; NULL likewise. */
struct dw_datagram *dw_datagram_get(struct dw_peer *peer, struct dw_qpns qpns,
                                    uint32_t segment_bytes);
void dw_datagram_put(struct dw_rd *rd, struct dw_datagram *datagram);
/* It needs no intro: it was heard since it woke, not so long ago that it may have forgotten us. */
bool dw_peer_knows_us(const struct dw_peer *peer);
/* Bytes that lead a datagram to this peer now: LLP header, and the intro while it needs one. */
uint32_t dw_lead_bytes(const struct dw_peer *peer);
/* As of struct dw_record_ops. Each datagram carries all acknowledgements owed. */
uint32_t dw_put_record_lead(struct dw_record_peer *records, struct dw_qpns qpns,
                            struct dw_record_by by, uint8_t *buf);
/* A datagram of final length gets its PSN, and all that leads its segments; it is the send window's
 * from then on. */
void dw_transmit_begin(struct dw_peer *peer, struct dw_datagram *datagram, uint64_t now_ns);
/* Seals and sends it. */
void dw_transmit(struct dw_peer *peer, struct dw_datagram *datagram, uint64_t now_ns);
/* Sends n that are sealed, in one piece of `bytes`. What a full socket refuses is as good as lost,
 * and known to be. */
void dw_transmit_train(struct dw_peer *peer, struct dw_datagram *first, unsigned n, uint32_t bytes,
                       uint64_t now_ns);
/* One that has been sent goes out again. */
void dw_transmit_again(struct dw_peer *peer, struct dw_datagram *datagram, uint64_t now_ns);
/* Sends lost datagrams again, oldest first: all; or, of those that the peer refused (retrying), one
 * while none of them is on its way. */
void dw_transmit_lost(struct dw_peer *peer, uint64_t now_ns);
/* At most so many. */
void dw_transmit_lost_most(struct dw_peer *peer, unsigned most, uint64_t now_ns);
/* As of struct dw_record_ops. */
int dw_transmit_record(struct dw_record_peer *records, uint8_t id, const struct iovec *iov,
                       unsigned n, uint32_t segment);

/* ---- without a PSN ---- */
/* ACK, PROBE or PROBE_REPLY. As dw_datagrams_send(). */
int dw_control_send(struct dw_peer *peer, enum dw_llp_type type, uint32_t psn);
/* A PROOF with that cookie, which is of one intro: while other ways are tried, by each of them with
 * the intro of each. As dw_datagrams_send(); 0 if any was sent. */
int dw_control_prove(struct dw_peer *peer, const void *cookie);
/* A way, and its number in the `path` field of headers (dw_way_number()): in a PROBE and its
 * PROBE_REPLY by the way's place in the list of who probes; in a RECORD by the sink's interface; 0
 * is the current way. */
struct dw_way {
    const struct dw_path *path;
    uint8_t id;
};

/* A PROBE by that way, bare or, unless 0, padded to `bytes`, which is lost rather than cut; or the
 * reply to it. */
void dw_control_by_way(struct dw_peer *peer, enum dw_llp_type type, uint32_t psn,
                       const struct dw_way *way, uint32_t bytes);
/* False: the socket is full, the next run goes on. */
bool dw_control_ack(struct dw_peer *peer);
/* A PROBE of that length; whole: it is lost rather than cut where it is too long. */
void dw_control_padded_probe(struct dw_peer *peer, uint32_t psn, uint32_t bytes, bool whole);
/* An unsequenced RECORD datagram with one untagged segment; as dw_datagrams_send(). */
int dw_control_record(struct dw_record_peer *records, struct dw_qpns qpns, uint8_t id,
                      const struct dw_record_control *control);

/* ==== send.c ==== */
/* Works: requests, and messages of our own, on their way into sequenced datagrams. */

/* One whose message is of `bytes`, which the caller puts into work.own, where its sge points. For a
 * QP's request, which counts as queued until it is put, or of our own (ends->qp is NULL). NULL: no
 * memory. */
struct dw_work *dw_work_get(struct dw_peer *peer, const struct dw_ends *ends,
                            enum dw_rdmap_opcode opcode, enum dw_ddp_queue qn, uint32_t bytes);
/* Ends it, be it in a list or not, without a completion. */
void dw_work_put(struct dw_peer *peer, struct dw_work *work);
/* ... with one, if it is a request's that asked for it or failed. */
void dw_work_end(struct dw_peer *peer, struct dw_work *work, enum ibv_wc_status status);
/* The small write, or the atomic, that the peer answers; NULL: no such one waits any more. */
struct dw_work *dw_work_find(const struct dw_peer *peer, uint32_t record_id, bool atomic);
/* Its QP goes while part of it has been sent: the rest follows from a copy, so that the peer does
 * not wait for it. False: no memory, the peer is doomed. */
bool dw_work_detach(struct dw_peer *peer, struct dw_work *work);
/* Queues a work, then copies what the window allows. Takes ownership. */
void dw_send_work(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns);
/* The same of a request; inlined: all of it is copied now or not at all: -EAGAIN, or -EMSGSIZE when
 * it is too long for that. */
int dw_send_posted(struct dw_peer *peer, struct dw_work *work, bool inlined, uint64_t now_ns);
/* As dw_send_work(), but that it leaves with the next run, or with what is posted before that. */
void dw_send_work_next_run(struct dw_peer *peer, struct dw_work *work, uint64_t now_ns);
/* Copies pending works into datagrams and sends what is full, or all that is open. */
void dw_send_flush(struct dw_peer *peer, uint64_t now_ns);
/* Completes the works that waited for an acknowledgement and are before `ack`; no writes while the
 * peer is refusing: one of these may be the refused. True: some were. */
bool dw_send_end_awaiting(struct dw_peer *peer, uint32_t ack, bool refusing);
/* Room for a Send of len bytes straight in the open datagram of the peer; NULL: not now. The commit
 * follows before anything else is done with the peer. */
void *dw_send_reserve(struct dw_peer *peer, struct dw_qpns qpns, uint32_t len, uint64_t now_ns);
void dw_send_commit(struct dw_rd *rd, uint32_t imm);

/* ==== probe.c ==== */
/* Probes: whether a silent peer is there, and whether its path lets through what it is sent. A path
 * that is too narrow says so by ICMP, if it is a router and nobody filters that (RFC 1191, 8201); a
 * switch just drops. What is sent again and again may as well have been refused, for want of
 * buffers. So the path is asked: by a probe of the same size, which the peer answers whatever it
 * holds, and a bare one right behind it. A full socket drops the larger one, too: then others of
 * that size get through, now and then. */

void dw_probe(struct dw_peer *peer, uint64_t now_ns);
/* Probes it, unless an answer may still be on its way: whether it computes, or something was lost.
 * That costs less than asking for things again would, once it reads all that waits for it. */
void dw_probe_ask(struct dw_record_peer *records, uint64_t now_ns);
/* As of struct dw_record_ops. */
void dw_probe_ask_by(struct dw_record_peer *records, uint8_t id, uint64_t now_ns);
void dw_probe_on_way_left(struct dw_record_peer *records, uint8_t id, uint8_t other);
void dw_probe_look_for_ways(struct dw_record_peer *records, uint64_t now_ns);
/* Answers a probe, by the way that it took. */
void dw_probe_answer(struct dw_peer *peer, const struct dw_arrival *arrival);
/* Returns when the probe was sent whose reply has that PSN; 0: it cannot be one of ours, or tells
 * nothing of what was sent. */
uint64_t dw_probe_on_reply(struct dw_peer *peer, const struct dw_llp_header *header,
                           uint64_t now_ns);
/* The peer tells where it is, and leads there. */
void dw_probe_on_intro(struct dw_peer *peer, const struct dw_intro *intro);
/* The peer's timer: acknowledges late, probes it while it owes us something, and fails it when it
 * has been silent for too long. */
void dw_probe_on_timer(struct dw_timer *timer, uint64_t now_ns);
/* A segment of a record has come by that way from the peer, which was granted it. */
void dw_probe_on_record_came(struct dw_peer *peer, uint8_t way);
/* It acknowledges these, which are not none. */
void dw_probe_on_acked(struct dw_peer *peer, const struct dw_list *acked);
/* It asked for parts of a record that had gone out. */
void dw_probe_on_asked_again(struct dw_peer *peer);
/* Datagrams on the path have become shorter or longer. */
void dw_probe_on_path(void *state, struct dw_path *path);
/* Tells each QP of the service of the peer: any may wait for it. */
void dw_peer_tell(const struct dw_peer *peer, enum diwarp_wc_opcode opcode, enum diwarp_gone why);
/* What a peer may have under way whatever the delay: more, the shorter its datagrams are. */
uint8_t dw_probe_cwnd_floor(const struct dw_handle *handle);

/* ==== deliver.c ==== */
/* Sends that come: handed up in place, or put together first. */

/* A segment that came. */
struct dw_incoming {
    struct dw_peer *peer;
    struct dw_ends ends;
    struct dw_segment segment;
    const struct dw_arrival *arrival;
    bool sequenced; /* its datagram has a PSN */
    bool in_order;  /* ... and all before that have come */
    uint64_t now_ns;
};

/* Hands up what lies in the receive arena, or goes with the next recycling, but not to a QP that
 * drains. told: but for the two QPs. */
void dw_deliver(const struct dw_peer *peer, const struct dw_ends *ends, const struct ibv_wc *told,
                const void *data);
/* A Send to the QP. false: no buffer, as if it had not come. */
bool dw_deliver_send(const struct dw_incoming *in);
/* Of a request. */
#define DW_REQUEST_MAX_BYTES (UINT32_MAX >> 1)
/* What tells the QP of a write, whose length is its source's word. false: malformed. */
bool dw_deliver_immediate(const struct dw_incoming *in);
/* What was put together leaves no room before it is taken. */
bool dw_deliver_is_full(const void *state);
/* Frees what was delivered. */
void dw_deliver_recycle(void *state);
/* Gives back what was not needed since the last time; true: there may be more. */
bool dw_deliver_trim(struct dw_rd *rd);
/* Drops what has not been put together: of a peer; for a QP, or for all (NULL). */
void dw_deliver_forget(struct dw_peer *peer, const struct diwarp_qp *qp);
/* A QP takes messages of up to that: the one assembly there is in any case. -ENOMEM. */
int dw_deliver_make_room(struct dw_rd *rd, uint32_t message_bytes);
void dw_deliver_fini(struct dw_rd *rd);
void dw_deliver_add_memory(const struct dw_rd *rd, struct diwarp_memory *memory);

/* ==== rdma.c ==== */
/* What peers ask of our memory, and what they answer: reads and large writes as records, small
 * writes and atomics (RFC 7306) in the sequenced stream. */

/* The message that tells the peer's application of a write of so many bytes, a request's (RFC 7306
 * section 6), whose wr_id it is to get. NULL: no memory. */
struct dw_work *dw_rdma_immediate(struct dw_peer *peer, const struct dw_ends *ends,
                                  unsigned send_flags, uint32_t imm, uint32_t bytes);

/* By opcode; untagged ones are whole. false: malformed. */
bool dw_rdma_on_read_request(const struct dw_incoming *in);
bool dw_rdma_on_write_segment(const struct dw_incoming *in);
bool dw_rdma_on_control(const struct dw_incoming *in);
bool dw_rdma_on_atomic_request(const struct dw_incoming *in);
bool dw_rdma_on_atomic_response(const struct dw_incoming *in);
enum dw_answer {
    DW_ANSWER_AWAITED,  /* leaves at once */
    DW_ANSWER_REFUSAL,  /* the same, an ABORT of a small write */
    DW_ANSWER_NEXT_RUN, /* leaves with the next run, or with what is posted before that */
};
/* Queues a COMPLETE, or an ABORT. Where there is no room the peer is doomed, for it would wait for
 * ever: -ENOMEM. */
int dw_rdma_answer(struct dw_peer *peer, struct dw_qpns qpns,
                   const struct dw_record_control *control, enum dw_answer how, uint64_t now_ns);
enum dw_ending {
    DW_END_QUIETLY,
    DW_END_IN_ERROR,  /* with completions; the peer is gone */
    DW_END_TELL_PEER, /* without; of what it has asked for the peer learns that it is cancelled */
};
/* Ends records with the peer: of a region, of a QP, or all. */
void dw_rdma_end(struct dw_peer *peer, const struct dw_region *region, const struct diwarp_qp *qp,
                 enum dw_ending how, uint64_t now_ns);

/* ==== peer.c ==== */
/* Contexts: taken when something is first sent or received, given back when both have owed each
 * other nothing for a while; and what happens when a peer is gone. */

/* The context, taken now if it has to be; NULL: no memory, or the peer is gone. */
struct dw_peer *dw_peer_wake(struct dw_handle *handle);
/* Takes the numbers that the header of a PROOF tells, for those that one of both has forgotten.
 * None of what is under way to the peer has arrived. */
void dw_peer_adopt(struct dw_peer *peer, const struct dw_llp_header *header);
/* Something was sent to it or heard of it: it has the longest to go before it may rest. */
void dw_peer_on_use(struct dw_peer *peer);
/* Puts those to rest that may. When it may be the turn of others; DW_NEVER: none is awake. */
uint64_t dw_peers_rest(struct dw_rd *rd, uint64_t now_ns);

/* Fails those that are doomed: tells the application once each, ends all they owe and are owed. */
void dw_peers_fail_doomed(struct dw_rd *rd);
/* Another process has the name now: all that is under way with the one before ends in error, and
 * both begin anew. Not while anybody is amid a peer's state. */
void dw_handle_restart(struct dw_handle *handle, uint32_t incarnation);
/* As diwarp_give_up_ah(). */
int dw_handle_give_up(struct dw_handle *handle);
/* A QP goes, and with it what was posted to it, without completions; while others stay, peers are
 * told. */
void dw_peers_forget_qp(struct diwarp_qp *qp);
/* ICMP says that nobody has that port of the path's host, or that nothing gets there. */
void dw_peers_on_unreachable(void *state, struct dw_path *path, uint16_t udp_port,
                             enum dw_llp_told why, uint64_t now_ns);
/* The service goes: ends all. */
void dw_peers_fini(struct dw_rd *rd);

/* ==== identity.c ==== */
/* Which process a source is, where its name does not tell: one that nothing is known of while many
 * such are, or one whose name another process had. It is sent a RESET, without anything being kept
 * of it, and has to send the RESET's cookie back, in a PROOF, from the address that it gave (RFC
 * 9000 section 8). */

/* The peer that a datagram is from; NULL: it is a RESET, which is answered, or it is not taken, and
 * a RESET may be on its way. */
struct dw_peer *dw_identity_of(struct dw_rd *rd, const struct dw_arrival *arrival, uint64_t now_ns);
/* Looks at handles that were made of datagrams, and that the application knows nothing of: they are
 * forgotten when their peers have been at rest, or gone, for long, so that a server does not grow
 * with the clients that it has had. When to look again; DW_NEVER: there are none. */
uint64_t dw_forget(struct dw_rd *rd, uint64_t now_ns);
