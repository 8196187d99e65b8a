/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/mw.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <sys/random.h>

#include "verbs_diwarp/graves.h"

/* A key's low byte is the program's (ibv_inc_rkey()), the rest that of the window. */
#define OWN_BITS 0xffffff00u

#define WINDOW_ACCESS                                                              \
    (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
     IBV_ACCESS_ZERO_BASED)

struct dv_mw {
    struct ibv_mw mw;
    struct diwarp_mr *core; /* NULL: it is not bound */
    struct dv_mr *region;   /* while bound: whose list it is in */
    struct dv_qp *qp;       /* of type 2, while bound: likewise */
    struct dv_mw *next_of_region, *next_of_qp;
};

static struct dv_mw *mw_of(struct ibv_mw *mw)
{
    return (struct dv_mw *)mw;
}

static int by_key(const void *a, const void *b)
{
    const uint32_t left = ((const struct dv_mw *)a)->core->stag;
    const uint32_t right = ((const struct dv_mw *)b)->core->stag;
    return left < right ? -1 : left > right;
}

/* ---- bound or not ---- */

static void unbind(struct dv_mw *mw)
{
    if (!mw->core)
        return;
    struct dv_mw **at = &mw->region->windows;
    while (*at != mw)
        at = &(*at)->next_of_region;
    *at = mw->next_of_region;
    for (at = mw->qp ? &mw->qp->windows : NULL; at && *at != mw;)
        at = &(*at)->next_of_qp;
    if (at)
        *at = mw->next_of_qp;
    if (mw->qp)
        tdelete(mw, &dv_root_of(mw->mw.pd)->windows, by_key);
    diwarp_dereg_mr(mw->core);
    mw->core = NULL;
    mw->qp = NULL;
}

/* Not bound so far. */
static void link_to(struct dv_mw *mw, struct dv_mr *mr, struct dv_qp *only)
{
    mw->region = mr;
    mw->next_of_region = mr->windows;
    mr->windows = mw;
    mw->qp = only;
    if (only) {
        mw->next_of_qp = only->windows;
        only->windows = mw;
    }
}

/* Only those of a queue pair are looked for by their keys. */
static bool enter_key(struct dv_mw *mw, const struct dv_qp *only)
{
    return !only || tsearch(mw, &dv_root_of(mw->mw.pd)->windows, by_key);
}

/* False: the region does not allow it, the key is taken, or there is no memory; a window of type 1
 * is bound as before. */
static bool bind_to(struct dv_mw *mw, struct dv_mr *mr, uint32_t rkey,
                    const struct ibv_mw_bind_info *info, struct dv_qp *only)
{
    struct diwarp_mr *core = diwarp_open_window(mr->core, rkey, info->addr, info->length,
                                                (int)(info->mw_access_flags & WINDOW_ACCESS), only);
    if (!core)
        return false;
    unbind(mw);
    mw->core = core;
    if (!enter_key(mw, only)) {
        diwarp_dereg_mr(core);
        mw->core = NULL;
        return false;
    }
    link_to(mw, mr, only);
    return true;
}

bool dv_mr_has_windows(struct dv_mr *mr)
{
    for (struct dv_mw *mw = mr->windows, *next; mw; mw = next) {
        next = mw->next_of_region;
        if (!mw->core->access)
            unbind(mw);
    }
    return mr->windows;
}

void dv_mw_leave(struct dv_qp *qp)
{
    while (qp->windows)
        unbind(qp->windows);
}

/* ---- requests ---- */

int dv_mw_check(const struct dv_qp *qp, const struct ibv_send_wr *wr)
{
    if (wr->opcode == IBV_WR_LOCAL_INV)
        return 0;
    const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
    const struct dv_pd *root = dv_root_of(qp->ex.qp_base.pd);
    const struct ibv_mw *mw = wr->bind_mw.mw;
    const struct ibv_context *context = qp->ex.qp_base.context;
    const bool good_mr =
        info->mr ? info->mr->context == context && dv_root_of(info->mr->pd) == root : !info->length;
    return mw && mw->context == context && good_mr && dv_root_of(mw->pd) == root &&
                   !(info->mw_access_flags & ~(unsigned)(WINDOW_ACCESS | IBV_ACCESS_LOCAL_WRITE))
               ? 0
               : EINVAL;
}

/* One that a peer has invalidated, or its program, may be bound anew. */
static bool is_bound(const struct dv_mw *mw)
{
    return mw->core && mw->core->access;
}

static bool rebind(struct dv_qp *qp, const struct ibv_send_wr *wr)
{
    const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
    struct dv_mw *mw = mw_of(wr->bind_mw.mw);
    struct dv_mr *mr = (struct dv_mr *)info->mr;
    const bool second = mw->mw.type == IBV_MW_TYPE_2;
    if ((info->length && !(mr->access & IBV_ACCESS_MW_BIND)) ||
        (second && (is_bound(mw) || !info->length)) || (wr->bind_mw.rkey ^ mw->mw.rkey) & OWN_BITS)
        return false;
    if (second || !info->length) /* what a peer has invalidated may have that key */
        unbind(mw);
    return !info->length || bind_to(mw, mr, wr->bind_mw.rkey, info, second ? qp : NULL);
}

/* Of type 2, and this queue pair's. */
static bool invalidate(struct dv_qp *qp, uint32_t rkey)
{
    struct diwarp_mr core = {.stag = rkey};
    const struct dv_mw wanted = {.core = &core};
    struct dv_mw **found = tfind(&wanted, &dv_root_of(qp->ex.qp_base.pd)->windows, by_key);
    if (!found || (*found)->qp != qp)
        return false;
    unbind(*found);
    return true;
}

enum ibv_wc_status dv_mw_execute(struct dv_qp *qp, const struct ibv_send_wr *wr)
{
    const bool done =
        wr->opcode == IBV_WR_BIND_MW ? rebind(qp, wr) : invalidate(qp, wr->invalidate_rkey);
    return done ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR;
}

/* ---- making ---- */

struct ibv_mw *dv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
        return dv_fail(EINVAL);
    struct dv_mw *mw = calloc(1, sizeof *mw);
    if (!mw)
        return dv_fail(ENOMEM);
    mw->mw = (struct ibv_mw){.context = pd->context, .pd = pd, .type = type};
    if (getrandom(&mw->mw.rkey, sizeof mw->mw.rkey, 0) != sizeof mw->mw.rkey) {
        free(mw);
        return dv_fail(EIO);
    }
    mw->mw.rkey |= 1u << 31; /* never 0 */
    dv_lock(dv_context_of(pd->context));
    ((struct dv_pd *)pd)->users++;
    dv_unlock(dv_context_of(pd->context));
    return &mw->mw;
}

int dv_dealloc_mw(struct ibv_mw *mw)
{
    dv_lock(dv_context_of(mw->context));
    unbind(mw_of(mw));
    ((struct dv_pd *)mw->pd)->users--;
    dv_unlock(dv_context_of(mw->context));
    dv_bury(mw, &mw->context);
    return 0;
}
