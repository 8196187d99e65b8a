/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains, and the memory regions registered in them. */
#include <errno.h>
#include <stdlib.h>

#include "common/rnic/lock.h"
#include "common/rnic/qp.h"

struct diwarp_pd *diwarp_alloc_pd(struct diwarp_device *device)
{
    struct diwarp_pd *pd = calloc(1, sizeof *pd);
    if (!pd)
        return NULL;
    pd->device = device;
    dw_mr_table_init(&pd->mrs, dw_device_random(device));
    dw_list_init(&pd->qps);
    return pd;
}

void diwarp_dealloc_pd(struct diwarp_pd *pd)
{
    dw_mr_table_fini(&pd->mrs);
    free(pd);
}

static uint64_t random_of(void *arg)
{
    return dw_device_random(arg);
}

struct diwarp_mr *diwarp_reg_mr(struct diwarp_pd *pd, void *addr, size_t length, int access)
{
    struct diwarp_mr *mr = NULL;
    dw_lock(pd->device);
    int rc = dw_mr_register(&pd->mrs, addr, length, access, random_of, pd->device, &mr);
    dw_unlock(pd->device);
    if (rc) {
        errno = -rc;
        return NULL;
    }
    mr->pd = pd;
    return mr;
}

void diwarp_bind_mr(struct diwarp_mr *mr, struct diwarp_name peer)
{
    struct dw_region *region = dw_container(mr, struct dw_region, mr);
    dw_lock(mr->pd->device);
    region->peer = dw_name_key(peer);
    region->bound = true;
    dw_unlock(mr->pd->device);
}

void diwarp_dereg_mr(struct diwarp_mr *mr)
{
    struct diwarp_pd *pd = mr->pd;
    const struct dw_region *region = dw_container(mr, struct dw_region, mr);
    dw_lock(pd->device);
    dw_list_foreach (it, &pd->qps) {
        struct diwarp_qp *qp = dw_container(it, struct diwarp_qp, pd_link);
        if (region->records && qp->service->on_deregister)
            qp->service->on_deregister(qp, region);
    }
    dw_mr_deregister(&pd->mrs, mr);
    dw_unlock(pd->device);
}
