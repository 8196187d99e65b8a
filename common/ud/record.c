/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes in several segments, with a validity map and a time limit: long Sends, and
 * Write-Records at the target, whose map may stay partial. */
#include <stdlib.h>

#include "common/base/copy.h"
#include "common/ud/ud.h"

static uint64_t key_of(const struct dw_ud_source *source, enum dw_ud_kind kind, uint32_t serial)
{
    return source->key ^ ((uint64_t)kind << 32 | serial);
}

/* No further segment is taken. */
static void close_record(struct diwarp_record *record)
{
    dw_heap_set(&record->qp->qp.port->timers, &record->timer, DW_NEVER);
    dw_map_remove(&record->qp->open, key_of(record->source, record->kind, record->serial));
}

/* To the SRQ, if it came from there. */
static void drop_recv(struct dw_ud_qp *ud, struct dw_ud_recv *recv)
{
    if (recv && ud->qp.attr.srq) {
        ud->recv_count--;
        dw_srq_return(ud->qp.attr.srq, &recv->posted);
    }
    free(recv);
}

void dw_ud_record_destroy(struct diwarp_record *record)
{
    if (!record->handed_over)
        close_record(record);
    dw_list_remove(&record->link);
    record->source->held[record->kind]--;
    record->qp->held[record->kind]--;
    dw_heap_unreserve(&record->qp->qp.port->timers);
    dw_ranges_fini(&record->map);
    drop_recv(record->qp, record->recv);
    free(record);
}

static void hand_over(struct diwarp_record *record)
{
    struct dw_ud_qp *ud = record->qp;
    struct diwarp_counters *counters = dw_ud_counters(ud);
    close_record(record);
    record->handed_over = true;
    ++*(record->map.bytes == record->total ? &counters->rx_records_complete
                                           : &counters->rx_records_partial);
    const struct diwarp_wc wc = {
        .wc = {.status = IBV_WC_SUCCESS,
               .opcode = (enum ibv_wc_opcode)DIWARP_WC_RECORD,
               .byte_len = (uint32_t)record->map.bytes,
               .qp_num = ud->qp.num,
               .src_qp = record->source->qpn},
        .src = record->source->name,
        .group = record->source->group,
        .record = record,
    };
    dw_cq_push(ud->qp.cq, &wc);
}

static void on_timer(struct dw_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    struct diwarp_record *record = dw_container(timer, struct diwarp_record, timer);
    if (record->kind == DW_UD_RECORD) {
        hand_over(record);
        return;
    }
    /* The message stays incomplete: its receive serves the next one. */
    dw_ud_counters(record->qp)->rx_partial_msgs++;
    if (!record->qp->qp.attr.srq) {
        dw_list_prepend(&record->qp->recvs, &record->recv->link);
        record->recv = NULL;
    }
    dw_ud_record_destroy(record);
}

void dw_ud_records_expire(struct dw_ud_qp *ud, const struct dw_ud_source *source)
{
    dw_foreach (record, struct diwarp_record, link, &ud->records)
        if (record->source == source && !record->handed_over)
            on_timer(&record->timer, 0);
}

struct diwarp_record *dw_ud_record_of(struct dw_ud_qp *ud, struct dw_ud_source *source,
                                      enum dw_ud_kind kind, uint32_t serial, uint64_t now_ns)
{
    struct diwarp_counters *counters = dw_ud_counters(ud);
    struct diwarp_record *record = dw_map_get(&ud->open, key_of(source, kind, serial));
    if (record)
        return record;
    if (dw_seen_check(&source->begun[kind], serial)) {
        *(kind == DW_UD_SEND ? &counters->rx_dup_datagrams : &counters->drop_stale_record) += 1;
        return NULL;
    }
    const uint32_t shared = ud->qp.attr.srq ? ud->qp.attr.srq->recvs.count : 0;
    const uint32_t most = kind == DW_UD_SEND ? ud->recv_count + shared : ud->qp.attr.max_recv_wr;
    const uint64_t held = (uint64_t)ud->held[kind] + source->held[kind];
    struct dw_heap *timers = &ud->qp.port->timers;
    record = held < most ? calloc(1, sizeof *record) : NULL;
    if (!record || dw_heap_reserve(timers))
        goto err_free;
    if (dw_map_put(&ud->open, key_of(source, kind, serial), record))
        goto err_unreserve;
    dw_seen_add(&source->begun[kind], serial);
    record->qp = ud;
    record->source = source;
    record->kind = kind;
    record->serial = serial;
    record->timer.fire = on_timer;
    dw_list_append(&ud->records, &record->link);
    ud->held[kind]++;
    source->held[kind]++;
    dw_heap_set(timers, &record->timer, dw_deadline_ns(now_ns, ud->qp.attr.record_time_ns));
    return record;

err_unreserve:
    dw_heap_unreserve(timers);
err_free:
    free(record);
    counters->drop_no_buffer++;
    return NULL;
}

uint64_t *dw_ud_on_record_segment(struct dw_ud_qp *ud, struct dw_ud_source *source,
                                  const struct dw_segment *segment, uint64_t now_ns)
{
    struct diwarp_counters *counters = dw_ud_counters(ud);
    const struct dw_ddp_header *ddp = &segment->ddp;
    struct dw_write_record wr;
    struct dw_region *region;
    const uint8_t *data;
    uint32_t length;
    if (!dw_segment_write_record(segment, &wr, &data, &length))
        return &counters->drop_header;
    if (!(wr.id & DW_RECORD_ID_FROM_SOURCE))
        return source->group ? &counters->drop_header : dw_ud_on_answer(ud, source, segment, &wr);
    const uint64_t to = ddp->to - wr.offset;
    /* The whole record must be allowed: its map is of memory the application gave. */
    if (ddp->to < wr.offset || dw_mr_check(&ud->qp.pd->mrs, &source->name, ddp->stag, to, wr.total,
                                           IBV_ACCESS_REMOTE_WRITE, &region))
        return &counters->drop_stag;
    void *addr = dw_region_at(region, to);
    struct diwarp_record *record = dw_ud_record_of(ud, source, DW_UD_RECORD, wr.id, now_ns);
    if (!record)
        return NULL;
    if (!record->total) {
        record->total = wr.total;
        record->stag = ddp->stag;
        record->addr = addr;
    }
    if (record->total != wr.total || record->stag != ddp->stag || record->addr != addr)
        return &counters->drop_stag;
    const int64_t new_bytes = dw_ranges_add(&record->map, wr.offset, wr.offset + length);
    if (new_bytes < 0)
        return &counters->drop_no_buffer;
    if (new_bytes)
        dw_copy((uint8_t *)addr + wr.offset, data, length);
    counters->rx_record_segments++;
    counters->rx_record_bytes += (uint64_t)new_bytes;
    counters->rx_dup_record_bytes += length - (uint64_t)new_bytes;
    if (record->map.bytes == record->total)
        hand_over(record);
    return NULL;
}

/* ---- the application's view of records ---- */

struct diwarp_record *diwarp_find_record(struct diwarp_qp *qp, const struct diwarp_name *src,
                                         uint32_t id)
{
    if (qp->attr.type != DIWARP_QPT_UD)
        return NULL;
    struct diwarp_record *found = NULL;
    dw_lock(qp->port->device);
    dw_foreach (record, struct diwarp_record, link, &dw_ud_qp_of(qp)->records) {
        const bool wanted = !src || (record->serial == id &&
                                     dw_name_key(record->source->name) == dw_name_key(*src));
        if (wanted && record->kind == DW_UD_RECORD && !record->handed_over) {
            found = record;
            break;
        }
    }
    dw_unlock(qp->port->device);
    return found;
}

void diwarp_query_record(const struct diwarp_record *record, struct diwarp_record_info *info)
{
    dw_lock(record->qp->qp.port->device);
    *info = (struct diwarp_record_info){
        .src = record->source->name,
        .id = record->serial,
        .addr = record->addr,
        .length = record->total,
        .valid_bytes = record->map.bytes,
        .full = record->map.bytes == record->total,
    };
    memcpy(info->src_ip, record->source->ip, sizeof info->src_ip);
    dw_unlock(record->qp->qp.port->device);
}

unsigned diwarp_record_ranges(const struct diwarp_record *record, struct diwarp_range *ranges,
                              unsigned n)
{
    dw_lock(record->qp->qp.port->device);
    unsigned count = record->map.count;
    for (unsigned i = 0; i < count && i < n; i++)
        ranges[i] = (struct diwarp_range){record->map.list[i].start, record->map.list[i].end};
    dw_unlock(record->qp->qp.port->device);
    return count;
}

void diwarp_release_record(struct diwarp_record *record)
{
    struct diwarp_device *device = record->qp->qp.port->device;
    dw_lock(device);
    dw_ud_record_destroy(record);
    dw_unlock(device);
}
