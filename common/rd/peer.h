/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts of peers: taken when something is first sent or received, given back when both have owed
 * each other nothing for a while; and what happens when a peer is gone. */
#ifndef DW_PEER_H
#define DW_PEER_H

#include "common/rd/rd.h"

/* Another process has the name now: all that is under way with the one before ends in error, and
 * both begin anew. Not while anybody is amid a peer's state. */
void dw_handle_restart(struct dw_handle *handle, uint32_t incarnation);
/* The service goes: ends all. */
void dw_peers_fini(struct dw_rd *rd);

/* The context, taken now if it has to be; NULL: no memory, or the peer is gone. */
struct dw_peer *dw_peer_wake(struct dw_handle *handle);
/* Takes the numbers that the header of a PROOF tells, for those that one of both has forgotten.
 * None of what is under way to the peer has arrived. */
void dw_peer_adopt(struct dw_peer *peer, const struct dw_llp_header *header);
/* Something was sent to it or heard of it: it has the longest to go before it may rest. */
void dw_peer_on_use(struct dw_peer *peer);
/* Puts those to rest that may. When it may be the turn of others; DW_NEVER: not before one is used,
 * which sees to that. */
uint64_t dw_peers_rest(struct dw_rd *rd, uint64_t now_ns);
/* Fails those that are doomed: tells the application once each, ends all they owe and are owed. */
void dw_peers_fail_doomed(struct dw_rd *rd);
/* A QP goes, and with it what was posted to it, without completions; while others stay, peers are
 * told. */
void dw_peers_forget_qp(struct dw_rd *rd, const struct diwarp_qp *qp);
/* ICMP says that nobody has that port of the path's host. */
void dw_peers_on_unreachable(void *state, struct dw_path *path, uint16_t udp_port, uint64_t now_ns);

#endif
