/* SPDX-License-Identifier: BSD-3-Clause */
/* What an id's route field tells the program, as of RoCE: GIDs and one path. With the lock held. */
#pragma once

#include "verbs_diwarp/cm.h"

/* From own.gid. */
void dv_cm_route_from(struct dv_cm_id *id);
/* To that GID; what is known of it may change with the answer. */
void dv_cm_route_to(struct dv_cm_id *id, const uint8_t gid[16]);
/* There is a path between these two. */
void dv_cm_route_add_path(struct dv_cm_id *id);
