/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of diwarp_verbs.h. */
#include "verbs_diwarp/diwarp_verbs.h"

#include <arpa/inet.h>
#include <stdlib.h>

#include "verbs_diwarp/qp.h"
#include "verbs_diwarp/query.h"
#include "verbs_diwarp/rdma.h"
#include "common/include/diwarp_ud.h"

struct ibv_qp *diwarp_verbs_create_rd_qp(struct ibv_context *context,
                                         struct ibv_qp_init_attr_ex *attr)
{
    if (!dv_is_ours(context))
        return dv_fail(EINVAL);
    struct ibv_qp_init_attr_ex rd = *attr;
    rd.qp_type = IBV_QPT_DRIVER;
    struct ibv_qp *qp = dv_create_qp(context, &rd);
    if (qp)
        attr->cap = rd.cap;
    return qp;
}

/* With its context's lock held, of one that reads and has records; NULL: it does not. */
static struct dv_qp *lock_rdma(struct ibv_qp *qp)
{
    if (!dv_is_ours(qp->context))
        return NULL;
    dv_lock(dv_context_of(qp->context));
    if (dv_qp_of(qp)->rdma && dv_qp_of(qp)->core)
        return dv_qp_of(qp);
    dv_unlock(dv_context_of(qp->context));
    return NULL;
}

static int unlock(const struct ibv_qp *qp, int rc)
{
    dv_unlock(dv_context_of(qp->context));
    return rc;
}

int diwarp_verbs_set_record_time(struct ibv_qp *ibv_qp, uint64_t record_time_ns)
{
    const struct dv_qp *qp = lock_rdma(ibv_qp);
    if (!qp)
        return EINVAL;
    diwarp_set_record_time(qp->core, record_time_ns);
    return unlock(ibv_qp, 0);
}

int diwarp_verbs_set_read_time(struct ibv_qp *ibv_qp, uint64_t read_time_ns)
{
    const struct dv_qp *qp = lock_rdma(ibv_qp);
    if (!qp)
        return EINVAL;
    diwarp_set_read_time(qp->core, read_time_ns);
    return unlock(ibv_qp, 0);
}

int diwarp_verbs_query_record(struct ibv_qp *ibv_qp, uint64_t handle,
                              struct diwarp_verbs_record *record)
{
    const struct dv_qp *qp = lock_rdma(ibv_qp);
    const struct dv_record *found = qp ? dv_rdma_find_record(qp->rdma, handle) : NULL;
    struct diwarp_record_info info;
    if (!found)
        return qp ? unlock(ibv_qp, EINVAL) : EINVAL;
    diwarp_query_record(found->core, &info);
    *record = (struct diwarp_verbs_record){.src_qp = found->src_qp,
                                           .addr = info.addr,
                                           .length = info.length,
                                           .valid_bytes = info.valid_bytes};
    record->gid = dv_gid_of_source(dv_context_of(ibv_qp->context), info.src, info.src_ip);
    return unlock(ibv_qp, 0);
}

/* diwarp's ranges are the same. */
_Static_assert(sizeof(struct diwarp_verbs_range) == sizeof(struct diwarp_range) &&
                   offsetof(struct diwarp_verbs_range, end) == offsetof(struct diwarp_range, end),
               "ranges are handed on as they are");

int diwarp_verbs_record_ranges(struct ibv_qp *ibv_qp, uint64_t handle,
                               struct diwarp_verbs_range *ranges, unsigned n, unsigned *count)
{
    const struct dv_qp *qp = lock_rdma(ibv_qp);
    const struct dv_record *found = qp ? dv_rdma_find_record(qp->rdma, handle) : NULL;
    if (found)
        *count = diwarp_record_ranges(found->core, (struct diwarp_range *)(void *)ranges, n);
    return qp ? unlock(ibv_qp, found ? 0 : EINVAL) : EINVAL;
}

int diwarp_verbs_release_record(struct ibv_qp *ibv_qp, uint64_t handle)
{
    const struct dv_qp *qp = lock_rdma(ibv_qp);
    struct dv_record *found = qp ? dv_rdma_find_record(qp->rdma, handle) : NULL;
    if (found)
        dv_rdma_release(qp->rdma, found);
    return qp ? unlock(ibv_qp, found ? 0 : EINVAL) : EINVAL;
}

int diwarp_verbs_query_read(struct ibv_qp *ibv_qp, uint64_t wr_id, struct diwarp_verbs_read *read)
{
    const struct dv_qp *qp = lock_rdma(ibv_qp);
    if (!qp)
        return EINVAL;
    const struct dv_read *found = dv_rdma_find_read(qp->rdma, wr_id);
    struct diwarp_read_info info;
    int rc = ENOENT;
    if (found && !(rc = -diwarp_query_read(qp->core, found->core_id, &info)))
        *read = (struct diwarp_verbs_read){
            .length = info.length, .valid_bytes = info.valid_bytes, .active = info.active};
    return unlock(ibv_qp, rc);
}

int diwarp_verbs_read_ranges(struct ibv_qp *ibv_qp, uint64_t wr_id,
                             struct diwarp_verbs_range *ranges, unsigned n, unsigned *count)
{
    const struct dv_qp *qp = lock_rdma(ibv_qp);
    if (!qp)
        return EINVAL;
    const struct dv_read *found = dv_rdma_find_read(qp->rdma, wr_id);
    if (found)
        *count =
            diwarp_read_ranges(qp->core, found->core_id, (struct diwarp_range *)(void *)ranges, n);
    return unlock(ibv_qp, found ? 0 : ENOENT);
}
