/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains, memory regions, and datagram queue pairs, by the tables of their services. */
#include <errno.h>
#include <stdlib.h>

#include "common/llp/socket.h"
#include "common/rnic/groups.h"

void diwarp_qp_attr_init(struct diwarp_qp_attr *attr)
{
    *attr = (struct diwarp_qp_attr){
        .type = DIWARP_QPT_RD,
        .max_send_wr = 8192,
        .max_recv_wr = 1024,
        .max_msg_bytes = 64u << 10,
        .record_time_ns = 100000000,
        .max_reads = 64,
        .max_answers = 1024,
        .read_time_ns = 1000000000,
    };
}

struct diwarp_pd *diwarp_alloc_pd(struct diwarp_device *device)
{
    struct diwarp_pd *pd = calloc(1, sizeof *pd);
    if (!pd)
        return NULL;
    pd->device = device;
    dw_map_init(&pd->mrs, dw_device_random(device));
    return pd;
}

void diwarp_dealloc_pd(struct diwarp_pd *pd)
{
    dw_mrs_fini(&pd->mrs);
    free(pd);
}

/* STags are 32 random bits that nothing else a peer sees depends on: a peer that was not given one
 * can only try. */
struct diwarp_mr *diwarp_reg_mr_iova(struct diwarp_pd *pd, void *addr, size_t length, uint64_t iova,
                                     int access)
{
    struct diwarp_mr mr = {
        .pd = pd, .addr = addr, .length = length, .access = access, .iova = iova};
    struct diwarp_mr *registered = NULL;
    int rc;
    dw_lock(pd->device);
    do {
        mr.stag = (uint32_t)dw_device_random(pd->device);
        rc = dw_mr_register(&pd->mrs, &mr, &registered);
    } while (rc == -EEXIST);
    dw_unlock(pd->device);
    if (rc)
        errno = -rc;
    return registered;
}

struct diwarp_mr *diwarp_reg_mr(struct diwarp_pd *pd, void *addr, size_t length, int access)
{
    return diwarp_reg_mr_iova(pd, addr, length, (uintptr_t)addr, access);
}

void diwarp_bind_mr(struct diwarp_mr *mr, struct diwarp_name peer)
{
    struct dw_region *region = dw_container(mr, struct dw_region, mr);
    dw_lock(mr->pd->device);
    region->peer = peer;
    region->bound = true;
    dw_unlock(mr->pd->device);
}

/* What peers still need it for ends. Records mean that there is a port; the QP of some may be about
 * to be destroyed. */
static void end_records(const struct diwarp_device *device, const struct diwarp_mr *mr)
{
    const struct dw_region *region = dw_container(mr, const struct dw_region, mr);
    for (unsigned i = 0; region->records && device->services[i]; i++)
        if (device->port->states[i] && device->services[i]->on_deregister)
            device->services[i]->on_deregister(device->port->states[i], region);
}

int diwarp_rereg_mr(struct diwarp_mr *mr, struct diwarp_pd *pd, void *addr, size_t length,
                    uint64_t iova, int access)
{
    struct diwarp_pd *before = mr->pd;
    const struct diwarp_mr to = {
        .pd = pd, .addr = addr, .length = length, .stag = mr->stag, .access = access, .iova = iova};
    if (pd->device != before->device)
        return -EINVAL;
    dw_lock(pd->device);
    const int rc = dw_mr_reregister(mr, &before->mrs, &pd->mrs, &to);
    if (!rc) {
        end_records(pd->device, mr);
        before->deregistered++;
    }
    dw_unlock(pd->device);
    return rc;
}

struct diwarp_mr *diwarp_open_window(const struct diwarp_mr *mr, uint32_t stag, uint64_t iova,
                                     size_t length, int access, const void *only)
{
    const struct diwarp_mr window = {
        .pd = mr->pd, .length = length, .stag = stag, .access = access, .iova = iova};
    struct diwarp_mr *registered = NULL;
    dw_lock(mr->pd->device);
    const int rc = dw_mr_register_window(&mr->pd->mrs, mr, &window, only, &registered);
    dw_unlock(mr->pd->device);
    if (rc)
        errno = -rc;
    return registered;
}

bool dw_pd_invalidate(struct diwarp_pd *pd, const struct diwarp_name *peer, const void *context,
                      uint32_t stag)
{
    struct dw_region *region = dw_map_get(&pd->mrs, stag);
    if (!region || !(region->mr.access & DW_REMOTE_RIGHTS) ||
        (region->only && region->only != context) || (region->is_window && !region->only) ||
        (peer && !dw_region_is_for(region, peer)))
        return false;
    region->mr.access &= ~DW_REMOTE_RIGHTS;
    end_records(pd->device, &region->mr);
    return true;
}

void diwarp_dereg_mr(struct diwarp_mr *mr)
{
    struct diwarp_pd *pd = mr->pd;
    dw_lock(pd->device);
    end_records(pd->device, mr);
    free(dw_map_remove(&pd->mrs, mr->stag));
    pd->deregistered++;
    dw_unlock(pd->device);
}

/* Of one element: 0 and where its memory is, or -EACCES. Of one without bytes nothing is asked. */
static int locate(const struct diwarp_pd *pd, const struct ibv_sge *sge, int access, void **at)
{
    struct dw_region *region;
    if (!sge->lkey || !sge->length) {
        *at = (void *)(uintptr_t)sge->addr;
        return 0;
    }
    if (dw_mr_check(&pd->mrs, NULL, sge->lkey, sge->addr, sge->length, access, &region))
        return -EACCES;
    *at = dw_region_at(region, sge->addr);
    return 0;
}

bool dw_pd_locate(const struct diwarp_pd *pd, struct dw_sge *list, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (locate(pd, &list[i].sge, IBV_ACCESS_LOCAL_WRITE, &list[i].at))
            return false;
    return true;
}

int64_t dw_pd_gather(const struct diwarp_pd *pd, const struct ibv_sge *list, int count, int access,
                     uint32_t max_bytes, struct iovec *iov, int room)
{
    if (count < 0 || count > room)
        return -EINVAL;
    uint64_t total = 0;
    for (int i = 0; i < count; i++) {
        if (locate(pd, &list[i], access, &iov[i].iov_base))
            return -EACCES;
        iov[i].iov_len = list[i].length;
        total += list[i].length;
    }
    return total > max_bytes ? -EMSGSIZE : (int64_t)total;
}

/* ---- making and ending ---- */

/* A number that no QP of the port has; that of one that is gone comes last. */
static uint32_t next_qpn(struct dw_port *port)
{
    do
        port->last_qpn = port->last_qpn % (DW_QPN_GROUP - 1) + 1;
    while (dw_map_get(&port->qp_by_num, port->last_qpn));
    return port->last_qpn;
}

/* Joins the service's part of the port, which begins with its first QP there. */
static int join(struct diwarp_qp *qp)
{
    struct dw_port *port = qp->port;
    void **state = &port->states[qp->attr.type];
    int rc = *state ? 0 : qp->service->open(port, state);
    if (rc)
        return rc;
    qp->state = *state;
    qp->num = qp->attr.qpn ? qp->attr.qpn : next_qpn(port);
    if (dw_map_get(&port->qp_by_num, qp->num))
        return -EEXIST;
    if (dw_map_put(&port->qp_by_num, qp->num, qp))
        return -ENOMEM;
    rc = qp->service->create(qp);
    if (rc)
        dw_map_remove(&port->qp_by_num, qp->num);
    else
        dw_list_append(&port->qps, &qp->link);
    qp->cq->qps += !rc;
    return rc;
}

int diwarp_create_qp(struct diwarp_pd *pd, const struct diwarp_qp_attr *attr,
                     struct diwarp_qp **qp_out, struct diwarp_diagnosis *why)
{
    struct diwarp_device *device = pd->device;
    if (why)
        why->text[0] = '\0';
    if ((unsigned)attr->type >= DW_PORT_SERVICES || !attr->cq || attr->cq->device != device ||
        !attr->max_send_wr || !attr->max_msg_bytes || attr->max_msg_bytes > 1u << 30 ||
        attr->qpn >= DW_QPN_GROUP || attr->max_reads > DIWARP_MAX_READS ||
        (attr->srq && attr->type != DIWARP_QPT_UD)) {
        dw_explain(why, "malformed queue pair attributes");
        return -EINVAL;
    }
    const struct dw_service *service = device->services[attr->type];
    struct diwarp_qp *qp = calloc(1, service->qp_bytes);
    if (!qp)
        return -ENOMEM;
    *qp = (struct diwarp_qp){.pd = pd, .cq = attr->cq, .service = service, .attr = *attr};
    dw_lock(device);
    int rc = dw_port_get(device, why);
    qp->port = device->port;
    if (!rc && (rc = join(qp)))
        dw_port_put(qp->port);
    dw_unlock(device);
    if (rc)
        free(qp);
    else
        *qp_out = qp;
    return rc;
}

void diwarp_destroy_qp(struct diwarp_qp *qp)
{
    struct diwarp_device *device = qp->pd->device;
    pthread_mutex_lock(&dw_ports_lock);
    dw_lock(device);
    if (qp->counts_recvs) {
        qp->counts_recvs = false;
        qp->port->counting_qps--;
        qp->service->on_recv_room(qp, 0);
    }
    dw_list_remove(&qp->link);
    dw_map_remove(&qp->port->qp_by_num, qp->num);
    dw_groups_leave(qp);
    qp->service->destroy(qp);
    dw_cq_forget(qp->cq, qp->num, NULL);
    if (!--qp->cq->qps) /* it need not be polled again */
        dw_cq_release(qp->cq);
    dw_port_put(qp->port);
    dw_unlock(device);
    pthread_mutex_unlock(&dw_ports_lock);
    free(qp);
}

void diwarp_set_qkey(struct diwarp_qp *qp, uint32_t qkey)
{
    dw_lock(qp->pd->device);
    qp->attr.qkey = qkey;
    dw_unlock(qp->pd->device);
}

void diwarp_add_recv_room(struct diwarp_qp *qp, int32_t sends)
{
    if (!qp->service->on_recv_room)
        return;
    dw_lock(qp->pd->device);
    if (!qp->counts_recvs) {
        qp->port->counting_qps++;
        qp->service->on_recv_room(qp, 0);
        qp->recv_room = 0;
    }
    qp->counts_recvs = true;
    qp->recv_room += sends;
    if (sends >= 0 && qp->recv_room > 0)
        qp->service->on_recv_room(qp, (uint32_t)(qp->recv_room < sends ? qp->recv_room : sends));
    dw_unlock(qp->pd->device);
}

void diwarp_set_record_time(struct diwarp_qp *qp, uint64_t record_time_ns)
{
    dw_lock(qp->pd->device);
    qp->attr.record_time_ns = record_time_ns;
    dw_unlock(qp->pd->device);
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

void dw_qp_complete(struct diwarp_qp *qp, uint64_t wr_id, bool signaled, enum ibv_wc_opcode opcode,
                    enum ibv_wc_status status, uint32_t bytes)
{
    if (status != IBV_WC_SUCCESS && opcode != IBV_WC_SEND)
        qp->port->datagrams.counters.rdma_errors++;
    if (!signaled && status == IBV_WC_SUCCESS)
        return;
    struct diwarp_wc wc = {.wc = {.wr_id = wr_id,
                                  .status = status,
                                  .opcode = opcode,
                                  .byte_len = bytes,
                                  .qp_num = qp->num}};
    dw_cq_push(qp->cq, &wc);
}

struct diwarp_wc *dw_qp_slot_held(struct diwarp_qp *qp)
{
    qp->port->datagrams.arena.held = qp->port->handed_out = true;
    qp->cq->held++;
    qp->cq->device->held++;
    return dw_cq_slot(qp->cq);
}

void diwarp_query_qp(const struct diwarp_qp *qp, struct diwarp_qp_info *info)
{
    const struct dw_llp *llp = qp->port->datagrams.llp;
    *info = (struct diwarp_qp_info){
        .rcvbuf_bytes = llp->rcvbuf_bytes,
        .sndbuf_bytes = llp->sndbuf_bytes,
        .gso = llp->gso,
        .gro = llp->gro,
        .max_inline_bytes = qp->service->max_inline_bytes,
        .send_fd = llp->fd,
    };
}

const struct diwarp_counters *diwarp_query_counters(const struct diwarp_qp *qp)
{
    return &qp->port->datagrams.counters;
}

void diwarp_query_memory(const struct diwarp_cq *cq, const struct diwarp_pd *pd,
                         struct diwarp_memory *memory)
{
    const struct diwarp_device *device = cq->device;
    dw_lock(cq->device);
    *memory = (struct diwarp_memory){
        .base_bytes =
            sizeof *device + sizeof *pd + sizeof *cq + cq->ring.capacity * sizeof(struct diwarp_wc),
        .region_bytes = pd->mrs.count * sizeof(struct dw_region) + dw_map_bytes(&pd->mrs),
    };
    dw_foreach (runner, struct dw_runner, link, &device->runners)
        runner->ops->add_memory(runner, memory);
    memory->total_bytes = memory->base_bytes + memory->receive_bytes + memory->assembly_bytes +
                          memory->send_pool_bytes + memory->work_bytes + memory->peer_bytes +
                          memory->address_bytes + memory->record_bytes + memory->region_bytes;
    dw_unlock(cq->device);
}
