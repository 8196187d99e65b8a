/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains and queue pairs: making and ending them, what they take and give back. */
#include "common/rnic/qp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/pages.h"
#include "common/rd/deliver.h"
#include "common/rnic/lock.h"
#include "common/record/rdma.h"
#include "common/rd/receive.h"
#include "common/rd/send.h"
#include "common/ud/ud.h"
#include "common/wire/crc32c.h"

/* Between two parts of a search for peers that may rest. */
#define TRIM_GOES_ON_NS 1000000
/* Each that put no peer to rest doubles the wait for the next, up to so many. */
#define TRIMS_IN_VAIN_MAX 3
/* Share of the socket's buffer that records may fill; the rest is for eager datagrams. */
#define RECORD_SHARE_NUM 3
#define RECORD_SHARE_DEN 4
/* Under way for all records: not divided among them, so that the oldest record is whole soonest.
 * More would fall out of the cache on its way. */
#define RECORD_WINDOW_BYTES (1u << 20)
/* Worse, where processes take turns on a core, is a sender whose turn ends with its grant. */
#define SHARED_RECORD_WINDOW_BYTES (4u << 20)
#define RECORD_WINDOW_MIN_BYTES    (16u << 10)

/* ---- protection domains ---- */

struct diwarp_pd *diwarp_alloc_pd(struct diwarp_device *device)
{
    struct diwarp_pd *pd = calloc(1, sizeof *pd);
    if (!pd)
        return NULL;
    pd->device = device;
    dw_mr_table_init(&pd->mrs, dw_device_random(device));
    dw_list_init(&pd->qps);
    return pd;
}

void diwarp_dealloc_pd(struct diwarp_pd *pd)
{
    dw_mr_table_fini(&pd->mrs);
    free(pd);
}

static uint64_t random_of(void *arg)
{
    return dw_device_random(arg);
}

struct diwarp_mr *diwarp_reg_mr(struct diwarp_pd *pd, void *addr, size_t length, int access)
{
    struct diwarp_mr *mr = NULL;
    dw_lock(pd->device);
    int rc = dw_mr_register(&pd->mrs, addr, length, access, random_of, pd->device, &mr);
    dw_unlock(pd->device);
    if (rc) {
        errno = -rc;
        return NULL;
    }
    mr->pd = pd;
    return mr;
}

void diwarp_dereg_mr(struct diwarp_mr *mr)
{
    struct diwarp_pd *pd = mr->pd;
    const struct dw_region *region = dw_container(mr, struct dw_region, mr);
    dw_lock(pd->device);
    if (region->records)
        dw_list_foreach (it, &pd->qps)
            dw_qp_on_deregister(dw_container(it, struct diwarp_qp, pd_link), region);
    dw_mr_deregister(&pd->mrs, mr);
    dw_unlock(pd->device);
}

/* ---- making and ending a QP ---- */

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

static int open_llp(struct diwarp_qp *qp, struct diwarp_diagnosis *why)
{
    const struct diwarp_device *device = qp->device;
    const struct diwarp_device_attr *attr = &device->attr;
    struct dw_llp_attr llp_attr = {
        .family = AF_INET,
        .port_min = attr->port_min,
        .port_max = attr->port_max,
        .rcvbuf_bytes = attr->rcvbuf_bytes,
        .sndbuf_bytes = attr->sndbuf_bytes,
        .gso = attr->gso,
        .gro = attr->gro,
        .connected = attr->connected,
        .checksum = attr->crc == DIWARP_OFF,
    };
    bool v4 = false;
    for (unsigned i = 0; i < device->interface_count; i++)
        v4 |= device->interfaces[i].family == AF_INET;
    if (!v4)
        llp_attr.family = AF_INET6;
    /* One interface: listen there only. Several: any; the token keeps strangers out. */
    if (device->interface_count == 1)
        llp_attr.bind_ip = device->interfaces[0].ip;
    return device->env.open_llp(device->env.arg, &llp_attr, &qp->counters, &qp->llp, why);
}

static uint32_t mtu_max_bytes(const struct diwarp_qp *qp, uint64_t budget, uint64_t long_budget)
{
    bool longs = dw_datagram_max_bytes(qp->device, AF_INET6, (uint32_t)(long_budget / 2)) >=
                 DW_LLP_LONG_BYTES;
    uint64_t half = (longs ? long_budget : budget) / 2;
    /* Where two do not fit, a large one does better than one small one at a time. */
    if (qp->attr.type == DIWARP_QPT_UD || half > DW_LLP_TRAIN_BYTES ||
        2 * (uint64_t)dw_llp_truesize((uint32_t)half) > qp->llp->rcvbuf_bytes)
        return UINT32_MAX;
    return (uint32_t)half;
}

static uint32_t within_window(uint64_t payload, uint32_t window)
{
    if (payload < RECORD_WINDOW_MIN_BYTES)
        payload = RECORD_WINDOW_MIN_BYTES;
    return window < payload ? window : (uint32_t)payload;
}

static void size_budgets(struct diwarp_qp *qp)
{
    /* The kernel charges truesize: what is left for payload depends on the datagram. Of those that
     * are not long, plan for those of MTU 1500. */
    uint64_t record_truesize =
        (uint64_t)qp->llp->rcvbuf_bytes * RECORD_SHARE_NUM / RECORD_SHARE_DEN;
    uint64_t payload = record_truesize * 1400 / dw_llp_truesize(1472);
    uint64_t long_payload =
        record_truesize * (DW_LLP_LONG_BYTES - 72) / dw_llp_truesize(DW_LLP_LONG_BYTES);
    uint32_t window = qp->device->attr.record_window_bytes;
    if (!window)
        window = qp->device->attr.shared_cores ? SHARED_RECORD_WINDOW_BYTES : RECORD_WINDOW_BYTES;
    if (!qp->mtu_max_bytes)
        qp->mtu_max_bytes = mtu_max_bytes(qp, payload, long_payload);
    qp->grant_budget_bytes = within_window(payload, window);
    qp->grant_budget_long_bytes = within_window(long_payload, window);
    qp->eager_budget_bytes = qp->llp->rcvbuf_bytes - (uint32_t)record_truesize;
}

/* ---- giving back what is not needed any more ---- */

void dw_qp_trim_later(struct diwarp_qp *qp, uint64_t now_ns)
{
    uint64_t wait_ns = (qp->device->env.rest_ns / 2) << qp->trims_in_vain;
    if (!qp->trim_timer.slot)
        dw_heap_set(&qp->timers, &qp->trim_timer, now_ns + wait_ns);
}

static void on_trim(struct dw_timer *timer, uint64_t now_ns)
{
    struct diwarp_qp *qp = dw_container(timer, struct diwarp_qp, trim_timer);
    bool more;
    if (!dw_peer_rest_some(qp, now_ns, &more)) {
        dw_heap_set(&qp->timers, timer, now_ns + TRIM_GOES_ON_NS);
        return;
    }
    if (qp->trimmed)
        qp->trims_in_vain = 0;
    else if (qp->trims_in_vain < TRIMS_IN_VAIN_MAX)
        qp->trims_in_vain++;
    qp->trimmed = false;
    more |= dw_slab_trim(&qp->datagrams);
    more |= dw_receive_trim(qp);
    more |= dw_cq_trim(qp->cq);
    more |= dw_deliver_trim(qp);
    more |= dw_work_trim(qp);
    if (more)
        dw_qp_trim_later(qp, now_ns);
}

static void init_lists(struct diwarp_qp *qp)
{
    struct dw_list *heads[] = {
        &qp->flush,           &qp->ack,  &qp->held_control, &qp->free_works, &qp->done_assemblies,
        &qp->free_assemblies, &qp->want, &qp->ready,
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        dw_list_init(heads[i]);
    struct dw_map *maps[] = {&qp->ahs, &qp->sinks, &qp->sources, &qp->atomics};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        dw_map_init(maps[i], dw_device_random(qp->device));
    dw_heap_init(&qp->timers);
    qp->trim_timer.fire = on_trim;
}

/* The memory it has from the start. */
static int map_buffers(struct diwarp_qp *qp)
{
    qp->stage = dw_pages_map(DW_LLP_SLOT_BYTES, 4096);
    qp->arena = dw_pages_map(DW_ARENA_BYTES, 4096);
    if (!qp->stage || !qp->arena || dw_heap_reserve(&qp->timers)) /* trim_timer */
        return -ENOMEM;
    int rc = dw_slab_init(&qp->datagrams, qp->device->attr.send_pool_bytes);
    return rc || qp->attr.type == DIWARP_QPT_UD ? rc : dw_deliver_init(qp);
}

static void unmap_buffers(struct diwarp_qp *qp)
{
    dw_pages_unmap(qp->stage, DW_LLP_SLOT_BYTES);
    dw_pages_unmap(qp->arena, DW_ARENA_BYTES);
    dw_deliver_fini(qp);
    dw_slab_fini(&qp->datagrams);
    dw_heap_fini(&qp->timers);
}

/* Past the cache, even where that takes a little longer: what goes through it pushes out what the
 * kernel copies next. */
#define COPY_PAST_PERCENT 125

static void choose_ways(struct diwarp_qp *qp)
{
    const bool rd = qp->attr.type == DIWARP_QPT_RD;
    qp->copy_way = (struct dw_faster_way){
        .choose = rd && dw_crc32c_copies_faster(),
        .most_percent = COPY_PAST_PERCENT,
    };
}

int diwarp_create_qp(struct diwarp_pd *pd, const struct diwarp_qp_attr *attr,
                     struct diwarp_qp **qp_out, struct diwarp_diagnosis *why)
{
    struct diwarp_diagnosis ignored;
    if (!why)
        why = &ignored;
    why->text[0] = '\0';
    if (!attr->cq || attr->cq->device != pd->device || !attr->max_send_wr || !attr->max_msg_bytes ||
        attr->max_msg_bytes > 1u << 30 ||
        (attr->type != DIWARP_QPT_UD && attr->type != DIWARP_QPT_RD)) {
        snprintf(why->text, sizeof why->text, "malformed queue pair attributes");
        return -EINVAL;
    }
    struct diwarp_qp *qp = calloc(1, sizeof *qp);
    if (!qp)
        return -ENOMEM;
    qp->pd = pd;
    qp->device = pd->device;
    qp->cq = attr->cq;
    qp->attr = *attr;
    qp->crc = qp->device->attr.crc != DIWARP_OFF;
    qp->next_id = qp->device->env.first_serial;
    init_lists(qp);
    qp->token = dw_device_random(qp->device);
    qp->incarnation = (uint32_t)dw_device_random(qp->device);
    qp->number = dw_device_random(qp->device) >> 17;
    int rc = map_buffers(qp);
    if (rc)
        goto err_free;
    rc = open_llp(qp, why);
    if (rc)
        goto err_free;
    size_budgets(qp);
    choose_ways(qp);
    if (attr->type == DIWARP_QPT_UD && (rc = dw_ud_create(qp)))
        goto err_llp;
    dw_lock(qp->device);
    dw_list_append(&pd->qps, &qp->pd_link);
    dw_cq_attach(qp->cq, qp);
    dw_unlock(qp->device);
    *qp_out = qp;
    return 0;

err_llp:
    qp->llp->ops->close(qp->llp);
err_free:
    unmap_buffers(qp);
    free(qp);
    return rc;
}

void diwarp_qp_share_cores(struct diwarp_qp *qp)
{
    dw_lock(qp->device);
    qp->device->attr.shared_cores = true;
    size_budgets(qp);
    dw_unlock(qp->device);
}

static void free_works(struct diwarp_qp *qp)
{
    /* Twice: what was needed since the last time is kept. */
    for (unsigned i = 0; i < 2; i++)
        (void)dw_work_trim(qp);
}

void diwarp_destroy_qp(struct diwarp_qp *qp)
{
    dw_lock(qp->device);
    dw_list_remove(&qp->pd_link);
    dw_ah_forget_all(qp);
    dw_cq_detach(qp);
    free_works(qp);
    if (qp->ud)
        dw_ud_destroy(qp);
    dw_map_fini(&qp->sinks);
    dw_map_fini(&qp->sources);
    dw_map_fini(&qp->atomics);
    qp->llp->ops->close(qp->llp);
    dw_unlock(qp->device);
    unmap_buffers(qp);
    free(qp);
}

void dw_qp_on_deregister(struct diwarp_qp *qp, const struct dw_region *region)
{
    uint64_t now_ns = dw_device_now_ns(qp->device);
    struct dw_peer *peer;
    for (size_t slot = 0; (peer = dw_peer_next(qp, &slot));) {
        dw_list_foreach (a, &peer->sinks) {
            struct dw_sink *sink = dw_container(a, struct dw_sink, peer_link);
            if (sink->region == region) {
                uint32_t id = sink->id;
                dw_sink_destroy(sink);
                dw_rdma_abort(peer, id, DW_STATUS_CANCELLED, now_ns);
                if (peer->ah->gone)
                    break;
            }
        }
        dw_list_foreach (b, &peer->sources) {
            struct dw_source *source = dw_container(b, struct dw_source, peer_link);
            if (source->region == region) {
                uint32_t id = source->id;
                dw_source_destroy(source);
                dw_rdma_abort(peer, id, DW_STATUS_CANCELLED, now_ns);
                if (peer->ah->gone)
                    break;
            }
        }
    }
}

/* ---- queries ---- */

void diwarp_query_qp(const struct diwarp_qp *qp, struct diwarp_qp_info *info)
{
    *info = (struct diwarp_qp_info){
        .rcvbuf_bytes = qp->llp->rcvbuf_bytes,
        .sndbuf_bytes = qp->llp->sndbuf_bytes,
        .gso = qp->llp->gso,
        .gro = qp->llp->gro,
        .max_inline_bytes = DW_INLINE_WRITE_BYTES,
        .fd = qp->llp->fd,
    };
}

const struct diwarp_counters *diwarp_query_counters(const struct diwarp_qp *qp)
{
    return &qp->counters;
}
