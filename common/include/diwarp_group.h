/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: multicast and broadcast of UD. */
#pragma once

#include "diwarp.h"

/* All who are to send to a group, or to be attached to it, are told these out of band. */
struct diwarp_group {
    uint64_t token;     /* never 0; who does not know it can send nothing to the group */
    uint8_t family;     /* AF_INET or AF_INET6 */
    uint8_t hops;       /* hop limit of what is sent; 0: 1, no router passes it on */
    uint16_t port;      /* UDP, host order; one that no device of the host has */
    uint8_t ip[16];     /* multicast; or, IPv4, the broadcast address of an interface's network */
    char interface[16]; /* its name. Empty: attached on all, sent by the first that is no loopback;
                         * of IPv6 groups of interface or link (RFC 4291 2.7) by that one alone */
};

/* Whether an address, of 4 or 16 bytes, is that of a group: multicast, or the broadcast address of
 * the network of one of these interfaces. */
DIWARP_EXPORT bool diwarp_is_group_ip(uint8_t family, const uint8_t *ip,
                                      const struct diwarp_interface *interfaces, unsigned count);

/* Of a device; groups that differ in `interface` count each. */
#define DIWARP_MAX_GROUPS 64

/* What is sent to the group by those who know the QP's Q_Key comes to it, too, each with a receive
 * of its own; also what processes of this host send, and the QP itself unless attr.block_self.
 * Write-Records to the group name `stag`, on which all have agreed, and offsets from 0, which here
 * mean `mr`, of the QP's PD, with IBV_ACCESS_REMOTE_WRITE, as it is registered now; NULL: none
 * come. Until the QP is
 * detached or destroyed. -EINVAL: not a QP of UD, not such an address, no token or port.
 * -EOPNOTSUPP: datagrams are authenticated, for which each pair of processes has a key. -ENODEV: no
 * such interface. -EALREADY: it is attached. -ENOSPC: too many groups. Else why there is no socket,
 * as -EADDRINUSE, or -ENOBUFS: too many memberships (igmp_max_memberships). */
DIWARP_EXPORT int diwarp_attach_group(struct diwarp_qp *qp, const struct diwarp_group *group,
                                      const struct diwarp_mr *mr, uint32_t stag);
/* What has come and was not handed out stays. -ENOENT: it is not attached. */
DIWARP_EXPORT int diwarp_detach_group(struct diwarp_qp *qp, const struct diwarp_group *group);
/* As diwarp_create_ah(), to send to a group, attached or not: Sends and Write-Records. A datagram
 * is as long as the interface's MTU allows; members behind a smaller one miss it. Errors as above.
 */
DIWARP_EXPORT int diwarp_create_group_ah(struct diwarp_qp *qp, const struct diwarp_group *group,
                                         struct diwarp_ah **ah);
