/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagram queue pairs: made, posted to, queried and ended, by the tables of their services. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/rnic/lock.h"
#include "common/rnic/qp.h"
#include "common/rnic/run.h"

void diwarp_qp_attr_init(struct diwarp_qp_attr *attr)
{
    *attr = (struct diwarp_qp_attr){
        .type = DIWARP_QPT_RD,
        .max_send_wr = 8192,
        .max_recv_wr = 1024,
        .max_msg_bytes = 64u << 10,
        .record_time_ns = 100000000,
    };
}

/* ---- making and ending ---- */

static const struct dw_service *find_service(const struct diwarp_device *device,
                                             enum diwarp_qp_type type)
{
    for (const struct dw_service *const *it = device->services; *it; it++)
        if ((*it)->type == type)
            return *it;
    return NULL;
}

/* The service's part of the port, opened with its first QP there. */
static int join(struct diwarp_qp *qp)
{
    void **state = &qp->port->states[dw_port_service_index(qp->port, qp->service)];
    int rc = *state ? 0 : qp->service->open(qp->port, state);
    qp->state = *state;
    return rc;
}

/* A number that no QP of the port has; that of one that is gone comes last. */
static int number(struct diwarp_qp *qp)
{
    struct dw_port *port = qp->port;
    do
        port->last_qpn = port->last_qpn % DW_QPN_MAX + 1;
    while (dw_map_get(&port->qp_by_num, port->last_qpn));
    qp->num = port->last_qpn;
    return dw_map_put(&port->qp_by_num, qp->num, qp);
}

static int create_locked(struct diwarp_qp *qp, struct diwarp_diagnosis *why)
{
    int rc = dw_run_get_port(qp->pd->device, &qp->port, why);
    if (rc)
        return rc;
    rc = join(qp);
    if (rc)
        goto err_port;
    rc = number(qp);
    if (rc)
        goto err_port;
    rc = qp->service->create(qp);
    if (rc)
        goto err_number;
    dw_list_append(&qp->pd->qps, &qp->pd_link);
    dw_list_append(&qp->port->qps, &qp->port_link);
    return 0;

err_number:
    dw_map_remove(&qp->port->qp_by_num, qp->num);
err_port:
    dw_port_put(qp->port);
    return rc;
}

int diwarp_create_qp(struct diwarp_pd *pd, const struct diwarp_qp_attr *attr,
                     struct diwarp_qp **qp_out, struct diwarp_diagnosis *why)
{
    struct diwarp_diagnosis ignored;
    if (!why)
        why = &ignored;
    why->text[0] = '\0';
    const struct dw_service *service = find_service(pd->device, attr->type);
    if (!service || !attr->cq || attr->cq->device != pd->device || !attr->max_send_wr ||
        !attr->max_msg_bytes || attr->max_msg_bytes > 1u << 30) {
        snprintf(why->text, sizeof why->text, "malformed queue pair attributes");
        return -EINVAL;
    }
    struct diwarp_qp *qp = calloc(1, service->qp_bytes);
    if (!qp)
        return -ENOMEM;
    qp->pd = pd;
    qp->cq = attr->cq;
    qp->service = service;
    qp->attr = *attr;
    dw_lock(pd->device);
    int rc = create_locked(qp, why);
    dw_unlock(pd->device);
    if (rc) {
        free(qp);
        return rc;
    }
    *qp_out = qp;
    return 0;
}

void diwarp_destroy_qp(struct diwarp_qp *qp)
{
    struct diwarp_device *device = qp->pd->device;
    pthread_mutex_lock(&dw_ports_lock);
    dw_lock(device);
    dw_list_remove(&qp->port_link);
    dw_map_remove(&qp->port->qp_by_num, qp->num);
    qp->service->destroy(qp);
    dw_list_remove(&qp->pd_link);
    dw_cq_forget_qp(qp->cq, qp->num);
    dw_port_put(qp->port);
    dw_unlock(device);
    pthread_mutex_unlock(&dw_ports_lock);
    free(qp);
}

void diwarp_qp_share_cores(struct diwarp_qp *qp)
{
    struct diwarp_device *device = qp->port->device;
    dw_lock(device);
    device->attr.shared_cores = true;
    if (qp->service->retune)
        qp->service->retune(qp->state);
    dw_unlock(device);
}

/* ---- posts ---- */

int diwarp_post_send(struct diwarp_qp *qp, const struct diwarp_send_wr *wr)
{
    struct diwarp_device *device = qp->pd->device;
    if (!wr->ah)
        return -EINVAL;
    dw_lock(device);
    uint64_t now_ns = dw_device_now_ns(device);
    dw_cq_on_use(qp->cq, now_ns);
    int rc = qp->service->post_send(qp, wr->ah, &wr->wr, now_ns);
    dw_unlock(device);
    return rc;
}

int diwarp_post_recv(struct diwarp_qp *qp, const struct ibv_recv_wr *wr)
{
    if (!qp->service->post_recv)
        return -EOPNOTSUPP;
    dw_lock(qp->pd->device);
    int rc = qp->service->post_recv(qp, wr);
    dw_unlock(qp->pd->device);
    return rc;
}

/* ---- queries ---- */

void diwarp_query_qp(const struct diwarp_qp *qp, struct diwarp_qp_info *info)
{
    const struct dw_llp *llp = qp->port->datagrams.llp;
    *info = (struct diwarp_qp_info){
        .rcvbuf_bytes = llp->rcvbuf_bytes,
        .sndbuf_bytes = llp->sndbuf_bytes,
        .gso = llp->gso,
        .gro = llp->gro,
        .max_inline_bytes = qp->service->max_inline_bytes,
        .fd = llp->fd,
    };
}

const struct diwarp_counters *diwarp_query_counters(const struct diwarp_qp *qp)
{
    return &qp->port->datagrams.counters;
}
