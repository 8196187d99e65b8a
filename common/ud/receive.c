/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UD service: its sources, dispatch, and Sends into posted receives. At most once, maybe lost;
 * a lost segment loses its own range and nothing else.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/copy.h"
#include "common/base/siphash.h"
#include "common/rd/receive.h"
#include "common/ud/ud.h"

/* Sources remembered. Datagrams of further ones are dropped, unless one can be forgotten. */
#define SOURCES_MAX 65536
/* After so long nothing comes twice. What a source has sent to others meanwhile may be half of all
 * numbers, and the next would look like one long past. */
#define SEEN_FORGOTTEN_NS 10000000000u

struct posted_recv {
    struct dw_list link;
    uint64_t wr_id;
    uint32_t length;
    unsigned sge_count;
    struct iovec sge[DW_MAX_SGE];
};

/* A Send of several segments on its way into a posted receive. */
struct assembly {
    struct dw_list link; /* in dw_ud.assemblies */
    struct diwarp_qp *qp;
    struct dw_ud_source *source;
    struct posted_recv *recv;
    struct dw_timer timer;
    struct dw_ranges map;
    uint32_t msn, total, imm;
};

int dw_ud_create(struct diwarp_qp *qp)
{
    struct dw_ud *ud = calloc(1, sizeof *ud);
    if (!ud)
        return -ENOMEM;
    ud->next_msn = ud->next_record = qp->device->env.first_serial;
    dw_map_init(&ud->source_by_key, dw_device_random(qp->device));
    struct dw_list *heads[] = {&ud->sources, &ud->assemblies, &ud->records, &ud->recvs,
                               &ud->free_recvs};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        dw_list_init(heads[i]);
    qp->ud = ud;
    return 0;
}

static void end_assembly(struct assembly *assembly, struct dw_list *recv_to)
{
    dw_heap_set(&assembly->qp->timers, &assembly->timer, DW_NEVER);
    dw_heap_unreserve(&assembly->qp->timers);
    dw_list_remove(&assembly->link);
    assembly->source->users--;
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
    struct dw_ud *ud = qp->ud;
    dw_list_foreach (a, &ud->assemblies)
        end_assembly(dw_container(a, struct assembly, link), &ud->recvs);
    dw_list_foreach (r, &ud->records)
        dw_ud_record_destroy(dw_container(r, struct diwarp_record, link));
    dw_list_foreach (s, &ud->sources)
        free(dw_container(s, struct dw_ud_source, link));
    free_recvs(&ud->recvs);
    free_recvs(&ud->free_recvs);
    dw_map_fini(&ud->source_by_key);
    free(ud);
    qp->ud = NULL;
}

static uint64_t list_count(const struct dw_list *head)
{
    uint64_t count = 0;
    dw_list_foreach (it, head)
        count++;
    return count;
}

void dw_ud_query_memory(const struct diwarp_qp *qp, struct diwarp_memory *memory)
{
    const struct dw_ud *ud = qp->ud;
    memory->base_bytes += sizeof *ud;
    memory->receive_bytes +=
        (list_count(&ud->recvs) + list_count(&ud->free_recvs)) * sizeof(struct posted_recv);
    memory->assembly_bytes += list_count(&ud->assemblies) * sizeof(struct assembly);
    memory->record_bytes += list_count(&ud->records) * sizeof(struct diwarp_record);
    const uint64_t sources = list_count(&ud->sources);
    memory->peers += sources;
    memory->peer_bytes += sources * sizeof(struct dw_ud_source) +
                          ud->source_by_key.capacity * sizeof *ud->source_by_key.slots;
}

/* ---- receiving Sends ---- */

int dw_ud_post_recv(struct diwarp_qp *qp, const struct ibv_recv_wr *wr)
{
    struct dw_ud *ud = qp->ud;
    if (wr->num_sge < 0 || wr->num_sge > DW_MAX_SGE)
        return -EINVAL;
    if (ud->recv_count >= qp->attr.max_recv_wr)
        return -ENOMEM;
    struct posted_recv *recv;
    if (!dw_list_empty(&ud->free_recvs)) {
        recv = dw_container(ud->free_recvs.next, struct posted_recv, link);
        dw_list_remove(&recv->link);
    } else if (!(recv = malloc(sizeof *recv))) {
        return -ENOMEM;
    }
    recv->wr_id = wr->wr_id;
    recv->length = 0;
    recv->sge_count = (unsigned)wr->num_sge;
    for (int i = 0; i < wr->num_sge; i++) {
        const struct ibv_sge *sge = &wr->sg_list[i];
        struct dw_region *region;
        if (sge->lkey && dw_mr_check(&qp->pd->mrs, sge->lkey, sge->addr, sge->length,
                                     IBV_ACCESS_LOCAL_WRITE, &region)) {
            dw_list_prepend(&ud->free_recvs, &recv->link);
            return -EACCES;
        }
        recv->sge[i] =
            (struct iovec){.iov_base = (void *)(uintptr_t)sge->addr, .iov_len = sge->length};
        recv->length += sge->length;
    }
    dw_list_append(&ud->recvs, &recv->link);
    ud->recv_count++;
    return 0;
}

static struct posted_recv *take_recv(struct dw_ud *ud)
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
static void complete_recv(struct diwarp_qp *qp, const struct dw_ud_source *source,
                          const struct posted_recv *recv, const struct dw_ddp_header *ddp,
                          uint32_t bytes)
{
    bool imm = ddp->opcode == DW_RDMAP_SEND_IMM;
    struct diwarp_wc wc = {
        .wc = {.wr_id = recv->wr_id,
               .status = bytes > recv->length ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS,
               .opcode = IBV_WC_RECV,
               .byte_len = bytes,
               .qp_num = qp->num,
               .imm_data = imm ? ddp->ulp : 0,
               .wc_flags = imm ? IBV_WC_WITH_IMM : 0},
        .src = source->name,
    };
    qp->counters.rx_send_msgs++;
    qp->ud->recv_count--;
    dw_cq_push(qp->cq, &wc);
}

/* The message stays incomplete: its receive serves the next one. */
static void on_assembly_timer(struct dw_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    struct assembly *assembly = dw_container(timer, struct assembly, timer);
    assembly->qp->counters.rx_partial_msgs++;
    end_assembly(assembly, &assembly->qp->ud->recvs);
}

static struct assembly *find_assembly(struct dw_ud *ud, const struct dw_ud_source *source,
                                      uint32_t msn)
{
    dw_list_foreach (it, &ud->assemblies) {
        struct assembly *assembly = dw_container(it, struct assembly, link);
        if (assembly->source == source && assembly->msn == msn)
            return assembly;
    }
    return NULL;
}

static struct assembly *begin_assembly(struct diwarp_qp *qp, struct dw_ud_source *source,
                                       uint32_t msn, uint64_t now_ns)
{
    struct dw_ud *ud = qp->ud;
    struct assembly *assembly = calloc(1, sizeof *assembly);
    if (!assembly)
        return NULL;
    if (dw_list_empty(&ud->recvs) || dw_heap_reserve(&qp->timers)) {
        free(assembly);
        return NULL;
    }
    assembly->recv = take_recv(ud);
    assembly->qp = qp;
    assembly->source = source;
    source->users++;
    assembly->msn = msn;
    assembly->timer.fire = on_assembly_timer;
    dw_ranges_init(&assembly->map);
    dw_list_append(&ud->assemblies, &assembly->link);
    dw_heap_set(&qp->timers, &assembly->timer, dw_deadline_ns(now_ns, qp->attr.record_time_ns));
    return assembly;
}

static void on_long_send(struct diwarp_qp *qp, struct dw_ud_source *source,
                         const struct dw_segment *segment, uint64_t now_ns)
{
    const struct dw_ddp_header *ddp = &segment->ddp;
    uint64_t end = (uint64_t)ddp->mo + segment->bytes;
    if (!segment->bytes || end > qp->attr.max_msg_bytes) {
        qp->counters.drop_header++;
        return;
    }
    struct assembly *assembly = find_assembly(qp->ud, source, ddp->msn);
    if (!assembly) {
        if (dw_seen_check(&source->msns, ddp->msn)) {
            qp->counters.rx_dup_datagrams++;
            return;
        }
        assembly = begin_assembly(qp, source, ddp->msn, now_ns);
        if (!assembly) {
            qp->counters.drop_no_buffer++;
            return;
        }
        dw_seen_add(&source->msns, ddp->msn);
    }
    if (dw_ranges_add(&assembly->map, ddp->mo, (uint32_t)end) < 0) {
        qp->counters.drop_no_buffer++;
        return;
    }
    scatter(assembly->recv, ddp->mo, segment->payload, segment->bytes);
    if (ddp->last)
        assembly->total = (uint32_t)end;
    if (assembly->total && assembly->map.bytes >= assembly->total) {
        complete_recv(qp, source, assembly->recv, ddp, assembly->total);
        end_assembly(assembly, &qp->ud->free_recvs);
    }
}

static void on_send(struct diwarp_qp *qp, struct dw_ud_source *source,
                    const struct dw_segment *segment, uint64_t now_ns)
{
    const struct dw_ddp_header *ddp = &segment->ddp;
    if (!ddp->last || ddp->mo) {
        on_long_send(qp, source, segment, now_ns);
        return;
    }
    if (dw_seen_check(&source->msns, ddp->msn)) {
        qp->counters.rx_dup_datagrams++;
        return;
    }
    struct posted_recv *recv = take_recv(qp->ud);
    if (!recv) {
        qp->counters.drop_no_buffer++;
        return;
    }
    dw_seen_add(&source->msns, ddp->msn);
    scatter(recv, 0, segment->payload, segment->bytes);
    complete_recv(qp, source, recv, ddp, segment->bytes);
    dw_list_prepend(&qp->ud->free_recvs, &recv->link);
}

/* ---- every datagram ---- */

/* Nobody can choose a name and an incarnation that have the key of others. */
static uint64_t key_of(const struct diwarp_qp *qp, struct diwarp_name name, uint32_t incarnation)
{
    const uint64_t *random_key = qp->device->random_key;
    return dw_siphash(random_key, dw_name_key(name) ^ dw_siphash(random_key, incarnation));
}

/* Room for one more: the one that has been silent for longest goes, if nothing of it may come again.
 */
static bool make_room(struct diwarp_qp *qp, uint64_t now_ns)
{
    struct dw_ud *ud = qp->ud;
    if (ud->source_by_key.count < SOURCES_MAX)
        return true;
    struct dw_ud_source *source = dw_container(ud->sources.next, struct dw_ud_source, link);
    if (source->users || now_ns - source->heard_ns <= SEEN_FORGOTTEN_NS)
        return false;
    dw_map_remove(&ud->source_by_key, key_of(qp, source->name, source->incarnation));
    dw_list_remove(&source->link);
    free(source);
    return true;
}

/* NULL: there are too many, or no memory. */
static struct dw_ud_source *source_of(struct diwarp_qp *qp, const struct dw_llp_header *header,
                                      uint64_t now_ns)
{
    struct dw_ud *ud = qp->ud;
    struct diwarp_name name = {.job = header->job, .rank = header->rank};
    const uint64_t key = key_of(qp, name, header->incarnation);
    struct dw_ud_source *source = dw_map_get(&ud->source_by_key, key);
    if (source) {
        if (now_ns - source->heard_ns > SEEN_FORGOTTEN_NS)
            source->msns.any = source->records.any = false;
        source->heard_ns = now_ns;
        dw_list_remove(&source->link);
        dw_list_append(&ud->sources, &source->link);
        return source;
    }
    source = make_room(qp, now_ns) ? calloc(1, sizeof *source) : NULL;
    if (!source)
        return NULL;
    source->name = name;
    source->incarnation = header->incarnation;
    source->heard_ns = now_ns;
    if (dw_map_put(&ud->source_by_key, key, source)) {
        free(source);
        return NULL;
    }
    dw_list_append(&ud->sources, &source->link);
    return source;
}

void dw_ud_on_datagram(struct diwarp_qp *qp, const struct dw_llp_header *header,
                       const uint8_t *segments, uint32_t len, uint64_t now_ns)
{
    struct dw_ud_source *source = source_of(qp, header, now_ns);
    if (!source) {
        qp->counters.drop_source++;
        return;
    }
    struct dw_segment segment;
    uint32_t offset = 0;
    while (dw_next_segment(qp, segments, len, &offset, &segment) > 0) {
        if (segment.ddp.opcode == DW_RDMAP_SEND || segment.ddp.opcode == DW_RDMAP_SEND_IMM)
            on_send(qp, source, &segment, now_ns);
        else if (segment.ddp.opcode == DW_RDMAP_WRITE_RECORD)
            dw_ud_on_record_segment(qp, source, &segment, now_ns);
        else
            qp->counters.drop_header++;
    }
}
