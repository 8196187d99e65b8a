/* SPDX-License-Identifier: BSD-3-Clause */
/* Identifiers: their life and their states. With the lock held, unless it is librdmacm's. */
#pragma once

#include <sys/socket.h>

#include "verbs_diwarp/cm_event.h"
#include "verbs_diwarp/cm_link.h"

/* A new one on a channel. NULL: no memory. */
struct dv_cm_id *dv_cm_id_new(struct rdma_event_channel *channel, enum rdma_port_space ps);
/* One that the program has never seen. */
void dv_cm_id_drop(struct dv_cm_id *id);
bool dv_cm_may(const struct dv_cm_id *id, enum dv_cm_state to);
/* A change that dv_cm_may() allows; nobody else writes the state. */
void dv_cm_set_state(struct dv_cm_id *id, enum dv_cm_state to);
/* The program has accepted or rejected it. */
void dv_cm_leave_listener(struct dv_cm_id *caller);
void dv_cm_close_link(struct dv_cm_id *id);
/* On this host, and of it. 0 or a positive errno. */
int dv_cm_use_address(struct dv_cm_id *id, const struct sockaddr *address);

static inline enum dv_cm_qp_type dv_cm_type_of(const struct dv_cm_id *id)
{
    return id->id.qp_type == IBV_QPT_UD ? DV_CM_UD : DV_CM_RC;
}
