/* SPDX-License-Identifier: BSD-3-Clause */
/* The device's lock: one for all it owns, taken by the public functions only, which may let others
 * in amid a long walk. */
#ifndef DW_LOCK_H
#define DW_LOCK_H

#include <time.h>

#include "common/rnic/device.h"

static inline void dw_lock(struct diwarp_device *device)
{
    if (device->attr.threaded)
        pthread_mutex_lock(&device->lock);
}

/* Wakes those for whom something is due that was not when they fell asleep. */
void dw_wake_sleepers(struct diwarp_device *device);

static inline void dw_unlock(struct diwarp_device *device)
{
    if (!device->attr.threaded)
        return;
    if (!dw_list_empty(&device->sleepers))
        dw_wake_sleepers(device);
    pthread_mutex_unlock(&device->lock);
}

/* Who unlocks and locks again at once would be first: others have to be woken up. */
static inline void dw_lock_pause(struct diwarp_device *device)
{
    const struct timespec shortest = {.tv_nsec = 1};
    dw_unlock(device);
    if (device->attr.threaded)
        nanosleep(&shortest, NULL);
    dw_lock(device);
}

#endif
