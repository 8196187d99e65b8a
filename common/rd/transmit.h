/* SPDX-License-Identifier: BSD-3-Clause */
/* RD's datagrams, from their buffers to the exit. */
#ifndef DW_TRANSMIT_H
#define DW_TRANSMIT_H

#include "common/rd/rd.h"

/* A buffer of the send pool; NULL: its bound, or it is left to peers with nothing under way. */
void *dw_pool_get(const struct dw_peer *peer, uint32_t bytes, uint32_t *room);
struct dw_datagram *dw_datagram_get(struct dw_peer *peer, struct dw_qpns qpns,
                                    uint32_t segment_bytes);
/* An empty one of a train, of which buf holds up to `room` bytes and the trailer. */
void dw_datagram_init(const struct dw_peer *peer, struct dw_train *train,
                      struct dw_datagram *datagram, struct dw_qpns qpns, uint8_t *buf,
                      uint32_t room);
void dw_datagram_put(struct dw_rd *rd, struct dw_datagram *datagram);
/* It needs no intro: it was heard since it woke, not so long ago that it may have forgotten us. */
bool dw_peer_knows_us(const struct dw_peer *peer);
/* Bytes that lead a datagram to this peer now: LLP header, and the intro while it needs one. */
uint32_t dw_lead_bytes(const struct dw_peer *peer);
/* Writes it: all that is owed to the peer is acknowledged by a datagram that goes. */
void dw_put_lead(struct dw_peer *peer, struct dw_qpns qpns, uint8_t *buf, enum dw_llp_type type,
                 uint32_t psn);
/* Gives a new datagram its PSN and sends it; ownership goes to the send window. */
void dw_transmit(struct dw_peer *peer, struct dw_datagram *datagram, uint64_t now_ns);
/* Its first half, for who seals and sends by itself: gives a datagram of final length its PSN and
 * writes all that leads the segments. */
void dw_transmit_begin(struct dw_peer *peer, struct dw_datagram *datagram, uint64_t now_ns);
/* Not sent for want of socket buffer: as good as lost, and known to be. */
void dw_transmit_refused(struct dw_peer *peer, struct dw_datagram *datagram);
void dw_transmit_lost(struct dw_peer *peer, uint64_t now_ns);
/* A train of datagrams of `segment` bytes each but the last; as dw_datagrams_send(). */
int dw_transmit_train(struct dw_peer *peer, const struct iovec *iov, unsigned n, uint32_t segment);

/* ---- without a PSN ---- */
/* Shows the peer that we are where we say: `cookie` is of DW_PROOF_BYTES. */
void dw_control_proof(struct dw_peer *peer, const uint8_t *cookie);
/* A datagram without segments: ACK, PROBE, PROBE_REPLY. As dw_datagrams_send(). */
int dw_control_send(struct dw_peer *peer, enum dw_llp_type type, uint32_t psn);
/* False: the socket is full, the next run goes on. */
bool dw_control_ack(struct dw_peer *peer);
/* A PROBE of that length; whole: it is lost rather than cut where it is too long. */
void dw_control_padded_probe(struct dw_peer *peer, uint32_t psn, uint32_t bytes, bool whole);
/* An unsequenced RECORD datagram with one untagged segment; held while the socket is full. */
void dw_control_record(struct dw_peer *peer, struct dw_qpns qpns,
                       const struct dw_record_control *control);
/* Sends what is held, as far as the socket takes it. */
void dw_control_held(struct dw_rd *rd);
void dw_control_forget_held(struct dw_peer *peer);

#endif
