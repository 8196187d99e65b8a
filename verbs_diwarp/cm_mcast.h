/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups that ids have joined. With the lock held. */
#pragma once

#include "verbs_diwarp/cm_event.h"

/* The id is about to be freed. */
void dv_cm_mcast_forget(struct dv_cm_id *id);
/* Our address that leads to a destination which no route leads to, for it is a group's. False: it
 * is none. */
bool dv_cm_mcast_source(struct in_addr to, struct in_addr *source);
