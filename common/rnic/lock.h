/* SPDX-License-Identifier: BSD-3-Clause */
/* The device's lock: one for all it owns, taken by the public functions only. */
#ifndef DW_LOCK_H
#define DW_LOCK_H

#include "common/rnic/device.h"

static inline void dw_lock(struct diwarp_device *device)
{
    if (device->attr.threaded)
        pthread_mutex_lock(&device->lock);
}

static inline void dw_unlock(struct diwarp_device *device)
{
    if (device->attr.threaded)
        pthread_mutex_unlock(&device->lock);
}

#endif
