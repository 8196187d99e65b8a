/* SPDX-License-Identifier: BSD-3-Clause */
/* The run of a port. */
#ifndef DW_RUN_H
#define DW_RUN_H

#include "common/rnic/port.h"

/* The device's port, opened at first use; polls run it. As diwarp_create_qp(). */
int dw_run_get_port(struct diwarp_device *device, struct dw_port **port,
                    struct diwarp_diagnosis *why);

#endif
