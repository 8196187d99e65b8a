/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of services: the only place that names them all. */
#include "common/open.h"

#include "common/rd/rd.h"
#include "common/ud/ud.h"

static const struct dw_service *const services[] = {
    [DIWARP_QPT_UD] = &dw_ud_service,
    [DIWARP_QPT_RD] = &dw_rd_service,
    NULL,
};

int dw_device_open(const struct diwarp_device_attr *attr, const struct dw_env *env,
                   struct diwarp_device **device, struct diwarp_diagnosis *why)
{
    return dw_device_create(attr, env, services, device, why);
}
