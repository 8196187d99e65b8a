/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/wr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_diwarp/post.h"

/* Requests between ibv_wr_start() and ibv_wr_complete() or _abort(), which are a critical section
 * (ibv_wr_post(3)). */
struct dv_builder {
    pthread_mutex_t mutex;
    struct dv_send_wr *wrs; /* `room` of them, `count` used */
    struct ibv_sge *sges;   /* DV_MAX_SGE for each */
    uint8_t *inlined;       /* cap.max_inline_data for each */
    uint32_t room, count;
    int error;
};

/* Of queue pairs that were destroyed. */
static struct dv_builder of_gone = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct dv_builder *builder_of(struct ibv_qp_ex *ex)
{
    struct dv_builder *builder = dv_qp_of(&ex->qp_base)->builder;
    return builder ? builder : &of_gone;
}

static void start(struct ibv_qp_ex *ex)
{
    struct dv_builder *builder = builder_of(ex);
    pthread_mutex_lock(&builder->mutex);
    builder->count = 0;
    builder->error = builder == &of_gone ? EINVAL : 0;
}

static void abort_all(struct ibv_qp_ex *ex)
{
    pthread_mutex_unlock(&builder_of(ex)->mutex);
}

static struct ibv_send_wr *current(struct ibv_qp_ex *ex)
{
    struct dv_builder *builder = builder_of(ex);
    return builder->count ? &builder->wrs[builder->count - 1].wr : NULL;
}

static void begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, __be32 imm_data)
{
    struct dv_builder *builder = builder_of(ex);
    if (builder->count == builder->room) {
        builder->error = builder->error ? builder->error : ENOMEM;
        return;
    }
    struct ibv_send_wr *before = current(ex);
    struct dv_send_wr *wr = &builder->wrs[builder->count++];
    *wr = (struct dv_send_wr){.wr = {.wr_id = ex->wr_id,
                                     .opcode = opcode,
                                     .send_flags = ex->wr_flags,
                                     .imm_data = imm_data}};
    if (before)
        before->next = &wr->wr;
}

static void wr_send(struct ibv_qp_ex *ex)
{
    begin(ex, IBV_WR_SEND, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
    begin(ex, IBV_WR_SEND_WITH_IMM, imm_data);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
    begin(ex, IBV_WR_SEND_WITH_INV, 0);
    if (current(ex))
        current(ex)->invalidate_rkey = invalidate_rkey;
}

static void begin_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
                         uint64_t remote_addr, uint64_t compare_add, uint64_t swap)
{
    begin(ex, opcode, 0);
    if (!current(ex))
        return;
    current(ex)->wr.atomic.rkey = rkey;
    current(ex)->wr.atomic.remote_addr = remote_addr;
    current(ex)->wr.atomic.compare_add = compare_add;
    current(ex)->wr.atomic.swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
                              uint64_t compare, uint64_t swap)
{
    begin_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
                                uint64_t add)
{
    begin_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

static void begin_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
                       uint64_t remote_addr)
{
    begin(ex, opcode, 0);
    if (!current(ex))
        return;
    current(ex)->wr.rdma.rkey = rkey;
    current(ex)->wr.rdma.remote_addr = remote_addr;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
    begin_rdma(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
                              __be32 imm_data)
{
    begin_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr);
    if (current(ex))
        current(ex)->imm_data = imm_data;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
    begin_rdma(ex, IBV_WR_RDMA_READ, rkey, remote_addr);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
    begin(ex, IBV_WR_LOCAL_INV, 0);
    if (current(ex))
        current(ex)->invalidate_rkey = invalidate_rkey;
}

/* Of type 2; those of type 1 have ibv_bind_mw(). */
static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
                       const struct ibv_mw_bind_info *info)
{
    begin(ex, IBV_WR_BIND_MW, 0);
    if (!current(ex))
        return;
    current(ex)->bind_mw.mw = mw;
    current(ex)->bind_mw.rkey = rkey;
    current(ex)->bind_mw.bind_info = *info;
}

static void set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    struct dv_builder *builder = builder_of(ex);
    if (builder->count)
        builder->wrs[builder->count - 1].to = (struct dv_to){ah, qpn, qkey};
}

static void set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *list)
{
    struct dv_builder *builder = builder_of(ex);
    struct ibv_send_wr *wr = current(ex);
    if (!wr)
        return;
    if (count > DV_MAX_SGE) {
        builder->error = EINVAL;
        return;
    }
    wr->sg_list = builder->sges + (size_t)(builder->count - 1) * DV_MAX_SGE;
    wr->num_sge = (int)count;
    memcpy(wr->sg_list, list, count * sizeof *list);
}

static void set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
    const struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};
    set_sge_list(ex, 1, &sge);
}

static void set_inline_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_data_buf *list)
{
    struct dv_builder *builder = builder_of(ex);
    const uint32_t room = dv_qp_of(&ex->qp_base)->cap.max_inline_data;
    struct ibv_send_wr *wr = current(ex);
    size_t used = 0;
    if (!wr)
        return;
    uint8_t *to = builder->inlined + (size_t)(builder->count - 1) * room;
    for (size_t i = 0; i < count; i++) {
        if (list[i].length > room - used) {
            builder->error = EINVAL;
            return;
        }
        memcpy(to + used, list[i].addr, list[i].length);
        used += list[i].length;
    }
    set_sge(ex, 0, (uintptr_t)to, (uint32_t)used);
    wr->send_flags |= IBV_SEND_INLINE;
}

static void set_inline(struct ibv_qp_ex *ex, void *addr, size_t length)
{
    const struct ibv_data_buf buf = {.addr = addr, .length = length};
    set_inline_list(ex, 1, &buf);
}

static int complete(struct ibv_qp_ex *ex)
{
    struct dv_builder *builder = builder_of(ex);
    int rc = builder->error;
    if (!rc && builder->count)
        rc = dv_post_all_sends(dv_qp_of(&ex->qp_base), builder->wrs);
    pthread_mutex_unlock(&builder->mutex);
    return rc;
}

uint64_t dv_wr_ops(enum ibv_qp_type type)
{
    const uint64_t ud = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                        IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
    const uint64_t rd = ud | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                        IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    const uint64_t rc = rd | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
    const uint64_t uc =
        rc & ~(uint64_t)(IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                         IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
    return type == IBV_QPT_UD ? ud : type == IBV_QPT_DRIVER ? rd : type == IBV_QPT_UC ? uc : rc;
}

int dv_wr_init(struct dv_qp *qp)
{
    const size_t room = qp->cap.max_send_wr ? qp->cap.max_send_wr : 1;
    const size_t wrs = room * sizeof(struct dv_send_wr);
    const size_t sges = room * DV_MAX_SGE * sizeof(struct ibv_sge);
    struct dv_builder *builder =
        calloc(1, sizeof *builder + wrs + sges + room * qp->cap.max_inline_data);
    if (!builder)
        return -ENOMEM;
    pthread_mutex_init(&builder->mutex, NULL);
    builder->room = (uint32_t)room;
    builder->wrs = (struct dv_send_wr *)(builder + 1);
    builder->sges = (struct ibv_sge *)(builder->wrs + room);
    builder->inlined = (uint8_t *)(builder->sges + room * DV_MAX_SGE);
    qp->builder = builder;
    qp->ex.wr_start = start;
    qp->ex.wr_abort = abort_all;
    qp->ex.wr_complete = complete;
    qp->ex.wr_send = wr_send;
    qp->ex.wr_send_imm = wr_send_imm;
    qp->ex.wr_send_inv = wr_send_inv;
    qp->ex.wr_rdma_write = wr_rdma_write;
    qp->ex.wr_rdma_write_imm = wr_rdma_write_imm;
    qp->ex.wr_rdma_read = wr_rdma_read;
    qp->ex.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    qp->ex.wr_atomic_fetch_add = wr_atomic_fetch_add;
    qp->ex.wr_local_inv = wr_local_inv;
    qp->ex.wr_bind_mw = wr_bind_mw;
    qp->ex.wr_set_ud_addr = set_ud_addr;
    qp->ex.wr_set_sge = set_sge;
    qp->ex.wr_set_sge_list = set_sge_list;
    qp->ex.wr_set_inline_data = set_inline;
    qp->ex.wr_set_inline_data_list = set_inline_list;
    return 0;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    if (!dv_is_ours(qp->context))
        return DV_REAL(ibv_qp_to_qp_ex)(qp);
    return dv_qp_of(qp)->builder ? &dv_qp_of(qp)->ex : NULL;
}
