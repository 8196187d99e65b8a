/* SPDX-License-Identifier: BSD-3-Clause */
/* 64-bit atomic operations that peers ask for (RFC 7306 5). */
#pragma once

#include "common/wire/rdmap.h"

/* Executes a request on `target`, which has been checked and is aligned; atomic towards all
 * threads of this process. Returns what was there. */
uint64_t dw_atomic_execute(const struct dw_atomic_request *request, uint64_t *target);
