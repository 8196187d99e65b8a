/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups that ids have joined. With the lock held. */
#pragma once

#include "verbs_diwarp/cm_event.h"

/* The id is about to be freed. */
void dv_cm_mcast_forget(struct dv_cm_id *id);
/* Where the destination is a group's, the source becomes one of our GIDs', if it is none: no route,
 * or that of a link-local address, may lead to a group. False: it is none. */
bool dv_cm_mcast_source(const struct sockaddr *to, struct sockaddr_storage *source);
