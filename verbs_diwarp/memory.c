/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains and memory regions. */
#include "verbs_diwarp/memory.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "verbs_diwarp/domain.h"
#include "verbs_diwarp/graves.h"
#include "verbs_diwarp/mapped.h"
#include "verbs_diwarp/mw.h"

static struct dv_pd *pd_of(struct ibv_pd *pd)
{
    return (struct dv_pd *)pd;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ibv_context)
{
    if (!dv_is_ours(ibv_context))
        return DV_REAL(ibv_alloc_pd)(ibv_context);
    struct dv_context *context = dv_context_of(ibv_context);
    struct dv_pd *pd = calloc(1, sizeof *pd);
    if (!pd || !(pd->core = diwarp_alloc_pd(context->device))) {
        free(pd);
        return dv_fail(ENOMEM);
    }
    pd->pd.context = ibv_context;
    dv_lock(context);
    context->users++;
    dv_unlock(context);
    return &pd->pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    if (!dv_is_ours(pd->context))
        return DV_REAL(ibv_dealloc_pd)(pd);
    if (dv_is_gone(pd->context))
        return EINVAL;
    if (pd_of(pd)->parent)
        return dv_dealloc_parent_domain(pd_of(pd));
    struct dv_context *context = dv_context_of(pd->context);
    dv_lock(context);
    const bool busy = pd_of(pd)->users;
    if (!busy)
        context->users--;
    dv_unlock(context);
    if (busy)
        return EBUSY;
    diwarp_dealloc_pd(pd_of(pd)->core);
    dv_bury(pd, &pd->context);
    return 0;
}

static int by_key(const void *a, const void *b)
{
    const uint32_t left = ((const struct ibv_mr *)a)->lkey;
    const uint32_t right = ((const struct ibv_mr *)b)->lkey;
    return left < right ? -1 : left > right;
}

/* The region that it is memory of; NULL: none. */
static const struct diwarp_mr *region_of(const struct ibv_pd *pd, const struct ibv_sge *sge)
{
    const struct ibv_mr wanted = {.lkey = sge->lkey};
    struct dv_mr *const *found = tfind(&wanted, &dv_root_of(pd)->regions, by_key);
    const struct diwarp_mr *mr = found ? (*found)->core : NULL;
    const uint64_t offset = mr ? sge->addr - mr->iova : 0;
    return mr && offset <= mr->length && sge->length <= mr->length - offset ? mr : NULL;
}

static void *at(const struct diwarp_mr *mr, uint64_t addr)
{
    return (uint8_t *)mr->addr + (addr - mr->iova);
}

void *dv_memory_at(const struct ibv_pd *pd, const struct ibv_sge *sge)
{
    if (!dv_root_of(pd)->translated)
        return (void *)(uintptr_t)sge->addr;
    const struct diwarp_mr *mr = region_of(pd, sge);
    return mr ? at(mr, sge->addr) : NULL;
}

bool dv_are_registered(const struct ibv_pd *pd, const struct ibv_sge *sges, int count)
{
    for (int i = 0; i < count; i++)
        if (sges[i].length && !region_of(pd, &sges[i]))
            return false;
    return true;
}

bool dv_may_write(const struct ibv_pd *pd, const struct ibv_sge *sges, int count, void **places)
{
    for (int i = 0; i < count; i++) {
        const struct diwarp_mr *mr = sges[i].length ? region_of(pd, &sges[i]) : NULL;
        if (sges[i].length && (!mr || !(mr->access & IBV_ACCESS_LOCAL_WRITE)))
            return false;
        if (places)
            places[i] = mr ? at(mr, sges[i].addr) : NULL;
    }
    return true;
}

#define DIWARP_ACCESS                                                            \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)

static bool is_access(unsigned access)
{
    const unsigned writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    return !(access & ~DV_KNOWN_ACCESS) && (!(access & writes) || access & IBV_ACCESS_LOCAL_WRITE);
}

static bool is_translated(const struct dv_mr *mr)
{
    return mr->core->iova != (uintptr_t)mr->core->addr;
}

static uint64_t iova_of(uint64_t asked, unsigned access)
{
    return access & IBV_ACCESS_ZERO_BASED ? 0 : asked;
}

/* With the context's lock held. */
static bool enter(struct dv_mr *mr)
{
    if (!tsearch(&mr->mr, &dv_root_of(mr->mr.pd)->regions, by_key))
        return false;
    pd_of(mr->mr.pd)->users++;
    if (mr->dm)
        mr->dm->users++;
    if (is_translated(mr))
        dv_root_of(mr->mr.pd)->translated++;
    return true;
}

static void leave(struct dv_mr *mr)
{
    tdelete(&mr->mr, &dv_root_of(mr->mr.pd)->regions, by_key);
    pd_of(mr->mr.pd)->users--;
    if (mr->dm)
        mr->dm->users--;
    if (is_translated(mr))
        dv_root_of(mr->mr.pd)->translated--;
}

/* Of memory that is there. */
static struct ibv_mr *reg(struct ibv_pd *pd, struct dv_dm *dm, void *addr, size_t length,
                          uint64_t iova, unsigned access)
{
    struct dv_mr *mr = calloc(1, sizeof *mr);
    if (!mr)
        return dv_fail(ENOMEM);
    mr->access = access;
    mr->dm = dm;
    mr->core = diwarp_reg_mr_iova(pd_of(pd)->core, addr, length, iova_of(iova, access),
                                  (int)(access & DIWARP_ACCESS));
    if (!mr->core) {
        free(mr);
        return NULL;
    }
    mr->mr = (struct ibv_mr){.context = pd->context,
                             .pd = pd,
                             .addr = dm ? NULL : addr,
                             .length = length,
                             .lkey = mr->core->stag,
                             .rkey = mr->core->stag};
    dv_lock(dv_context_of(pd->context));
    const bool kept = enter(mr);
    dv_unlock(dv_context_of(pd->context));
    if (kept)
        return &mr->mr;
    diwarp_dereg_mr(mr->core);
    free(mr);
    return dv_fail(ENOMEM);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                             unsigned access)
{
    if (dv_is_gone(pd->context) || !is_access(access))
        return dv_fail(EINVAL);
    if (!dv_is_mapped(addr, length, access & IBV_ACCESS_LOCAL_WRITE))
        return dv_fail(EFAULT);
    return reg(pd, NULL, addr, length, iova, access);
}

struct ibv_mr *dv_reg_dm(struct ibv_pd *pd, struct dv_dm *dm, uint64_t offset, size_t length,
                         unsigned access)
{
    if (!is_access(access))
        return dv_fail(EINVAL);
    return reg(pd, dm, dm->memory + offset, length, 0, access);
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    if (!dv_is_ours(pd->context))
        return DV_REAL(ibv_reg_mr)(pd, addr, length, access);
    return reg_mr(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

#undef ibv_reg_mr_iova
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                               int access)
{
    if (!dv_is_ours(pd->context))
        return DV_REAL(ibv_reg_mr_iova)(pd, addr, length, iova, access);
    return reg_mr(pd, addr, length, iova, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned int access)
{
    if (!dv_is_ours(pd->context))
        return DV_REAL(ibv_reg_mr_iova2)(pd, addr, length, iova, access);
    return reg_mr(pd, addr, length, iova, access);
}

/* ---- pages in advance ---- */

static bool takes_advice(const struct ibv_pd *pd, enum ibv_advise_mr_advice advice,
                         const struct ibv_sge *sge)
{
    const bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    const struct diwarp_mr *mr = sge->length ? region_of(pd, sge) : NULL;
    return mr && (!write || mr->access & IBV_ACCESS_LOCAL_WRITE) &&
           (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT ||
            dv_is_mapped(at(mr, sge->addr), sge->length, write));
}

int dv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                 struct ibv_sge *sges, uint32_t count)
{
    bool all = true;
    if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || !count)
        return EINVAL;
    if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
        advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
        return ENOTSUP;
    dv_lock(dv_context_of(pd->context));
    for (uint32_t i = 0; i < count; i++)
        all = takes_advice(pd, advice, &sges[i]) && all;
    dv_unlock(dv_context_of(pd->context));
    return all ? 0 : EFAULT;
}

/* ---- anew ---- */

/* Where libibverbs finds fault with it: a positive errno. */
static int check_rereg(const struct ibv_mr *mr, int flags, const struct ibv_pd *pd,
                       const void *addr, size_t length, int access)
{
    const struct dv_mr *own = (const struct dv_mr *)mr;
    const bool writes = (flags & IBV_REREG_MR_CHANGE_ACCESS ? (unsigned)access : own->access) &
                        IBV_ACCESS_LOCAL_WRITE;
    if (dv_is_gone(mr->context) || !flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED ||
        (flags & IBV_REREG_MR_CHANGE_PD && (!pd || pd->context != mr->context)) ||
        (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!addr || !length || own->dm)) ||
        (flags & IBV_REREG_MR_CHANGE_ACCESS ? !is_access((unsigned)access) : access != 0))
        return EINVAL;
    const bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
    return dv_is_mapped(moves ? addr : own->core->addr, moves ? length : mr->length, writes)
               ? 0
               : EFAULT;
}

/* In the tree of the new domain, out of the other. False: no memory. */
static bool move_to(struct dv_mr *mr, struct ibv_pd *pd)
{
    struct dv_pd *from = dv_root_of(mr->mr.pd), *to = dv_root_of(pd);
    if (from != to && !tsearch(&mr->mr, &to->regions, by_key))
        return false;
    if (from != to)
        tdelete(&mr->mr, &from->regions, by_key);
    from->translated -= is_translated(mr);
    to->translated += is_translated(mr);
    pd_of(mr->mr.pd)->users--;
    pd_of(pd)->users++;
    mr->mr.pd = pd;
    return true;
}

/* To the memory `to` tells. 0 or a positive errno; the region is as before then. */
static int rereg(struct dv_mr *mr, struct ibv_pd *pd, const struct diwarp_mr *to, unsigned access)
{
    struct ibv_pd *before = mr->mr.pd;
    if (dv_mr_has_windows(mr))
        return EBUSY;
    if (!move_to(mr, pd))
        return ENOMEM;
    const bool was_translated = is_translated(mr);
    const int rc = -diwarp_rereg_mr(mr->core, pd_of(pd)->core, to->addr, to->length, to->iova,
                                    (int)(access & DIWARP_ACCESS));
    if (rc) { /* there is room where it was */
        (void)move_to(mr, before);
        return rc;
    }
    dv_root_of(pd)->translated += is_translated(mr);
    dv_root_of(pd)->translated -= was_translated;
    mr->mr.addr = mr->dm ? NULL : to->addr;
    mr->mr.length = to->length;
    mr->access = access;
    return 0;
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
                 int access)
{
    if (!dv_is_ours(mr->context))
        return DV_REAL(ibv_rereg_mr)(mr, flags, pd, addr, length, access);
    int rc = check_rereg(mr, flags, pd, addr, length, access);
    if (!rc) {
        struct dv_mr *own = (struct dv_mr *)mr;
        dv_lock(dv_context_of(mr->context));
        const unsigned rights = flags & IBV_REREG_MR_CHANGE_ACCESS ? (unsigned)access : own->access;
        const struct diwarp_mr moved = {
            .addr = addr, .length = length, .iova = iova_of((uintptr_t)addr, rights)};
        rc = rereg(own, flags & IBV_REREG_MR_CHANGE_PD ? pd : mr->pd,
                   flags & IBV_REREG_MR_CHANGE_TRANSLATION ? &moved : own->core, rights);
        dv_unlock(dv_context_of(mr->context));
    }
    if (rc)
        errno = rc;
    return rc ? IBV_REREG_MR_ERR_INPUT : 0;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    if (!dv_is_ours(mr->context))
        return DV_REAL(ibv_dereg_mr)(mr);
    if (dv_is_gone(mr->context))
        return EINVAL;
    dv_lock(dv_context_of(mr->context)); /* no GRH is being written to it */
    const bool busy = dv_mr_has_windows((struct dv_mr *)mr);
    if (!busy) {
        leave((struct dv_mr *)mr);
        diwarp_dereg_mr(((struct dv_mr *)mr)->core);
    }
    dv_unlock(dv_context_of(mr->context));
    if (busy)
        return EBUSY;
    dv_bury(mr, &mr->context);
    return 0;
}
