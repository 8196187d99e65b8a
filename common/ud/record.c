/* SPDX-License-Identifier: BSD-3-Clause */
/* The UD service: Write-Records at the target, whose validity map may stay partial. */
#include <stdlib.h>

#include "common/base/copy.h"
#include "common/rnic/lock.h"
#include "common/rd/receive.h"
#include "common/ud/ud.h"
#include "common/wire/rdmap.h"

void dw_ud_record_destroy(struct diwarp_record *record)
{
    dw_heap_set(&record->qp->timers, &record->timer, DW_NEVER);
    dw_heap_unreserve(&record->qp->timers);
    dw_list_remove(&record->link);
    record->qp->ud->record_count--;
    record->source->users--;
    dw_ranges_fini(&record->map);
    free(record);
}

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
               .byte_len = (uint32_t)record->map.bytes,
               .qp_num = qp->num},
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

/* By its source, or else by the name of one, or else any. */
static struct diwarp_record *find_record(struct dw_ud *ud, const struct dw_ud_source *source,
                                         const struct diwarp_name *name, uint32_t id)
{
    dw_list_foreach (it, &ud->records) {
        struct diwarp_record *record = dw_container(it, struct diwarp_record, link);
        const bool right = source ? record->source == source
                           : name ? dw_name_key(record->source->name) == dw_name_key(*name)
                                  : true;
        if (!record->handed_over && right && (record->id == id || (!source && !name)))
            return record;
    }
    return NULL;
}

static struct diwarp_record *begin_record(struct diwarp_qp *qp, struct dw_ud_source *source,
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
    if (!record || dw_heap_reserve(&qp->timers)) {
        free(record);
        qp->counters.drop_no_buffer++;
        return NULL;
    }
    record->qp = qp;
    record->source = source;
    source->users++;
    record->id = wr->id;
    record->total = wr->total;
    record->stag = ddp->stag;
    record->to = ddp->to - wr->offset;
    record->timer.fire = on_record_timer;
    dw_ranges_init(&record->map);
    dw_list_append(&ud->records, &record->link);
    ud->record_count++;
    dw_heap_set(&qp->timers, &record->timer, dw_deadline_ns(now_ns, qp->attr.record_time_ns));
    return record;
}

void dw_ud_on_record_segment(struct diwarp_qp *qp, struct dw_ud_source *source,
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
    struct diwarp_record *record = find_record(qp->ud, source, NULL, wr.id);
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
        dw_copy((void *)(uintptr_t)ddp->to, segment->payload + DW_WRITE_RECORD_BYTES, length);
    qp->counters.rx_record_segments++;
    qp->counters.rx_record_bytes += (uint64_t)new_bytes;
    qp->counters.rx_dup_record_bytes += length - (uint64_t)new_bytes;
    if (record->map.bytes == record->total)
        hand_over(record);
}

/* ---- the application's view of records ---- */

struct diwarp_record *diwarp_find_record(struct diwarp_qp *qp, const struct diwarp_name *src,
                                         uint32_t id)
{
    dw_lock(qp->device);
    struct diwarp_record *record = qp->ud ? find_record(qp->ud, NULL, src, id) : NULL;
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
    dw_ud_record_destroy(record);
    dw_unlock(device);
}
