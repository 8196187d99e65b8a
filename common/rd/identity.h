/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which process a source is, where its name does not tell: one that nothing is known of while many
 * such are, or one whose name another process had. It is sent a RESET, without anything being kept
 * of it, and has to send the RESET's cookie back from the address it gave (RFC 9000 section 8).
 */
#ifndef DW_IDENTITY_H
#define DW_IDENTITY_H

#include "common/rd/peer.h"
#include "common/wire/llp_header.h"

/* The peer that a datagram is from, if it is known or may become so by its intro (NULL: none).
 * NULL: it is not taken; where its source may be told so, a RESET is on its way. */
struct dw_peer *dw_identity_of(struct diwarp_qp *qp, const struct dw_llp_header *header,
                               const struct dw_intro *intro, uint64_t now_ns);
/* A RESET came, whose body is of `len` bytes: what we are asked to prove, if it answers us. */
void dw_identity_on_reset(struct diwarp_qp *qp, const struct dw_llp_header *header,
                          const uint8_t *body, uint32_t len, uint64_t now_ns);
/* A PROOF came: its source; one with another incarnation than before takes the place of the process
 * before it. NULL: it proves nothing. */
struct dw_peer *dw_identity_on_proof(struct diwarp_qp *qp, const struct dw_llp_header *header,
                                     const struct dw_intro *intro, const uint8_t *body,
                                     uint32_t len, uint64_t now_ns);

#endif
