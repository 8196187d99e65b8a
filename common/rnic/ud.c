/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UD service: Sends into posted receives, and Write-Records whose validity map may stay
 * partial. At most once, maybe lost; a lost segment loses its own range and nothing else.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/rnic/lock.h"
#include "common/rnic/qp.h"
#include "common/wire/bytes.h"

/* Sources remembered; datagrams of further ones are dropped. */
#define SOURCES_MAX 65536

struct posted_recv {
    struct dw_list link;
    uint64_t wr_id;
    uint32_t length;
    unsigned sge_count;
    struct iovec sge[DW_MAX_SGE];
};

/* What has been seen of a source. */
struct source {
    struct dw_list link; /* in dw_ud.sources */
    struct diwarp_name name;
    uint32_t incarnation;
    struct dw_seen msns;
    struct dw_seen records; /* that have ended */
};

/* A Send of several segments on its way into a posted receive. */
struct assembly {
    struct dw_list link; /* in dw_ud.assemblies */
    struct diwarp_qp *qp;
    struct source *source;
    struct posted_recv *recv;
    struct dw_timer timer;
    struct dw_ranges map;
    uint32_t msn, total, imm;
};

struct diwarp_record {
    struct dw_list link; /* in dw_ud.records, oldest first */
    struct diwarp_qp *qp;
    struct source *source;
    struct dw_timer timer;
    struct dw_ranges map;
    uint32_t id, total, stag;
    uint64_t to; /* of offset 0 */
    bool handed_over;
};

struct dw_ud {
    struct dw_map source_by_name;
    struct dw_list sources, assemblies, records;
    struct dw_list recvs, free_recvs;
    uint32_t recv_count, record_count;
    uint32_t next_msn, next_record;
};

int dw_ud_create(struct diwarp_qp *qp)
{
    struct dw_ud *ud = calloc(1, sizeof *ud);
    if (!ud)
        return -ENOMEM;
    dw_map_init(&ud->source_by_name, dw_device_random(qp->device));
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
    dw_list_remove(&assembly->link);
    dw_list_prepend(recv_to, &assembly->recv->link);
    dw_ranges_fini(&assembly->map);
    free(assembly);
}

static void free_record(struct diwarp_record *record)
{
    dw_heap_set(&record->qp->timers, &record->timer, DW_NEVER);
    dw_list_remove(&record->link);
    record->qp->ud->record_count--;
    dw_ranges_fini(&record->map);
    free(record);
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
        free_record(dw_container(r, struct diwarp_record, link));
    dw_list_foreach (s, &ud->sources)
        free(dw_container(s, struct source, link));
    free_recvs(&ud->recvs);
    free_recvs(&ud->free_recvs);
    dw_map_fini(&ud->source_by_name);
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
    memory->peers = list_count(&ud->sources);
    memory->peer_bytes += memory->peers * sizeof(struct source) +
                          ud->source_by_name.capacity * sizeof *ud->source_by_name.slots;
}

/* ---- sending ---- */

/* One message on its way out. */
struct outgoing {
    struct diwarp_qp *qp;
    struct diwarp_ah *ah;
    struct dw_ddp_header ddp;
    uint32_t record_id;
    const struct iovec *iov;
    size_t iov_skip; /* bytes of *iov that are sent */
    uint32_t total, sent;
};

static void copy_payload(struct outgoing *out, uint8_t *to, uint32_t length)
{
    while (length) {
        size_t n = out->iov->iov_len - out->iov_skip;
        if (n > length)
            n = length;
        memcpy(to, (const uint8_t *)out->iov->iov_base + out->iov_skip, n);
        to += n;
        length -= (uint32_t)n;
        out->iov_skip += n;
        if (out->iov_skip == out->iov->iov_len) {
            out->iov++;
            out->iov_skip = 0;
        }
    }
}

static uint32_t build(struct outgoing *out, uint8_t *buf, uint32_t payload)
{
    struct diwarp_qp *qp = out->qp;
    struct dw_llp_header header = {
        .type = DW_LLP_UD,
        .flags = qp->crc ? 0 : DW_LLP_NO_CRC,
        .incarnation = qp->incarnation,
        .token = out->ah->token,
        .job = qp->device->attr.name.job,
        .rank = qp->device->attr.name.rank,
    };
    dw_llp_header_put(buf, &header);
    struct dw_ddp_header ddp = out->ddp;
    ddp.last = out->sent + payload == out->total;
    if (ddp.tagged)
        ddp.to += out->sent;
    else
        ddp.mo = out->sent;
    uint8_t *segment = buf + DW_LLP_HEADER_BYTES;
    size_t at = DW_SEGMENT_LEN_BYTES + dw_ddp_put(segment + DW_SEGMENT_LEN_BYTES, &ddp);
    if (ddp.tagged) {
        struct dw_write_record wr = {
            .id = out->record_id, .offset = out->sent, .total = out->total};
        dw_write_record_put(segment + at, &wr);
        at += DW_WRITE_RECORD_BYTES;
    }
    copy_payload(out, segment + at, payload);
    out->sent += payload;
    at += payload;
    dw_put_be16(segment, (uint16_t)(at - DW_SEGMENT_LEN_BYTES));
    return dw_put_trailer(qp, buf, DW_LLP_HEADER_BYTES + (uint32_t)at);
}

/* Trains of equal datagrams. Only a first one that cannot leave is an error: later ones that the
 * socket refuses are losses, as on the wire. */
static int transmit(struct outgoing *out)
{
    struct diwarp_qp *qp = out->qp;
    uint32_t head = out->ddp.tagged ? DW_RECORD_SEGMENT_BYTES : DW_SEND_SEGMENT_BYTES;
    uint32_t payload_max = out->ah->datagram_max_bytes - DW_LLP_HEADER_BYTES - head - DW_CRC_BYTES;
    for (bool first = true; first || out->sent < out->total; first = false) {
        uint32_t bytes = 0, segment = 0;
        unsigned n = 0;
        do {
            uint32_t left = out->total - out->sent;
            uint32_t one = build(out, qp->stage + bytes, left < payload_max ? left : payload_max);
            bytes += one;
            if (!n++)
                segment = one;
        } while (out->sent < out->total && n < DW_LLP_TRAIN_DATAGRAMS &&
                 bytes + segment <= DW_LLP_TRAIN_BYTES);
        struct iovec iov = {.iov_base = qp->stage, .iov_len = bytes};
        struct dw_llp_train train = {
            .to = &out->ah->addr,
            .iov = &iov,
            .iov_count = 1,
            .total_bytes = bytes,
            .segment_bytes = segment,
        };
        int rc = dw_llp_send(qp->llp, &train);
        if (rc && first)
            return rc;
    }
    return 0;
}

int dw_ud_post_send(struct diwarp_qp *qp, struct diwarp_ah *ah, const struct ibv_send_wr *wr,
                    uint64_t now_ns)
{
    (void)now_ns;
    struct dw_ud *ud = qp->ud;
    bool write = wr->opcode == IBV_WR_RDMA_WRITE;
    if (!write && wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM)
        return -EINVAL;
    struct iovec iov[DW_MAX_SGE];
    uint32_t max_bytes = write ? UINT32_MAX >> 1 : qp->attr.max_msg_bytes;
    int64_t total = dw_send_gather(qp, wr, 0, max_bytes, iov);
    if (total < 0 || (write && !total))
        return total < 0 ? (int)total : -EINVAL;
    struct outgoing out = {.qp = qp, .ah = ah, .iov = iov, .total = (uint32_t)total};
    if (write) {
        out.record_id = (ud->next_record + 1) | DW_RECORD_ID_FROM_SOURCE;
        out.ddp = (struct dw_ddp_header){
            .tagged = true,
            .opcode = DW_RDMAP_WRITE_RECORD,
            .stag = wr->wr.rdma.rkey,
            .to = wr->wr.rdma.remote_addr,
        };
    } else {
        bool imm = wr->opcode == IBV_WR_SEND_WITH_IMM;
        out.ddp = (struct dw_ddp_header){
            .opcode = imm ? DW_RDMAP_SEND_IMM : DW_RDMAP_SEND,
            .ulp = imm ? wr->imm_data : 0,
            .qn = DW_QN_SEND,
            .msn = ud->next_msn + 1,
        };
    }
    int rc = transmit(&out);
    if (rc) /* nothing has left: the next one may take its number */
        return rc;
    if (write) {
        ud->next_record++;
        qp->counters.tx_write_msgs++;
    } else {
        ud->next_msn++;
        qp->counters.tx_send_msgs++;
    }
    dw_cq_complete(qp, wr->wr_id, wr->send_flags & IBV_SEND_SIGNALED,
                   write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND, IBV_WC_SUCCESS, (uint32_t)total);
    return 0;
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
        memcpy((uint8_t *)recv->sge[i].iov_base + offset, data, n);
        data += n;
        length -= (uint32_t)n;
        offset = 0;
    }
}

/* Hands the receive over; one that was too short for its message says so, as in verbs. */
static void complete_recv(struct diwarp_qp *qp, const struct source *source,
                          const struct posted_recv *recv, const struct dw_ddp_header *ddp,
                          uint32_t bytes)
{
    bool imm = ddp->opcode == DW_RDMAP_SEND_IMM;
    struct diwarp_wc wc = {
        .wc = {.wr_id = recv->wr_id,
               .status = bytes > recv->length ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS,
               .opcode = IBV_WC_RECV,
               .byte_len = bytes,
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

static struct assembly *find_assembly(struct dw_ud *ud, const struct source *source, uint32_t msn)
{
    dw_list_foreach (it, &ud->assemblies) {
        struct assembly *assembly = dw_container(it, struct assembly, link);
        if (assembly->source == source && assembly->msn == msn)
            return assembly;
    }
    return NULL;
}

static struct assembly *begin_assembly(struct diwarp_qp *qp, struct source *source, uint32_t msn,
                                       uint64_t now_ns)
{
    struct dw_ud *ud = qp->ud;
    struct assembly *assembly = calloc(1, sizeof *assembly);
    if (!assembly)
        return NULL;
    assembly->recv = take_recv(ud);
    if (!assembly->recv) {
        free(assembly);
        return NULL;
    }
    assembly->qp = qp;
    assembly->source = source;
    assembly->msn = msn;
    assembly->timer.fire = on_assembly_timer;
    dw_ranges_init(&assembly->map);
    dw_list_append(&ud->assemblies, &assembly->link);
    dw_heap_set(&qp->timers, &assembly->timer, now_ns + qp->attr.record_time_ns);
    return assembly;
}

static void on_long_send(struct diwarp_qp *qp, struct source *source,
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

static void on_send(struct diwarp_qp *qp, struct source *source, const struct dw_segment *segment,
                    uint64_t now_ns)
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

/* ---- receiving Write-Records ---- */

static void hand_over(struct diwarp_record *record)
{
    struct diwarp_qp *qp = record->qp;
    bool full = record->map.bytes == record->total;
    record->handed_over = true;
    dw_heap_set(&qp->timers, &record->timer, DW_NEVER);
    dw_seen_add(&record->source->records, record->id << 1);
    *(full ? &qp->counters.rx_records_complete : &qp->counters.rx_records_partial) += 1;
    struct diwarp_wc wc = {
        .wc = {.status = IBV_WC_SUCCESS,
               .opcode = (enum ibv_wc_opcode)DIWARP_WC_RECORD,
               .byte_len = (uint32_t)record->map.bytes},
        .src = record->source->name,
        .record = record,
    };
    dw_cq_push(qp->cq, &wc);
}

static void on_record_timer(struct dw_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    hand_over(dw_container(timer, struct diwarp_record, timer));
}

static struct diwarp_record *find_record(struct dw_ud *ud, const struct diwarp_name *name,
                                         uint32_t id)
{
    dw_list_foreach (it, &ud->records) {
        struct diwarp_record *record = dw_container(it, struct diwarp_record, link);
        if (!record->handed_over &&
            (!name ||
             (record->id == id && dw_name_key(record->source->name) == dw_name_key(*name))))
            return record;
    }
    return NULL;
}

static struct diwarp_record *begin_record(struct diwarp_qp *qp, struct source *source,
                                          const struct dw_write_record *wr,
                                          const struct dw_ddp_header *ddp, uint64_t now_ns)
{
    struct dw_ud *ud = qp->ud;
    if (dw_seen_check(&source->records, wr->id << 1)) {
        qp->counters.drop_stale_record++;
        return NULL;
    }
    struct diwarp_record *record =
        ud->record_count < qp->attr.max_recv_wr ? calloc(1, sizeof *record) : NULL;
    if (!record) {
        qp->counters.drop_no_buffer++;
        return NULL;
    }
    record->qp = qp;
    record->source = source;
    record->id = wr->id;
    record->total = wr->total;
    record->stag = ddp->stag;
    record->to = ddp->to - wr->offset;
    record->timer.fire = on_record_timer;
    dw_ranges_init(&record->map);
    dw_list_append(&ud->records, &record->link);
    ud->record_count++;
    dw_heap_set(&qp->timers, &record->timer, now_ns + qp->attr.record_time_ns);
    return record;
}

static void on_record_segment(struct diwarp_qp *qp, struct source *source,
                              const struct dw_segment *segment, uint64_t now_ns)
{
    const struct dw_ddp_header *ddp = &segment->ddp;
    struct dw_write_record wr;
    struct dw_region *region;
    uint32_t length = segment->bytes - DW_WRITE_RECORD_BYTES;
    if (dw_write_record_get(&wr, segment->payload, segment->bytes) || !length ||
        length > wr.total - wr.offset) {
        qp->counters.drop_header++;
        return;
    }
    /* The whole record must be allowed: its map is of memory the application gave. */
    if (ddp->to < wr.offset || dw_mr_check(&qp->pd->mrs, ddp->stag, ddp->to - wr.offset, wr.total,
                                           IBV_ACCESS_REMOTE_WRITE, &region)) {
        qp->counters.drop_stag++;
        return;
    }
    struct diwarp_record *record = find_record(qp->ud, &source->name, wr.id);
    if (!record)
        record = begin_record(qp, source, &wr, ddp, now_ns);
    if (!record)
        return;
    if (record->total != wr.total || record->stag != ddp->stag ||
        record->to != ddp->to - wr.offset) {
        qp->counters.drop_stag++;
        return;
    }
    int64_t new_bytes = dw_ranges_add(&record->map, wr.offset, wr.offset + length);
    if (new_bytes < 0) {
        qp->counters.drop_no_buffer++;
        return;
    }
    if (new_bytes)
        memcpy((void *)(uintptr_t)ddp->to, segment->payload + DW_WRITE_RECORD_BYTES, length);
    qp->counters.rx_record_segments++;
    qp->counters.rx_record_bytes += (uint64_t)new_bytes;
    qp->counters.rx_dup_record_bytes += length - (uint64_t)new_bytes;
    if (record->map.bytes == record->total)
        hand_over(record);
}

/* ---- every datagram ---- */

/* The source, still the process it was when first met; NULL: it is not, or there are too many. */
static struct source *source_of(struct diwarp_qp *qp, const struct dw_llp_header *header)
{
    struct dw_ud *ud = qp->ud;
    struct diwarp_name name = {.job = header->job, .rank = header->rank};
    struct source *source = dw_map_get(&ud->source_by_name, dw_name_key(name));
    if (source)
        return source->incarnation == header->incarnation ? source : NULL;
    if (ud->source_by_name.count >= SOURCES_MAX)
        return NULL;
    source = calloc(1, sizeof *source);
    if (!source)
        return NULL;
    source->name = name;
    source->incarnation = header->incarnation;
    if (dw_map_put(&ud->source_by_name, dw_name_key(name), source)) {
        free(source);
        return NULL;
    }
    dw_list_append(&ud->sources, &source->link);
    return source;
}

void dw_ud_on_datagram(struct diwarp_qp *qp, const struct dw_llp_header *header,
                       const uint8_t *segments, uint32_t len, uint64_t now_ns)
{
    struct source *source = source_of(qp, header);
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
            on_record_segment(qp, source, &segment, now_ns);
        else
            qp->counters.drop_header++;
    }
}

/* ---- the application's view of records ---- */

struct diwarp_record *diwarp_find_record(struct diwarp_qp *qp, const struct diwarp_name *src,
                                         uint32_t id)
{
    dw_lock(qp->device);
    struct diwarp_record *record = qp->ud ? find_record(qp->ud, src, id) : NULL;
    dw_unlock(qp->device);
    return record;
}

void diwarp_query_record(const struct diwarp_record *record, struct diwarp_record_info *info)
{
    dw_lock(record->qp->device);
    *info = (struct diwarp_record_info){
        .src = record->source->name,
        .id = record->id,
        .addr = (void *)(uintptr_t)record->to,
        .length = record->total,
        .valid_bytes = record->map.bytes,
        .full = record->map.bytes == record->total,
    };
    dw_unlock(record->qp->device);
}

unsigned diwarp_record_ranges(const struct diwarp_record *record, struct diwarp_range *ranges,
                              unsigned n)
{
    dw_lock(record->qp->device);
    unsigned count = record->map.count;
    for (unsigned i = 0; i < count && i < n; i++)
        ranges[i] = (struct diwarp_range){record->map.list[i].start, record->map.list[i].end};
    dw_unlock(record->qp->device);
    return count;
}

void diwarp_release_record(struct diwarp_record *record)
{
    struct diwarp_device *device = record->qp->device;
    dw_lock(device);
    free_record(record);
    dw_unlock(device);
}
