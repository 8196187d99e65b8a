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

/*
 * Handles that were made of datagrams, and that the application knows nothing of: forgotten when
 * their peers have been at rest, or gone, for long, so that a server does not grow with the clients
 * that it has had. The above is for peers that remember us yet.
 */

/* A handle, by its name; in rd.learnt, those first that are looked at first. */
struct dw_learnt {
    struct dw_list link;
    struct diwarp_name name;
    uint64_t due_ns;
    uint64_t gone_ns; /* when it was seen to be gone; 0: it is not */
};

/* `rd` has a place in the port's timers. */
void dw_forget_init(struct dw_rd *rd);
void dw_forget_fini(struct dw_rd *rd);
/* A handle of that name is about to be made; false: no memory. */
bool dw_forget_later(struct dw_rd *rd, struct diwarp_name name, uint64_t now_ns);

#endif
