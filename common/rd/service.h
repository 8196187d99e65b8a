/* SPDX-License-Identifier: BSD-3-Clause */
/* RD as the core sees it. */
#ifndef DW_RD_SERVICE_H
#define DW_RD_SERVICE_H

#include "common/rnic/service.h"

extern const struct dw_service dw_rd_service;

#endif
