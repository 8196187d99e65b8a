/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/graves.h"

#include <errno.h>
#include <stdlib.h>

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    (void)qp;
    *bad = wr;
    return EINVAL;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)qp;
    *bad = wr;
    return EINVAL;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)srq;
    *bad = wr;
    return EINVAL;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    (void)cq;
    (void)n;
    (void)wc;
    return -EINVAL;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    (void)cq;
    (void)solicited_only;
    return EINVAL;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    (void)pd;
    (void)type;
    return dv_fail(EINVAL);
}

static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    (void)qp;
    (void)mw;
    (void)bind;
    return EINVAL;
}

static int dealloc_mw(struct ibv_mw *mw)
{
    (void)mw;
    return EINVAL;
}

static int free_dm(struct ibv_dm *dm)
{
    (void)dm;
    return EINVAL;
}

static struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset,
                                size_t length, unsigned access)
{
    (void)pd;
    (void)dm;
    (void)offset;
    (void)length;
    (void)access;
    return dv_fail(EINVAL);
}

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                     struct ibv_sge *sges, uint32_t count)
{
    (void)pd;
    (void)advice;
    (void)flags;
    (void)sges;
    (void)count;
    return EINVAL;
}

struct dv_context dv_gone = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .verbs.sz = sizeof dv_gone.verbs,
    .verbs.free_dm = free_dm,
    .verbs.reg_dm_mr = reg_dm_mr,
    .verbs.advise_mr = advise_mr,
    .verbs.context = {.ops = {.post_send = post_send,
                              .post_recv = post_recv,
                              .post_srq_recv = post_srq_recv,
                              .poll_cq = poll_cq,
                              .req_notify_cq = req_notify_cq,
                              .alloc_mw = alloc_mw,
                              .bind_mw = bind_mw,
                              .dealloc_mw = dealloc_mw},
                      .cmd_fd = -1,
                      .async_fd = -1,
                      .abi_compat = __VERBS_ABI_IS_EXTENDED},
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *graves[DV_GRAVES];
static unsigned next;

void dv_bury(void *object, struct ibv_context **context)
{
    pthread_mutex_lock(&mutex);
    dv_gone.verbs.context.device = dv_device;
    if (context)
        *context = &dv_gone.verbs.context;
    free(graves[next]);
    graves[next] = object;
    next = (next + 1) % DV_GRAVES;
    pthread_mutex_unlock(&mutex);
}
