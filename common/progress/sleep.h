/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping in the kernel until the RNIC has work: for whoever polls, and for the helper. */
#pragma once

#include <stdint.h>

#include "common/include/diwarp_helper.h"
#include "common/base/heap.h"
#include "common/rnic/cq.h"

/* Makes the eventfd that wakes it; 0 or negative errno. */
int dw_sleeper_init(struct dw_sleeper *sleeper, struct diwarp_cq *cq);
void dw_sleeper_fini(struct dw_sleeper *sleeper);

/* Sleeps until a socket of the CQ is readable, a timer of the RNIC is due, or another thread makes
 * something due or calls dw_sleeper_wake(); for least_ns even if something is due already, and
 * longest_ns at most. It may wake for nothing. Without the device's lock. 0 or negative errno. */
int dw_sleep(struct dw_sleeper *sleeper, uint64_t least_ns, uint64_t longest_ns);
/* Whether such a socket is readable now. */
bool dw_sockets_readable(const struct diwarp_cq *cq);
/* For so long, or until dw_sleeper_wake(). */
void dw_sleep_deeply(struct dw_sleeper *sleeper, uint64_t ns);
/* From any thread; a sleeper that is awake does not sleep the next time. */
void dw_sleeper_wake(struct dw_sleeper *sleeper);
