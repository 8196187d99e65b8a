/* SPDX-License-Identifier: BSD-3-Clause */
/* Which changes of a queue pair's state there are, and with which attributes. */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>

/* InfiniBand 11.2.5.2, table 92; ibv_modify_qp(3). */
bool dv_states_allow(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
                     int attr_mask);
