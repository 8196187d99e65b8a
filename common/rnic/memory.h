/* SPDX-License-Identifier: BSD-3-Clause */
/* Accounts of memory, as the services fill them. */
#ifndef DW_RNIC_MEMORY_H
#define DW_RNIC_MEMORY_H

#include "common/include/diwarp.h"
#include "common/llp/llp.h"

/* The sockets of an LLP or a stream. */
void dw_memory_add_sockets(const struct dw_llp_memory *llp, struct diwarp_memory *memory);

#endif
