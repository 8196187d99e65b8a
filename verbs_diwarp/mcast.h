/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups of queue pairs. With the context's lock held, unless it is libibverbs'. */
#pragma once

#include "verbs_diwarp/front.h"

/* Whether a GID is of a group: that of an IPv4 multicast address, or of the broadcast address of
 * one of our networks, mapped to IPv6; or any multicast GID. Needs no lock. */
bool dv_is_group(const struct dv_context *context, const union ibv_gid *gid);
/* A handle to send there. 0 or negative errno. */
int dv_create_group_ah(const struct dv_context *context, const struct ibv_ah_attr *attr,
                       struct diwarp_ah **ah);
/* Of diwarp's queue pair, made anew under the number: it is attached as it was. 0 or negative
 * errno.
 */
int dv_mcast_reopen(struct dv_qp *qp);
void dv_mcast_fini(struct dv_qp *qp);
/* The group that a message was sent to; unchanged: none that the queue pair is attached to. */
void dv_mcast_put_gid(const struct dv_qp *qp, const struct diwarp_wc *done, union ibv_gid *gid);
