/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_diwarp/sqd.h"

#include <stdlib.h>

#include "verbs_diwarp/async.h"
#include "verbs_diwarp/cq.h"
#include "verbs_diwarp/rc_queues.h"
#include "verbs_diwarp/rd.h"
#include "verbs_diwarp/rdma.h"
#include "verbs_diwarp/request.h"

int dv_sqd_keep(struct dv_qp *qp, const struct ibv_send_wr *wr, const struct dv_to *to)
{
    struct dv_sqd *sqd = &qp->sqd;
    const size_t sges = (size_t)wr->num_sge * sizeof *wr->sg_list;
    const bool inlined = wr->send_flags & IBV_SEND_INLINE;
    struct dv_kept *kept = malloc(sizeof *kept + sges + (inlined ? dv_total_bytes(wr) : 0));
    if (!kept)
        return ENOMEM;
    *kept = (struct dv_kept){.wr = {.wr = *wr, .to = *to}};
    kept->wr.wr.next = NULL;
    kept->wr.wr.sg_list = kept->sges;
    if (sges)
        memcpy(kept->sges, wr->sg_list, sges);
    uint8_t *data = (uint8_t *)(kept->sges + wr->num_sge);
    for (int i = 0; inlined && i < wr->num_sge; i++) {
        const struct ibv_sge *sge = &wr->sg_list[i];
        if (sge->length)
            memcpy(data, (const void *)(uintptr_t)sge->addr, sge->length);
        kept->sges[i].addr = (uintptr_t)data;
        data += sge->length;
    }
    if (!sqd->first)
        sqd->end = &sqd->first;
    *sqd->end = kept;
    sqd->end = &kept->next;
    sqd->count++;
    ((struct dv_ah *)to->ah)->kept++;
    return 0;
}

struct dv_kept *dv_sqd_take(struct dv_qp *qp)
{
    struct dv_kept *kept = qp->sqd.first;
    if (kept) {
        qp->sqd.first = kept->next;
        qp->sqd.count--;
        ((struct dv_ah *)kept->wr.to.ah)->kept--;
    }
    return kept;
}

void dv_sqd_flush(struct dv_qp *qp)
{
    for (struct dv_kept *kept; (kept = dv_sqd_take(qp)); free(kept))
        dv_cq_push_send(qp, &kept->wr.wr, IBV_WC_WR_FLUSH_ERR);
}

void dv_sqd_drop(struct dv_qp *qp, uint32_t count)
{
    struct dv_sqd *sqd = &qp->sqd;
    struct dv_kept *first, **at = &sqd->first;
    for (uint32_t i = 0; i < count; i++)
        at = &(*at)->next;
    first = *at;
    *at = NULL;
    sqd->end = at;
    sqd->count = count;
    while (first) {
        struct dv_kept *next = first->next;
        ((struct dv_ah *)first->wr.to.ah)->kept--;
        free(first);
        first = next;
    }
}

bool dv_sqd_is_draining(const struct dv_qp *qp)
{
    return qp->rc     ? qp->rc->handed > 0
           : qp->rd   ? dv_rd_room(qp) < (qp->cap.max_send_wr ? qp->cap.max_send_wr : 1)
           : qp->rdma ? qp->rdma->free_count < qp->rdma->max_reads
                      : false;
}

void dv_sqd_look(struct dv_qp *qp)
{
    if (qp->attr.qp_state == IBV_QPS_ERR)
        dv_sqd_flush(qp);
    if (qp->attr.qp_state != IBV_QPS_SQD || !qp->sqd.tells || dv_sqd_is_draining(qp))
        return;
    qp->sqd.tells = false;
    dv_async_push(
        dv_context_of(dv_ibv_qp(qp)->context),
        &(struct ibv_async_event){.element.qp = dv_ibv_qp(qp), .event_type = IBV_EVENT_SQ_DRAINED});
}
