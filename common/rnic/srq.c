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

/* What a message touches of an element: so many bytes of it, from `at` on. */
struct touched {
    uint32_t at, bytes;
};

/* Of `length` bytes, when *bytes of a message begin *skip bytes into them or behind them; both are
 * left for the next element. */
static struct touched touch(uint32_t length, size_t *skip, size_t *bytes)
{
    const uint32_t at = *skip < length ? (uint32_t)*skip : length;
    const uint32_t room = length - at, touched = *bytes < room ? (uint32_t)*bytes : room;
    *skip -= at;
    *bytes -= touched;
    return (struct touched){at, touched};
}

static void scatter(const struct dw_recv *recv, size_t skip, const uint8_t *data, size_t bytes)
{
    for (unsigned i = 0; i < recv->sge_count && bytes; i++) {
        const struct touched part = touch(recv->sge[i].sge.length, &skip, &bytes);
        if (part.bytes)
            dw_copy((uint8_t *)recv->sge[i].at + part.at, data, part.bytes);
        data += part.bytes;
    }
}

/* As scatter(), or a look whether that may be, of a receive not all of whose memory is registered.
 */
static bool scatter_checked(const struct diwarp_pd *pd, const struct dw_recv *recv, size_t skip,
                            const uint8_t *data, size_t bytes, bool copies)
{
    for (unsigned i = 0; i < recv->sge_count && bytes; i++) {
        const struct touched part = touch(recv->sge[i].sge.length, &skip, &bytes);
        struct dw_sge into = {.sge = recv->sge[i].sge};
        into.sge.addr += part.at;
        into.sge.length = part.bytes;
        if (!dw_pd_locate(pd, &into, 1))
            return false;
        if (copies && part.bytes)
            dw_copy(into.at, data, part.bytes);
        data += part.bytes;
    }
    return true;
}

enum ibv_wc_status dw_recv_place(const struct diwarp_pd *pd, struct dw_recv *recv, size_t skip,
                                 const uint8_t *data, size_t bytes)
{
    if (recv->checked != pd->deregistered && dw_pd_locate(pd, recv->sge, recv->sge_count))
        recv->checked = pd->deregistered;
    if (recv->checked == pd->deregistered)
        scatter(recv, skip, data, bytes);
    else if (!scatter_checked(pd, recv, skip, data, bytes, false)) /* all of it or nothing */
        return IBV_WC_LOC_PROT_ERR;
    else
        (void)scatter_checked(pd, recv, skip, data, bytes, true);
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
