/* SPDX-License-Identifier: BSD-3-Clause */
/* The product's environment. Alone in its file so that a test build can link another one. */
#include "common/open.h"

int diwarp_open_device(const struct diwarp_device_attr *attr, struct diwarp_device **device,
                       struct diwarp_diagnosis *why)
{
    return dw_device_open(attr, NULL, device, why);
}
