/* SPDX-License-Identifier: BSD-3-Clause */
/* What tells whether two processes share a loopback interface. */
#ifndef DW_HOST_ID_H
#define DW_HOST_ID_H

#include <stdint.h>

/* See DW_HOST_ID_LOOKS. */
uint64_t dw_host_id(void);

#endif
