/* SPDX-License-Identifier: BSD-3-Clause */
/* Gather lists, as a protection domain allows them. */
#include "common/rnic/pd.h"

#include <errno.h>

int64_t dw_pd_gather(const struct diwarp_pd *pd, const struct ibv_sge *list, int count, int access,
                     uint32_t max_bytes, struct iovec iov[DW_MAX_SGE])
{
    if (count < 0 || count > DW_MAX_SGE)
        return -EINVAL;
    uint64_t total = 0;
    for (int i = 0; i < count; i++) {
        const struct ibv_sge *sge = &list[i];
        struct dw_region *region;
        if (sge->lkey && dw_mr_check(&pd->mrs, sge->lkey, sge->addr, sge->length, access, &region))
            return -EACCES;
        iov[i] = (struct iovec){.iov_base = (void *)(uintptr_t)sge->addr, .iov_len = sge->length};
        total += sge->length;
    }
    return total > max_bytes ? -EMSGSIZE : (int64_t)total;
}
