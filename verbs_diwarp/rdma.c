/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/rdma.h"

#include <search.h>
#include <stdlib.h>

#include "verbs_diwarp/cq.h"
#include "verbs_diwarp/diwarp_verbs.h"
#include "common/include/diwarp_ud.h"

#define MAX_READS  1024u
#define PLACE_BITS 16

int dv_rdma_init(struct dv_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
    const uint64_t asked =
        attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
            ? attr->send_ops_flags & (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ)
            : 0;
    if (!asked)
        return 0;
    const uint32_t sends = qp->cap.max_send_wr ? qp->cap.max_send_wr : 1;
    const uint32_t reads = sends < MAX_READS ? sends : MAX_READS;
    struct dv_rdma *rdma = qp->rdma = calloc(1, sizeof *rdma);
    if (!rdma)
        return -ENOMEM;
    rdma->max_reads = reads;
    rdma->reads = calloc(reads, sizeof *rdma->reads);
    rdma->expired = calloc(reads, sizeof *rdma->expired);
    rdma->free_reads = calloc(reads, sizeof *rdma->free_reads);
    if (!rdma->reads || !rdma->expired || !rdma->free_reads)
        return -ENOMEM;
    dv_rdma_forget(qp);
    return 0;
}

void dv_rdma_fini(struct dv_qp *qp)
{
    if (!qp->rdma)
        return;
    free(qp->rdma->reads);
    free(qp->rdma->expired);
    free(qp->rdma->free_reads);
    free(qp->rdma);
    qp->rdma = NULL;
}

static void release_one(void *node)
{
    struct dv_record *record = node;
    diwarp_release_record(record->core);
    free(record);
}

void dv_rdma_forget(struct dv_qp *qp)
{
    struct dv_rdma *rdma = qp->rdma;
    if (!rdma)
        return;
    tdestroy(rdma->records, release_one);
    rdma->records = NULL;
    rdma->free_count = rdma->max_reads;
    for (uint32_t i = 0; i < rdma->max_reads; i++) {
        rdma->free_reads[i] = i;
        rdma->reads[i].used = rdma->expired[i].used = false;
    }
}

void dv_rdma_set_attr(const struct dv_qp *qp, struct diwarp_qp_attr *attr)
{
    if (qp->rdma)
        attr->max_reads = qp->rdma->max_reads;
    else
        attr->max_answers = 0; /* a program that knows nothing of reads sends none to anybody */
}

/* ---- requests ---- */

bool dv_rdma_takes(const struct ibv_send_wr *wr)
{
    return wr->opcode == IBV_WR_RDMA_WRITE ||
           (wr->opcode == IBV_WR_RDMA_READ && !(wr->send_flags & IBV_SEND_INLINE));
}

uint32_t dv_rdma_room(const struct dv_qp *qp, const struct ibv_send_wr *wr)
{
    return wr->opcode == IBV_WR_RDMA_READ ? qp->rdma->free_count : UINT32_MAX;
}

void dv_rdma_prepare(struct dv_qp *qp, struct ibv_send_wr *out, const struct ibv_send_wr *wr,
                     const struct dv_to *to, bool signaled)
{
    struct dv_rdma *rdma = qp->rdma;
    out->wr.rdma = wr->wr.rdma;
    out->imm_data = to->qkey;
    if (!(to->qkey >> 31)) /* else the sender's own, as diwarp has it */
        out->send_flags |= DIWARP_SEND_QKEY;
    if (wr->opcode != IBV_WR_RDMA_READ)
        return;
    const uint32_t place = rdma->free_reads[rdma->free_count - 1];
    rdma->reads[place] = (struct dv_read){
        .wr_id = wr->wr_id, .core_id = rdma->serial++ << PLACE_BITS | place, .signaled = signaled};
    out->wr_id = rdma->reads[place].core_id;
    out->send_flags |= IBV_SEND_SIGNALED;
}

bool dv_rdma_on_posted(struct dv_qp *qp, bool failed)
{
    struct dv_rdma *rdma = qp->rdma;
    if (failed)
        return false;
    struct dv_read *read = &rdma->reads[rdma->free_reads[--rdma->free_count]];
    read->used = true;
    qp->unpolled += read->signaled;
    return true;
}

/* ---- completions ---- */

static void on_read(struct dv_qp *qp, const struct diwarp_wc *done)
{
    struct dv_rdma *rdma = qp->rdma;
    const uint32_t place = done->wc.wr_id & ((1u << PLACE_BITS) - 1);
    struct dv_read *read = place < rdma->max_reads ? &rdma->reads[place] : NULL;
    if (!read || !read->used || read->core_id != done->wc.wr_id)
        return;
    struct ibv_wc wc = done->wc;
    if (wc.status == IBV_WC_RESP_TIMEOUT_ERR)
        rdma->expired[rdma->expired_next++ % rdma->max_reads] = *read;
    if (wc.status && qp->attr.qp_state == IBV_QPS_ERR)
        wc.status = IBV_WC_WR_FLUSH_ERR;
    wc.wr_id = read->wr_id;
    read->used = false;
    rdma->free_reads[rdma->free_count++] = place;
    qp->unpolled += wc.status && !read->signaled;
    if (wc.status || read->signaled)
        dv_cq_push(dv_ibv_qp(qp)->send_cq, &wc, false);
}

static int by_handle(const void *a, const void *b)
{
    const uint64_t left = ((const struct dv_record *)a)->handle;
    const uint64_t right = ((const struct dv_record *)b)->handle;
    return left < right ? -1 : left > right;
}

struct dv_record *dv_rdma_find_record(const struct dv_rdma *rdma, uint64_t handle)
{
    const struct dv_record wanted = {.handle = handle};
    struct dv_record *const *found = tfind(&wanted, &rdma->records, by_handle);
    return found ? *found : NULL;
}

void dv_rdma_release(struct dv_rdma *rdma, struct dv_record *record)
{
    tdelete(record, &rdma->records, by_handle);
    release_one(record);
}

/* Without memory for its handle it is lost, as any may be. */
static void on_record(struct dv_qp *qp, const struct diwarp_wc *done)
{
    struct dv_rdma *rdma = qp->rdma;
    struct dv_record *record = malloc(sizeof *record);
    if (record)
        *record = (struct dv_record){
            .handle = ++rdma->last_handle, .core = done->record, .src_qp = done->wc.src_qp};
    if (!record || !tsearch(record, &rdma->records, by_handle)) {
        diwarp_release_record(done->record);
        free(record);
        return;
    }
    struct ibv_wc wc = done->wc;
    wc.wr_id = record->handle;
    wc.opcode = DIWARP_VERBS_WC_RECORD;
    dv_cq_push(dv_ibv_qp(qp)->recv_cq, &wc, true);
}

bool dv_rdma_deliver(struct dv_qp *qp, const struct diwarp_wc *done)
{
    const bool record = done->wc.opcode == (enum ibv_wc_opcode)DIWARP_WC_RECORD;
    const bool asked = qp && qp->rdma;
    if (record && asked)
        on_record(qp, done);
    else if (record) /* of a program that knows no such */
        diwarp_release_record(done->record);
    else if (asked && done->wc.opcode == IBV_WC_RDMA_READ)
        on_read(qp, done);
    return record || done->wc.opcode == IBV_WC_RDMA_READ;
}

const struct dv_read *dv_rdma_find_read(const struct dv_rdma *rdma, uint64_t wr_id)
{
    const struct dv_read *found = NULL;
    for (uint32_t i = 0; i < 2 * rdma->max_reads; i++) {
        const bool active = i < rdma->max_reads;
        const struct dv_read *read = active ? &rdma->reads[i] : &rdma->expired[i - rdma->max_reads];
        if (read->used && read->wr_id == wr_id && (!found || read->core_id > found->core_id))
            found = read;
    }
    return found;
}
