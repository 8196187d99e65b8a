/* SPDX-License-Identifier: BSD-3-Clause */
/* Accounts of memory, as the services fill them. */
#ifndef DW_RNIC_MEMORY_H
#define DW_RNIC_MEMORY_H

#include "common/base/list.h"
#include "common/base/map.h"
#include "common/include/diwarp.h"

/* Of a list whose members are of so many bytes each. */
uint64_t dw_memory_of_list(const struct dw_list *head, uint64_t bytes);
/* Its slots. */
uint64_t dw_memory_of_map(const struct dw_map *map);

#endif
