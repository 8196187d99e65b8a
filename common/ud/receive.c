/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UD service: dispatch, and Sends into posted receives. At most once, maybe lost; a lost
 * segment loses its own range and nothing else.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/copy.h"
#include "common/ud/ud.h"

struct posted_recv {
    struct dw_list link;
    uint64_t wr_id;
    uint32_t length;
    unsigned sge_count;
    struct iovec sge[DW_MAX_SGE];
};

/* A Send of several segments on its way into a posted receive. */
struct assembly {
    struct dw_list link; /* in dw_ud_qp.assemblies */
    struct dw_ud_qp *qp;
    struct dw_ud_source *source;
    struct posted_recv *recv;
    struct dw_timer timer;
    struct dw_ranges map;
    uint32_t msn, total, imm;
};

int dw_ud_create(struct diwarp_qp *qp)
{
    struct dw_ud_qp *ud = dw_ud_qp_of(qp);
    struct diwarp_device *device = qp->port->device;
    struct dw_map *maps[] = {&ud->open_assemblies, &ud->open_records, &ud->targets};
    struct dw_list *heads[] = {&ud->assemblies, &ud->records, &ud->recvs, &ud->free_recvs};
    dw_ud_sources_init(ud);
    /* A QP that was here before may have sent with the same MSNs. */
    qp->port->datagrams.number += DW_UD_NUMBERS_ANEW;
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        dw_map_init(maps[i], dw_device_random(device));
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        dw_list_init(heads[i]);
    return 0;
}

static void end_assembly(struct assembly *assembly, struct dw_list *recv_to)
{
    dw_heap_set(&assembly->qp->qp.port->timers, &assembly->timer, DW_NEVER);
    dw_heap_unreserve(&assembly->qp->qp.port->timers);
    dw_map_remove(&assembly->qp->open_assemblies, dw_ud_key(assembly->source, assembly->msn));
    dw_list_remove(&assembly->link);
    assembly->source->recvs--;
    dw_list_prepend(recv_to, &assembly->recv->link);
    dw_ranges_fini(&assembly->map);
    free(assembly);
}

static void free_recvs(struct dw_list *head)
{
    dw_list_foreach (it, head) {
        dw_list_remove(it);
        free(dw_container(it, struct posted_recv, link));
    }
}

void dw_ud_destroy(struct diwarp_qp *qp)
{
    struct dw_ud_qp *ud = dw_ud_qp_of(qp);
    dw_list_foreach (a, &ud->assemblies)
        end_assembly(dw_container(a, struct assembly, link), &ud->recvs);
    dw_list_foreach (r, &ud->records)
        dw_ud_record_destroy(dw_container(r, struct diwarp_record, link));
    free_recvs(&ud->recvs);
    free_recvs(&ud->free_recvs);
    dw_map_fini(&ud->open_assemblies);
    dw_map_fini(&ud->open_records);
    dw_ud_targets_fini(ud);
    dw_ud_sources_fini(ud);
}

void dw_ud_add_memory(const struct dw_ud_qp *ud, struct diwarp_memory *memory)
{
    memory->receive_bytes += dw_list_bytes(&ud->recvs, sizeof(struct posted_recv)) +
                             dw_list_bytes(&ud->free_recvs, sizeof(struct posted_recv));
    memory->assembly_bytes += dw_list_bytes(&ud->assemblies, sizeof(struct assembly)) +
                              dw_map_bytes(&ud->open_assemblies);
    memory->record_bytes +=
        dw_list_bytes(&ud->records, sizeof(struct diwarp_record)) + dw_map_bytes(&ud->open_records);
    memory->address_bytes +=
        ud->targets.count * sizeof(struct dw_ud_target) + dw_map_bytes(&ud->targets);
    dw_ud_sources_add_memory(ud, memory);
}

/* ---- receiving Sends ---- */

static struct posted_recv *get_recv(struct dw_ud_qp *ud)
{
    if (dw_list_empty(&ud->free_recvs))
        return malloc(sizeof(struct posted_recv));
    struct posted_recv *recv = dw_container(ud->free_recvs.next, struct posted_recv, link);
    dw_list_remove(&recv->link);
    return recv;
}

int dw_ud_post_recv(struct diwarp_qp *qp, const struct ibv_recv_wr *wr)
{
    struct dw_ud_qp *ud = dw_ud_qp_of(qp);
    struct iovec iov[DW_MAX_SGE];
    int64_t total =
        dw_pd_gather(qp->pd, wr->sg_list, wr->num_sge, IBV_ACCESS_LOCAL_WRITE, UINT32_MAX, iov);
    if (total < 0)
        return (int)total;
    if (ud->recv_count >= qp->attr.max_recv_wr)
        return -ENOMEM;
    struct posted_recv *recv = get_recv(ud);
    if (!recv)
        return -ENOMEM;
    recv->wr_id = wr->wr_id;
    recv->length = (uint32_t)total;
    recv->sge_count = (unsigned)wr->num_sge;
    for (unsigned i = 0; i < recv->sge_count; i++)
        recv->sge[i] = iov[i];
    dw_list_append(&ud->recvs, &recv->link);
    ud->recv_count++;
    return 0;
}

static struct posted_recv *take_recv(struct dw_ud_qp *ud)
{
    if (dw_list_empty(&ud->recvs))
        return NULL;
    struct posted_recv *recv = dw_container(ud->recvs.next, struct posted_recv, link);
    dw_list_remove(&recv->link);
    return recv;
}

static void scatter(const struct posted_recv *recv, uint32_t offset, const uint8_t *data,
                    uint32_t length)
{
    for (unsigned i = 0; i < recv->sge_count && length; i++) {
        size_t room = recv->sge[i].iov_len;
        if (offset >= room) {
            offset -= (uint32_t)room;
            continue;
        }
        size_t n = room - offset < length ? room - offset : length;
        dw_copy((uint8_t *)recv->sge[i].iov_base + offset, data, n);
        data += n;
        length -= (uint32_t)n;
        offset = 0;
    }
}

/* Hands the receive over; one that was too short for its message says so, as in verbs. */
static void complete_recv(struct dw_ud_qp *ud, const struct dw_ud_source *source,
                          const struct posted_recv *recv, const struct dw_ddp_header *ddp,
                          uint32_t bytes)
{
    bool imm = ddp->opcode == DW_RDMAP_SEND_IMM;
    struct diwarp_wc wc = {
        .wc = {.wr_id = recv->wr_id,
               .status = bytes > recv->length ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS,
               .opcode = IBV_WC_RECV,
               .byte_len = bytes,
               .qp_num = ud->qp.num,
               .src_qp = source->qpn,
               .imm_data = imm ? ddp->ulp : 0,
               .wc_flags = imm ? IBV_WC_WITH_IMM : 0},
        .src = source->name,
    };
    dw_ud_counters(ud)->rx_send_msgs++;
    ud->recv_count--;
    dw_cq_push(ud->qp.cq, &wc);
}

/* The message stays incomplete: its receive serves the next one. */
static void on_assembly_timer(struct dw_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    struct assembly *assembly = dw_container(timer, struct assembly, timer);
    dw_ud_counters(assembly->qp)->rx_partial_msgs++;
    end_assembly(assembly, &assembly->qp->recvs);
}

static struct assembly *begin_assembly(struct dw_ud_qp *ud, struct dw_ud_source *source,
                                       uint32_t msn, uint64_t now_ns)
{
    struct dw_heap *timers = &ud->qp.port->timers;
    const uint32_t left = ud->recv_count - (uint32_t)ud->open_assemblies.count;
    struct assembly *assembly = source->recvs < left ? calloc(1, sizeof *assembly) : NULL;
    if (!assembly)
        return NULL;
    if (dw_heap_reserve(timers))
        goto err_free;
    if (dw_map_put(&ud->open_assemblies, dw_ud_key(source, msn), assembly))
        goto err_unreserve;
    assembly->recv = take_recv(ud);
    assembly->qp = ud;
    assembly->source = source;
    source->recvs++;
    assembly->msn = msn;
    assembly->timer.fire = on_assembly_timer;
    dw_ranges_init(&assembly->map);
    dw_list_append(&ud->assemblies, &assembly->link);
    dw_heap_set(timers, &assembly->timer, dw_deadline_ns(now_ns, ud->qp.attr.record_time_ns));
    return assembly;

err_unreserve:
    dw_heap_unreserve(timers);
err_free:
    free(assembly);
    return NULL;
}

static void on_long_send(struct dw_ud_qp *ud, struct dw_ud_source *source,
                         const struct dw_segment *segment, uint64_t now_ns)
{
    const struct dw_ddp_header *ddp = &segment->ddp;
    uint64_t end = (uint64_t)ddp->mo + segment->bytes;
    if (!segment->bytes || end > ud->qp.attr.max_msg_bytes) {
        dw_ud_counters(ud)->drop_header++;
        return;
    }
    struct assembly *assembly = dw_map_get(&ud->open_assemblies, dw_ud_key(source, ddp->msn));
    if (assembly && !dw_segment_agrees(segment, (uint32_t)end, &assembly->map, assembly->total)) {
        dw_ud_counters(ud)->drop_header++;
        return;
    }
    if (!assembly) {
        if (dw_seen_check(&source->msns, ddp->msn)) {
            dw_ud_counters(ud)->rx_dup_datagrams++;
            return;
        }
        assembly = begin_assembly(ud, source, ddp->msn, now_ns);
        if (!assembly) {
            dw_ud_counters(ud)->drop_no_buffer++;
            return;
        }
        dw_seen_add(&source->msns, ddp->msn);
    }
    if (dw_ranges_add(&assembly->map, ddp->mo, (uint32_t)end) < 0) {
        dw_ud_counters(ud)->drop_no_buffer++;
        return;
    }
    scatter(assembly->recv, ddp->mo, segment->payload, segment->bytes);
    if (ddp->last)
        assembly->total = (uint32_t)end;
    if (assembly->total && assembly->map.bytes >= assembly->total) {
        complete_recv(ud, source, assembly->recv, ddp, assembly->total);
        end_assembly(assembly, &ud->free_recvs);
    }
}

static void on_send(struct dw_ud_qp *ud, struct dw_ud_source *source,
                    const struct dw_segment *segment, uint64_t now_ns)
{
    const struct dw_ddp_header *ddp = &segment->ddp;
    if (!ddp->last || ddp->mo) {
        on_long_send(ud, source, segment, now_ns);
        return;
    }
    if (dw_seen_check(&source->msns, ddp->msn)) {
        dw_ud_counters(ud)->rx_dup_datagrams++;
        return;
    }
    struct posted_recv *recv = take_recv(ud);
    if (!recv) {
        dw_ud_counters(ud)->drop_no_buffer++;
        return;
    }
    dw_seen_add(&source->msns, ddp->msn);
    scatter(recv, 0, segment->payload, segment->bytes);
    complete_recv(ud, source, recv, ddp, segment->bytes);
    dw_list_prepend(&ud->free_recvs, &recv->link);
}

/* ---- every datagram ---- */

void dw_ud_take(struct dw_ud_qp *ud, const struct dw_arrival *arrival, uint64_t now_ns)
{
    struct diwarp_counters *counters = dw_ud_counters(ud);
    struct dw_ud_source *source = dw_ud_source_of(ud, &arrival->header, now_ns);
    if (!source)
        return;
    struct dw_segment segment;
    uint32_t offset = 0;
    while (dw_segment_next(counters, arrival->segments, arrival->segments_len, &offset, &segment) >
           0) {
        if (segment.ddp.opcode == DW_RDMAP_SEND || segment.ddp.opcode == DW_RDMAP_SEND_IMM)
            on_send(ud, source, &segment, now_ns);
        else if (segment.ddp.opcode == DW_RDMAP_WRITE_RECORD)
            dw_ud_on_record_segment(ud, source, &segment, now_ns);
        else
            counters->drop_header++;
    }
}
