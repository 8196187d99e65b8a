/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams that have no PSN: ACK, PROBE, PROBE_REPLY, record control. */
#ifndef DW_RD_CONTROL_H
#define DW_RD_CONTROL_H

#include "common/rd/rd.h"

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
