/* SPDX-License-Identifier: BSD-3-Clause */
/* A device with all the services there are. */
#pragma once

#include "common/rnic/device.h"

/* diwarp_open_device() with an environment; NULL: the real one. */
int dw_device_open(const struct diwarp_device_attr *attr, const struct dw_env *env,
                   struct diwarp_device **device, struct diwarp_diagnosis *why);
