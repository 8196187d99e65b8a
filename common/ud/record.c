/* SPDX-License-Identifier: BSD-3-Clause */
/* The UD service: Write-Records at the target, whose validity map may stay partial. */
#include <stdlib.h>

#include "common/base/copy.h"
#include "common/rnic/device.h"
#include "common/ud/ud.h"

void dw_ud_record_destroy(struct diwarp_record *record)
{
    dw_heap_set(&record->qp->qp.port->timers, &record->timer, DW_NEVER);
    dw_heap_unreserve(&record->qp->qp.port->timers);
    if (!record->handed_over)
        dw_map_remove(&record->qp->open_records, dw_ud_key(record->source, record->id));
    dw_list_remove(&record->link);
    record->source->open_records--;
    record->qp->record_count--;
    dw_ranges_fini(&record->map);
    free(record);
}

static void hand_over(struct diwarp_record *record)
{
    struct dw_ud_qp *ud = record->qp;
    struct diwarp_counters *counters = dw_ud_counters(ud);
    bool full = record->map.bytes == record->total;
    record->handed_over = true;
    dw_heap_set(&ud->qp.port->timers, &record->timer, DW_NEVER);
    dw_map_remove(&ud->open_records, dw_ud_key(record->source, record->id));
    *(full ? &counters->rx_records_complete : &counters->rx_records_partial) += 1;
    struct diwarp_wc wc = {
        .wc = {.status = IBV_WC_SUCCESS,
               .opcode = (enum ibv_wc_opcode)DIWARP_WC_RECORD,
               .byte_len = (uint32_t)record->map.bytes,
               .qp_num = ud->qp.num,
               .src_qp = record->source->qpn},
        .src = record->source->name,
        .record = record,
    };
    dw_cq_push(ud->qp.cq, &wc);
}

static void on_record_timer(struct dw_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    hand_over(dw_container(timer, struct diwarp_record, timer));
}

static struct diwarp_record *begin_record(struct dw_ud_qp *ud, struct dw_ud_source *source,
                                          const struct dw_write_record *wr,
                                          const struct dw_ddp_header *ddp, uint64_t now_ns)
{
    struct dw_heap *timers = &ud->qp.port->timers;
    if (dw_seen_check(&source->records, wr->id)) {
        dw_ud_counters(ud)->drop_stale_record++;
        return NULL;
    }
    const uint64_t held = (uint64_t)ud->record_count + source->open_records;
    struct diwarp_record *record =
        held < ud->qp.attr.max_recv_wr ? calloc(1, sizeof *record) : NULL;
    if (!record || dw_heap_reserve(timers))
        goto err_free;
    if (dw_map_put(&ud->open_records, dw_ud_key(source, wr->id), record))
        goto err_unreserve;
    dw_seen_add(&source->records, wr->id);
    record->qp = ud;
    record->source = source;
    source->open_records++;
    record->id = wr->id;
    record->total = wr->total;
    record->stag = ddp->stag;
    record->to = ddp->to - wr->offset;
    record->timer.fire = on_record_timer;
    dw_ranges_init(&record->map);
    dw_list_append(&ud->records, &record->link);
    ud->record_count++;
    dw_heap_set(timers, &record->timer, dw_deadline_ns(now_ns, ud->qp.attr.record_time_ns));
    return record;

err_unreserve:
    dw_heap_unreserve(timers);
err_free:
    free(record);
    dw_ud_counters(ud)->drop_no_buffer++;
    return NULL;
}

void dw_ud_on_record_segment(struct dw_ud_qp *ud, struct dw_ud_source *source,
                             const struct dw_segment *segment, uint64_t now_ns)
{
    struct diwarp_counters *counters = dw_ud_counters(ud);
    const struct dw_ddp_header *ddp = &segment->ddp;
    struct dw_write_record wr;
    struct dw_region *region;
    const uint8_t *data;
    uint32_t length;
    if (!dw_segment_write_record(segment, &wr, &data, &length)) {
        counters->drop_header++;
        return;
    }
    /* The whole record must be allowed: its map is of memory the application gave. */
    if (ddp->to < wr.offset ||
        dw_mr_check_peer(&ud->qp.pd->mrs, dw_name_key(source->name), ddp->stag, ddp->to - wr.offset,
                         wr.total, IBV_ACCESS_REMOTE_WRITE, &region)) {
        counters->drop_stag++;
        return;
    }
    struct diwarp_record *record = dw_map_get(&ud->open_records, dw_ud_key(source, wr.id));
    if (!record)
        record = begin_record(ud, source, &wr, ddp, now_ns);
    if (!record)
        return;
    if (record->total != wr.total || record->stag != ddp->stag ||
        record->to != ddp->to - wr.offset) {
        counters->drop_stag++;
        return;
    }
    int64_t new_bytes = dw_ranges_add(&record->map, wr.offset, wr.offset + length);
    if (new_bytes < 0) {
        counters->drop_no_buffer++;
        return;
    }
    if (new_bytes)
        dw_copy((void *)(uintptr_t)ddp->to, data, length);
    counters->rx_record_segments++;
    counters->rx_record_bytes += (uint64_t)new_bytes;
    counters->rx_dup_record_bytes += length - (uint64_t)new_bytes;
    if (record->map.bytes == record->total)
        hand_over(record);
}

/* ---- the application's view of records ---- */

/* Under way, by the name of its source and its id; NULL: the oldest of any. */
static struct diwarp_record *find_record(struct dw_ud_qp *ud, const struct diwarp_name *src,
                                         uint32_t id)
{
    dw_list_foreach (it, &ud->records) {
        struct diwarp_record *record = dw_container(it, struct diwarp_record, link);
        if (!record->handed_over &&
            (!src || (record->id == id && dw_name_key(record->source->name) == dw_name_key(*src))))
            return record;
    }
    return NULL;
}

struct diwarp_record *diwarp_find_record(struct diwarp_qp *qp, const struct diwarp_name *src,
                                         uint32_t id)
{
    if (qp->attr.type != DIWARP_QPT_UD)
        return NULL;
    dw_lock(qp->port->device);
    struct diwarp_record *record = find_record(dw_ud_qp_of(qp), src, id);
    dw_unlock(qp->port->device);
    return record;
}

void diwarp_query_record(const struct diwarp_record *record, struct diwarp_record_info *info)
{
    dw_lock(record->qp->qp.port->device);
    *info = (struct diwarp_record_info){
        .src = record->source->name,
        .id = record->id,
        .addr = (void *)(uintptr_t)record->to,
        .length = record->total,
        .valid_bytes = record->map.bytes,
        .full = record->map.bytes == record->total,
    };
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
