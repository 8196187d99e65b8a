/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path to a peer: whether it lets datagrams of the size through that the peer is sent. One that
 * is too narrow says so by ICMP, if it is a router and nobody filters that (RFC 1191, 8201): then
 * datagrams become shorter. A switch just drops.
 *
 * What is sent again and again may as well have arrived and been refused, for want of buffers, as
 * long as the application does not look. So the path is asked: with a probe of the same size, which
 * the peer answers whatever it holds, and a bare one right behind it. A full socket drops the
 * larger one, too: then others of that size get through, now and then.
 */
#ifndef DW_PATH_H
#define DW_PATH_H

#include "common/rd/peer.h"

/* Of a probe's PSN the part that is free for its time. */
#define DW_PATH_CLOCK_MASK 0x3fffffffu
/* There is one pair in each interval. */
#define DW_PATH_PAIR_NS 500000000ull

/* The host of `to` is reached by a path of that MTU: what is begun from now on fits it, for all
 * peers there. What was sent before leaves in fragments when it is sent again. */
void dw_path_on_mtu(struct diwarp_qp *qp, const struct dw_llp_addr *to, uint32_t mtu_bytes);
/* A record of the peer's began with so few bytes, though it has more and may send more. It is told
 * how narrow the path is, not we, and the window of its records is counted in its datagrams. */
void dw_path_on_first_segment(struct dw_peer *peer, uint32_t payload_bytes);
/* Length of the largest datagrams that do not seem to get through; 0: there are none. */
uint32_t dw_path_stuck_bytes(const struct dw_peer *peer);
/* The next probe is to be a pair. */
bool dw_path_pair_is_due(const struct dw_peer *peer, uint64_t now_ns);
void dw_path_send_pair(struct dw_peer *peer, uint32_t clock);
void dw_path_on_probe_reply(struct dw_peer *peer, uint32_t psn);
/* It acknowledges these. */
void dw_path_on_acked(struct dw_peer *peer, const struct dw_list *acked);
/* It goes on with a record, or has all of it. */
void dw_path_on_record_progress(struct dw_peer *peer);
/* It asked for parts of a record that had gone out. */
void dw_path_on_asked_again(struct dw_peer *peer);
/* For peer_timeout nothing has got through but what every path lets through. Called by the peer's
 * timer. */
bool dw_path_is_too_narrow(struct dw_peer *peer);

#endif
