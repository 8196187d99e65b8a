/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains. */
#ifndef DW_PD_H
#define DW_PD_H

#include "common/base/list.h"
#include "common/mem/mr.h"
#include "common/rnic/device.h"

#define DW_MAX_SGE 4

struct diwarp_pd {
    struct diwarp_device *device;
    struct dw_mr_table mrs;
    struct dw_list qps;
};

/* The gather list of a request, checked; returns its bytes, -EINVAL, -EACCES or -EMSGSIZE. Key 0 is
 * the process's own memory, unregistered. */
int64_t dw_pd_gather(const struct diwarp_pd *pd, const struct ibv_sge *list, int count, int access,
                     uint32_t max_bytes, struct iovec iov[DW_MAX_SGE]);

#endif
