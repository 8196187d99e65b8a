/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/rnic/srq.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/copy.h"
#include "common/include/diwarp_rc.h"

/* Never a count of deregistrations. */
#define NEVER UINT64_MAX

int dw_recv_push(struct dw_ring *recvs, uint32_t max, uint32_t max_sge, struct diwarp_pd *pd,
                 const struct ibv_recv_wr *wr)
{
    uint64_t total = 0;
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > max_sge)
        return -EINVAL;
    for (int i = 0; i < wr->num_sge; i++)
        total += wr->sg_list[i].length;
    if (total > UINT32_MAX)
        return -EMSGSIZE;
    struct dw_recv *recv = dw_ring_push(recvs, dw_recv_bytes(max_sge), max);
    if (!recv)
        return -ENOMEM;
    *recv = (struct dw_recv){
        .wr_id = wr->wr_id, .bytes = (uint32_t)total, .sge_count = (uint32_t)wr->num_sge};
    for (uint32_t i = 0; i < recv->sge_count; i++)
        recv->sge[i].sge = wr->sg_list[i];
    recv->checked = dw_pd_locate(pd, recv->sge, recv->sge_count) ? pd->deregistered : NEVER;
    pd->device->recvs_posted++;
    return 0;
}

void dw_recv_set(struct dw_recv *recv, const struct diwarp_pd *pd, uint64_t wr_id,
                 const struct ibv_sge *list, const struct iovec *iov, uint32_t sge_count,
                 uint32_t bytes)
{
    *recv = (struct dw_recv){
        .wr_id = wr_id, .checked = pd->deregistered, .bytes = bytes, .sge_count = sge_count};
    for (uint32_t i = 0; i < sge_count; i++)
        recv->sge[i] = (struct dw_sge){list[i], iov[i].iov_base};
}

static void scatter(const struct dw_recv *recv, size_t skip, const uint8_t *data, size_t left)
{
    for (unsigned i = 0; i < recv->sge_count && left; i++) {
        const uint32_t length = recv->sge[i].sge.length;
        const size_t before = skip < length ? skip : length;
        const size_t room = length - before, bytes = left < room ? left : room;
        if (bytes)
            dw_copy((uint8_t *)recv->sge[i].at + before, data, bytes);
        skip -= before;
        data += bytes;
        left -= bytes;
    }
}

enum ibv_wc_status dw_recv_place(const struct diwarp_pd *pd, struct dw_recv *recv, size_t skip,
                                 const uint8_t *data, size_t bytes)
{
    if (!skip && !bytes) /* no memory is touched: a message without a payload */
        return IBV_WC_SUCCESS;
    if (recv->checked != pd->deregistered && !dw_pd_locate(pd, recv->sge, recv->sge_count))
        return IBV_WC_LOC_PROT_ERR;
    recv->checked = pd->deregistered;
    scatter(recv, skip, data, bytes);
    return IBV_WC_SUCCESS;
}

/* As it was posted; wr->sg_list has room for it. */
static void get_wr(const struct dw_recv *recv, struct ibv_recv_wr *wr)
{
    wr->wr_id = recv->wr_id;
    wr->num_sge = (int)recv->sge_count;
    for (uint32_t i = 0; i < recv->sge_count; i++)
        wr->sg_list[i] = recv->sge[i].sge;
}

void dw_srq_return(struct diwarp_srq *srq, const struct dw_recv *recv)
{
    struct ibv_sge sges[DW_SRQ_MAX_SGE];
    struct ibv_recv_wr wr = {.sg_list = sges};
    get_wr(recv, &wr);
    (void)dw_recv_push(&srq->recvs, UINT32_MAX, srq->max_sge, srq->pd, &wr);
}

/* ---- the API ---- */

struct diwarp_srq *diwarp_create_srq(struct diwarp_pd *pd, unsigned max_wr, unsigned max_sge)
{
    struct diwarp_srq *srq = max_sge <= DW_SRQ_MAX_SGE ? calloc(1, sizeof *srq) : NULL;
    if (srq)
        *srq = (struct diwarp_srq){.pd = pd, .max_wr = max_wr, .max_sge = max_sge};
    return srq;
}

void diwarp_destroy_srq(struct diwarp_srq *srq)
{
    dw_ring_fini(&srq->recvs);
    free(srq);
}

void diwarp_clear_srq(struct diwarp_srq *srq)
{
    dw_lock(srq->pd->device);
    dw_ring_fini(&srq->recvs);
    dw_unlock(srq->pd->device);
}

int diwarp_post_srq_recv(struct diwarp_srq *srq, const struct ibv_recv_wr *wr)
{
    dw_lock(srq->pd->device);
    int rc = dw_recv_push(&srq->recvs, srq->max_wr, srq->max_sge, srq->pd, wr);
    dw_unlock(srq->pd->device);
    return rc;
}

int diwarp_take_srq_recv(struct diwarp_srq *srq, struct ibv_recv_wr *wr)
{
    dw_lock(srq->pd->device);
    const bool any = srq->recvs.count;
    if (any) {
        get_wr(dw_ring_at(&srq->recvs, dw_recv_bytes(srq->max_sge), 0), wr);
        dw_ring_pop(&srq->recvs, 1);
    }
    dw_unlock(srq->pd->device);
    return any ? 0 : -EAGAIN;
}
