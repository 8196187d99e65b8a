/* SPDX-License-Identifier: BSD-3-Clause */
/* UD as the core sees it. */
#ifndef DW_UD_SERVICE_H
#define DW_UD_SERVICE_H

#include "common/rnic/service.h"

extern const struct dw_service dw_ud_service;

#endif
