/* SPDX-License-Identifier: BSD-3-Clause */
/* The context of diwarp0 that all ids of a process share, opened when it is first asked for and
 * never closed; its addresses. */
#pragma once

#include <sys/socket.h>

#include "verbs_diwarp/cm.h"

/* NULL with errno set. */
struct ibv_context *dv_cm_context(void);
/* The PD of who brings none. NULL with errno set. */
struct ibv_pd *dv_cm_pd(void);
/* The index of the GID that an address of this host has; of one of the loopback interface, that of
 * the first GID of its family, if there is one, else 0. -1: it is none of ours. */
int dv_cm_gid_index(const struct sockaddr *address);
/* Whether a caller from that address may have that GID: it is the address's, or one of this host's
 * that calls itself. Else everybody could have us connect to others. */
bool dv_cm_may_have_gid(const struct sockaddr *from, const uint8_t gid[16]);
/* AF_INET, but where there are GIDs of IPv6 alone. */
int dv_cm_first_family(void);
void dv_cm_put_gid(uint8_t gid[16], uint32_t index);
