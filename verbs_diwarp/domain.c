/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/domain.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs_diwarp/graves.h"

struct ibv_td *dv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    if (attr->comp_mask)
        return dv_fail(EINVAL);
    struct dv_td *td = calloc(1, sizeof *td);
    if (!td)
        return dv_fail(ENOMEM);
    td->td.context = context;
    dv_lock(dv_context_of(context));
    dv_context_of(context)->users++;
    dv_unlock(dv_context_of(context));
    return &td->td;
}

int dv_dealloc_td(struct ibv_td *ibv_td)
{
    struct dv_td *td = (struct dv_td *)ibv_td;
    struct dv_context *context = dv_context_of(ibv_td->context);
    dv_lock(context);
    const bool busy = td->users;
    if (!busy)
        context->users--;
    dv_unlock(context);
    if (busy)
        return EBUSY;
    free(td);
    return 0;
}

struct ibv_pd *dv_alloc_parent_domain(struct ibv_context *context,
                                      struct ibv_parent_domain_init_attr *attr)
{
    const uint32_t known =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    if (attr->comp_mask & ~known)
        return dv_fail(EOPNOTSUPP);
    if (!attr->pd || attr->pd->context != context || (attr->td && attr->td->context != context) ||
        (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS && (!attr->alloc || !attr->free)))
        return dv_fail(EINVAL);
    struct dv_pd *domain = calloc(1, sizeof *domain);
    if (!domain)
        return dv_fail(ENOMEM);
    domain->pd.context = context;
    domain->parent = dv_root_of(attr->pd);
    domain->core = domain->parent->core;
    domain->td = (struct dv_td *)attr->td;
    dv_lock(dv_context_of(context));
    domain->parent->users++;
    if (domain->td)
        domain->td->users++;
    dv_unlock(dv_context_of(context));
    return &domain->pd;
}

int dv_dealloc_parent_domain(struct dv_pd *domain)
{
    struct dv_context *context = dv_context_of(domain->pd.context);
    dv_lock(context);
    const bool busy = domain->users;
    if (!busy)
        domain->parent->users--;
    if (!busy && domain->td)
        domain->td->users--;
    dv_unlock(context);
    if (busy)
        return EBUSY;
    dv_bury(domain, &domain->pd.context);
    return 0;
}
