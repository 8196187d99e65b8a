/* SPDX-License-Identifier: BSD-3-Clause */
/* How both ends of a record begin and end. */
#include <errno.h>
#include <stdlib.h>

#include "common/record/records.h"

void dw_records_init(struct dw_records *records, struct dw_port *port,
                     const struct dw_record_ops *ops)
{
    records->ops = ops;
    records->port = port;
    records->counters = &port->datagrams.counters;
    records->next_id = port->device->env.first_serial;
    dw_map_init(&records->ends, dw_device_random(port->device));
    dw_map_init(&records->ways, dw_device_random(port->device));
    dw_list_init(&records->want);
    dw_list_init(&records->ready);
    dw_records_size_budgets(records);
}

void dw_records_fini(struct dw_records *records)
{
    dw_map_fini(&records->ends);
    dw_map_fini(&records->ways);
}

uint32_t dw_record_next_id(const struct dw_record_peer *peer, uint32_t from_source)
{
    struct dw_records *records = peer->records;
    uint32_t id;
    do
        id = (++records->next_id & ~DW_RECORD_ID_FROM_SOURCE) | from_source;
    while (id == from_source || dw_map_get(&records->ends, dw_record_key(peer, id, !from_source)));
    return id;
}

struct dw_record *dw_record_create(const struct dw_ends *ends, struct dw_record_peer *peer,
                                   uint32_t id, struct dw_region *asked, bool is_sink)
{
    struct dw_heap *timers = &peer->records->port->timers;
    struct dw_record *record =
        !asked || peer->asked_count < DW_ASKED_MAX ? calloc(1, sizeof *record) : NULL;
    if (!record)
        return NULL;
    if (dw_heap_reserve(timers))
        goto err_free;
    if (dw_map_put(&peer->records->ends, dw_record_key(peer, id, is_sink), record))
        goto err_unreserve;
    record->peer = peer;
    record->qp = ends->qp;
    record->qpns = ends->qpns;
    record->id = id;
    record->is_sink = is_sink;
    record->state = is_sink ? DW_RECORD_ASKING : DW_RECORD_WAITING;
    record->region = asked;
    if (asked)
        asked->records++;
    asked ? peer->asked_count++ : peer->own_count++;
    dw_list_append(&peer->ends, &record->link);
    dw_list_init(&record->turn_link);
    return record;

err_unreserve:
    dw_heap_unreserve(timers);
err_free:
    free(record);
    return NULL;
}

void dw_record_destroy(struct dw_record *record)
{
    struct dw_record_peer *peer = record->peer;
    dw_record_set_state(record, DW_RECORD_ENDED);
    if (record->is_sink) {
        peer->records->sinks_bytes -= record->in.total;
        dw_grant_end(record);
        dw_record_sink_fini(&record->in);
    } else {
        dw_record_source_fini(&record->out);
    }
    dw_heap_unreserve(&peer->records->port->timers);
    dw_map_remove(&peer->records->ends, dw_record_key(peer, record->id, record->is_sink));
    dw_list_remove(&record->link);
    record->region ? peer->asked_count-- : peer->own_count--;
    if (record->region)
        record->region->records--;
    free(record);
}

void dw_record_fail(struct dw_record *record, enum ibv_wc_status status)
{
    if (!record->region && record->qp)
        dw_qp_complete(record->qp, record->wr_id, true,
                       record->is_sink ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE, status, 0);
    dw_record_destroy(record);
}

int dw_record_end(struct dw_record *record, const void *release, uint32_t bytes, uint64_t now_ns)
{
    const struct dw_record_control control = {
        .kind = record->is_sink ? DW_RECORD_COMPLETE : DW_RECORD_ABORT,
        .status = record->is_sink ? DW_STATUS_OK : DW_STATUS_WITHDRAWN,
        .id = record->id,
        .release = release,
        .release_bytes = bytes,
    };
    const struct dw_records *records = record->peer->records;
    /* The source of a read without a release waits for nothing: COMPLETE may share a datagram. */
    const bool awaited = !record->is_sink || record->region || bytes;
    int rc = records->ops->send_answer(record->peer, record->qpns, &control, awaited, now_ns);
    records->counters->tx_record_complete += !rc && record->is_sink;
    dw_record_destroy(record);
    return rc;
}

void dw_record_abandon(struct dw_record *record, uint64_t now_ns)
{
    record->qp = NULL;
    if (record->is_sink ? record->in.map.bytes > 0 : record->out.granted > 0)
        (void)dw_record_end(record, NULL, 0, now_ns);
}
