/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: ids whose calls wait, each with its queue pair; shared receive queues of ids. */
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>

#include "verbs_diwarp/cm_device.h"
#include "verbs_diwarp/cm_id.h"

/* What each caller of a listening endpoint gets. */
static int keep_attr(struct rdma_cm_id *id, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
    struct dv_cm_id *own = dv_cm_id_of(id);
    if (pd)
        id->pd = pd;
    if (!attr)
        return 0;
    own->ep_attr = malloc(sizeof *attr);
    if (!own->ep_attr)
        return dv_cm_fail(ENOMEM);
    *own->ep_attr = *attr;
    own->ep_attr->qp_type = id->qp_type;
    return 0;
}

static int set_up(struct rdma_cm_id *id, const struct rdma_addrinfo *info, struct ibv_pd *pd,
                  struct ibv_qp_init_attr *attr)
{
    if (info->ai_flags & RAI_PASSIVE)
        return rdma_bind_addr(id, info->ai_src_addr) || keep_attr(id, pd, attr) ? -1 : 0;
    if (rdma_resolve_addr(id, info->ai_src_addr, info->ai_dst_addr, 2000) ||
        rdma_resolve_route(id, 2000))
        return -1;
    if (!attr)
        return 0;
    attr->qp_type = id->qp_type;
    return rdma_create_qp(id, pd, attr);
}

int rdma_create_ep(struct rdma_cm_id **result, struct rdma_addrinfo *info, struct ibv_pd *pd,
                   struct ibv_qp_init_attr *attr)
{
    struct rdma_cm_id *id;
    if (rdma_create_id(NULL, &id, NULL, (enum rdma_port_space)info->ai_port_space))
        return -1;
    if (set_up(id, info, pd, attr)) {
        const int error = errno;
        rdma_destroy_ep(id);
        return dv_cm_fail(error);
    }
    *result = id;
    return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
    rdma_destroy_qp(id);
    if (id->srq)
        rdma_destroy_srq(id);
    rdma_destroy_id(id);
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
    struct dv_cm_id *own = dv_cm_id_of(listen);
    struct rdma_cm_event *event;
    if (!own->sync)
        return dv_cm_fail(EINVAL);
    if (listen->event)
        rdma_ack_cm_event(listen->event);
    listen->event = NULL;
    if (rdma_get_cm_event(listen->channel, &event))
        return -1;
    struct rdma_cm_id *caller = event->id;
    struct ibv_qp_init_attr attr;
    if (own->ep_attr)
        attr = *own->ep_attr;
    if (rdma_migrate_id(caller, NULL) ||
        (own->ep_attr && rdma_create_qp(caller, listen->pd, &attr))) {
        const int error = errno;
        rdma_ack_cm_event(event);
        (void)rdma_reject(caller, NULL, 0);
        rdma_destroy_id(caller);
        return dv_cm_fail(error);
    }
    caller->event = event;
    *id = caller;
    return 0;
}

/* ---- shared receive queues ---- */

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct ibv_pd *of = pd ? pd : id->pd ? id->pd : dv_cm_pd();
    if (!id->verbs || !of || id->srq || of->context != id->verbs)
        return dv_cm_fail(EINVAL);
    struct ibv_srq *srq = ibv_create_srq(of, attr);
    if (!srq)
        return -1;
    id->srq = srq;
    id->pd = of;
    return 0;
}

int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
    struct ibv_srq_init_attr basic = {.srq_context = attr->srq_context, .attr = attr->attr};
    if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type != IBV_SRQT_BASIC)
        return dv_cm_fail(EOPNOTSUPP);
    return rdma_create_srq(id, attr->comp_mask & IBV_SRQ_INIT_ATTR_PD ? attr->pd : NULL, &basic);
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
    if (id->srq)
        (void)ibv_destroy_srq(id->srq);
    id->srq = NULL;
}
