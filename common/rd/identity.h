/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which process a source is, where its name does not tell: one that nothing is known of while many
 * such are, or one whose name another process had. It is sent a RESET, without anything being kept
 * of it, and has to send the RESET's cookie back from the address it gave (RFC 9000 section 8).
 */
#ifndef DW_IDENTITY_H
#define DW_IDENTITY_H

#include "common/datagram/datagrams.h"
#include "common/rd/rd.h"

/* The peer that a datagram is from, if it is known or may become so by its intro. NULL: it is not
 * taken; where its source may be told so, a RESET is on its way. */
struct dw_peer *dw_identity_of(struct dw_rd *rd, const struct dw_arrival *arrival, uint64_t now_ns);
/* A RESET came: what we are asked to prove, if it answers us. */
void dw_identity_on_reset(struct dw_rd *rd, const struct dw_arrival *arrival, uint64_t now_ns);
/* A PROOF came: its source; one with another incarnation than before takes the place of the process
 * before it. NULL: it proves nothing. */
struct dw_peer *dw_identity_on_proof(struct dw_rd *rd, const struct dw_arrival *arrival,
                                     uint64_t now_ns);

#endif
