/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection, from the answer on to its end. With the lock held. */
#pragma once

#include "verbs_diwarp/cm_qp.h"

/* Both sides have said so; what comes by the link from now on ends the connection. */
void dv_cm_connected(struct dv_cm_id *id);
/* There will be no connection, as that event says. As with librdmacm, RDMA_CM_EVENT_REJECTED comes
 * with the queue pair in error: programs wait for their receives to be flushed. */
void dv_cm_not_connected(struct dv_cm_id *id, enum rdma_cm_event_type type, int status,
                         const struct dv_cm_message *message);
/* A word of that type to the other side. 0 or a negative errno. */
int dv_cm_say(struct dv_cm_id *id, enum dv_cm_type type);
