/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probes: whether a silent peer is there, and whether its path lets datagrams of the size through
 * that it is sent.
 *
 * A path that is too narrow says so by ICMP, if it is a router and nobody filters that (RFC 1191,
 * 8201): then datagrams become shorter. A switch just drops. What is sent again and again may as
 * well have arrived and been refused, for want of buffers, as long as the application does not
 * look. So the path is asked: with a probe of the same size, which the peer answers whatever it
 * holds, and a bare one right behind it. A full socket drops the larger one, too: then others of
 * that size get through, now and then.
 */
#ifndef DW_PROBE_H
#define DW_PROBE_H

#include "common/rd/rd.h"

/* There is one pair of probes in each interval. */
#define DW_PROBE_PAIR_NS 500000000ull

void dw_probe(struct dw_peer *peer, uint64_t now_ns);
/* Probes it, unless an answer may still be on its way: whether it computes, or something was lost.
 * That costs less than asking for things again would, once it reads all that waits for it. */
void dw_probe_ask(struct dw_peer *peer, uint64_t now_ns);
/* Returns when the probe was sent whose reply has that PSN; 0: it cannot be one of ours. */
uint64_t dw_probe_on_reply(struct dw_peer *peer, uint32_t psn, uint64_t now_ns);
/* It asks again and again, so our answers do not reach it. */
void dw_probe_on_probe(struct dw_peer *peer, uint64_t heard_before_ns, uint64_t now_ns);

/* Length of the largest datagrams that do not seem to get through; 0: there are none. */
uint32_t dw_probe_stuck_bytes(const struct dw_peer *peer);
/* The next probe is to be a pair. */
bool dw_probe_pair_is_due(const struct dw_peer *peer, uint64_t now_ns);
/* It acknowledges these. */
void dw_probe_on_acked(struct dw_peer *peer, const struct dw_list *acked);
/* It asked for parts of a record that had gone out. */
void dw_probe_on_asked_again(struct dw_peer *peer);
/* For peer_timeout nothing has got through but what every path lets through. */
bool dw_probe_is_too_narrow(struct dw_peer *peer);

/* What a peer may have under way whatever the delay: more, the shorter its datagrams are. */
uint8_t dw_probe_cwnd_floor(const struct dw_handle *handle);
/* Datagrams on the path have become shorter or longer. */
void dw_probe_on_path(void *state, struct dw_path *path);
/* Sends the peer what the path wants to have probed. */
void dw_probe_path(struct dw_peer *peer, uint64_t now_ns);

#endif
